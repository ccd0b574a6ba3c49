// Looks at red zones in the order of the streams.
#pragma once

#include "runtime/OpenRegStream.h"
#include "sanitizer/Checker.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace c10::openreg::sanitizer {

/// Fills the zones of the blocks that work uses before it runs, and looks at them after
/// it has run. What it finds is kept for a thread of the host, since that of a stream
/// must not wait for Python.
///
/// Threads: any may call anything.
class RedZoneChecks {
 public:
  /// With `isRunning` the calling thread runs the work now, else it is to be launched.
  static void fill(
      std::vector<RedZonePtr> zones,
      const OpenRegStream& stream,
      bool isRunning);
  /// To be called when the work has been launched.
  void look(
      const WorkPtr& work,
      std::vector<WatchedZone> zones,
      const OpenRegStream& stream);

  /// What was found since the last call.
  Findings take();
  /// Waits until all that was launched has been looked at; not for long, since a stream
  /// may be held up by the program itself.
  void wait();

 private:
  /// What is shared with the looks that are queued.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    size_t pending = 0;
    Findings findings;
  };
  class Look;

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

} // namespace c10::openreg::sanitizer
