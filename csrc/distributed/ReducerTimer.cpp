// The timer of DistributedDataParallel's logger.
#include "runtime/OpenRegEvent.h"

#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <array>

namespace c10::openreg::occl {
namespace {

/// Uses events in the current stream, so that it times the device's work.
class ReducerTimer final : public c10d::Timer {
 public:
  explicit ReducerTimer(c10::Device device) : device_(device) {
    for (OpenRegEvent& event : events_) {
      event = OpenRegEvent(orEventEnableTiming);
    }
  }

  void record(Event event) override {
    Timer::record(event);
    eventFor(event).record(getCurrentOpenRegStream(device_.index()));
  }

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const OpenRegEvent& from = eventFor(start);
    const OpenRegEvent& to = eventFor(end);
    if (!from.isCreated() || !to.isCreated()) {
      return std::nullopt;
    }
    from.synchronize();
    to.synchronize();
    const float milliseconds = from.elapsed_time(to);
    // Negative: they are of two iterations.
    return milliseconds < 0
        ? std::nullopt
        : std::optional(static_cast<int64_t>(milliseconds * 1e6));
  }

 private:
  OpenRegEvent& eventFor(Event event) {
    return events_[static_cast<size_t>(event)];
  }

  static constexpr size_t kEvents =
      static_cast<size_t>(Event::kBackwardCommEnd) + 1;

  const c10::Device device_;
  std::array<OpenRegEvent, kEvents> events_;
};

} // namespace
} // namespace c10::openreg::occl

namespace c10d {

C10_REGISTER_TYPED_CLASS(
    TimerRegistry,
    c10::openreg::kDeviceType,
    c10::openreg::occl::ReducerTimer)

} // namespace c10d
