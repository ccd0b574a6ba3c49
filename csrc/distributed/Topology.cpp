#include "distributed/Topology.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <utility>

namespace c10::openreg::occl {

// --- what a topology is read from ---------------------------------------------------

namespace {

constexpr int kMost = 4096; // hosts, and devices of one

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument("OPENREG_TOPOLOGY: " + what);
}

using Units = std::map<std::string, double>;
const Units kBandwidths{
    {"B/s", 1},
    {"kB/s", 1e3},
    {"MB/s", 1e6},
    {"GB/s", 1e9},
    {"TB/s", 1e12},
    {"Mb/s", 1e6 / 8},
    {"Gb/s", 1e9 / 8},
    {"Tb/s", 1e12 / 8}};
const Units kTimes{{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
const Units kCounts{{"", 1}};

struct Bounds {
  const Units& units;
  double least; // in the smallest unit's base
  double most;
  const char* example;
};

double number(
    const std::string& key,
    const std::string& value,
    const Bounds& bounds) {
  char* end = nullptr;
  const double found = std::strtod(value.c_str(), &end);
  std::string unit = end;
  unit.erase(0, unit.find_first_not_of(' '));
  const auto factor = bounds.units.find(unit);
  const bool isNumber = end != value.c_str() && std::isfinite(found) &&
      factor != bounds.units.end();
  const double result = isNumber ? found * factor->second : 0;
  if (!isNumber || result < bounds.least || result > bounds.most) {
    refuse(
        key + " must be a value such as " + bounds.example + ", but is '" +
        value + "'");
  }
  return result;
}

int count(const std::string& key, const std::string& value) {
  const double found =
      number(key, value, {kCounts, 1, kMost, "8, a whole number in [1, 4096]"});
  if (found != std::floor(found)) {
    refuse(key + " must be a whole number in [1, 4096], but is " + value);
  }
  return static_cast<int>(found);
}

double bandwidth(const std::string& key, const std::string& value) {
  return number(
      key, value, {kBandwidths, 1, 1e18, "450GB/s or 400Gb/s, at least 1B/s"});
}

double latency(const std::string& key, const std::string& value) {
  return number(
      key, value, {kTimes, 0, 10, "5us, 500ns or 1ms, and in [0s, 10s]"});
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string::npos
      ? ""
      : text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

// docs:begin topology-presets
// A device like an H100: NVLink through a switch, and a network adapter of 400 Gb/s.
constexpr Link kNVLink{450e9, 2e-6};
constexpr Link kInfiniBand{50e9, 5e-6};
// docs:end topology-presets

class Reader {
 public:
  explicit Reader(const std::string& text) {
    std::istringstream parts(text);
    std::string part;
    std::getline(parts, part, ',');
    readFirst(trimmed(part));
    while (std::getline(parts, part, ',')) {
      set(trimmed(part));
    }
  }

  Topology result() {
    if (made_.inside.bandwidth == 0) {
      refuse("bandwidth is missing, such as bandwidth = 450GB/s");
    }
    if (made_.hosts > 1 && made_.between.bandwidth == 0) {
      refuse("host_bandwidth is missing, such as host_bandwidth = 400Gb/s");
    }
    for (Link* link : {&made_.inside, &made_.between}) {
      link->bandwidth /= slower_;
      link->latency *= slower_;
    }
    return made_;
  }

 private:
  void readFirst(const std::string& name) {
    static const std::regex kOneHost("nvlink([0-9]+)");
    static const std::regex kHosts("([0-9]+)x([0-9]+)-ib");
    std::smatch match;
    if (std::regex_match(name, match, kOneHost)) {
      made_ = {1, count("the devices of " + name, match[1]), kNVLink, {}};
    } else if (std::regex_match(name, match, kHosts)) {
      made_ = {
          count("the hosts of " + name, match[1]),
          count("the devices of " + name, match[2]),
          kNVLink,
          kInfiniBand};
    } else {
      readFile(name);
    }
  }

  void readFile(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    if (path.empty() || !std::getline(file, line)) {
      refuse(
          "'" + path +
          "' is neither a cluster, such as nvlink8 or 2x8-ib, nor a file that "
          "can be read");
    }
    do {
      line = trimmed(line.substr(0, line.find('#')));
      if (!line.empty()) {
        set(line);
      }
    } while (std::getline(file, line));
  }

  void set(const std::string& setting) {
    const size_t equals = setting.find('=');
    const std::string key = trimmed(setting.substr(0, equals));
    const std::string value =
        equals == std::string::npos ? "" : trimmed(setting.substr(equals + 1));
    if (key == "hosts") {
      made_.hosts = count(key, value);
    } else if (key == "devices") {
      made_.devices = count(key, value);
    } else if (key == "bandwidth") {
      made_.inside.bandwidth = bandwidth(key, value);
    } else if (key == "latency") {
      made_.inside.latency = latency(key, value);
    } else if (key == "host_bandwidth") {
      made_.between.bandwidth = bandwidth(key, value);
    } else if (key == "host_latency") {
      made_.between.latency = latency(key, value);
    } else if (key == "slower") {
      slower_ = number(key, value, {kCounts, 1, 1e9, "100, in [1, 1e9]"});
    } else {
      refuse(
          "'" + setting +
          "' is not a setting; the settings are hosts, devices, bandwidth, "
          "latency, "
          "host_bandwidth, host_latency and slower");
    }
  }

  Topology made_;
  double slower_ = 1;
};

int stepsOfTree(int ranks) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
}

double totalOf(const std::vector<Span>& spans) {
  double bytes = 0;
  for (const Span& span : spans) {
    bytes += static_cast<double>(span.bytes);
  }
  return bytes;
}

} // namespace

Topology Topology::parse(const std::string& text) {
  return Reader(text).result();
}

// --- what passes --------------------------------------------------------------------

Network::Network(const Topology& topology, std::vector<int> places, int rank)
    : topology_(topology), places_(std::move(places)), rank_(rank) {
  std::map<int, int> perHost;
  for (const int place : places_) {
    if (place < 0 || place >= topology_.hosts * topology_.devices) {
      refuse(
          "there are " + std::to_string(topology_.hosts) + " x " +
          std::to_string(topology_.devices) + " devices, but rank " +
          std::to_string(place) +
          " needs one; take a larger topology, such as " +
          std::to_string(place / topology_.devices + 1) + "x" +
          std::to_string(topology_.devices) + "-ib");
    }
    ++perHost[place / topology_.devices];
  }
  for (const auto& [host, ranks] : perHost) {
    most_ = std::max(most_, ranks);
    fewest_ = fewest_ == 0 ? ranks : std::min(fewest_, ranks);
  }
}

bool Network::isNear(int peer) const {
  const auto host = [this](int rank) {
    return places_[static_cast<size_t>(rank)] / topology_.devices;
  };
  return host(peer) == host(rank_);
}

Traffic Network::ring(int steps, double bytes) const {
  const bool crosses = most_ < static_cast<int>(places_.size());
  return {steps, crosses, most_ > 1 ? bytes : 0, crosses ? bytes / fewest_ : 0};
}

Traffic Network::of(const Collective& call) const {
  const int size = static_cast<int>(places_.size());
  if (size == 1) {
    return {};
  }
  const int tree = stepsOfTree(size);
  const double others = (size - 1.0) / size;
  switch (call.kind) {
    case Kind::AllReduce:
      return ring(2 * tree, 2 * others * totalOf(call.outputs));
    case Kind::Broadcast:
    case Kind::Reduce:
      return ring(
          tree, totalOf(call.outputs.empty() ? call.inputs : call.outputs));
    case Kind::AllGather:
      return ring(tree, others * totalOf(call.outputs));
    case Kind::ReduceScatter:
      return ring(tree, others * totalOf(call.inputs));
    case Kind::Barrier:
      return ring(2 * tree, 0);
    default:
      break; // gather, scatter, all_to_all: each rank's bytes go their own way
  }
  Traffic sent{1, most_ < size}, taken = sent;
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank_) {
      const bool near = isNear(peer);
      (near ? sent.inside : sent.between) +=
          static_cast<double>(call.gives(peer));
      (near ? taken.inside : taken.between) +=
          static_cast<double>(call.takes(peer));
    }
  }
  return seconds(sent) < seconds(taken) ? taken : sent;
}

Traffic Network::of(const std::vector<Transfer>& messages) const {
  Traffic traffic;
  for (const Transfer& message : messages) {
    if (message.kind == Kind::Send) {
      const bool near = isNear(message.peer);
      traffic.steps = 1;
      traffic.crosses = traffic.crosses || !near;
      (near ? traffic.inside : traffic.between) +=
          static_cast<double>(message.memory.bytes);
    }
  }
  return traffic;
}

double Network::seconds(const Traffic& traffic) const {
  const auto through = [](double bytes, const Link& link) {
    return bytes > 0 ? bytes / link.bandwidth : 0;
  };
  const Link& slowest = traffic.crosses ? topology_.between : topology_.inside;
  return traffic.steps * slowest.latency +
      std::max(
             through(traffic.inside, topology_.inside),
             through(traffic.between, topology_.between));
}

} // namespace c10::openreg::occl
