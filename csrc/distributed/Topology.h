// A cluster that this machine poses as: how long links take for what passes. Free of
// torch.
#pragma once

#include "distributed/Collective.h"

#include <string>
#include <vector>

namespace c10::openreg::occl {

struct Link {
  double bandwidth = 0; ///< bytes per second, in each direction
  double latency = 0; ///< seconds
};

// docs:begin topology
/// Hosts with the same number of devices. A device has one link to the others of its
/// host, by way of a switch, and one to other hosts, by way of an adapter of its own.
// docs:end topology
struct Topology {
  int hosts = 1;
  int devices = 1; ///< of each host
  Link inside; ///< of a device, to those of its host
  Link between; ///< of a device, to those of other hosts

  /// Reads `nvlink8`, `2x8-ib` or the path of a file with lines `key = value`, which
  /// further settings may follow: `2x8-ib,host_bandwidth=10GB/s,slower=100`. Throws
  /// std::invalid_argument, with what is accepted, for everything else.
  static Topology parse(const std::string& text);
};

/// What a call puts on the links of its busiest device.
struct Traffic {
  int steps = 0; ///< that wait for each other
  bool crosses = false; ///< some of them are between hosts
  double inside = 0; ///< bytes
  double between = 0;
};

/// The links that a group uses.
class Network {
 public:
  /// Throws std::invalid_argument if a rank has no device. `places` are the ranks'
  /// places in the cluster: devices of the first host, of the second, and so on.
  Network(const Topology& topology, std::vector<int> places, int rank);

  // docs:begin traffic
  /// Counts the bytes of a ring and the steps of a tree, which the better of the two
  /// comes close to. A ring leaves a host through the adapters of all the group's
  /// devices there. Messages to single ranks take their links one after the other.
  // docs:end traffic
  Traffic of(const Collective& call) const;
  Traffic of(const std::vector<Transfer>& messages) const;

  /// How long it takes, if all links are free.
  double seconds(const Traffic& traffic) const;

 private:
  bool isNear(int peer) const;
  Traffic ring(int steps, double bytes) const;

  const Topology topology_;
  const std::vector<int> places_;
  const int rank_;
  int fewest_ = 0; // ranks of the group that a host has, if it has any
  int most_ = 0;
};

} // namespace c10::openreg::occl
