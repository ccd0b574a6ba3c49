#include "config.h"

#include "os.h"
#include "profile.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace openreg {
namespace {

constexpr int kMaxDevices = 64;
constexpr size_t kMaxMemory = size_t{1} << 40;

// One variable of the environment, with the sentence for a bad value.
class Variable {
 public:
  explicit Variable(const char* name) : name_(name) {
    if (const char* value = std::getenv(name)) {
      value_ = value;
    }
  }

  explicit operator bool() const {
    return value_.has_value();
  }

  std::string_view value() const {
    return *value_;
  }

  [[noreturn]] void reject(const std::string& accepted) const {
    throw std::invalid_argument(
        std::string(name_) + "='" + *value_ + "' is not accepted: " + accepted);
  }

  template <class T>
  T oneOf(
      std::initializer_list<std::pair<std::string_view, T>> choices,
      T otherwise) const {
    if (!value_) {
      return otherwise;
    }
    std::string accepted;
    for (const auto& [name, choice] : choices) {
      if (*value_ == name) {
        return choice;
      }
      accepted += (accepted.empty() ? "" : ", ") + std::string(name);
    }
    reject("it must be one of " + accepted);
  }

 private:
  const char* name_;
  std::optional<std::string> value_;
};

template <class T>
std::optional<T> parseNumber(std::string_view text) {
  T number{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> items;
  for (;;) {
    const size_t comma = list.find(',');
    std::string_view item = list.substr(0, comma);
    while (!item.empty() && item.front() == ' ') {
      item.remove_prefix(1);
    }
    while (!item.empty() && item.back() == ' ') {
      item.remove_suffix(1);
    }
    items.push_back(item);
    if (comma == std::string_view::npos) {
      return items;
    }
    list.remove_prefix(comma + 1);
  }
}

// "16GiB", "512MiB", "2.5GiB" or plain bytes; whole pages, at least one.
std::optional<size_t> parseBytes(std::string_view text) {
  constexpr std::pair<std::string_view, size_t> kUnits[] = {
      {"KiB", kKiB},
      {"MiB", kMiB},
      {"GiB", kGiB},
      {"TiB", 1024 * kGiB},
      {"B", 1},
  };
  size_t scale = 1;
  for (const auto& [unit, bytes] : kUnits) {
    if (text.ends_with(unit)) {
      text.remove_suffix(unit.size());
      scale = bytes;
      break;
    }
  }
  const auto number = parseNumber<double>(text);
  if (!number || !(*number > 0) ||
      *number * static_cast<double>(scale) > static_cast<double>(kMaxMemory)) {
    return std::nullopt;
  }
  const auto bytes = static_cast<size_t>(*number * static_cast<double>(scale));
  const size_t pages = bytes / os::pageSize();
  return pages ? std::optional(pages * os::pageSize()) : std::nullopt;
}

// OPENREG_DEVICE_COUNT: number of devices. Default: 2.
int readDeviceCount() {
  const Variable variable("OPENREG_DEVICE_COUNT");
  if (!variable) {
    return 2;
  }
  const auto count = parseNumber<int>(variable.value());
  if (!count || *count < 0 || *count > kMaxDevices) {
    variable.reject(
        "it must be a number in [0, " + std::to_string(kMaxDevices) + "]");
  }
  return *count;
}

// OPENREG_DEVICE_PROFILE: the GPU whose name, memory and figures the devices have,
// such as `h100`; see [device profiles](profiles.md). Default: a plain device with
// 16 GiB.
const orDeviceProp& readProfile() {
  const Variable variable("OPENREG_DEVICE_PROFILE");
  const orDeviceProp* profile =
      findProfile(variable ? variable.value() : std::string_view());
  if (!profile) {
    variable.reject("it must be one of " + profileNames());
  }
  return *profile;
}

// OPENREG_DEVICE_MEMORY: capacity, such as `512MiB`, `2.5GiB` or plain bytes; one
// for all, or a list with one for each device of the count. Default: the profile's.
std::vector<size_t> readMemory(size_t devices, size_t otherwise) {
  const Variable variable("OPENREG_DEVICE_MEMORY");
  if (!variable) {
    return std::vector<size_t>(devices, otherwise);
  }
  std::vector<size_t> sizes;
  for (std::string_view item : split(variable.value())) {
    const auto bytes = parseBytes(item);
    if (!bytes) {
      variable.reject(
          "each size must be bytes or a number with KiB, MiB, GiB or TiB, from "
          "a page to 1TiB, such as 16GiB");
    }
    sizes.push_back(*bytes);
  }
  if (sizes.size() == 1) {
    return std::vector<size_t>(devices, sizes[0]);
  }
  if (sizes.size() != devices) {
    variable.reject(
        "it must be one size, or one for each of the " +
        std::to_string(devices) + " devices of OPENREG_DEVICE_COUNT");
  }
  return sizes;
}

// OPENREG_VISIBLE_DEVICES: which of the devices are seen, in what order, such as
// `1,0`; an index that does not exist ends the list, as with CUDA; empty hides all.
// Default: all.
std::vector<int> readVisibleDevices(int count) {
  std::vector<int> visible;
  const Variable variable("OPENREG_VISIBLE_DEVICES");
  if (!variable) {
    for (int i = 0; i < count; ++i) {
      visible.push_back(i);
    }
    return visible;
  }
  if (variable.value().empty()) {
    return visible;
  }
  bool ended = false;
  for (std::string_view item : split(variable.value())) {
    const auto index = parseNumber<int>(item);
    if (!index) {
      variable.reject("it must be a list of device indices such as 1,0");
    }
    ended = ended || *index < 0 || *index >= count;
    if (ended) {
      continue;
    }
    if (std::find(visible.begin(), visible.end(), *index) != visible.end()) {
      variable.reject("device " + std::to_string(*index) + " is listed twice");
    }
    visible.push_back(*index);
  }
  return visible;
}

std::vector<orDeviceProp> readDevices() {
  const int count = readDeviceCount();
  const orDeviceProp& profile = readProfile();
  const auto memory =
      readMemory(static_cast<size_t>(count), profile.totalGlobalMem);
  std::vector<orDeviceProp> devices;
  for (int index : readVisibleDevices(count)) {
    orDeviceProp& device = devices.emplace_back(profile);
    device.totalGlobalMem = memory[static_cast<size_t>(index)];
    constexpr unsigned char kUuid[16] = {'o', 'p', 'e', 'n', 'r', 'e', 'g'};
    std::copy_n(kUuid, 15, device.uuid);
    device.uuid[15] = static_cast<unsigned char>(index);
    device.pciBusID = index + 1; // 0 is the host's own
  }
  return devices;
}

// OPENREG_SEED: seed of the adversarial policy, 64 bits. Default: 0.
uint64_t readSeed() {
  const Variable variable("OPENREG_SEED");
  if (!variable) {
    return 0;
  }
  const auto seed = parseNumber<uint64_t>(variable.value());
  if (!seed) {
    variable.reject("it must be a number in [0, 2^64)");
  }
  return *seed;
}

// OPENREG_WAIT_TIMEOUT: seconds after which a wait of the host fails; `0` waits for
// ever. Default: `0`.
std::chrono::nanoseconds readWaitTimeout() {
  const Variable variable("OPENREG_WAIT_TIMEOUT");
  if (!variable) {
    return {};
  }
  constexpr double kMaxSeconds = 1e9;
  const auto seconds = parseNumber<double>(variable.value());
  if (!seconds || !(*seconds >= 0 && *seconds <= kMaxSeconds)) {
    variable.reject(
        "it must be a number of seconds in [0, 1e9], 0 to wait for ever");
  }
  return std::chrono::nanoseconds(static_cast<int64_t>(*seconds * 1e9));
}

// OPENREG_FAULTS: a [fault plan](faults.md) that is in force from the start, such as
// `oom@alloc:37; slow@copy:*:10ms; seed=7`. Default: none.
std::optional<FaultPlan> readFaults(uint64_t seed) {
  const Variable variable("OPENREG_FAULTS");
  if (!variable) {
    return std::nullopt;
  }
  FaultPlan plan;
  if (const std::string wrong = FaultPlan::parse(variable.value(), &plan);
      !wrong.empty()) {
    variable.reject(wrong);
  }
  plan.setDefaultSeed(seed);
  return plan;
}

} // namespace

std::string Config::read() try {
  devices = readDevices();
  // OPENREG_SCHEDULE: `auto`, `async` or `adversarial`, see
  // [three policies](libopenreg_streams.md#policies). Default: `auto`.
  schedule = Variable("OPENREG_SCHEDULE")
                 .oneOf<Schedule>(
                     {{"auto", Schedule::Auto},
                      {"async", Schedule::Async},
                      {"adversarial", Schedule::Adversarial}},
                     Schedule::Auto);
  seed = readSeed();
  // OPENREG_LAUNCH_BLOCKING: `1`: each launch, copy and set waits for its work.
  // Default: `0`.
  launchBlocking = Variable("OPENREG_LAUNCH_BLOCKING")
                       .oneOf<bool>({{"0", false}, {"1", true}}, false);
  // OPENREG_EXECUTOR: `thread`: kernels run in this process; `process`: those of
  // operators run in a process per device. Default: `thread`.
  kernelsElsewhere =
      Variable("OPENREG_EXECUTOR")
          .oneOf<bool>({{"thread", false}, {"process", true}}, false);
  // OPENREG_DEVICE_ASSERT: `sticky`: failed work breaks the device until it is
  // reset; `raise`: its error is raised once. Default: `sticky`.
  stickyErrors = Variable("OPENREG_DEVICE_ASSERT")
                     .oneOf<bool>({{"sticky", true}, {"raise", false}}, true);
  waitTimeout = readWaitTimeout();
  faults = readFaults(seed);
  return "";
} catch (const std::invalid_argument& error) {
  return error.what();
}

} // namespace openreg
