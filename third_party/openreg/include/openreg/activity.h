/** Activity records: what ran when, for profilers. */
#ifndef OPENREG_ACTIVITY_H_
#define OPENREG_ACTIVITY_H_

#include "transfer.h"

/** Kinds of records; combine them to choose which to collect. */
typedef enum orActivityKind OPENREG_INT {
  orActivityKernel = 1,
  orActivityMemcpy = 2,
  orActivityMemset = 4,
  orActivityHostFunc = 8,
  orActivitySync = 16, /* a wait: of the host, or of a stream for an event */
  orActivityRuntime = 32 /* a call of this API, except those of this header */
} orActivityKind;

#define OPENREG_ACTIVITY_ALL 63u

typedef struct orActivityRecord {
  orActivityKind kind;
  const char* name; /* of the kernel or API function; never freed */
  int device; /* -1: none */
  unsigned long long stream; /* as orStreamGetId(); 0: none */
  uint64_t start; /* nanoseconds of the monotonic clock */
  uint64_t end;
  uint64_t correlation; /* an API call and the work it queued share one */
  uint64_t externalCorrelation; /* top of the caller's stack, or 0 */
  uint64_t thread; /* system id of the thread that ran it */
  size_t bytes; /* of copies and sets */
  orMemcpyKind copyKind; /* of copies */
  uint32_t
      graph; /* a number of the graph that the work is a node of; 0: none */
  uint64_t
      graphNode; /* a number of that node, the same in every launch; 0: none */
} orActivityRecord;

/** Receives records; their array is valid during the call only. */
typedef void (*orActivityCallback)(
    const orActivityRecord* records,
    size_t count,
    void* userData);

/**
 * Start to collect records, in a buffer of fixed size. With a callback the
 * thread that fills the buffer delivers it and collecting goes on in a fresh one.
 * Records that arrive while a buffer is full and cannot be delivered, because there
 * is no callback or because it still runs, are dropped and counted.
 *
 * @param[in] kinds     sum of orActivityKind
 * @param[in] capacity  records in the buffer
 * @param[in] callback  gets a full buffer, on any thread, one call at a time; may
 *                      use the library, which records nothing meanwhile; NULL to
 *                      deliver by orActivityFlush() only
 * @param[in] userData  handed to `callback`
 *
 * @retval orSuccess            records are collected from now on
 * @retval orErrorInvalidValue  `kinds` is 0 or has unknown bits, or `capacity`
 *                              is 0
 * @retval orErrorNotPermitted  tracing is enabled already
 *
 * Threads: any. Blocks: never. CUDA twin: cuptiActivityEnable.
 */
OPENREG_EXPORT orError_t orActivityEnableTracing(
    unsigned int kinds,
    size_t capacity,
    orActivityCallback callback,
    void* userData);

/**
 * Stop collecting. Records collected so far wait for orActivityFlush(). Work
 * that is still queued leaves no record.
 *
 * @retval orSuccess            nothing is collected any more
 * @retval orErrorNotPermitted  tracing is not enabled
 *
 * Threads: any. Blocks: never. CUDA twin: cuptiActivityDisable.
 */
OPENREG_EXPORT orError_t orActivityDisableTracing(void);

/**
 * Deliver the collected records on the calling thread, oldest first, and empty
 * the buffer. Work that has not finished has no record yet: synchronise first.
 *
 * @param[in]  callback  gets the records; not called if there are none
 * @param[in]  userData  handed to `callback`
 * @param[out] dropped   records lost since the last flush; NULL if not wanted
 *
 * @retval orSuccess            everything was delivered
 * @retval orErrorInvalidValue  `callback` is NULL
 * @retval orErrorNotPermitted  called from a callback that receives records
 *
 * Threads: any. Blocks: while another delivery runs. CUDA twin:
 * cuptiActivityFlushAll.
 */
OPENREG_EXPORT orError_t
orActivityFlush(orActivityCallback callback, void* userData, size_t* dropped);

/**
 * Tie the calling thread's API calls, and the work they queue, to an id of the
 * caller's. Ids nest.
 *
 * @param[in] id  anything but 0
 *
 * @retval orSuccess            `id` is on top of the thread's stack
 * @retval orErrorInvalidValue  `id` is 0
 *
 * Threads: any. Blocks: never. CUDA twin:
 * cuptiActivityPushExternalCorrelationId.
 */
OPENREG_EXPORT orError_t orActivityPushExternalCorrelationId(uint64_t id);

/**
 * Undo the latest push of the calling thread.
 *
 * @param[out] id  what was on top; NULL if not wanted
 *
 * @retval orSuccess            it is gone
 * @retval orErrorNotPermitted  the thread's stack is empty
 *
 * Threads: any. Blocks: never. CUDA twin:
 * cuptiActivityPopExternalCorrelationId.
 */
OPENREG_EXPORT orError_t orActivityPopExternalCorrelationId(uint64_t* id);

#endif /* OPENREG_ACTIVITY_H_ */
