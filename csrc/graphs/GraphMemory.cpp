#include "graphs/GraphMemory.h"

#include "runtime/OpenRegDeviceAllocator.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace c10::openreg {
namespace {

BlockPool& poolOf(DeviceIndex device) {
  return getOpenRegDeviceAllocator().pool(device);
}

/// Blocks that restorePool() allocated again and no storage owns, by address.
std::mutex unownedMutex;
std::unordered_map<void*, DeviceIndex> unowned;

/// The address of a storage's memory stays, its owner goes.
void disown(StorageImpl& storage) {
  DataPtr& data = storage._mutable_data_ptr_no_checks();
  const Device device = data.device();
  void* const pointer = data.get();
  data.release_context();
  storage.set_data_ptr_noswap(DataPtr(pointer, device));
}

} // namespace

PoolCheckpoint checkpointOf(DeviceIndex device, MempoolId_t pool) {
  return poolOf(device).checkpoint(pool);
}

void restorePool(
    DeviceIndex device,
    const PoolCheckpoint& checkpoint,
    const std::vector<StorageImpl*>& stale,
    const std::vector<StorageImpl*>& live) {
  const auto changed = poolOf(device).restore(checkpoint);
  TORCH_CHECK(
      changed,
      "the memory pool cannot be restored: it has given a segment back to ",
      Device(openreg::kDeviceType, device),
      ", or work in other streams still uses a block");
  const std::unordered_set<void*> freed(
      changed->freed.begin(), changed->freed.end());
  const std::unordered_set<void*> allocated(
      changed->allocated.begin(), changed->allocated.end());
  for (StorageImpl* storage : stale) {
    if (freed.contains(storage->mutable_data()) && ownsMemory(*storage)) {
      disown(*storage);
    }
  }
  const std::lock_guard lock(unownedMutex);
  for (void* const pointer : freed) {
    if (!allocated.contains(pointer)) {
      unowned.erase(pointer);
    }
  }
  for (void* const pointer : allocated) {
    if (!freed.contains(pointer)) {
      unowned.emplace(pointer, device);
    }
  }
  for (StorageImpl* storage : live) {
    if (allocated.contains(storage->mutable_data()) && !ownsMemory(*storage)) {
      storage->set_data_ptr_noswap(
          getOpenRegDeviceAllocator().adopt(storage->mutable_data(), device));
      unowned.erase(storage->mutable_data());
    }
  }
}

bool freeUnowned(void* pointer) {
  std::unordered_map<void*, DeviceIndex>::node_type found;
  {
    const std::lock_guard lock(unownedMutex);
    found = unowned.extract(pointer);
  }
  if (found.empty()) {
    return false;
  }
  const DataPtr owner =
      getOpenRegDeviceAllocator().adopt(pointer, found.mapped());
  return true;
}

void freeNow(StorageImpl& storage) {
  if (ownsMemory(storage)) {
    const DataPtr memory = getOpenRegDeviceAllocator().adopt(
        storage.mutable_data(), storage.device().index());
    disown(storage);
  }
}

bool ownsMemory(const StorageImpl& storage) {
  const DataPtr& data = storage.data_ptr();
  return data.get() && openreg::isOpenReg(data.device()) &&
      data.get_deleter() ==
      getOpenRegDeviceAllocator()
          .adopt(nullptr, data.device().index())
          .get_deleter();
}

std::vector<uintptr_t> liveAllocations(DeviceIndex device, MempoolId_t pool) {
  std::vector<uintptr_t> found;
  for (const auto& segment : poolOf(device).snapshot(pool)) {
    for (const auto& block : segment.blocks) {
      if (block.state == PoolBlockInfo::ActiveAllocated) {
        found.push_back(block.address);
      }
    }
  }
  return found;
}

} // namespace c10::openreg
