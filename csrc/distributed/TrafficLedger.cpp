#include "distributed/TrafficLedger.h"

namespace c10::openreg::occl {

TrafficLedger& TrafficLedger::instance() {
  static auto* ledger =
      new TrafficLedger; // threads of streams may outlive main()
  return *ledger;
}

void TrafficLedger::add(
    const Key& key,
    const Traffic& traffic,
    double seconds) {
  const std::lock_guard lock(mutex_);
  Sum& sum = sums_[key];
  ++sum.calls;
  sum.inside += traffic.inside;
  sum.between += traffic.between;
  sum.seconds += seconds;
}

std::map<TrafficLedger::Key, TrafficLedger::Sum> TrafficLedger::sums() const {
  const std::lock_guard lock(mutex_);
  return sums_;
}

} // namespace c10::openreg::occl
