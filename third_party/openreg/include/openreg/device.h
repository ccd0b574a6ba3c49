/** Devices: which there are, which is current, what they are like. */
#ifndef OPENREG_DEVICE_H_
#define OPENREG_DEVICE_H_

#include "error.h"

/** What a device is like; a named profile (OPENREG_DEVICE_PROFILE) sets it. */
typedef struct orDeviceProp {
  char name[128];
  unsigned char uuid[16]; /* the same for a device in every process */
  size_t totalGlobalMem; /* bytes, as orMemGetInfo() reports */
  int major; /* compute capability */
  int minor;
  int multiProcessorCount;
  int warpSize;
  int maxThreadsPerBlock;
  int maxThreadsPerMultiProcessor;
  int regsPerMultiprocessor;
  size_t sharedMemPerBlock;
  size_t sharedMemPerBlockOptin;
  size_t sharedMemPerMultiprocessor;
  size_t l2CacheSize;
  int clockRate; /* kHz */
  int memoryClockRate; /* kHz */
  int memoryBusWidth; /* bits */
  int integrated; /* 1: shares its memory with the host */
  int isMultiGpuBoard;
  int pciDomainID;
  int pciBusID; /* the same for a device in every process */
  int pciDeviceID;
} orDeviceProp;

/** Properties that can be asked for one by one. */
typedef enum orDeviceAttr OPENREG_INT {
  orDevAttrMaxThreadsPerBlock = 1,
  orDevAttrMaxSharedMemoryPerBlock = 8,
  orDevAttrWarpSize = 10,
  orDevAttrMultiProcessorCount = 16,
  orDevAttrL2CacheSize = 38,
  orDevAttrMaxThreadsPerMultiProcessor = 39,
  orDevAttrComputeCapabilityMajor = 75,
  orDevAttrComputeCapabilityMinor = 76,
  orDevAttrMaxRegistersPerMultiprocessor = 82
} orDeviceAttr;

/**
 * Count the visible devices (OPENREG_DEVICE_COUNT, filtered and renumbered by
 * OPENREG_VISIBLE_DEVICES). Starts nothing: no memory is reserved and no thread
 * is created.
 *
 * @param[out] count  number of devices; 0 if the call fails
 *
 * @retval orSuccess            there is at least one
 * @retval orErrorInvalidValue  `count` is NULL
 * @retval orErrorNoDevice      none is visible
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGetDeviceCount.
 */
OPENREG_EXPORT orError_t orGetDeviceCount(int* count);

/**
 * Make a device current for the calling thread.
 *
 * @param[in] device  index in [0, count)
 *
 * @retval orSuccess             `device` is current
 * @retval orErrorInvalidDevice  `device` is out of range
 *
 * Threads: any. Blocks: never. CUDA twin: cudaSetDevice.
 */
OPENREG_EXPORT orError_t orSetDevice(int device);

/**
 * Tell which device is current for the calling thread.
 *
 * @param[out] device  index in [0, count)
 *
 * @retval orSuccess            `device` is set
 * @retval orErrorInvalidValue  `device` is NULL
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGetDevice.
 */
OPENREG_EXPORT orError_t orGetDevice(int* device);

/**
 * Wait until all work queued so far on the current device has finished.
 *
 * @retval orSuccess            it has
 * @retval orErrorNotPermitted  called from a kernel or a host function
 * @retval orErrorTimeout       it took longer than OPENREG_WAIT_TIMEOUT
 * @retval the capture's error  a stream of the device is capturing
 * @retval the device's error   a kernel failed
 *
 * Threads: any. Blocks: yes. CUDA twin: cudaDeviceSynchronize.
 */
OPENREG_EXPORT orError_t orDeviceSynchronize(void);

/**
 * Take the current device back into service, whether it failed or not: queued
 * kernels and copies are dropped, what is running finishes, and its error is gone.
 * Allocations, streams, events, graphs and peer access stay, so their
 * holders can go on; but the memory contains whatever the dropped work left there.
 * Captures that streams of the device take part in are invalidated.
 *
 * @retval orSuccess            the device works again
 * @retval orErrorNotPermitted  called from a kernel or a host function
 * @retval orErrorTimeout       a kernel ran longer than OPENREG_WAIT_TIMEOUT;
 *                              the device then has an error
 *
 * Threads: any; work that other threads queue during the call is dropped.
 * Blocks: yes. CUDA twin: cudaDeviceReset, which frees what the device has.
 */
OPENREG_EXPORT orError_t orDeviceReset(void);

/** Called when a device is reset. */
typedef void (*orResetCallback)(int device);

/**
 * Register a function that every orDeviceReset() calls, on the thread that resets,
 * after queued work is dropped and before it waits for running work. A caller that
 * runs the device's kernels in another process ends that process here. Registering
 * starts nothing, so a library can do it while it is loaded.
 *
 * @param[in] callback  must neither throw nor reset a device; replaces the one
 *                      before, and NULL removes it
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT void orSetResetCallback(orResetCallback callback);

/** Where a device keeps its bytes, for another process that is to run its
 *  kernels. */
typedef struct orDeviceMemory {
  int descriptor; /* of the memory, to be mapped; the library keeps owning it */
  void* base; /* kernel address of its first byte */
  size_t bytes;
} orDeviceMemory;

/**
 * Tell where the memory of a device is.
 *
 * @param[out] memory  the same until the process ends
 * @param[in]  device  index in [0, count)
 *
 * @retval orSuccess                `memory` is filled in
 * @retval orErrorInvalidValue      `memory` is NULL
 * @retval orErrorInvalidDevice     `device` is out of range
 * @retval orErrorMemoryAllocation  the system refuses to map the memory
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t orDeviceGetMemory(orDeviceMemory* memory, int device);

/** Who runs kernels (OPENREG_EXECUTOR). */
typedef enum orExecutor OPENREG_INT {
  orExecutorThread = 0, /* threads of this process */
  orExecutorProcess = 1 /* a process per device, which the caller provides */
} orExecutor;

/**
 * Tell who is to run kernels. The library itself runs callables on threads. With
 * orExecutorProcess, callers launch kernels that hand their work to another process,
 * which maps the memory of orDeviceGetMemory(), and no kernel runs on the thread that
 * launches it.
 *
 * @param[out] executor  the same until the process ends
 *
 * @retval orSuccess            `executor` is set
 * @retval orErrorInvalidValue  `executor` is NULL
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t orGetExecutor(orExecutor* executor);

/**
 * Report that a device has failed outside of any kernel: its executor is gone.
 * The device breaks as if a kernel had failed with this code and sentence, unless
 * it is broken already.
 *
 * @param[in] device   index in [0, count)
 * @param[in] error    the code, for instance orErrorDeviceLost
 * @param[in] message  copied; NULL for none
 *
 * @retval orSuccess             the device is broken
 * @retval orErrorInvalidDevice  `device` is out of range
 * @retval orErrorInvalidValue   `error` is orSuccess or outside the enumeration
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t
orDeviceFail(int device, orError_t error, const char* message);

/**
 * Tell the range of stream priorities. Lower numbers are served first.
 *
 * @param[out] leastPriority     0; NULL if not wanted
 * @param[out] greatestPriority  a negative number; NULL if not wanted
 *
 * @retval orSuccess  always, once the library has started
 *
 * Threads: any. Blocks: never. CUDA twin: cudaDeviceGetStreamPriorityRange.
 */
OPENREG_EXPORT orError_t
orDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority);

/**
 * Tell whether this process uses a device: whether it has allocated memory or queued
 * work there. The question itself does not count as use.
 *
 * @param[out] active  1 if it is, else 0
 * @param[in]  device  index of the device
 *
 * @retval orSuccess             `*active` is set
 * @retval orErrorInvalidValue   `active` is NULL
 * @retval orErrorInvalidDevice  there is no such device
 *
 * Threads: any. Blocks: never. CUDA twin: cuDevicePrimaryCtxGetState.
 */
OPENREG_EXPORT orError_t orDeviceIsActive(int* active, int device);

/**
 * Describe a device.
 *
 * @param[out] properties  filled in
 * @param[in]  device      index in [0, count)
 *
 * @retval orSuccess             `properties` is filled in
 * @retval orErrorInvalidValue   `properties` is NULL
 * @retval orErrorInvalidDevice  `device` is out of range
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGetDeviceProperties.
 */
OPENREG_EXPORT orError_t
orGetDeviceProperties(orDeviceProp* properties, int device);

/**
 * Read one property of a device.
 *
 * @param[out] value      the property
 * @param[in]  attribute  which
 * @param[in]  device     index in [0, count)
 *
 * @retval orSuccess             `value` is set
 * @retval orErrorInvalidValue   `value` is NULL, or `attribute` is unknown
 * @retval orErrorInvalidDevice  `device` is out of range
 *
 * Threads: any. Blocks: never. CUDA twin: cudaDeviceGetAttribute.
 */
OPENREG_EXPORT orError_t
orDeviceGetAttribute(int* value, orDeviceAttr attribute, int device);

/**
 * Tell how busy a device is: the part of a sample period of about 20
 * milliseconds, from the call on, in which it ran kernels, copies, sets or host
 * functions of this process.
 *
 * @param[out] percent  from 0 to 100
 * @param[in]  device   index in [0, count)
 *
 * @retval orSuccess             `percent` is set
 * @retval orErrorInvalidValue   `percent` is NULL
 * @retval orErrorInvalidDevice  `device` is out of range
 *
 * Threads: any. Blocks: for the sample period.
 * CUDA twin: nvmlDeviceGetUtilizationRates.
 */
OPENREG_EXPORT orError_t orDeviceGetUtilization(int* percent, int device);

/**
 * Tell how much work a device has yet to do for this process: what is queued in its
 * streams, and what runs there.
 *
 * @param[out] tasks    kernels, copies, sets, host functions and waits
 * @param[out] streams  how many streams they are in
 * @param[in]  device   index in [0, count)
 *
 * @retval orSuccess             both are set
 * @retval orErrorInvalidValue   `tasks` or `streams` is NULL
 * @retval orErrorInvalidDevice  `device` is out of range
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t
orDeviceGetQueueDepth(size_t* tasks, size_t* streams, int device);

/**
 * Tell how many threads of this process sleep until work of any device has run: in a
 * call that waits, or in a launch because a queue is full. A kernel that could use more
 * processors learns from it whether its launcher still needs one.
 *
 * @param[out] threads  their number
 *
 * @retval orSuccess            `threads` is set
 * @retval orErrorInvalidValue  `threads` is NULL
 *
 * Threads: any, kernels too. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t orGetWaitingThreads(int* threads);

/**
 * Tell whether kernels of `device` can be allowed to use memory of `peer`:
 * true for any two different devices.
 *
 * @param[out] canAccess  1 or 0
 * @param[in]  device     index in [0, count)
 * @param[in]  peer       index in [0, count)
 *
 * @retval orSuccess             `canAccess` is set
 * @retval orErrorInvalidValue   `canAccess` is NULL
 * @retval orErrorInvalidDevice  `device` or `peer` is out of range
 *
 * Threads: any. Blocks: never. CUDA twin: cudaDeviceCanAccessPeer.
 */
OPENREG_EXPORT orError_t
orDeviceCanAccessPeer(int* canAccess, int device, int peer);

/**
 * Let kernels of the current device use memory of `peer`: orKernelPointer()
 * then translates its addresses for them. Copies between devices need no such
 * permission.
 *
 * @param[in] peer   index in [0, count), not the current device
 * @param[in] flags  0
 *
 * @retval orSuccess                        access is enabled
 * @retval orErrorInvalidValue              `flags` is not 0
 * @retval orErrorInvalidDevice             `peer` is out of range
 * @retval orErrorPeerAccessUnsupported     `peer` is the current device
 * @retval orErrorPeerAccessAlreadyEnabled  access was enabled before
 *
 * Threads: any. Blocks: never. CUDA twin: cudaDeviceEnablePeerAccess.
 */
OPENREG_EXPORT orError_t orDeviceEnablePeerAccess(int peer, unsigned int flags);

/**
 * Take back what orDeviceEnablePeerAccess() allowed.
 *
 * @param[in] peer  index in [0, count)
 *
 * @retval orSuccess                    access is disabled
 * @retval orErrorInvalidDevice         `peer` is out of range
 * @retval orErrorPeerAccessNotEnabled  access was not enabled
 *
 * Threads: any. Blocks: never. CUDA twin: cudaDeviceDisablePeerAccess.
 */
OPENREG_EXPORT orError_t orDeviceDisablePeerAccess(int peer);

#endif /* OPENREG_DEVICE_H_ */
