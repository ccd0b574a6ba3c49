// Copies of more than the caches hold. Free of torch.
#pragma once

#include <cstddef>

namespace c10::openreg::occl {

/// Copies bytes that do not overlap, past the caches: what is written is not read before,
/// and neither stays there. For copies of megabytes; smaller ones are better off there.
void copyLarge(char* to, const char* from, size_t bytes);

} // namespace c10::openreg::occl
