/* The headers are plain C11: this program is compiled as such and runs a kernel
 * and a graph from C. */
#include "openreg.h"

#include <stdio.h>
#include <string.h>

#define COUNT 1000

#define CHECK(condition)                   \
  do {                                     \
    if (!(condition)) {                    \
      fprintf(                             \
          stderr,                          \
          "line %d: %s; last error: %s\n", \
          __LINE__,                        \
          #condition,                      \
          orGetLastErrorDetail());         \
      return 1;                            \
    }                                      \
  } while (0)

typedef struct ScaleArgs {
  float* data; /* where kernels find it */
  size_t count;
  float factor;
} ScaleArgs;

static void scale(void* args) {
  const ScaleArgs* scaling = (const ScaleArgs*)args;
  for (size_t i = 0; i < scaling->count; ++i) {
    scaling->data[i] *= scaling->factor;
  }
}

static int runKernel(orStream_t stream, orEvent_t done) {
  float host[COUNT];
  for (size_t i = 0; i < COUNT; ++i) {
    host[i] = (float)i;
  }

  void* device = NULL;
  CHECK(orMalloc(&device, sizeof host) == orSuccess);
  CHECK(
      orMemcpyAsync(device, host, sizeof host, orMemcpyHostToDevice, stream) ==
      orSuccess);

  ScaleArgs args = {(float*)orKernelPointer(device), COUNT, 3.0f};
  CHECK(args.data != NULL);
  CHECK(orLaunchKernelC(stream, scale, &args, sizeof args) == orSuccess);
  memset(&args, 0, sizeof args); /* the launch has its own copy */
  CHECK(orEventRecord(done, stream) == orSuccess);
  CHECK(orEventSynchronize(done) == orSuccess);

  CHECK(orMemcpy(host, device, sizeof host, orMemcpyDeviceToHost) == orSuccess);
  for (size_t i = 0; i < COUNT; ++i) {
    CHECK(host[i] == 3.0f * (float)i);
  }
  CHECK(orFree(device) == orSuccess);
  return 0;
}

static int runGraph(orStream_t stream) {
  float host[COUNT];
  void* device = NULL;
  CHECK(orMalloc(&device, sizeof host) == orSuccess);
  for (size_t i = 0; i < COUNT; ++i) {
    host[i] = 1.0f;
  }
  CHECK(orMemcpy(device, host, sizeof host, orMemcpyHostToDevice) == orSuccess);

  const ScaleArgs args = {(float*)orKernelPointer(device), COUNT, 2.0f};
  orGraph_t graph = NULL;
  orGraphExec_t exec = NULL;
  CHECK(orStreamBeginCapture(stream, orStreamCaptureModeGlobal) == orSuccess);
  CHECK(orLaunchKernelC(stream, scale, &args, sizeof args) == orSuccess);
  CHECK(orStreamEndCapture(stream, &graph) == orSuccess);
  CHECK(orGraphInstantiate(&exec, graph, 0) == orSuccess);
  CHECK(orGraphDestroy(graph) == orSuccess);
  CHECK(orGraphLaunch(exec, stream) == orSuccess);
  CHECK(orGraphLaunch(exec, stream) == orSuccess);
  CHECK(orStreamSynchronize(stream) == orSuccess);
  CHECK(orGraphExecDestroy(exec) == orSuccess);

  CHECK(orMemcpy(host, device, sizeof host, orMemcpyDeviceToHost) == orSuccess);
  for (size_t i = 0; i < COUNT; ++i) {
    CHECK(host[i] == 4.0f);
  }
  CHECK(orFree(device) == orSuccess);
  return 0;
}

int main(void) {
  int count = 0;
  CHECK(orGetDeviceCount(&count) == orSuccess);
  CHECK(count > 0);
  orDeviceProp properties;
  CHECK(orGetDeviceProperties(&properties, 0) == orSuccess);
  CHECK(properties.name[0] != '\0');

  orStream_t stream = NULL;
  orEvent_t done = NULL;
  CHECK(orStreamCreateWithFlags(&stream, orStreamNonBlocking) == orSuccess);
  CHECK(orEventCreateWithFlags(&done, orEventDisableTiming) == orSuccess);
  const int failed = runKernel(stream, done) || runGraph(stream);
  CHECK(orEventDestroy(done) == orSuccess);
  CHECK(orEventCreateWithFlags(&done, orEventInterprocess) == orSuccess);
  orIpcEventHandle_t handle;
  CHECK(orIpcGetEventHandle(&handle, done) == orSuccess);
  CHECK(orEventDestroy(done) == orSuccess);
  CHECK(orStreamDestroy(stream) == orSuccess);

  CHECK(orStreamSynchronize(NULL) == orErrorInvalidHandle);
  CHECK(orGetLastError() == orErrorInvalidHandle);
  /* Only C can make this value without undefined behaviour. */
  CHECK(strcmp(orGetErrorName((orError_t)-1), "unrecognized error code") == 0);
  return failed;
}
