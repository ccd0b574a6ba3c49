/** Stream capture: work that is recorded into a graph instead of being run. */
#ifndef OPENREG_CAPTURE_H_
#define OPENREG_CAPTURE_H_

#include "event.h"

/**
 * Names a graph, see graph.h. Stale and made-up handles are recognised.
 */
typedef struct orGraph_st* orGraph_t;

/* docs:begin capture-modes */
/** Which threads may not make unsafe calls during a capture. Unsafe are calls that
 *  allocate or free memory, that copy or set and wait, and that query an event or wait
 *  for it. */
typedef enum orStreamCaptureMode OPENREG_INT {
  orStreamCaptureModeGlobal = 0, /* every thread */
  orStreamCaptureModeThreadLocal = 1, /* the thread that began it */
  orStreamCaptureModeRelaxed = 2 /* none */
} orStreamCaptureMode;
/* docs:end capture-modes */

typedef enum orStreamCaptureStatus OPENREG_INT {
  orStreamCaptureStatusNone = 0,
  orStreamCaptureStatusActive = 1,
  orStreamCaptureStatusInvalidated = 2 /* and not ended yet */
} orStreamCaptureStatus;

/**
 * Start to record the work of a stream into a new graph. Until
 * orStreamEndCapture(), what is launched into the stream becomes nodes of the graph
 * and does not run.
 *
 * Another stream joins the capture when it waits for an event that was recorded in
 * a capturing stream, and must be joined to the first one again, by an event the
 * other way, before the capture ends.
 *
 * A call that cannot be recorded, or that is unsafe meanwhile, fails with
 * orErrorStreamCaptureUnsupported or the more exact code listed with it, and invalidates
 * the capture: later calls that use a stream of it, or that are unsafe while it
 * lasts, return orErrorStreamCaptureInvalidated until the capture is ended.
 *
 * @param[in] stream  where to begin, not a default stream
 * @param[in] mode    which threads must not make unsafe calls meanwhile
 *
 * @retval orSuccess                        the stream is capturing
 * @retval orErrorInvalidHandle             `stream` is NULL or destroyed
 * @retval orErrorInvalidValue              `mode` is not in the enumeration
 * @retval orErrorStreamCaptureUnsupported  `stream` is a default stream
 * @retval orErrorIllegalState              `stream` is capturing already
 * @retval the device's error               a kernel failed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaStreamBeginCapture.
 */
OPENREG_EXPORT orError_t
orStreamBeginCapture(orStream_t stream, orStreamCaptureMode mode);

/**
 * End a capture. Unless the call is made in the wrong place, the capture is over
 * whatever it returns: its streams run work again, and without success there is no
 * graph.
 *
 * @param[in]  stream  the stream in which the capture began
 * @param[out] graph   the graph, to be destroyed by orGraphDestroy(); NULL unless
 *                     the call succeeds
 *
 * @retval orSuccess                        `graph` is set
 * @retval orErrorInvalidHandle             `stream` is NULL or destroyed
 * @retval orErrorInvalidValue              `graph` is NULL; the capture goes on
 * @retval orErrorIllegalState              `stream` is not capturing
 * @retval orErrorStreamCaptureUnmatched    the capture began in another stream; it
 *                                          goes on
 * @retval orErrorStreamCaptureWrongThread  it was begun by another thread, and not
 *                                          with orStreamCaptureModeRelaxed; it goes
 *                                          on
 * @retval orErrorStreamCaptureInvalidated  an earlier call invalidated the capture
 * @retval orErrorStreamCaptureUnjoined     a stream that joined has work that is
 *                                          not joined to `stream`
 * @retval orErrorMemoryAllocation          too many graphs are alive
 *
 * Threads: the one that began it; with orStreamCaptureModeRelaxed any. Blocks:
 * never. CUDA twin: cudaStreamEndCapture.
 */
OPENREG_EXPORT orError_t
orStreamEndCapture(orStream_t stream, orGraph_t* graph);

/**
 * Ask whether a stream is capturing. Never invalidates a capture.
 *
 * @param[in]  stream  the stream
 * @param[out] status  of the capture that the stream takes part in
 *
 * @retval orSuccess                     `status` is set
 * @retval orErrorInvalidHandle          `stream` is NULL or destroyed
 * @retval orErrorInvalidValue           `status` is NULL
 * @retval orErrorStreamCaptureImplicit  `stream` is a default stream, and a stream
 *                                       of its device that is not
 *                                       orStreamNonBlocking is capturing
 *
 * Threads: any. Blocks: never. CUDA twin: cudaStreamIsCapturing.
 */
OPENREG_EXPORT orError_t
orStreamIsCapturing(orStream_t stream, orStreamCaptureStatus* status);

/**
 * Tell which capture a stream takes part in. Never invalidates a capture.
 *
 * @param[in]  stream  the stream
 * @param[out] status  as for orStreamIsCapturing()
 * @param[out] id      a number that no other capture of the process has or had; 0
 *                     unless `status` is orStreamCaptureStatusActive; NULL if not
 *                     wanted
 *
 * @retval orSuccess                     `status` and `id` are set
 * @retval orErrorInvalidHandle          as for orStreamIsCapturing()
 * @retval orErrorInvalidValue           as for orStreamIsCapturing()
 * @retval orErrorStreamCaptureImplicit  as for orStreamIsCapturing()
 *
 * Threads: any. Blocks: never. CUDA twin: cudaStreamGetCaptureInfo.
 */
OPENREG_EXPORT orError_t orStreamGetCaptureInfo(
    orStream_t stream,
    orStreamCaptureStatus* status,
    unsigned long long* id);

/**
 * Exchange the calling thread's own mode, which says which captures keep it from
 * unsafe calls. With orStreamCaptureModeGlobal, in which every thread starts: its own
 * captures that are not relaxed, and the global ones of other threads. With
 * orStreamCaptureModeThreadLocal: only its own. With orStreamCaptureModeRelaxed:
 * none.
 *
 * @param[in,out] mode  the new mode, replaced by the old one
 *
 * @retval orSuccess            the mode is set
 * @retval orErrorInvalidValue  `mode` is NULL or not in the enumeration
 *
 * Threads: any; the mode is the calling thread's. Blocks: never. CUDA twin:
 * cudaThreadExchangeStreamCaptureMode.
 */
OPENREG_EXPORT orError_t
orThreadExchangeStreamCaptureMode(orStreamCaptureMode* mode);

#endif /* OPENREG_CAPTURE_H_ */
