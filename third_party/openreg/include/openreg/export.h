/** Symbol visibility and linkage, shared by every header of the library. */
#ifndef OPENREG_EXPORT_H_
#define OPENREG_EXPORT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define OPENREG_EXTERN_C extern "C"
/* In C an enumeration holds any int; C++ has to be told. */
#define OPENREG_INT : int
#else
#define OPENREG_EXTERN_C
#define OPENREG_INT
#endif

#define OPENREG_EXPORT OPENREG_EXTERN_C __attribute__((visibility("default")))

#endif /* OPENREG_EXPORT_H_ */
