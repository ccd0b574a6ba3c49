// Graphs as pictures, in the DOT language.
#include "device.h"
#include "graph.h"
#include "runtime.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

using namespace openreg;

namespace {

const char* nameOf(orGraphNodeType type) {
  switch (type) {
    case orGraphNodeTypeKernel:
      return "kernel";
    case orGraphNodeTypeMemcpy:
      return "memcpy";
    case orGraphNodeTypeMemset:
      return "memset";
    case orGraphNodeTypeHost:
      return "host";
    case orGraphNodeTypeGraph:
      return "graph";
    case orGraphNodeTypeEmpty:
      return "empty";
    case orGraphNodeTypeWaitEvent:
      return "wait";
    case orGraphNodeTypeEventRecord:
      return "record";
  }
  return "unknown";
}

// Names come from the user and may hold anything.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += c == '\n' ? ' ' : c;
  }
  return result + '"';
}

std::string labelOf(const GraphNode& node, size_t index, bool verbose) {
  std::string label = std::to_string(index) + ' ' + nameOf(node.type);
  if (node.info.name) {
    label += std::string(": ") + node.info.name;
  }
  if (verbose && node.device) {
    label += ", device " + std::to_string(node.device->index());
  }
  if (verbose && node.bytes != 0) {
    label += ", " + std::to_string(node.bytes) + " bytes";
  }
  return label;
}

void write(
    std::ostream& out,
    const GraphNodes& nodes,
    const std::string& name,
    bool verbose) {
  out << "subgraph cluster_" << name << " {\nlabel=" << quoted(name) << ";\n";
  for (size_t i = 0; i < nodes.entries.size(); ++i) {
    const auto& [node, dependencies] = nodes.entries[i];
    const std::string own = name + "_node_" + std::to_string(i);
    out << own << " [label=" << quoted(labelOf(*node, i, verbose)) << "];\n";
    for (const uint32_t before : dependencies) {
      out << name << "_node_" << before << " -> " << own << ";\n";
    }
    if (node->child) {
      write(out, *node->child, own, verbose);
    }
  }
  out << "}\n";
}

} // namespace

orError_t orGraphDebugDotPrint(
    orGraph_t graph,
    const char* path,
    unsigned int flags) {
  return api("orGraphDebugDotPrint", [&](Runtime& runtime) {
    Graph* found = runtime.graphs.find(graph);
    if (!found) {
      return failOnGraph(graph);
    }
    if (!path) {
      return fail(orErrorInvalidValue, "path must not be NULL");
    }
    if ((flags & ~orGraphDebugDotFlagsVerbose) != 0) {
      return fail(
          orErrorInvalidValue,
          "flags must be 0 or orGraphDebugDotFlagsVerbose (1), but is %u",
          flags);
    }
    const GraphNodes nodes =
        found->withNodes([](const GraphNodes& current) { return current; });
    std::ofstream out(path);
    out << "digraph dot {\n";
    write(out, nodes, "graph_" + std::to_string(nodes.id), flags != 0);
    out << "}\n";
    out.flush();
    return out ? orSuccess
               : fail(
                     orErrorOperatingSystem,
                     "'%s' cannot be written: %s",
                     path,
                     std::strerror(errno));
  });
}
