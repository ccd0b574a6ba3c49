/** Launches: code that runs on the device, in stream order. */
#ifndef OPENREG_LAUNCH_H_
#define OPENREG_LAUNCH_H_

#include "stream.h"

enum {
  orLaunchDefault = 0,
  /** The work is short, bounded and waits for nothing: on an idle stream it may
   *  run on the calling thread before the launch returns. */
  orLaunchSmall = 1,
  /** The launch waits until the work before it has finished, and runs the
   *  callable on the calling thread before it returns. For work whose results
   *  the host needs at once. */
  orLaunchHere = 2,
  /** The callable runs on the calling thread before the launch returns, if small
   *  work may: the stream is idle and the schedule allows it. Otherwise it does
   *  not run at all, and the launch returns orErrorNotReady. For work that can be
   *  done more cheaply at once than later. */
  orLaunchTry = 3,
  /** The callable is queued, and the launch waits until it has run: on the device's
   *  executor, while the calling thread sleeps. For large work whose results the
   *  host needs at once. */
  orLaunchWait = 4
};

/** How to launch; every field may be zero. */
typedef struct orLaunchConfig {
  const char* name; /* for records and messages; a literal, never freed */
  unsigned int flags; /* one of the above */
} orLaunchConfig;

/** How the library handles callables of one type; openreg.inl makes one for
 *  every C++ type that is launched. */
typedef struct orCallableType {
  size_t size; /* at most OPENREG_CALLABLE_BYTES, of pointer alignment */
  void (*run)(void* callable);
  void (*move)(void* to, void* from); /* NULL: copy the bytes */
  void (*destroy)(void* callable); /* NULL: nothing to do */
} orCallableType;

/** Room for a callable inside a queue slot. */
#define OPENREG_CALLABLE_BYTES 64

/**
 * Queue a callable. C++ code calls orLaunchKernel() or orLaunchKernelEx() of
 * openreg.inl instead, which fill in the type.
 *
 * The callable runs once, on the device's executor, after the work before it. In a
 * capturing stream it becomes a node of the graph instead, which owns it: it is moved
 * there, `type->run` is called on it again with each launch of the graph, perhaps by
 * different threads one after the other, and it is destroyed with the last graph and
 * executable graph that have the node. So it must leave itself as it was. Two
 * executable graphs of one graph may run it at the same time.
 *
 * An exception that leaves it breaks the device with orErrorLaunchFailure and the
 * exception's text; a touch of protected device memory breaks it with
 * orErrorIllegalAddress, and the callable is then abandoned where it stands. On a
 * broken device queued callables are destroyed without being run.
 *
 * @param[in] stream    stream to run in, not NULL
 * @param[in] type      how to handle `callable`
 * @param[in] callable  moved from, if the call succeeds
 * @param[in] config    name and flags; NULL for none
 *
 * @retval orSuccess             the callable is queued, or has run already
 * @retval orErrorInvalidHandle  `stream` is NULL or destroyed
 * @retval orErrorInvalidValue   `type`, its `run` or `callable` is NULL, its
 *                               size is too large, or `config` has unknown
 *                               flags
 * @retval orErrorNotReady       with orLaunchTry: the callable was not run, because
 *                               the stream is busy or capturing, or the schedule
 *                               queues all work
 * @retval the capture's error   `stream` is capturing, and `config` has orLaunchHere
 *                               or orLaunchWait; or `stream` is in an invalidated
 *                               capture, or is a default stream
 * @retval orErrorNotPermitted   called from a kernel or a host function of this
 *                               very stream while its queue is full, or from any
 *                               with orLaunchHere or orLaunchWait
 * @retval orErrorTimeout        the queue stayed full (with orLaunchHere or
 *                               orLaunchWait: busy) for OPENREG_WAIT_TIMEOUT; the
 *                               callable will not run
 * @retval the device's error    a kernel failed, perhaps this one with orLaunchHere,
 *                               orLaunchWait or OPENREG_LAUNCH_BLOCKING=1
 *
 * Threads: any. Blocks: while the queue is full; with orLaunchHere and orLaunchWait
 * until the callable has run. CUDA twin: cudaLaunchKernel.
 */
OPENREG_EXPORT orError_t orLaunchCallable(
    orStream_t stream,
    const orCallableType* type,
    void* callable,
    const orLaunchConfig* config);

/**
 * Queue a call of a C function on a copy of its arguments. In a graph every call
 * gets the same copy, so it must not change it.
 *
 * @param[in] stream  stream to run in, not NULL
 * @param[in] fn      gets a pointer to the copy, aligned as malloc() aligns
 * @param[in] args    bytes to copy; may be NULL if `bytes` is 0
 * @param[in] bytes   how many
 *
 * @retval orSuccess                the call is queued
 * @retval orErrorInvalidHandle     `stream` is NULL or destroyed
 * @retval orErrorInvalidValue      `fn` is NULL, or `args` is NULL and `bytes`
 *                                  is not 0
 * @retval orErrorMemoryAllocation  no host memory for the copy
 * @retval orErrorNotPermitted      as for orLaunchCallable()
 * @retval orErrorTimeout           as for orLaunchCallable()
 * @retval the capture's error      as for orLaunchCallable()
 * @retval the device's error       as for orLaunchCallable()
 *
 * Threads: any. Blocks: while the queue is full. CUDA twin: cudaLaunchKernelC.
 */
OPENREG_EXPORT orError_t orLaunchKernelC(
    orStream_t stream,
    void (*fn)(void* args),
    const void* args,
    size_t bytes);

/**
 * Queue a call of a host function, which tells the host that the work before it is
 * done. The function must not wait for device work.
 *
 * @param[in] stream    stream to run in, not NULL
 * @param[in] fn        called with `userData`
 * @param[in] userData  anything
 *
 * @retval orSuccess             the call is queued
 * @retval orErrorInvalidHandle  `stream` is NULL or destroyed
 * @retval orErrorInvalidValue   `fn` is NULL
 * @retval orErrorNotPermitted   as for orLaunchCallable()
 * @retval orErrorTimeout        as for orLaunchCallable()
 * @retval the capture's error   as for orLaunchCallable()
 * @retval the device's error    as for orLaunchCallable()
 *
 * Threads: any. Blocks: while the queue is full. CUDA twin: cudaLaunchHostFunc.
 */
OPENREG_EXPORT orError_t
orLaunchHostFunc(orStream_t stream, void (*fn)(void*), void* userData);

/**
 * Translate a device address to the address at which kernels find the bytes.
 * Inside a kernel the address must belong to the kernel's device or to one it
 * has peer access to; elsewhere the current device counts.
 *
 * @param[in] pointer  a device address
 * @return the kernel address, or NULL with the thread's last error set to
 *         orErrorInvalidDevicePointer (`pointer` is not in device memory) or
 *         orErrorPeerAccessNotEnabled (it is another device's)
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT void* orKernelPointer(const void* pointer);

/**
 * Report from inside a kernel that it failed. The device breaks as if the kernel
 * had thrown, with this code and sentence, once the kernel returns. With
 * orErrorCommunication the device is not at fault and stays usable: the next call
 * that waits for it returns the error, once.
 *
 * @param[in] error    the code, for instance orErrorAssert
 * @param[in] message  copied; NULL for none
 *
 * @retval orSuccess            the running kernel is marked as failed
 * @retval orErrorInvalidValue  `error` is orSuccess or outside the enumeration
 * @retval orErrorNotPermitted  the calling thread runs no kernel
 *
 * Threads: those that run a kernel. Blocks: never. CUDA twin: assert().
 */
OPENREG_EXPORT orError_t orKernelFail(orError_t error, const char* message);

#endif /* OPENREG_LAUNCH_H_ */
