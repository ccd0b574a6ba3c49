#include "graphs/OpenRegGraph.h"

#include "runtime/OpenRegCapture.h"
#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegGuard.h"
#include "runtime/OpenRegObserver.h"
#include "runtime/OpenRegSubmit.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

namespace c10::openreg {
namespace {

std::atomic<bool> debugMode{false};

orStreamCaptureMode modeOf(at::GraphCaptureMode mode) {
  switch (mode) {
    case at::GraphCaptureMode::ThreadLocal:
      return orStreamCaptureModeThreadLocal;
    case at::GraphCaptureMode::Relaxed:
      return orStreamCaptureModeRelaxed;
    default:
      return orStreamCaptureModeGlobal;
  }
}

// As on CUDA: ids of graphs have the first number, those that were asked for the
// second.
MempoolId_t newPool(bool forOneGraph) {
  static std::atomic<uint64_t> graphs{1}, others{1};
  return forOneGraph ? MempoolId_t{graphs++, 0} : MempoolId_t{0, others++};
}

} // namespace

MempoolId_t graph_pool_handle() {
  return newPool(/*forOneGraph=*/false);
}

// --- a capture that is underway ---------------------------------------------------

// docs:begin graph-capture
/// What changes while a stream captures: where its memory comes from, and who draws from
/// the generators. The destructor restores both; if end() succeeded, the graph keeps the
/// pool.
class OpenRegGraph::Capture {
 public:
  Capture(
      const OpenRegStream& stream,
      MempoolId_t pool,
      at::GraphCaptureMode mode,
      const std::vector<StatePtr>& states)
      : stream_(stream), pool_(pool), states_(states) {
    for (const StatePtr& state : states_) {
      state->beginCapture();
      ++begun_;
    }
    // The pool is told first: it records no events from then on.
    sharesPool_ = !blockPool().beginAllocateToPool(pool_, [this](void* asked) {
      const uint64_t id = captureOf(static_cast<orStream_t>(asked));
      return id != 0 && id == id_.load(std::memory_order_relaxed);
    });
    TORCH_CHECK(
        !sharesPool_,
        "memory pool (",
        pool_.first,
        ", ",
        pool_.second,
        ") is in use by another capture on ",
        stream_.device(),
        "; end that one first");
    OPENREG_CHECK(orStreamBeginCapture(stream_, modeOf(mode)));
    id_ = captureOf(stream_);
  }
  // docs:end graph-capture
  ~Capture() {
    for (size_t i = 0; i < begun_; ++i) {
      states_[i]->endCapture();
    }
    if (!sharesPool_) {
      blockPool().endAllocateToPool(pool_);
      if (!keepsPool_) {
        blockPool().releasePool(pool_);
      }
    }
  }
  C10_DISABLE_COPY_AND_ASSIGN(Capture);

  const OpenRegStream& stream() const {
    return stream_;
  }

  CaptureResult end(orGraph_t* graph) {
    OPENREG_CHECK(orStreamEndCapture(stream_, graph));
    keepsPool_ = true;
    CaptureResult captured{stream_.device(), pool_, {}};
    for (; begun_ > 0; --begun_) {
      const StatePtr& state = states_[begun_ - 1];
      if (auto draws = state->endCapture()) {
        captured.drawn.emplace_back(state, std::move(*draws));
      }
    }
    return captured;
  }

 private:
  BlockPool& blockPool() const {
    return getOpenRegDeviceAllocator().pool(stream_.device_index());
  }

  const OpenRegStream stream_;
  const MempoolId_t pool_;
  const std::vector<StatePtr> states_;
  size_t begun_ = 0; // states
  bool sharesPool_ = true; // until it has the route to itself
  bool keepsPool_ = false;
  std::atomic<uint64_t> id_{0};
};

void OpenRegGraph::GraphDestroy::operator()(orGraph_t graph) const noexcept {
  OPENREG_CHECK_WARN(orGraphDestroy(graph));
}

void OpenRegGraph::ExecDestroy::operator()(orGraphExec_t exec) const noexcept {
  OPENREG_CHECK_WARN(orGraphExecDestroy(exec));
}

OpenRegGraph::OpenRegGraph(const at::GraphImplArgs& args)
    : keepsGraph_(args.keep_graph) {}

OpenRegGraph::~OpenRegGraph() {
  reset();
  capture_.reset();
  for (const StatePtr& state : states_) {
    state->removeGraph();
  }
}

void OpenRegGraph::addState(StatePtr state) {
  if (std::ranges::find(states_, state) == states_.end()) {
    state->addGraph();
    states_.push_back(std::move(state));
  }
}

void OpenRegGraph::register_generator_state(const at::Generator& generator) {
  addState(stateOf(generator));
}

// --- capture ------------------------------------------------------------------------

void OpenRegGraph::capture_begin(MempoolId_t pool, at::GraphCaptureMode mode) {
  TORCH_CHECK(
      !exec_ && !graph_,
      "This ",
      deviceTitle(),
      "Graph instance already owns a captured graph. "
      "To capture a new graph, create a new instance.");
  const OpenRegStream stream = getCurrentOpenRegStream();
  TORCH_CHECK(
      stream != getDefaultOpenRegStream(),
      deviceTitle(),
      " graphs must be captured on a non-default stream. "
      "(However, after capture, it's ok to replay them on the default "
      "stream.)");
  TORCH_CHECK(
      pool.first == 0 || pool.second == 0,
      "a pool is named by the id of a graph or by a handle, but got (",
      pool.first,
      ", ",
      pool.second,
      ")");
  if (capture_) {
    OPENREG_CHECK(orStreamBeginCapture(stream, modeOf(mode))); // says no
  }
  addState(stateOf(getDefaultOpenRegGenerator(stream.device_index())));
  const bool shares = pool != MempoolId_t{0, 0};
  capture_ = std::make_unique<Capture>(
      stream, shares ? pool : newPool(/*forOneGraph=*/true), mode, states_);
  observe(
      &RuntimeObserver::onCaptureBegin,
      static_cast<const void*>(this),
      stream.stream());
}

void OpenRegGraph::capture_end() {
  const OpenRegStream stream = getCurrentOpenRegStream();
  orGraph_t graph = nullptr;
  if (!capture_) {
    OPENREG_CHECK(orStreamEndCapture(stream, &graph)); // says no
    graph_.reset(graph); // of a capture that nobody here began
    graph_.reset();
    return;
  }
  TORCH_CHECK(
      stream == capture_->stream(),
      "Capture must end on the same stream it began on.");
  const auto capture = std::move(capture_);
  observe(&RuntimeObserver::onCaptureEnd, static_cast<const void*>(this));
  captured_ = capture->end(&graph);
  graph_.reset(graph);
  size_t nodes = 0;
  OPENREG_CHECK(orGraphGetNodes(graph, nullptr, &nodes));
  if (!keepsGraph_) {
    instantiate();
    if (!debugMode) {
      graph_.reset();
    }
  }
  if (nodes == 0) {
    TORCH_WARN(
        "The ",
        deviceTitle(),
        " Graph is empty. This usually means that the graph was "
        "attempted to be captured on wrong device or stream.");
  }
}

void OpenRegGraph::instantiate() {
  TORCH_CHECK(
      captured_,
      "capture_end() must have been called before calling instantiate");
  TORCH_CHECK(
      !exec_ || keepsGraph_,
      "instantiate() is intended to be called by the user only when "
      "keep_graph=true");
  orGraphExec_t exec = nullptr;
  OPENREG_CHECK(orGraphInstantiate(&exec, graph_.get(), 0));
  exec_.reset(exec);
}

// --- afterwards ---------------------------------------------------------------------

const OpenRegGraph::CaptureResult& OpenRegGraph::captured(
    const char* method) const {
  TORCH_CHECK(
      captured_,
      "Called ",
      deviceTitle(),
      "Graph::",
      method,
      " without a preceding successful capture.");
  return *captured_;
}

void OpenRegGraph::replay() {
  const CaptureResult& captured = this->captured("replay");
  if (!exec_) {
    instantiate();
  }
  const OpenRegGuard guard(captured.device);
  const OpenRegStream stream = getCurrentOpenRegStream();
  for (const auto& [state, draws] : captured.drawn) {
    state->replayIn(stream, draws);
  }
  observe(
      &RuntimeObserver::onReplay,
      static_cast<const void*>(this),
      stream.stream());
  const auto list = [](std::vector<MemoryAccess>&) {}; // fixed at the capture
  OPENREG_CHECK(submit({"graph", stream, list}, [&](orStream_t handle) {
    return orGraphLaunch(exec_.get(), handle);
  }));
}

void OpenRegGraph::reset() {
  exec_.reset();
  graph_.reset();
  observe(&RuntimeObserver::onGraphReset, static_cast<const void*>(this));
  if (captured_) {
    getOpenRegDeviceAllocator()
        .pool(captured_->device.index())
        .releasePool(captured_->pool);
    captured_.reset();
  }
}

MempoolId_t OpenRegGraph::pool() const {
  return captured("pool()").pool;
}

void OpenRegGraph::enable_debug_mode() {
  debugMode = true;
}

void OpenRegGraph::debug_dump(const std::string& path) {
  if (!debugMode && !keepsGraph_) {
    TORCH_WARN(
        deviceTitle(),
        " graphs debug not enabled, set with "
        "[graph].enable_debug_mode()");
    return;
  }
  if (graph_) {
    OPENREG_CHECK(orGraphDebugDotPrint(
        graph_.get(), path.c_str(), orGraphDebugDotFlagsVerbose));
  }
}

orGraph_t OpenRegGraph::raw_graph() const {
  TORCH_CHECK(
      keepsGraph_,
      "You cannot access the raw orGraph_t instance unless ",
      deviceTitle(),
      "Graph was initialized with keep_graph=true");
  TORCH_CHECK(
      graph_,
      "You cannot access the raw orGraph_t instance until capture_end() has "
      "been called");
  return graph_.get();
}

orGraphExec_t OpenRegGraph::raw_graph_exec() const {
  TORCH_CHECK(
      exec_,
      "You cannot access the raw orGraphExec_t instance until instantiate() "
      "has been called");
  return exec_.get();
}

OpenRegGraph::Topology OpenRegGraph::topology() const {
  const orGraph_t graph = raw_graph();
  size_t nodeCount = 0, edgeCount = 0;
  OPENREG_CHECK(orGraphGetNodes(graph, nullptr, &nodeCount));
  std::vector<orGraphNode_t> nodes(nodeCount);
  OPENREG_CHECK(orGraphGetNodes(graph, nodes.data(), &nodeCount));
  OPENREG_CHECK(orGraphGetEdges(graph, nullptr, nullptr, &edgeCount));
  std::vector<orGraphNode_t> from(edgeCount), to(edgeCount);
  OPENREG_CHECK(orGraphGetEdges(graph, from.data(), to.data(), &edgeCount));
  std::unordered_map<orGraphNode_t, size_t> places;
  Topology found;
  for (const orGraphNode_t node : nodes) {
    places.emplace(node, places.size());
    OPENREG_CHECK(orGraphNodeGetType(node, &found.nodes.emplace_back()));
  }
  for (size_t i = 0; i < edgeCount; ++i) {
    found.edges.emplace_back(places.at(from[i]), places.at(to[i]));
  }
  return found;
}

} // namespace c10::openreg

// docs:begin register-graph
namespace at {

// torch.accelerator.Graph looks for the name of the device in capitals, which
// torch_openreg/__init__.py gives it.
using OpenRegGraph = c10::openreg::OpenRegGraph;
REGISTER_GRAPH_IMPL(OPENREG, OpenRegGraph)

} // namespace at
// docs:end register-graph
