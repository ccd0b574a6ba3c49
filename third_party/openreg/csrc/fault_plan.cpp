#include "fault_plan.h"

#include "mix.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <stdexcept>
#include <utility>

namespace openreg {
namespace {

constexpr std::pair<std::string_view, orFaultKind> kKindNames[] = {
    {"oom", orFaultOom},
    {"error", orFaultError},
    {"kernel-error", orFaultError},
    {"lost", orFaultLost},
    {"slow", orFaultSlow},
    {"flip", orFaultFlip},
    {"drop-rank", orFaultDropRank},
};

struct SiteName {
  std::string_view name;
  orFaultSite site;
  std::string_view kinds; // that may happen there
};
constexpr SiteName kSiteNames[] = {
    {"alloc", orFaultSiteAlloc, "oom, lost"},
    {"launch", orFaultSiteLaunch, "error, lost, slow, flip"},
    {"op", orFaultSiteLaunch, "error, lost, slow, flip"},
    {"copy", orFaultSiteCopy, "error, lost, slow, flip"},
    {"capture", orFaultSiteCapture, "error, lost"},
    {"collective", orFaultSiteCollective, "error, lost, slow, drop-rank"},
};

constexpr uint64_t kMaxDelay = 60'000'000'000; // ns

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  return first == std::string_view::npos
      ? std::string_view()
      : text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

/// Cuts the text off behind the last `separator`, which is removed.
std::string_view cutTail(std::string_view& text, char separator) {
  const size_t at = text.rfind(separator);
  const std::string_view tail =
      at == std::string_view::npos ? text : text.substr(at + 1);
  text = at == std::string_view::npos ? std::string_view() : text.substr(0, at);
  return tail;
}

template <class T>
std::optional<T> toNumber(std::string_view text) {
  T number{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size()
      ? std::optional(number)
      : std::nullopt;
}

} // namespace

std::optional<orFaultKind> findFaultKind(std::string_view name) {
  for (const auto& [known, kind] : kKindNames) {
    if (name == known) {
      return kind;
    }
  }
  return std::nullopt;
}

std::optional<orFaultSite> findFaultSite(std::string_view name) {
  for (const SiteName& known : kSiteNames) {
    if (name == known.name && name != "op") {
      return known.site;
    }
  }
  return std::nullopt;
}

// --- reading ------------------------------------------------------------------

/// Reads one rule from its end to its front: an operator's name has colons too.
class FaultPlan::Reader {
 public:
  explicit Reader(std::string_view rule) : text_(rule) {
    rule_.text = rule;
  }

  Rule read() {
    std::string_view place = text_;
    const size_t at = text_.find('@');
    if (at == std::string_view::npos) {
      reject(
          text_, "a rule is KIND@SITE:WHEN, such as oom@alloc:37, or seed=7");
    }
    std::string_view kind = trim(text_.substr(0, at));
    place = trim(text_.substr(at + 1));
    readKind(kind);
    readDevice(place);
    if (rule_.kind == orFaultSlow) {
      readDelay(cutTail(place, ':'));
    }
    readWhen(cutTail(place, ':'));
    readSite(place, kind);
    return rule_;
  }

  [[noreturn]] void reject(std::string_view part, const std::string& accepted)
      const {
    throw std::invalid_argument(
        "'" + std::string(part) + "' in the rule '" + rule_.text +
        "' is not understood: " + accepted);
  }

 private:
  void readKind(std::string_view& kind) {
    if (const size_t colon = kind.find(':'); colon != std::string_view::npos) {
      const std::string_view rank = kind.substr(colon + 1);
      kind = kind.substr(0, colon);
      const auto number = toNumber<int>(rank);
      if (kind != "drop-rank" || !number || *number < 0) {
        reject(
            std::string(kind) + ":" + std::string(rank),
            "only drop-rank has a number, that of the rank, as in "
            "drop-rank:2@collective:9");
      }
      rule_.rank = *number;
    }
    const auto found = findFaultKind(kind);
    if (!found) {
      reject(
          kind,
          "a fault is oom, error (or kernel-error), lost, slow, flip or "
          "drop-rank:RANK");
    }
    rule_.kind = *found;
    if (rule_.kind == orFaultDropRank && rule_.rank < 0) {
      reject(kind, "it needs a rank, as in drop-rank:2@collective:9");
    }
  }

  void readDevice(std::string_view& place) {
    constexpr std::string_view kOption = ":device=";
    const size_t at = place.rfind(kOption);
    if (at == std::string_view::npos) {
      return;
    }
    const std::string_view device = place.substr(at + kOption.size());
    const auto number = toNumber<int>(device);
    if (!number || *number < 0) {
      reject(device, "device= is followed by the index of a device");
    }
    rule_.device = *number;
    place = place.substr(0, at);
  }

  void readDelay(std::string_view delay) {
    constexpr std::pair<std::string_view, double> kUnits[] = {
        {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    for (const auto& [unit, scale] : kUnits) {
      if (delay.ends_with(unit)) {
        const auto number =
            toNumber<double>(delay.substr(0, delay.size() - unit.size()));
        if (number && *number > 0 &&
            *number * scale <= static_cast<double>(kMaxDelay)) {
          rule_.delay = static_cast<uint64_t>(*number * scale);
          return;
        }
      }
    }
    reject(
        delay,
        "slow ends with a duration of up to 60s in ns, us, ms or s, as in "
        "slow@copy:*:10ms");
  }

  void readWhen(std::string_view when) {
    if (when == "*") {
      rule_.percent = 100;
      return;
    }
    if (when.ends_with('%')) {
      const auto number = toNumber<double>(when.substr(0, when.size() - 1));
      if (number && *number > 0 && *number <= 100) {
        rule_.percent = *number;
        return;
      }
    } else if (const auto number = toNumber<uint64_t>(when);
               number && *number > 0) {
      rule_.number = *number;
      return;
    }
    reject(
        when,
        "the place is followed by a number from 1 on, by * for every call, or "
        "by a share of the calls such as 5%");
  }

  void readSite(std::string_view place, std::string_view kind) {
    std::string_view name = place;
    if (const size_t colon = place.find(':'); colon != std::string_view::npos) {
      name = place.substr(0, colon);
      rule_.name = place.substr(colon + 1);
    }
    const auto* const found = std::find_if(
        std::begin(kSiteNames), std::end(kSiteNames), [&](const SiteName& s) {
          return s.name == name && (name == "op") == !rule_.name.empty();
        });
    if (found == std::end(kSiteNames)) {
      reject(
          place,
          "a place is alloc, launch, op:NAME, copy, capture or collective, "
          "each "
          "with :WHEN behind it");
    }
    rule_.site = found->site;
    const std::string_view known = kind == "kernel-error" ? "error" : kind;
    if ((", " + std::string(found->kinds) + ",")
            .find(", " + std::string(known) + ",") == std::string::npos) {
      reject(
          std::string(kind) + "@" + std::string(name),
          std::string(name) + " can have " + std::string(found->kinds));
    }
  }

  const std::string_view text_;
  Rule rule_;
};

std::string FaultPlan::parse(std::string_view text, FaultPlan* plan) try {
  while (!text.empty()) {
    const size_t end = text.find(';');
    const std::string_view rule = trim(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view()
                                         : text.substr(end + 1);
    if (rule.empty()) {
      continue;
    }
    if (!rule.starts_with("seed=")) {
      plan->rules_.push_back(Reader(rule).read());
      continue;
    }
    plan->seed_ = toNumber<uint64_t>(rule.substr(5));
    if (!plan->seed_) {
      Reader(rule).reject(rule.substr(5), "a seed is a number in [0, 2^64)");
    }
  }
  return "";
} catch (const std::invalid_argument& error) {
  return error.what();
}

// --- deciding -----------------------------------------------------------------

bool FaultPlan::Rule::matches(const Place& place) const {
  if (place.site != site || (device >= 0 && device != place.device) ||
      (rank >= 0 && rank != place.rank)) {
    return false;
  }
  if (name.empty()) {
    return true;
  }
  const std::string_view asked = place.name ? place.name : "";
  return asked.starts_with(name) &&
      (asked.size() == name.size() || asked[name.size()] == '.');
}

bool FaultPlan::Rule::fires(uint64_t random) const {
  constexpr double kOfAll = 100.0 / 18446744073709551616.0; // 2^64
  return number != 0 ? seen == number
                     : static_cast<double>(random) * kOfAll < percent;
}

orFault FaultPlan::ask(const Place& place) {
  ++asked_[static_cast<size_t>(place.site)];
  orFault fault{};
  for (size_t i = 0; i < rules_.size(); ++i) {
    Rule& rule = rules_[i];
    if (!rule.matches(place)) {
      continue;
    }
    ++rule.seen;
    const uint64_t random = mix(seed_.value_or(0) ^ mix(mix(i) ^ rule.seen));
    if (!rule.fires(random)) {
      continue;
    }
    if (rule.kind == orFaultSlow) {
      fault.delay += rule.delay;
    } else if (fault.kind == orFaultNone) {
      fault.kind = rule.kind;
      fault.random = mix(random);
      std::snprintf(fault.rule, sizeof(fault.rule), "%s", rule.text.c_str());
    } else {
      continue;
    }
    ++fired_[static_cast<size_t>(rule.kind)];
  }
  return fault;
}

} // namespace openreg
