// Copies of more bytes than the caches hold.
#pragma once

#include "config.h"

#include <cstddef>

namespace openreg {

/// From here on a copy goes past the caches: what it would put there pushes out more
/// than it keeps.
constexpr size_t kPastCaches = 8 * kMiB;

/// Copies as memcpy() does, but does not read the lines it writes, and leaves them in
/// no cache. The ranges must not overlap.
void copyPastCaches(char* dst, const char* src, size_t bytes);

} // namespace openreg
