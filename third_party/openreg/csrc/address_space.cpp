#include "address_space.h"

#include "os.h"
#include "runtime.h"

#include <algorithm>
#include <new>

namespace openreg {
namespace {

// docs:begin address-space
// Address space is cheap, so fragmentation need not cost memory, and ranges that are
// reserved can be as large as the device. Many large devices get less of it: together
// at most kMostSpace, unless twice their memory is more.
constexpr size_t kSpacePerByte = 8;
constexpr size_t kLeastSpacePerByte = 2;
constexpr size_t kMostSpace = size_t{1} << 44;
// docs:end address-space

} // namespace

AddressSpace::AddressSpace(const std::vector<orDeviceProp>& devices)
    : count_(devices.size()) {
  size_t largest = 0;
  for (const orDeviceProp& device : devices) {
    largest = std::max(largest, device.totalGlobalMem);
  }
  stride_ = largest *
      (kSpacePerByte * largest * count_ <= kMostSpace ? kSpacePerByte
                                                      : kLeastSpacePerByte);
}

void AddressSpace::reserve() {
  std::call_once(reserved_, [this] {
    process::markUsed();
    void* device = os::reserve(count_ * stride_);
    void* kernel = os::reserve(count_ * stride_);
    if (!device || !kernel) {
      throw std::bad_alloc();
    }
    kernelBase_.store(reinterpret_cast<uintptr_t>(kernel));
    deviceBase_.store(reinterpret_cast<uintptr_t>(device));
  });
}

int AddressSpace::deviceOf(const void* pointer) const {
  const uintptr_t base = deviceBase_.load();
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return base != 0 && address >= base && address - base < count_ * stride_
      ? static_cast<int>((address - base) / stride_)
      : -1;
}

bool AddressSpace::overlaps(const void* pointer, size_t bytes) const {
  const uintptr_t base = deviceBase_.load();
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return base != 0 && address < base + count_ * stride_ &&
      address + bytes > base;
}

} // namespace openreg
