// What a launch of a graph runs: its nodes in the order in which they run.
#pragma once

#include "event.h"
#include "graph.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace openreg {

class Device;

/// The events that one launch records. They come to pass even if the launch is
/// dropped.
class LaunchRecords {
 public:
  explicit LaunchRecords(std::vector<Event::Record> records)
      : records_(std::move(records)), stamped_(records_.size()) {}
  ~LaunchRecords();
  LaunchRecords(const LaunchRecords&) = delete;
  LaunchRecords& operator=(const LaunchRecords&) = delete;

  const std::vector<Event::Record>& all() const {
    return records_;
  }
  void stamp(size_t index);

 private:
  std::vector<Event::Record> records_;
  std::vector<bool> stamped_;
};

/// What a launch runs. Constant but for the time of its fastest run; shared by the
/// executable graph and the launches that are queued.
///
/// Threads: any.
class Program {
 public:
  /// Takes a share in the nodes, child graphs included.
  explicit Program(GraphNodes nodes);

  /// Runs all nodes, as the task that the calling thread is running. Stops at the
  /// first that fails.
  void run(LaunchRecords* records) const;

  /// The graph as it was.
  const std::shared_ptr<const GraphNodes>& nodes() const {
    return nodes_;
  }
  const std::vector<Device*>& devices() const {
    return devices_;
  }
  /// Events that a launch waits for, and those that it records.
  const std::vector<orEvent_t>& waits() const {
    return waits_;
  }
  const std::vector<orEvent_t>& records() const {
    return records_;
  }
  /// Whether a launch is small work: the nodes are few and small, and together took ten
  /// microseconds at most when they were fastest.
  bool small() const {
    return small_ && fastest_.load(std::memory_order_relaxed) <= kSmallTime;
  }

 private:
  struct Step {
    void (*run)(void* callable); // nullptr: the record of an event
    void* callable;
    const GraphNode* node;
    size_t record; // which of the events
  };

  static constexpr uint64_t kSmallTime = 10'000; // ns

  void append(const GraphNodes& nodes);
  void append(const GraphNode& node);

  const std::shared_ptr<const GraphNodes> nodes_;
  std::vector<Step> steps_;
  std::vector<Device*> devices_;
  std::vector<orEvent_t> waits_;
  std::vector<orEvent_t> records_;
  size_t bytes_ = 0; // of copies and sets
  bool small_ = true;
  mutable std::atomic<uint64_t> fastest_{0}; // ns; 0: has not run yet
};

} // namespace openreg
