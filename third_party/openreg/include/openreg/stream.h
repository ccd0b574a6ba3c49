/** Streams: queues of device work, each in order, side by side. */
#ifndef OPENREG_STREAM_H_
#define OPENREG_STREAM_H_

#include "error.h"

/** Names a stream. Stale and made-up handles are recognised. */
typedef struct orStream_st* orStream_t;

typedef struct orEvent_st* orEvent_t;

/* docs:begin stream-flags */
enum {
  /** Work waits for earlier work of the device's default stream, and work of
   *  the default stream waits for earlier work of this one. */
  orStreamDefault = 0,
  /** Independent of the default stream. */
  orStreamNonBlocking = 1
};
/* docs:end stream-flags */

enum {
  orEventWaitDefault = 0,
  /** In a capturing stream: every launch of the graph waits for the event's latest
   *  record. */
  orEventWaitExternal = 1
};

/**
 * Return the default stream of a device. It always exists, cannot be destroyed,
 * and is the stream that orMemcpy() and orMemset() work in.
 *
 * @param[out] stream  the handle
 * @param[in]  device  index in [0, count)
 *
 * @retval orSuccess             `stream` is set
 * @retval orErrorInvalidValue   `stream` is NULL
 * @retval orErrorInvalidDevice  `device` is out of range
 *
 * Threads: any. Blocks: never. CUDA twin: cudaStreamLegacy.
 */
OPENREG_EXPORT orError_t
orDeviceGetDefaultStream(orStream_t* stream, int device);

/**
 * Create a stream on the current device: orStreamCreateWithPriority() with
 * orStreamDefault and priority 0.
 *
 * @param[out] stream  the handle
 *
 * @retval orSuccess                the stream is ready for work
 * @retval orErrorInvalidValue      `stream` is NULL
 * @retval orErrorMemoryAllocation  too many streams are alive
 * @retval the device's error       a kernel failed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaStreamCreate.
 */
OPENREG_EXPORT orError_t orStreamCreate(orStream_t* stream);

/**
 * Create a stream on the current device: orStreamCreateWithPriority() with
 * priority 0.
 *
 * @param[out] stream  the handle
 * @param[in]  flags   orStreamDefault or orStreamNonBlocking
 *
 * @retval orSuccess                the stream is ready for work
 * @retval orErrorInvalidValue      `stream` is NULL, or `flags` is neither
 * @retval orErrorMemoryAllocation  too many streams are alive
 * @retval the device's error       a kernel failed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaStreamCreateWithFlags.
 */
OPENREG_EXPORT orError_t
orStreamCreateWithFlags(orStream_t* stream, unsigned int flags);

/**
 * Create a stream on the current device.
 *
 * Priorities decide which stream's next task starts first when more streams
 * have work than the machine has processors. A task that runs is never
 * interrupted. The worker thread starts with the first work.
 *
 * @param[out] stream    the handle
 * @param[in]  flags     orStreamDefault or orStreamNonBlocking
 * @param[in]  priority  lower is served first; values outside
 *                       orDeviceGetStreamPriorityRange() are clamped to it
 *
 * @retval orSuccess                the stream is ready for work
 * @retval orErrorInvalidValue      `stream` is NULL, or `flags` is neither
 * @retval orErrorMemoryAllocation  too many streams are alive
 * @retval the device's error       a kernel failed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaStreamCreateWithPriority.
 */
OPENREG_EXPORT orError_t orStreamCreateWithPriority(
    orStream_t* stream,
    unsigned int flags,
    int priority);

/**
 * Destroy a stream. Work already queued in it still runs. A capture that began in
 * it is over, without a graph.
 *
 * @param[in] stream  a created stream
 *
 * @retval orSuccess             the handle is invalid from now on
 * @retval orErrorInvalidHandle  `stream` is NULL, destroyed, or a default
 *                               stream
 *
 * Threads: any. Blocks: never. CUDA twin: cudaStreamDestroy.
 */
OPENREG_EXPORT orError_t orStreamDestroy(orStream_t stream);

/**
 * Ask whether all work queued in a stream has finished. For a default stream
 * that includes the work of the streams that are not orStreamNonBlocking.
 *
 * @param[in] stream  the stream
 *
 * @retval orSuccess             the last task has finished
 * @retval orErrorNotReady       it has not
 * @retval orErrorInvalidHandle  `stream` is NULL or destroyed
 * @retval the capture's error   `stream` is capturing, or a default stream
 * @retval the device's error    a kernel failed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaStreamQuery.
 */
OPENREG_EXPORT orError_t orStreamQuery(orStream_t stream);

/**
 * Wait until all work queued in a stream so far has finished. For a default
 * stream that includes the work of the streams that are not
 * orStreamNonBlocking.
 *
 * @param[in] stream  the stream
 *
 * @retval orSuccess             it has
 * @retval orErrorInvalidHandle  `stream` is NULL or destroyed
 * @retval orErrorNotPermitted   called from a kernel or a host function
 * @retval orErrorTimeout        it took longer than OPENREG_WAIT_TIMEOUT; the
 *                               sentence says what the stream is doing
 * @retval the capture's error   `stream` is capturing, or a default stream
 * @retval the device's error    a kernel failed
 *
 * Threads: any. Blocks: yes. CUDA twin: cudaStreamSynchronize.
 */
OPENREG_EXPORT orError_t orStreamSynchronize(orStream_t stream);

/**
 * Make work queued in `stream` after this call wait for the latest record of
 * `event`. An event that was never recorded is not waited for. The stream and
 * the event may belong to different devices, and the event may be recorded
 * again or destroyed meanwhile.
 *
 * If the event was recorded in a capturing stream, `stream` takes part in the
 * capture from now on, see orStreamBeginCapture().
 *
 * @param[in] stream  stream that is to wait
 * @param[in] event   event to wait for
 * @param[in] flags   orEventWaitDefault; in a capturing stream also
 *                    orEventWaitExternal, which adds a node that waits for the
 *                    event, and for that event alone
 *
 * @retval orSuccess             the wait is queued, or there is nothing to wait for
 * @retval orErrorInvalidHandle  `stream` or `event` is NULL or destroyed
 * @retval orErrorInvalidValue   `flags` is neither, or orEventWaitExternal in a
 *                               stream that is not capturing, or the event was
 *                               recorded in a capture that has ended
 * @retval orErrorStreamCaptureIsolation  `stream` is capturing, and the event was
 *                               recorded outside of the capture; this invalidates it
 * @retval orErrorStreamCaptureMerge  they take part in different captures; this
 *                               invalidates both
 * @retval orErrorStreamCaptureImplicit  `stream` is a default stream, and the event
 *                               belongs to a capture; this invalidates it
 * @retval orErrorStreamCaptureInvalidated  one of them is in an invalidated capture
 * @retval orErrorNotPermitted   called from a kernel or a host function of this
 *                               very stream while its queue is full
 * @retval orErrorTimeout        the queue stayed full for OPENREG_WAIT_TIMEOUT
 * @retval the device's error    a kernel failed
 *
 * Threads: any. Blocks: while the queue is full. CUDA twin:
 * cudaStreamWaitEvent.
 */
OPENREG_EXPORT orError_t
orStreamWaitEvent(orStream_t stream, orEvent_t event, unsigned int flags);

/**
 * Tell a stream's priority, after clamping.
 *
 * @param[in]  stream    the stream
 * @param[out] priority  lower is served first
 *
 * @retval orSuccess             `priority` is set
 * @retval orErrorInvalidHandle  `stream` is NULL or destroyed
 * @retval orErrorInvalidValue   `priority` is NULL
 *
 * Threads: any. Blocks: never. CUDA twin: cudaStreamGetPriority.
 */
OPENREG_EXPORT orError_t orStreamGetPriority(orStream_t stream, int* priority);

/**
 * Tell a stream's flags. A default stream has orStreamDefault.
 *
 * @param[in]  stream  the stream
 * @param[out] flags   orStreamDefault or orStreamNonBlocking
 *
 * @retval orSuccess             `flags` is set
 * @retval orErrorInvalidHandle  `stream` is NULL or destroyed
 * @retval orErrorInvalidValue   `flags` is NULL
 *
 * Threads: any. Blocks: never. CUDA twin: cudaStreamGetFlags.
 */
OPENREG_EXPORT orError_t
orStreamGetFlags(orStream_t stream, unsigned int* flags);

/**
 * Tell the device of a stream.
 *
 * @param[in]  stream  the stream
 * @param[out] device  index in [0, count)
 *
 * @retval orSuccess             `device` is set
 * @retval orErrorInvalidHandle  `stream` is NULL or destroyed
 * @retval orErrorInvalidValue   `device` is NULL
 *
 * Threads: any. Blocks: never. CUDA twin: cudaStreamGetDevice.
 */
OPENREG_EXPORT orError_t orStreamGetDevice(orStream_t stream, int* device);

/**
 * Tell a stream's number, which no other stream of the process has or had.
 *
 * @param[in]  stream  the stream
 * @param[out] id      the number that activity records and messages use
 *
 * @retval orSuccess             `id` is set
 * @retval orErrorInvalidHandle  `stream` is NULL or destroyed
 * @retval orErrorInvalidValue   `id` is NULL
 *
 * Threads: any. Blocks: never. CUDA twin: cudaStreamGetId.
 */
OPENREG_EXPORT orError_t
orStreamGetId(orStream_t stream, unsigned long long* id);

#endif /* OPENREG_STREAM_H_ */
