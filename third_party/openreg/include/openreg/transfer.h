/** Transfers: copies and sets of memory. */
#ifndef OPENREG_TRANSFER_H_
#define OPENREG_TRANSFER_H_

#include "stream.h"

typedef enum orMemcpyKind OPENREG_INT {
  orMemcpyHostToHost = 0,
  orMemcpyHostToDevice = 1,
  orMemcpyDeviceToHost = 2,
  orMemcpyDeviceToDevice = 3,
  orMemcpyDefault = 4 /* inferred from the two pointers */
} orMemcpyKind;

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
 * @retval orErrorInvalidMemcpyDirection  `kind` is not in the enumeration
 * @retval orErrorInvalidValue            `count` is not 0 and: `dst` or `src`
 *                                        is NULL, `kind` contradicts where a
 *                                        pointer lives, or a range leaves its
 *                                        allocation
 * @retval orErrorNotPermitted            called from a kernel or a host
 *                                        function
 * @retval orErrorTimeout                 work before it took longer than
 *                                        OPENREG_WAIT_TIMEOUT
 * @retval the capture's error            unsafe while a stream is capturing
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
 * buffers must stay alive until the copy has run. With pageable memory it does
 * as CUDA does: a copy to the device of up to 256 KiB takes the bytes along and
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
 * @retval orErrorInvalidMemcpyDirection  `kind` is not in the enumeration
 * @retval orErrorInvalidValue            as for orMemcpy()
 * @retval orErrorNotPermitted            called from a kernel or a host
 *                                        function and the call would block
 * @retval orErrorTimeout                 the call blocked for
 *                                        OPENREG_WAIT_TIMEOUT
 * @retval the capture's error            `stream` is capturing and a side is
 *                                        pageable, or `stream` is in an invalidated
 *                                        capture, or is a default stream
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
 * @retval orErrorInvalidValue   `count` is not 0 and a pointer is NULL, is not
 *                               memory of the device named, or its range leaves
 *                               its allocation
 * @retval orErrorNotPermitted   called from a kernel or a host function of this
 *                               very stream while its queue is full
 * @retval orErrorTimeout        the queue stayed full for OPENREG_WAIT_TIMEOUT
 * @retval the capture's error   as for orMemcpyAsync()
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
 * @retval orErrorInvalidMemcpyDirection  `kind` is not in the enumeration
 * @retval orErrorInvalidPitchValue       a pitch is smaller than `width`
 * @retval orErrorInvalidValue            as for orMemcpy(), or a pitch times
 *                                        `height` overflows
 * @retval orErrorNotPermitted            as for orMemcpyAsync()
 * @retval orErrorTimeout                 as for orMemcpyAsync()
 * @retval the capture's error            as for orMemcpyAsync()
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
 * @retval the capture's error  unsafe while a stream is capturing
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
 * @retval the capture's error   as for orMemcpyAsync()
 * @retval the device's error    a kernel failed
 *
 * Threads: any. Blocks: while the queue is full. CUDA twin: cudaMemsetAsync.
 */
OPENREG_EXPORT orError_t
orMemsetAsync(void* pointer, int value, size_t count, orStream_t stream);

/**
 * Set how many threads may share one copy or set, including the one that runs it.
 * Large ones are cut into parts, and threads of the library help with them. These
 * start when they are first needed, and sleep between transfers. The default is the
 * number of processors, but at most 4.
 *
 * @param[in] count  at least 1, which starts no threads
 *
 * @retval orSuccess            transfers that begin from now on use so many
 * @retval orErrorInvalidValue  `count` is less than 1
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t orSetTransferThreads(int count);

/**
 * Tell how many threads may share one copy or set.
 *
 * @param[out] count  at least 1
 *
 * @retval orSuccess            `count` is set
 * @retval orErrorInvalidValue  `count` is NULL
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT orError_t orGetTransferThreads(int* count);

#endif /* OPENREG_TRANSFER_H_ */
