#include "sanitizer/RedZoneChecks.h"

#include "runtime/OpenRegFaults.h"

#include <chrono>
#include <utility>

namespace c10::openreg::sanitizer {
namespace {

// A device that is broken runs nothing any more, and its next user hears of it.
template <class Run>
void launch(const OpenRegStream& stream, Run run) {
  const orLaunchConfig config{"sanitizer", orLaunchSmall};
  const WithoutFaults plan;
  if (orLaunchKernelEx(&config, stream.stream(), std::move(run)) != orSuccess) {
    orGetLastError();
  }
}

void fillAll(const std::vector<RedZonePtr>& zones) {
  for (const RedZonePtr& zone : zones) {
    zone->fill();
  }
}

} // namespace

/// One piece of work to look after. Counts as pending until it is destroyed, having run
/// or not.
class RedZoneChecks::Look {
 public:
  Look(
      std::shared_ptr<State> state,
      WorkPtr work,
      std::vector<WatchedZone> zones)
      : state_(std::move(state)),
        work_(std::move(work)),
        zones_(std::move(zones)) {
    const std::lock_guard lock(state_->mutex);
    ++state_->pending;
  }
  ~Look() {
    const std::lock_guard lock(state_->mutex);
    --state_->pending;
    state_->changed.notify_all();
  }
  Look(const Look&) = delete;
  Look& operator=(const Look&) = delete;

  void operator()() const {
    for (const auto& [zone, block] : zones_) {
      if (const auto damage = zone->takeDamage()) {
        // Other streams may use what was freed meanwhile, unless this work holds it.
        if (zone == block.zone || !zone->isRetired()) {
          const std::lock_guard lock(state_->mutex);
          state_->findings.push_back(
              {Finding::OutOfBounds, *damage, {}, Culprit{work_, true}, block});
        }
      }
    }
  }

 private:
  const std::shared_ptr<State> state_;
  const WorkPtr work_;
  const std::vector<WatchedZone> zones_;
};

void RedZoneChecks::fill(
    std::vector<RedZonePtr> zones,
    const OpenRegStream& stream,
    bool isRunning) {
  if (zones.empty()) {
    return;
  }
  if (isRunning) {
    fillAll(zones);
  } else {
    launch(stream, [zones = std::move(zones)] { fillAll(zones); });
  }
}

void RedZoneChecks::look(
    const WorkPtr& work,
    std::vector<WatchedZone> zones,
    const OpenRegStream& stream) {
  if (!zones.empty()) {
    launch(
        stream,
        [look = std::make_unique<const Look>(state_, work, std::move(zones))] {
          (*look)();
        });
  }
}

Findings RedZoneChecks::take() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->findings, {});
}

void RedZoneChecks::wait() {
  constexpr auto kLongest = std::chrono::seconds(5);
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(
      lock, kLongest, [this] { return state_->pending == 0; });
}

} // namespace c10::openreg::sanitizer
