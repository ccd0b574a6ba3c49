/** Memory: device memory that the host cannot touch, pinned host memory, copies.
 *
 * Device memory has two addresses. Callers hold the device address, at which the
 * host may not read or write. Kernels use the kernel address, a constant
 * distance away (orKernelPointer() in launch.h). */
#ifndef OPENREG_MEMORY_H_
#define OPENREG_MEMORY_H_

#include "stream.h"

typedef enum orMemcpyKind OPENREG_INT {
  orMemcpyHostToHost = 0,
  orMemcpyHostToDevice = 1,
  orMemcpyDeviceToHost = 2,
  orMemcpyDeviceToDevice = 3,
  orMemcpyDefault = 4 /* inferred from the two pointers */
} orMemcpyKind;

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
 * @retval orErrorMemoryAllocation  the device has not that much free memory
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
 * @retval the device's error   a kernel failed; orDeviceReset() frees all
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
 * @retval orErrorMemoryAllocation  the host has not that much memory
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
 *
 * Threads: any. Blocks: while a device is busy. CUDA twin: cudaHostUnregister.
 */
OPENREG_EXPORT orError_t orHostUnregister(void* pointer);

/**
 * Copy bytes in the current device's default stream and wait for the copy.
 *
 * Like all work of that stream the copy comes after what was queued in it and
 * in the streams that are not orStreamNonBlocking.
 *
 * @param[out] dst    first byte to write
 * @param[in]  src    first byte to read
 * @param[in]  count  number of bytes; 0 copies nothing
 * @param[in]  kind   direction; must agree with where `dst` and `src` live
 *
 * @retval orSuccess                      the bytes are there
 * @retval orErrorInvalidMemcpyDirection  `kind` is none of the enumeration
 * @retval orErrorInvalidValue            `count` is not 0 and: `dst` or `src`
 *                                        is NULL, `kind` contradicts where a
 *                                        pointer lives, or a range leaves its
 *                                        allocation
 * @retval orErrorNotPermitted            called from a kernel or a host
 *                                        function
 * @retval orErrorTimeout                 work before it took longer than
 *                                        OPENREG_WAIT_TIMEOUT
 * @retval the device's error             a kernel failed, or this copy met an
 *                                        illegal address
 *
 * Threads: any. Blocks: yes. CUDA twin: cudaMemcpy.
 */
OPENREG_EXPORT orError_t
orMemcpy(void* dst, const void* src, size_t count, orMemcpyKind kind);

/**
 * Queue a copy of `count` bytes.
 *
 * With pinned or device memory on both sides the call returns at once, and both
 * buffers must stay alive until the copy has run. With pageable memory it has
 * CUDA's manners: a copy to the device of up to 256 KiB takes the bytes along and
 * returns at once; a larger one, and one to pageable memory, returns when the
 * bytes have been copied.
 *
 * @param[out] dst     first byte to write
 * @param[in]  src     first byte to read
 * @param[in]  count   number of bytes; 0 queues nothing
 * @param[in]  kind    direction; must agree with where `dst` and `src` live
 * @param[in]  stream  stream to run in, not NULL
 *
 * @retval orSuccess                      the copy is queued
 * @retval orErrorInvalidHandle           `stream` is NULL or destroyed
 * @retval orErrorInvalidMemcpyDirection  `kind` is none of the enumeration
 * @retval orErrorInvalidValue            as for orMemcpy()
 * @retval orErrorNotPermitted            called from a kernel or a host
 *                                        function and the call would block
 * @retval orErrorTimeout                 the call blocked for
 *                                        OPENREG_WAIT_TIMEOUT
 * @retval the device's error             a kernel failed
 *
 * Threads: any. Blocks: see above, and while the queue is full. CUDA twin:
 * cudaMemcpyAsync.
 */
OPENREG_EXPORT orError_t orMemcpyAsync(
    void* dst,
    const void* src,
    size_t count,
    orMemcpyKind kind,
    orStream_t stream);

/**
 * Queue a copy from one device's memory to another's.
 *
 * @param[out] dst        first byte to write
 * @param[in]  dstDevice  device of `dst`
 * @param[in]  src        first byte to read
 * @param[in]  srcDevice  device of `src`
 * @param[in]  count      number of bytes; 0 queues nothing
 * @param[in]  stream     stream to run in, of any device, not NULL
 *
 * @retval orSuccess             the copy is queued
 * @retval orErrorInvalidHandle  `stream` is NULL or destroyed
 * @retval orErrorInvalidDevice  `dstDevice` or `srcDevice` is out of range
 * @retval orErrorInvalidValue   `count` is not 0 and a pointer is NULL, is no
 *                               memory of the device named, or its range leaves
 *                               its allocation
 * @retval orErrorNotPermitted   called from a kernel or a host function of this
 *                               very stream while its queue is full
 * @retval orErrorTimeout        the queue stayed full for OPENREG_WAIT_TIMEOUT
 * @retval the device's error    a kernel of the stream's device failed
 *
 * Threads: any. Blocks: while the queue is full. CUDA twin:
 * cudaMemcpyPeerAsync.
 */
OPENREG_EXPORT orError_t orMemcpyPeerAsync(
    void* dst,
    int dstDevice,
    const void* src,
    int srcDevice,
    size_t count,
    orStream_t stream);

/**
 * Queue a copy of `height` rows of `width` bytes, the rows `dpitch` and `spitch`
 * bytes apart. Pageable memory is treated as in orMemcpyAsync(), except that a
 * copy from it always returns when the bytes have been copied.
 *
 * @param[out] dst     first byte of the first row to write
 * @param[in]  dpitch  bytes from one written row to the next
 * @param[in]  src     first byte of the first row to read
 * @param[in]  spitch  bytes from one read row to the next
 * @param[in]  width   bytes of a row; 0 queues nothing
 * @param[in]  height  number of rows; 0 queues nothing
 * @param[in]  kind    direction; must agree with where `dst` and `src` live
 * @param[in]  stream  stream to run in, not NULL
 *
 * @retval orSuccess                      the copy is queued
 * @retval orErrorInvalidHandle           `stream` is NULL or destroyed
 * @retval orErrorInvalidMemcpyDirection  `kind` is none of the enumeration
 * @retval orErrorInvalidPitchValue       a pitch is smaller than `width`
 * @retval orErrorInvalidValue            as for orMemcpy(), or a pitch times
 *                                        `height` overflows
 * @retval orErrorNotPermitted            as for orMemcpyAsync()
 * @retval orErrorTimeout                 as for orMemcpyAsync()
 * @retval the device's error             a kernel failed
 *
 * Threads: any. Blocks: as orMemcpyAsync(). CUDA twin: cudaMemcpy2DAsync.
 */
OPENREG_EXPORT orError_t orMemcpy2DAsync(
    void* dst,
    size_t dpitch,
    const void* src,
    size_t spitch,
    size_t width,
    size_t height,
    orMemcpyKind kind,
    orStream_t stream);

/**
 * Set bytes of device memory in the current device's default stream and wait.
 *
 * @param[out] pointer  first byte
 * @param[in]  value    its low byte is written
 * @param[in]  count    number of bytes; 0 sets nothing
 *
 * @retval orSuccess            the bytes are set
 * @retval orErrorInvalidValue  `count` is not 0 and `pointer` is not device
 *                              memory, or the range leaves its allocation
 * @retval orErrorNotPermitted  called from a kernel or a host function
 * @retval orErrorTimeout       as for orMemcpy()
 * @retval the device's error   a kernel failed
 *
 * Threads: any. Blocks: yes. CUDA twin: cudaMemset.
 */
OPENREG_EXPORT orError_t orMemset(void* pointer, int value, size_t count);

/**
 * Queue the setting of bytes of device memory.
 *
 * @param[out] pointer  first byte
 * @param[in]  value    its low byte is written
 * @param[in]  count    number of bytes; 0 queues nothing
 * @param[in]  stream   stream to run in, not NULL
 *
 * @retval orSuccess             it is queued
 * @retval orErrorInvalidHandle  `stream` is NULL or destroyed
 * @retval orErrorInvalidValue   as for orMemset()
 * @retval orErrorNotPermitted   called from a kernel or a host function of this
 *                               very stream while its queue is full
 * @retval orErrorTimeout        the queue stayed full for OPENREG_WAIT_TIMEOUT
 * @retval the device's error    a kernel failed
 *
 * Threads: any. Blocks: while the queue is full. CUDA twin: cudaMemsetAsync.
 */
OPENREG_EXPORT orError_t
orMemsetAsync(void* pointer, int value, size_t count, orStream_t stream);

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
 * about, also one into the middle of an allocation.
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
