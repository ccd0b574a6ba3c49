#include "runtime/OpenRegRuntimeCalls.h"

#include <openreg.h>

namespace c10::openreg {
namespace {

void* address(uintptr_t number) {
  return reinterpret_cast<void*>(number);
}

} // namespace

const char* error_name(int code) {
  return orGetErrorName(static_cast<orError_t>(code));
}

const char* error_string(int code) {
  return orGetErrorString(static_cast<orError_t>(code));
}

int host_register(uintptr_t pointer, size_t size, unsigned flags) {
  return orHostRegister(address(pointer), size, flags);
}

int host_unregister(uintptr_t pointer) {
  return orHostUnregister(address(pointer));
}

int stream_create(uintptr_t place) {
  return orStreamCreate(static_cast<orStream_t*>(address(place)));
}

int stream_destroy(uintptr_t stream) {
  return orStreamDestroy(static_cast<orStream_t>(address(stream)));
}

} // namespace c10::openreg
