#include "openreg/launch.h"

#include "device.h"
#include "runtime.h"
#include "submit.h"
#include "transfer.h"

#include <cstdlib>
#include <cstring>

using namespace openreg;

namespace {

/// A callable that stays with its launcher, who waits.
struct CallerCallable {
  const orCallableType* type;
  void* callable;

  void operator()() const {
    type->run(callable);
  }
};

inline orError_t launchOn(
    orStream_t stream,
    Runtime& runtime,
    const Work& work,
    bool wait = false) {
  Stream* found = runtime.streams.find(stream);
  if (!found) {
    return failOnStream(stream);
  }
  return wait
      ? submitAndWait(*found, work, CallerCallable{work.type, work.callable})
      : submit(*found, work);
}

// A C function and a copy of its arguments.
struct ByteCall {
  void (*function)(void*);
  std::unique_ptr<void, void (*)(void*)> args;

  void operator()() {
    function(args.get());
  }
};

} // namespace

orError_t orLaunchCallable(
    orStream_t stream,
    const orCallableType* type,
    void* callable,
    const orLaunchConfig* config) {
  return api("orLaunchKernel", [&](Runtime& runtime) {
    if (!type || !type->run || !callable) {
      return fail(
          orErrorInvalidValue,
          "%s must not be NULL",
          !type           ? "type"
              : !callable ? "callable"
                          : "type->run");
    }
    if (type->size > OPENREG_CALLABLE_BYTES) {
      return fail(
          orErrorInvalidValue,
          "a callable may have %d bytes, but type->size is %zu; launch a "
          "pointer "
          "to it",
          OPENREG_CALLABLE_BYTES,
          type->size);
    }
    const unsigned flags = config ? config->flags : 0;
    if (flags > orLaunchWait) {
      return fail(
          orErrorInvalidValue,
          "config->flags must be orLaunchDefault (0), orLaunchSmall (1), "
          "orLaunchHere (2), orLaunchTry (3) or orLaunchWait (4), but is %u",
          flags);
    }
    const bool wait = flags == orLaunchWait;
    return launchOn(
        stream,
        runtime,
        {.info =
             {config && config->name ? config->name : "kernel",
              TaskKind::Kernel},
         .type = type,
         .callable = callable,
         .where = wait ? Where::Queue : static_cast<Where>(flags)},
        wait);
  });
}

orError_t orLaunchKernelC(
    orStream_t stream,
    void (*fn)(void* args),
    const void* args,
    size_t bytes) {
  return api("orLaunchKernelC", [&](Runtime& runtime) {
    if (!fn) {
      return fail(orErrorInvalidValue, "fn must not be NULL");
    }
    if (!args && bytes != 0) {
      return fail(
          orErrorInvalidValue, "args must not be NULL for %zu bytes", bytes);
    }
    ByteCall call{fn, {std::malloc(bytes ? bytes : 1), std::free}};
    if (!call.args) {
      throw std::bad_alloc();
    }
    if (bytes != 0) {
      std::memcpy(call.args.get(), args, bytes);
    }
    return launchOn(
        stream,
        runtime,
        {.info = {"kernel", TaskKind::Kernel},
         .type = &openreg::detail::kCallableType<ByteCall>,
         .callable = &call});
  });
}

orError_t orLaunchHostFunc(
    orStream_t stream,
    void (*fn)(void*),
    void* userData) {
  return api("orLaunchHostFunc", [&](Runtime& runtime) {
    if (!fn) {
      return fail(orErrorInvalidValue, "fn must not be NULL");
    }
    auto call = [fn, userData] { fn(userData); };
    return launchOn(
        stream,
        runtime,
        {.info = {"host function", TaskKind::HostFunc},
         .type = &openreg::detail::kCallableType<decltype(call)>,
         .callable = &call});
  });
}

void* orKernelPointer(const void* pointer) {
  void* translated = nullptr;
  api("orKernelPointer", [&](Runtime& runtime) {
    const int owner = runtime.addresses.deviceOf(pointer);
    if (owner < 0) {
      return fail(
          orErrorInvalidDevicePointer, "%p is not in device memory", pointer);
    }
    const Device* inside = runningDevice();
    const Device& device = inside ? *inside : runtime.currentDevice();
    if (!device.canReach(owner)) {
      return fail(
          orErrorPeerAccessNotEnabled,
          "%p is memory of device %d, to which device %d has no access; call "
          "orDeviceEnablePeerAccess(%d, 0) while device %d is current",
          pointer,
          owner,
          device.index(),
          owner,
          device.index());
    }
    translated = runtime.addresses.kernelAddress(pointer);
    return orSuccess;
  });
  return translated;
}

orError_t orKernelFail(orError_t error, const char* message) {
  return api("orKernelFail", [&](Runtime&) {
    if (error == orSuccess || !isErrorCode(error)) {
      return fail(
          orErrorInvalidValue,
          "error must be a code of orError_t other than orSuccess, but is %d",
          static_cast<int>(error));
    }
    return failRunningTask(error, message ? message : orGetErrorString(error))
        ? orSuccess
        : fail(orErrorNotPermitted, "the calling thread runs no kernel");
  });
}
