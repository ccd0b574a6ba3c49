// A tour of the runtime in one page: allocate, copy, launch on two streams,
// order them with an event, read back.
//
//   stream a:  copy x to the device ── x = x * 2 ── event
//   stream b:  copy y to the device ─────────────── wait ── y = y + x ── copy back
#include "openreg.h"

#include <cstdio>
#include <cstdlib>

// docs:begin example
namespace {

// Every call returns a code; the sentence says what to do about an error.
void check(orError_t status) {
  if (status != orSuccess) {
    std::fprintf(
        stderr, "%s: %s\n", orGetErrorString(status), orGetLastErrorDetail());
    std::exit(1);
  }
}

constexpr size_t kCount = 1 << 20;
constexpr size_t kBytes = kCount * sizeof(float);

float* deviceArray() {
  void* pointer = nullptr;
  check(orMalloc(&pointer, kBytes));
  return static_cast<float*>(pointer);
}

// Pinned memory: copies to and from it do not hold up the host.
float* pinnedArray(float value) {
  void* pointer = nullptr;
  check(orMallocHost(&pointer, kBytes));
  auto* array = static_cast<float*>(pointer);
  for (size_t i = 0; i < kCount; ++i) {
    array[i] = value;
  }
  return array;
}

// Kernels are ordinary functions. They find device memory at its kernel address.
void scale(float* x, float factor) {
  for (size_t i = 0; i < kCount; ++i) {
    x[i] *= factor;
  }
}

void add(float* y, const float* x) {
  for (size_t i = 0; i < kCount; ++i) {
    y[i] += x[i];
  }
}

float* kernelPointer(float* device) {
  return static_cast<float*>(orKernelPointer(device));
}

} // namespace

int main() {
  float* hostX = pinnedArray(3);
  float* hostY = pinnedArray(1);
  float* x = deviceArray(); // touching x[0] here would be a segmentation fault
  float* y = deviceArray();

  orStream_t a = nullptr, b = nullptr;
  check(orStreamCreateWithFlags(&a, orStreamNonBlocking));
  check(orStreamCreateWithFlags(&b, orStreamNonBlocking));
  orEvent_t xIsReady = nullptr;
  check(orEventCreateWithFlags(&xIsReady, orEventDisableTiming));

  check(orMemcpyAsync(x, hostX, kBytes, orMemcpyHostToDevice, a));
  check(orLaunchKernel(a, scale, kernelPointer(x), 2.0f));
  check(orEventRecord(xIsReady, a));

  check(orMemcpyAsync(y, hostY, kBytes, orMemcpyHostToDevice, b));
  check(orStreamWaitEvent(b, xIsReady, 0)); // without it: a race
  check(orLaunchKernel(b, add, kernelPointer(y), kernelPointer(x)));
  check(orMemcpyAsync(hostY, y, kBytes, orMemcpyDeviceToHost, b));

  check(orStreamSynchronize(b)); // all of the work may wait until here
  std::printf("y = %g (expected 7)\n", hostY[kCount - 1]);
  const bool right = hostY[0] == 7 && hostY[kCount - 1] == 7;

  check(orEventDestroy(xIsReady));
  check(orStreamDestroy(a));
  check(orStreamDestroy(b));
  check(orFree(x));
  check(orFree(y));
  check(orFreeHost(hostX));
  check(orFreeHost(hostY));
  return right ? 0 : 1;
}
// docs:end example
