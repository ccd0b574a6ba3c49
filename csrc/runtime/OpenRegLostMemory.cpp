#include "runtime/OpenRegLostMemory.h"

#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegUncachedMemory.h"

#include <mutex>
#include <unordered_map>
#include <vector>

namespace c10::openreg {
namespace {

struct Lost {
  std::mutex mutex;
  std::unordered_map<const void*, DeviceIndex> allocations;
};

// Never destroyed: tensors may outlive static destructors.
Lost& lost() {
  static auto* all = new Lost;
  return *all;
}

} // namespace

void throwDeviceLost(const std::string& what) {
  throw AcceleratorError(
      {__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
      static_cast<int32_t>(orErrorDeviceLost),
      c10::str(
          "OpenReg error: ",
          orGetErrorString(orErrorDeviceLost),
          "\n",
          what,
          " (",
          orGetErrorName(orErrorDeviceLost),
          ", ",
          static_cast<int>(orErrorDeviceLost),
          ")"));
}

std::atomic<bool> detail::anyMemoryLost{false};

void loseMemory(DeviceIndex device) {
  std::vector<const void*> allocations = uncachedOn(device);
  for (const auto& segment :
       getOpenRegDeviceAllocator().pool(device).snapshot()) {
    for (const auto& block : segment.blocks) {
      if (block.state == PoolBlockInfo::ActiveAllocated) {
        allocations.push_back(reinterpret_cast<const void*>(block.address));
      }
    }
  }
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
    throwDeviceLost(c10::str(
        "a tensor is older than the last reset of device ",
        static_cast<int>(found->second),
        ", and what it held is lost; make it anew, or overwrite it whole with "
        "copy_(), fill_() or zero_(), as load_state_dict() does"));
  }
}

void detail::forgetLost(const void* pointer) {
  const std::lock_guard lock(lost().mutex);
  lost().allocations.erase(pointer);
  anyMemoryLost.store(!lost().allocations.empty());
}

} // namespace c10::openreg
