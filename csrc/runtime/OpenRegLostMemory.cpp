#include "runtime/OpenRegLostMemory.h"

#include "runtime/OpenRegException.h"

#include <mutex>
#include <string>
#include <unordered_map>

namespace c10::openreg {
namespace {

struct Lost {
  std::mutex mutex;
  std::unordered_map<const void*, int> allocations;
};

// Never destroyed: tensors may outlive static destructors.
Lost& lost() {
  static auto* all = new Lost;
  return *all;
}

} // namespace

std::atomic<bool> detail::anyMemoryLost{false};

void loseMemory(int device, const std::vector<const void*>& allocations) {
  const std::lock_guard lock(lost().mutex);
  for (const void* allocation : allocations) {
    lost().allocations.emplace(allocation, device);
  }
  detail::anyMemoryLost.store(!lost().allocations.empty());
}

void detail::throwIfLost(const void* pointer) {
  const std::lock_guard lock(lost().mutex);
  const auto found = lost().allocations.find(pointer);
  if (found != lost().allocations.end()) {
    throwError(
        orErrorDeviceLost,
        "a tensor is older than the last reset of device " +
            std::to_string(found->second) +
            ", and its contents are lost; make it again, or overwrite all of "
            "it "
            "with copy_(), fill_() or zero_(), as load_state_dict() does");
  }
}

void detail::forgetLost(const void* pointer) {
  const std::lock_guard lock(lost().mutex);
  lost().allocations.erase(pointer);
  anyMemoryLost.store(!lost().allocations.empty());
}

} // namespace c10::openreg
