// Graphs as PyTorch sees them: a capture, and its replays.
#pragma once

#include "runtime/OpenRegGenerator.h"
#include "runtime/OpenRegStream.h"

#include <ATen/core/GraphImplInterface.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace c10::openreg {

/// The id of a new pool of memory that graphs may share, and MemPool uses.
MempoolId_t graph_pool_handle();

// docs:begin openreg-graph
/// Work that is recorded once, in the stream that is current, and then launched as a
/// whole, in whichever stream is current.
///
/// It owns the recorded work. The memory that was allocated in the capture comes from a
/// private pool, which it holds until reset(): a replay writes to the same addresses
/// again. Memory from outside must be kept alive by whoever replays.
///
/// Threads: one at a time; a capture ends on the thread on which it began.
// docs:end openreg-graph
class OpenRegGraph final : public at::GraphImplInterface {
 public:
  explicit OpenRegGraph(const at::GraphImplArgs& args);
  /// A capture that is still underway goes on, as on CUDA, and its graph is dropped.
  ~OpenRegGraph() override;
  C10_DISABLE_COPY_AND_ASSIGN(OpenRegGraph);

  /// Throws on the default stream, on one that is capturing, and if there is a captured
  /// graph already. {0, 0}: a pool of its own.
  void capture_begin(MempoolId_t pool, at::GraphCaptureMode mode) override;
  /// Throws if the current stream is not the one of capture_begin(); then the capture
  /// goes on. Throws also if the capture was invalidated; then it is over,
  /// without a graph.
  void capture_end() override;
  /// Makes the graph ready to be launched; replay() does so too.
  void instantiate() override;
  /// Launches the graph in the current stream of the device on which it was captured.
  void replay() override;
  /// Forgets the graph and its memory.
  void reset() override;
  MempoolId_t pool() const override;

  /// Lets all graphs from now on keep what debug_dump() needs.
  void enable_debug_mode() override;
  /// Writes the graph to a file in the DOT language.
  void debug_dump(const std::string& path) override;

  /// Lets the graph draw from a generator other than its device's own. To be called
  /// before the capture.
  void register_generator_state(const at::Generator& generator);

  orGraph_t raw_graph() const;
  orGraphExec_t raw_graph_exec() const;

  /// The kinds of the nodes of a kept graph, in the order in which they were recorded,
  /// and its edges: {earlier, later} places in that list.
  struct Topology {
    std::vector<orGraphNodeType> nodes;
    std::vector<std::pair<size_t, size_t>> edges;
  };
  Topology topology() const;

 private:
  class Capture;
  struct GraphDestroy {
    void operator()(orGraph_t graph) const noexcept;
  };
  struct ExecDestroy {
    void operator()(orGraphExec_t exec) const noexcept;
  };
  using GraphHandle =
      std::unique_ptr<std::remove_pointer_t<orGraph_t>, GraphDestroy>;
  using ExecHandle =
      std::unique_ptr<std::remove_pointer_t<orGraphExec_t>, ExecDestroy>;
  using StatePtr = intrusive_ptr<GeneratorState>;

  /// What a successful capture left behind.
  struct CaptureResult {
    Device device;
    MempoolId_t pool;
    /// What the work draws, and from which states.
    std::vector<std::pair<StatePtr, CapturedDraws>> drawn;
  };

  void addState(StatePtr state);
  const CaptureResult& captured(const char* method) const;

  const bool keepsGraph_;
  std::vector<StatePtr> states_; // that it may draw from
  std::unique_ptr<Capture> capture_; // underway
  std::optional<CaptureResult> captured_;
  GraphHandle graph_;
  ExecHandle exec_;
};

} // namespace c10::openreg
