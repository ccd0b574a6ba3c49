/** Memory: device memory that the host cannot touch, pinned host memory.
 *
 * Device memory has two addresses. Callers hold the device address, at which the
 * host may not read or write. Kernels use the kernel address, a constant
 * distance away (orKernelPointer() in launch.h). */
#ifndef OPENREG_MEMORY_H_
#define OPENREG_MEMORY_H_

#include "error.h"

typedef enum orMemoryType OPENREG_INT {
  orMemoryTypeUnmanaged = 0, /* host memory the library does not know */
  orMemoryTypeHost = 1, /* from orMallocHost() or registered */
  orMemoryTypeDevice = 2
} orMemoryType;

typedef struct orPointerAttributes {
  orMemoryType type;
  int device; /* of device memory; -1 otherwise */
  void* pointer; /* the pointer asked about */
} orPointerAttributes;

/**
 * Allocate memory on the current device.
 *
 * @param[out] pointer  device address, aligned to a page; NULL if the call
 *                      fails
 * @param[in]  size     bytes; whole pages are taken
 *
 * @retval orSuccess                `pointer` is set
 * @retval orErrorInvalidValue      `pointer` is NULL, or `size` is 0
 * @retval orErrorMemoryAllocation  the device does not have that much free memory
 * @retval the capture's error      unsafe while a stream is capturing
 * @retval the device's error       a kernel failed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaMalloc.
 */
OPENREG_EXPORT orError_t orMalloc(void** pointer, size_t size);

/**
 * Free device memory of any device, after waiting for all work of that device.
 * Pages go back to the system: at once for a block of a mebibyte or more, in
 * batches of a few mebibytes below that.
 *
 * @param[in] pointer  what orMalloc() returned, or NULL, which does nothing
 *
 * @retval orSuccess            the memory is free
 * @retval orErrorInvalidValue  `pointer` is not the start of a live allocation
 *                              (freed before, interior, not device memory, or
 *                              opened with orIpcOpenMemHandle())
 * @retval orErrorNotPermitted  called from a kernel or a host function
 * @retval orErrorTimeout       work took longer than OPENREG_WAIT_TIMEOUT
 * @retval the capture's error  unsafe while a stream is capturing
 * @retval the device's error   a kernel failed; free it after orDeviceReset()
 *
 * Threads: any. Blocks: while the device is busy. CUDA twin: cudaFree.
 */
OPENREG_EXPORT orError_t orFree(void* pointer);

/**
 * Allocate pinned host memory: ordinary memory from which asynchronous copies
 * do not block.
 *
 * @param[out] pointer  host address, aligned to a page; NULL if the call fails
 * @param[in]  size     bytes
 *
 * @retval orSuccess                `pointer` is set
 * @retval orErrorInvalidValue      `pointer` is NULL, or `size` is 0
 * @retval orErrorMemoryAllocation  the host does not have that much memory
 * @retval the capture's error      unsafe while a stream is capturing
 *
 * Threads: any. Blocks: never. CUDA twin: cudaMallocHost.
 */
OPENREG_EXPORT orError_t orMallocHost(void** pointer, size_t size);

/**
 * Free pinned host memory, after waiting for all work of all devices.
 *
 * @param[in] pointer  what orMallocHost() returned, or NULL, which does nothing
 *
 * @retval orSuccess            the memory is free
 * @retval orErrorInvalidValue  `pointer` is not the start of live memory from
 *                              orMallocHost()
 * @retval orErrorNotPermitted  called from a kernel or a host function
 * @retval orErrorTimeout       work took longer than OPENREG_WAIT_TIMEOUT
 * @retval the capture's error  unsafe while a stream is capturing
 *
 * Threads: any. Blocks: while a device is busy. CUDA twin: cudaFreeHost.
 */
OPENREG_EXPORT orError_t orFreeHost(void* pointer);

/**
 * Make existing host memory count as pinned.
 *
 * @param[in] pointer  first byte
 * @param[in] size     bytes
 * @param[in] flags    0
 *
 * @retval orSuccess                           the range is pinned
 * @retval orErrorInvalidValue                 `pointer` is NULL, `size` is 0 or
 *                                             wraps around, `flags` is not 0,
 *                                             or the range holds device memory
 * @retval orErrorHostMemoryAlreadyRegistered  the range overlaps pinned memory
 * @retval the capture's error                 unsafe while a stream is capturing
 *
 * Threads: any. Blocks: never. CUDA twin: cudaHostRegister.
 */
OPENREG_EXPORT orError_t
orHostRegister(void* pointer, size_t size, unsigned int flags);

/**
 * Undo orHostRegister(), after waiting for all work of all devices.
 *
 * @param[in] pointer  what was given to orHostRegister()
 *
 * @retval orSuccess                       the range is ordinary memory again
 * @retval orErrorInvalidValue             `pointer` is NULL
 * @retval orErrorHostMemoryNotRegistered  no registered range starts there
 * @retval orErrorNotPermitted             called from a kernel or a host
 *                                         function
 * @retval orErrorTimeout                  work took longer than
 *                                         OPENREG_WAIT_TIMEOUT
 * @retval the capture's error             unsafe while a stream is capturing
 *
 * Threads: any. Blocks: while a device is busy. CUDA twin: cudaHostUnregister.
 */
OPENREG_EXPORT orError_t orHostUnregister(void* pointer);

/**
 * Tell how much memory the current device has.
 *
 * @param[out] free   bytes not allocated; NULL if not wanted
 * @param[out] total  capacity in bytes; NULL if not wanted
 *
 * @retval orSuccess           the figures are exact
 * @retval the device's error  a kernel failed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaMemGetInfo.
 */
OPENREG_EXPORT orError_t orMemGetInfo(size_t* free, size_t* total);

/**
 * Tell what kind of memory a pointer points into. Any pointer may be asked
 * about, including one into the middle of an allocation.
 *
 * @param[out] attributes  the answer
 * @param[in]  pointer     any address
 *
 * @retval orSuccess            `attributes` is filled in
 * @retval orErrorInvalidValue  `attributes` is NULL, or `pointer` is an address
 *                              of device memory that is not allocated
 *
 * Threads: any. Blocks: never. CUDA twin: cudaPointerGetAttributes.
 */
OPENREG_EXPORT orError_t
orPointerGetAttributes(orPointerAttributes* attributes, const void* pointer);

/**
 * Tell where the allocation around an address begins and how large it is.
 *
 * @param[out] base     its first byte; NULL if not wanted
 * @param[out] size     its bytes, whole pages; NULL if not wanted
 * @param[in]  pointer  any device address inside it
 *
 * @retval orSuccess            they are set
 * @retval orErrorInvalidValue  `pointer` is not in a live allocation
 *
 * Threads: any. Blocks: never. CUDA twin: cuMemGetAddressRange.
 */
OPENREG_EXPORT orError_t
orMemGetAddressRange(void** base, size_t* size, const void* pointer);

/**
 * Open one allocation to the host: until the matching orMemoryProtect() the host
 * may read and write it at its device address. Openings are counted, so pairs
 * nest.
 *
 * @param[in] pointer  any address inside the allocation
 *
 * @retval orSuccess            the host may use the allocation
 * @retval orErrorInvalidValue  `pointer` is not in a live allocation
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t orMemoryUnprotect(void* pointer);

/**
 * Undo one orMemoryUnprotect(); the last one closes the allocation.
 *
 * @param[in] pointer  any address inside the allocation
 *
 * @retval orSuccess            one opening less
 * @retval orErrorInvalidValue  `pointer` is not in a live allocation, or the
 *                              allocation is not open
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t orMemoryProtect(void* pointer);

#endif /* OPENREG_MEMORY_H_ */
