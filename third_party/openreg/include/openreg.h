/**
 * OpenReg: an accelerator made of software, with a runtime API that a CUDA
 * programmer recognises. Plain C11; C++ adds the launch templates of
 * openreg.inl. Each header below holds one noun.
 *
 * What holds for every function:
 * - Any thread may call it. The current device is per thread and starts as 0.
 * - Arguments are checked during the call. A call that fails changes nothing,
 *   sets the thread's last error, and leaves a sentence with the value and the
 *   bound for orGetLastErrorDetail().
 * - Besides the codes listed with it, every function except those of error.h may return
 *   orErrorInvalidConfiguration  an OPENREG_* variable is malformed,
 *   orErrorInitializationError   the process was forked after first use,
 *   orErrorRuntimeUnloading      the process is exiting, and the call launches
 *                                work or waits for it,
 *   orErrorNoDevice              no device is visible,
 *   orErrorMemoryAllocation      the host is out of memory.
 * - "The device's error" in a list is the code of the kernel that broke the device;
 *   orDeviceReset() clears it.
 * - "The capture's error" in a list is one of
 *   orErrorStreamCaptureUnsupported  the call conflicts with a capture in the way the
 *                                    list says, and so invalidates it,
 *   orErrorStreamCaptureImplicit     the call uses a default stream while a stream
 *                                    that is ordered with it is capturing, and so
 *                                    invalidates the capture,
 *   orErrorStreamCaptureInvalidated  an earlier call has invalidated the capture.
 */
#ifndef OPENREG_H_
#define OPENREG_H_

#include "openreg/activity.h"
#include "openreg/capture.h"
#include "openreg/device.h"
#include "openreg/error.h"
#include "openreg/event.h"
#include "openreg/export.h"
#include "openreg/fault.h"
#include "openreg/graph.h"
#include "openreg/ipc.h"
#include "openreg/launch.h"
#include "openreg/memory.h"
#include "openreg/schedule.h"
#include "openreg/stream.h"
#include "openreg/transfer.h"
#include "openreg/virtual_memory.h"

#ifdef __cplusplus
#include "openreg.inl"
#endif

#endif /* OPENREG_H_ */
