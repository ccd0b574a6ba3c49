#include "aten/native/OutputAllocator.h"

#include "aten/native/Planned.h"

#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegDeviceAllocator.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>

namespace at::native::openreg {
namespace {

using c10::DataPtr;
using c10::openreg::deviceAddress;
using c10::openreg::getOpenRegDeviceAllocator;
using c10::openreg::kernelAddress;

// Every allocation of every CPU tensor looks at it, so it must not cost a call.
thread_local const OpenRegStream* scope
    __attribute__((tls_model("initial-exec"))) = nullptr;

// Up to so many bytes are the host's.
thread_local size_t hostBytes __attribute__((tls_model("initial-exec"))) = 0;

// Everything is: see HostScope.
thread_local bool allOnHost __attribute__((tls_model("initial-exec"))) = false;

void deleteKernelMemory(void* kernelPointer) {
  getOpenRegDeviceAllocator().raw_deleter()(deviceAddress(kernelPointer));
}

bool isDeviceMemory(const void* kernelPointer) {
  orPointerAttributes attributes;
  const orError_t status =
      orPointerGetAttributes(&attributes, deviceAddress(kernelPointer));
  orGetLastError();
  return status == orSuccess && attributes.type == orMemoryTypeDevice;
}

/// The CPU's allocator, with a way out to device memory.
class OutputAllocator final : public c10::Allocator {
 public:
  DataPtr allocate(size_t nbytes) override {
    if (C10_UNLIKELY(scope && nbytes > hostBytes && !allOnHost)) {
      DataPtr memory = getOpenRegDeviceAllocator().tryAllocate(nbytes, *scope);
      if (memory) {
        memory.release_context();
        void* pointer = kernelAddress(memory.get());
        // Callers of raw_allocate() rely on the context being the pointer.
        return {pointer, pointer, &deleteKernelMemory, c10::kCPU};
      }
    }
    if (void* planned = nbytes != 0 ? takePlanned(nbytes) : nullptr) {
      // Not the tensor's to free.
      return {planned, planned, [](void*) {}, c10::kCPU};
    }
    return cpu_->allocate(nbytes);
  }

  void copy_data(void* dest, const void* src, size_t count) const override {
    std::memcpy(dest, src, count);
  }

  // raw_deallocate() has nothing but the pointer.
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* pointer) {
      if (isPlanned(pointer)) {
        return;
      }
      if (pointer && isDeviceMemory(pointer)) {
        deleteKernelMemory(pointer);
      } else {
        instance().cpu_->raw_deleter()(pointer);
      }
    };
  }

  static OutputAllocator& instance() {
    static auto* allocator = new OutputAllocator;
    return *allocator;
  }

 private:
  c10::Allocator* const cpu_ = c10::GetCPUAllocator();
};

struct InstallOutputAllocator {
  InstallOutputAllocator() {
    constexpr uint8_t kAbovePyTorchs = 10;
    c10::SetCPUAllocator(&OutputAllocator::instance(), kAbovePyTorchs);
  }
} installOutputAllocator;

} // namespace

OutputScope::OutputScope(const OpenRegStream& stream)
    : outer_(std::exchange(scope, &stream)),
      outerHostBytes_(std::exchange(hostBytes, 0)) {}

OutputScope::~OutputScope() {
  scope = outer_;
  hostBytes = outerHostBytes_;
}

void keepNumbersOnHost() {
  hostBytes = sizeof(c10::complex<double>);
}

HostScope::HostScope() : outer_(std::exchange(allOnHost, true)) {}

HostScope::~HostScope() {
  allOnHost = outer_;
}

DataPtr takeDeviceMemory(DataPtr& memory, c10::DeviceIndex device) {
  if (memory.get_deleter() != &deleteKernelMemory) {
    return {};
  }
  return getOpenRegDeviceAllocator().adopt(
      deviceAddress(memory.release_context()), device);
}

OutputPlace outputPlace() {
  OutputPlace place;
  place.stream = scope;
  if (scope && !allOnHost) {
    place.hostBytes = hostBytes;
  }
  return place;
}

DataPtr allocateOutput(size_t bytes) {
  const bool outer = std::exchange(allOnHost, false);
  DataPtr memory = outputAllocator()->allocate(bytes);
  allOnHost = outer;
  return memory;
}

c10::Allocator* outputAllocator() {
  return &OutputAllocator::instance();
}

} // namespace at::native::openreg
