// What the calls of this process put on the links of a topology. Free of torch.
#pragma once

#include "distributed/Topology.h"

#include <map>
#include <mutex>
#include <tuple>

namespace c10::openreg::occl {

/// Sums by group and kind of call, for as long as the process lives.
///
/// Threads: any may call anything.
class TrafficLedger {
 public:
  struct Key {
    std::string group;
    int ranks; ///< of the group
    const char* call; ///< a literal
    auto operator<=>(const Key& other) const {
      return std::tuple(group, ranks, std::string(call)) <=>
          std::tuple(other.group, other.ranks, std::string(other.call));
    }
  };
  struct Sum {
    uint64_t calls = 0;
    double inside = 0; ///< bytes that pass a device's link to its host
    double between = 0; ///< and its adapter
    double seconds = 0;
  };

  static TrafficLedger& instance();

  void add(const Key& key, const Traffic& traffic, double seconds);
  std::map<Key, Sum> sums() const;

 private:
  mutable std::mutex mutex_;
  std::map<Key, Sum> sums_;
};

} // namespace c10::openreg::occl
