// Calls of libopenreg as they are, for torch.openreg.openregrt(): pointers and
// handles are numbers, and what can fail returns the code.
#pragma once

#include <cstddef>
#include <cstdint>

namespace c10::openreg {

const char* error_name(int code);
const char* error_string(int code);
int host_register(uintptr_t pointer, size_t size, unsigned flags);
int host_unregister(uintptr_t pointer);
/// Writes the handle at the address `place`.
int stream_create(uintptr_t place);
int stream_destroy(uintptr_t stream);

} // namespace c10::openreg
