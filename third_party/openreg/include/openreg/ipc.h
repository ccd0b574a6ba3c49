/** Sharing between processes: handles that travel as bytes.
 *
 * A handle names memory or an event of the process that made it, its exporter.
 * Another process of the same user opens it and has that very memory or event:
 * nothing is copied. The exporter must be alive when a handle is opened; what is
 * open stays usable when the exporter ends. A process that ends, in whatever way,
 * closes what it has opened. */
#ifndef OPENREG_IPC_H_
#define OPENREG_IPC_H_

#include "stream.h"

#define OPENREG_IPC_HANDLE_BYTES 64

typedef struct orIpcMemHandle_t {
  char reserved[OPENREG_IPC_HANDLE_BYTES];
} orIpcMemHandle_t;

typedef struct orIpcEventHandle_t {
  char reserved[OPENREG_IPC_HANDLE_BYTES];
} orIpcEventHandle_t;

/** Memory is reachable from the current device, whichever device it is on. */
enum { orIpcMemLazyEnablePeerAccess = 1 };

/**
 * Make a handle for a device allocation.
 *
 * The allocation is shared as a whole, and must not be freed while another
 * process has it open. Asking again gives the same handle.
 *
 * @param[out] handle   the handle
 * @param[in]  pointer  what orMalloc() returned
 *
 * @retval orSuccess                `handle` is filled in
 * @retval orErrorInvalidValue      `handle` is NULL, or `pointer` is not the
 *                                  start of a live allocation of this process
 * @retval orErrorMemoryAllocation  too much is shared already
 *
 * Threads: any. Blocks: never. CUDA twin: cudaIpcGetMemHandle.
 */
OPENREG_EXPORT orError_t
orIpcGetMemHandle(orIpcMemHandle_t* handle, void* pointer);

/**
 * Open memory of another process. It is memory of the device it was allocated
 * on, and counts in the exporter's figures only. Opening it again gives the same
 * address; it must be closed as often as it was opened.
 *
 * @param[out] pointer  device address of the allocation; NULL if the call fails
 * @param[in]  handle   from orIpcGetMemHandle() in the other process
 * @param[in]  flags    orIpcMemLazyEnablePeerAccess
 *
 * @retval orSuccess                     `pointer` is set
 * @retval orErrorInvalidValue           `pointer` is NULL, or `flags` is not
 *                                       orIpcMemLazyEnablePeerAccess
 * @retval orErrorInvalidHandle          `handle` names nothing, or its memory
 *                                       was freed
 * @retval orErrorDeviceUninitialized    the memory is this process's own
 * @retval orErrorInvalidDevice          its device is not visible here
 * @retval orErrorMapBufferObjectFailed  the exporter has ended, belongs to
 *                                       another user or cannot be seen from
 *                                       here
 * @retval orErrorMemoryAllocation       no address range is left for it
 * @retval the device's error            a kernel failed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaIpcOpenMemHandle.
 */
OPENREG_EXPORT orError_t
orIpcOpenMemHandle(void** pointer, orIpcMemHandle_t handle, unsigned int flags);

/**
 * Undo one orIpcOpenMemHandle(). The last call takes the address away; work that
 * uses the memory must have finished by then.
 *
 * @param[in] pointer  what orIpcOpenMemHandle() returned
 *
 * @retval orSuccess            it is closed
 * @retval orErrorInvalidValue  `pointer` is not the start of memory that is open
 *                              (closed before, interior, or not opened at all)
 *
 * Threads: any. Blocks: never. CUDA twin: cudaIpcCloseMemHandle.
 */
OPENREG_EXPORT orError_t orIpcCloseMemHandle(void* pointer);

/**
 * Make a handle for an event.
 *
 * @param[out] handle  the handle
 * @param[in]  event   an event created with orEventInterprocess in this process
 *
 * @retval orSuccess             `handle` is filled in
 * @retval orErrorInvalidValue   `handle` is NULL, or `event` was created without
 *                               orEventInterprocess
 * @retval orErrorInvalidHandle  `event` is NULL, destroyed, or was itself opened
 *
 * Threads: any. Blocks: never. CUDA twin: cudaIpcGetEventHandle.
 */
OPENREG_EXPORT orError_t
orIpcGetEventHandle(orIpcEventHandle_t* handle, orEvent_t event);

/**
 * Open an event of another process, on the current device. Either process may
 * record it and wait for it; orEventDestroy() closes it.
 *
 * If a process ends before the work it recorded has finished, waiting host
 * calls return orErrorLaunchFailure, and a waiting stream breaks its device
 * with that error.
 *
 * @param[out] event   the handle in this process
 * @param[in]  handle  from orIpcGetEventHandle() in the other process
 *
 * @retval orSuccess                     the event is open
 * @retval orErrorInvalidValue           `event` is NULL
 * @retval orErrorInvalidHandle          `handle` names nothing, or its event
 *                                       was destroyed
 * @retval orErrorDeviceUninitialized    the event is this process's own
 * @retval orErrorMapBufferObjectFailed  as for orIpcOpenMemHandle()
 * @retval orErrorMemoryAllocation       too many events are alive
 * @retval the device's error            a kernel failed
 *
 * Threads: any. Blocks: never. CUDA twin: cudaIpcOpenEventHandle.
 */
OPENREG_EXPORT orError_t
orIpcOpenEventHandle(orEvent_t* event, orIpcEventHandle_t handle);

#endif /* OPENREG_IPC_H_ */
