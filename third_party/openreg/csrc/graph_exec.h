// A graph that is ready to be launched.
#pragma once

#include "openreg/graph.h"
#include "program.h"

#include <cstdint>
#include <memory>
#include <mutex>

namespace openreg {

class Device;
class Stream;

/// What a handle names.
///
/// Threads: any. Launches take turns, so that they do not overlap.
class GraphExec {
 public:
  void open(std::shared_ptr<const Program> program);
  std::shared_ptr<const Program> close();
  bool reusable() const {
    return true;
  }

  /// nullptr while it is closed.
  std::shared_ptr<const Program> program();
  /// Replaces the program; returns the old one.
  std::shared_ptr<const Program> exchange(
      std::shared_ptr<const Program> program);
  orError_t launch(Stream& stream);

 private:
  orError_t queueWaits(const Program& program, Stream& stream);

  std::mutex launchMutex_; // before mutex_
  // The latest launch, perhaps of the graph that had the handle's place before.
  Stream* lastStream_ = nullptr;
  uint64_t lastFinished_ = 0; // what that stream will have reached after it
  std::mutex mutex_;
  std::shared_ptr<const Program> program_;
};

orError_t failOnGraphExec(orGraphExec_t handle);

} // namespace openreg
