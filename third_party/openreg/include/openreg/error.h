/** Errors: a code for the kind, a sentence for the case. */
#ifndef OPENREG_ERROR_H_
#define OPENREG_ERROR_H_

#include "export.h"

/** Each code has the number of the matching CUDA error. */
typedef enum orError_t OPENREG_INT {
  orSuccess = 0,
  orErrorInvalidValue = 1,
  orErrorMemoryAllocation = 2,
  orErrorInitializationError = 3,
  orErrorRuntimeUnloading = 4,
  orErrorInvalidConfiguration = 9,
  orErrorInvalidPitchValue = 12,
  orErrorInvalidDevicePointer = 17,
  orErrorInvalidMemcpyDirection = 21,
  orErrorDeviceLost = 46,
  orErrorNoDevice = 100,
  orErrorInvalidDevice = 101,
  orErrorDeviceUninitialized = 201,
  orErrorMapBufferObjectFailed = 205,
  orErrorPeerAccessUnsupported = 217,
  orErrorOperatingSystem = 304,
  orErrorInvalidHandle = 400,
  orErrorIllegalState = 401,
  orErrorNotReady = 600,
  orErrorIllegalAddress = 700,
  orErrorPeerAccessAlreadyEnabled = 704,
  orErrorPeerAccessNotEnabled = 705,
  orErrorAssert = 710,
  orErrorHostMemoryAlreadyRegistered = 712,
  orErrorHostMemoryNotRegistered = 713,
  orErrorLaunchFailure = 719,
  orErrorNotPermitted = 800,
  orErrorCommunication = 805,
  orErrorStreamCaptureUnsupported = 900,
  orErrorStreamCaptureInvalidated = 901,
  orErrorStreamCaptureMerge = 902,
  orErrorStreamCaptureUnmatched = 903,
  orErrorStreamCaptureUnjoined = 904,
  orErrorStreamCaptureIsolation = 905,
  orErrorStreamCaptureImplicit = 906,
  orErrorCapturedEvent = 907,
  orErrorStreamCaptureWrongThread = 908,
  orErrorTimeout = 909,
  orErrorGraphExecUpdateFailure = 910
} orError_t;

/**
 * Return the calling thread's last error and clear it.
 *
 * Success does not overwrite an earlier failure. The error of a broken device
 * comes back with the next call that uses the device.
 *
 * @return the code of the thread's latest failing call since the last
 *         orGetLastError(), or orSuccess
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGetLastError.
 */
OPENREG_EXPORT orError_t orGetLastError(void);

/**
 * Return the calling thread's last error and keep it.
 *
 * @return as orGetLastError()
 *
 * Threads: any. Blocks: never. CUDA twin: cudaPeekAtLastError.
 */
OPENREG_EXPORT orError_t orPeekAtLastError(void);

/**
 * Return the sentence of the calling thread's last error: which value was
 * wrong, what was expected, and what helps.
 *
 * @return a string that the thread's next failing call overwrites; "" after
 *         orGetLastError() has cleared the error, never NULL
 *
 * Threads: any. Blocks: never. CUDA twin: none.
 */
OPENREG_EXPORT const char* orGetLastErrorDetail(void);

/**
 * Return the name of a code as it is written in this header.
 *
 * @param[in] error  any value
 * @return a literal such as "orErrorInvalidValue"; "unrecognized error code"
 *         for a value outside the enumeration
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGetErrorName.
 */
OPENREG_EXPORT const char* orGetErrorName(orError_t error);

/**
 * Describe a code in a few words.
 *
 * @param[in] error  any value
 * @return a literal such as "invalid argument"; "unrecognized error code" for a
 *         value outside the enumeration
 *
 * Threads: any. Blocks: never. CUDA twin: cudaGetErrorString.
 */
OPENREG_EXPORT const char* orGetErrorString(orError_t error);

#endif /* OPENREG_ERROR_H_ */
