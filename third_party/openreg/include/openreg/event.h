/** Events: points in a stream's work, to wait for and to time. */
#ifndef OPENREG_EVENT_H_
#define OPENREG_EVENT_H_

#include "stream.h"

enum {
  orEventDisableTiming = 0,
  orEventEnableTiming = 1,
  orEventInterprocess = 4 /* for orIpcGetEventHandle(); never with timing */
};

enum {
  orEventRecordDefault = 0,
  /** In a capturing stream: every launch of the graph records the event. */
  orEventRecordExternal = 1
};

/**
 * Create an event with timing on the current device.
 *
 * @param[out] event  the handle
 *
 * @retval orSuccess                the event exists, not recorded yet
 * @retval orErrorInvalidValue      `event` is NULL
 * @retval orErrorMemoryAllocation  too many events are alive
 * @retval the device's error       a kernel failed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaEventCreate.
 */
OPENREG_EXPORT orError_t orEventCreate(orEvent_t* event);

/**
 * Create an event on the current device.
 *
 * @param[out] event  the handle
 * @param[in]  flags  orEventEnableTiming, orEventDisableTiming or
 *                    orEventInterprocess, which has no timing either; recording
 *                    an event with orEventDisableTiming queues nothing
 *
 * @retval orSuccess                the event exists, not recorded yet
 * @retval orErrorInvalidValue      `event` is NULL, or `flags` is not one of these
 * @retval orErrorMemoryAllocation  too many events are alive
 * @retval the device's error       a kernel failed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaEventCreateWithFlags.
 */
OPENREG_EXPORT orError_t
orEventCreateWithFlags(orEvent_t* event, unsigned int flags);

/**
 * Destroy an event. Waits for it that are already queued still hold.
 *
 * @param[in] event  the event, recorded, pending or not
 *
 * @retval orSuccess             the handle is invalid from now on
 * @retval orErrorInvalidHandle  `event` is NULL or destroyed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaEventDestroy.
 */
OPENREG_EXPORT orError_t orEventDestroy(orEvent_t event);

/**
 * Make an event stand for all work queued in a stream so far. A later record
 * replaces it; waits queued earlier keep the record they saw.
 *
 * In a capturing stream the event stands for what was captured so far, and a stream
 * that waits for it joins the capture. Nothing else can be done with the event until
 * its next record.
 *
 * @param[in] event   the event
 * @param[in] stream  a stream of the event's device
 *
 * @retval orSuccess             the event is recorded
 * @retval orErrorInvalidHandle  `event` or `stream` is NULL or destroyed, or
 *                               they belong to different devices
 * @retval orErrorNotPermitted   called from a kernel or a host function of this
 *                               very stream while its queue is full
 * @retval orErrorTimeout        the queue stayed full for OPENREG_WAIT_TIMEOUT
 * @retval the capture's error   `stream` is in an invalidated capture, or is a
 *                               default stream
 * @retval the device's error    a kernel failed
 *
 * Threads: any. Blocks: while the queue is full. CUDA twin: cudaEventRecord.
 */
OPENREG_EXPORT orError_t orEventRecord(orEvent_t event, orStream_t stream);

/**
 * Record an event, or add a node that does.
 *
 * @param[in] event   the event
 * @param[in] stream  a stream of the event's device
 * @param[in] flags   orEventRecordDefault, which is orEventRecord(), or in a
 *                    capturing stream orEventRecordExternal, which adds a node to
 *                    the graph: each launch of it records the event
 *
 * @retval orSuccess             the event is recorded, or the node added
 * @retval orErrorInvalidValue   `flags` is neither, or orEventRecordExternal in a
 *                               stream that is not capturing
 * @retval orErrorInvalidHandle  as for orEventRecord()
 * @retval orErrorNotPermitted   as for orEventRecord()
 * @retval orErrorTimeout        as for orEventRecord()
 * @retval the capture's error   as for orEventRecord()
 * @retval the device's error    a kernel failed
 *
 * Threads: any. Blocks: while the queue is full. CUDA twin:
 * cudaEventRecordWithFlags.
 */
OPENREG_EXPORT orError_t
orEventRecordWithFlags(orEvent_t event, orStream_t stream, unsigned int flags);

/**
 * Ask whether the work an event stands for has finished. On a broken device
 * this still answers, for clean-up's sake.
 *
 * @param[in] event  the event
 *
 * @retval orSuccess             it has, or the event was never recorded
 * @retval orErrorNotReady       it has not
 * @retval orErrorInvalidHandle  `event` is NULL or destroyed
 * @retval orErrorLaunchFailure  it never will: the event is shared, and the
 *                               process that recorded it has ended
 * @retval orErrorCapturedEvent  it was recorded in a capturing stream; this
 *                               invalidates the capture
 * @retval orErrorInvalidValue   it was recorded in a capture that has ended
 * @retval the capture's error   the call is unsafe while a stream is capturing
 *
 * Threads: any. Blocks: never. CUDA twin: cudaEventQuery.
 */
OPENREG_EXPORT orError_t orEventQuery(orEvent_t event);

/**
 * Wait until the work an event stands for has finished. Returns at once if the
 * event was never recorded.
 *
 * @param[in] event  the event
 *
 * @retval orSuccess             it has
 * @retval orErrorInvalidHandle  `event` is NULL or destroyed
 * @retval orErrorNotPermitted   called from a kernel or a host function
 * @retval orErrorTimeout        it took longer than OPENREG_WAIT_TIMEOUT
 * @retval orErrorLaunchFailure  as for orEventQuery()
 * @retval orErrorCapturedEvent  as for orEventQuery()
 * @retval orErrorInvalidValue   as for orEventQuery()
 * @retval the capture's error   as for orEventQuery()
 * @retval the device's error    a kernel of the event's device failed
 *
 * Threads: any. Blocks: yes. CUDA twin: cudaEventSynchronize.
 */
OPENREG_EXPORT orError_t orEventSynchronize(orEvent_t event);

/**
 * Tell the time between two events.
 *
 * @param[out] milliseconds  from `start` to `end`; negative if `end` came first
 * @param[in]  start         earlier event
 * @param[in]  end           later event
 *
 * @retval orSuccess             `milliseconds` is set
 * @retval orErrorInvalidValue   `milliseconds` is NULL, or an event was recorded
 *                               in a capture that has ended
 * @retval orErrorCapturedEvent  as for orEventQuery()
 * @retval orErrorInvalidHandle  an event is NULL or destroyed, was created
 *                               without timing, was never recorded, or they
 *                               belong to different devices
 * @retval orErrorNotReady       the work of one has not finished
 *
 * Threads: any. Blocks: never. CUDA twin: cudaEventElapsedTime.
 */
OPENREG_EXPORT orError_t
orEventElapsedTime(float* milliseconds, orEvent_t start, orEvent_t end);

#endif /* OPENREG_EVENT_H_ */
