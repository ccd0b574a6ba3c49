// A fault plan: the rules that its text stands for, and what they decide.
#pragma once

#include "openreg/fault.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace openreg {

/// Threads: one at a time.
class FaultPlan {
 public:
  static constexpr size_t kSites = orFaultSiteCollective + 1;
  static constexpr size_t kKinds = orFaultDropRank + 1;

  /// Where somebody asks.
  struct Place {
    orFaultSite site;
    const char* name; // nullptr: none
    int device; // -1: unknown
    int rank; // -1: none
  };

  /// Reads the text. Returns what is wrong with it, a sentence; "" if nothing.
  static std::string parse(std::string_view text, FaultPlan* plan);

  /// The seed that counts unless the text has one.
  void setDefaultSeed(uint64_t seed) {
    if (!seed_) {
      seed_ = seed;
    }
  }

  /// Decides, and counts the place for the rules that it matches.
  orFault ask(const Place& place);

  uint64_t fired(orFaultKind kind) const {
    return fired_[static_cast<size_t>(kind)];
  }
  uint64_t asked(orFaultSite site) const {
    return asked_[static_cast<size_t>(site)];
  }

 private:
  struct Rule {
    orFaultKind kind = orFaultNone;
    orFaultSite site = orFaultSiteAlloc;
    std::string name; // "": any
    uint64_t number = 0; // 0: not by number
    double percent = 0; // of the places, unless by number
    uint64_t delay = 0; // ns
    int rank = -1; // that leaves
    int device = -1; // -1: any
    std::string text;
    uint64_t seen = 0;

    bool matches(const Place& place) const;
    bool fires(uint64_t random) const;
  };
  class Reader;

  std::vector<Rule> rules_;
  std::optional<uint64_t> seed_;
  std::array<uint64_t, kKinds> fired_{};
  std::array<uint64_t, kSites> asked_{};
};

/// The names of the kinds and sites in plans and counts.
std::optional<orFaultKind> findFaultKind(std::string_view name);
std::optional<orFaultSite> findFaultSite(std::string_view name);

} // namespace openreg
