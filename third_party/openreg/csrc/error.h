// How every other file reports a failure to its caller.
//
// Threads: each has an error of its own.
#pragma once

#include "openreg/error.h"

#include <string>

namespace openreg {

/// Sets the calling thread's last error and its sentence; returns `code`, so that
/// a check is one statement: `return fail(orErrorInvalidValue, "...", n);`.
[[gnu::format(printf, 2, 3)]]
orError_t fail(orError_t code, const char* format, ...);

/// The same for a sentence that exists already.
orError_t failWith(orError_t code, const std::string& detail);

/// orErrorNotReady, which programs that poll get often: the sentence, with the
/// number of a stream in it, is written when it is read. `format` is a literal.
orError_t notReady(const char* format, unsigned long long stream);

/// Whether `code` is one of the enumeration's.
bool isErrorCode(orError_t code);

} // namespace openreg
