// Memory that the libraries of a real GPU take, for a device that poses as one.
#pragma once

#include "runtime/OpenRegStream.h"

#include <cstddef>
#include <string_view>

namespace at::native::openreg {

/// Allocates what the libraries keep for the calling thread and the stream, the
/// first time the thread computes a product there. It is never freed: a thread that
/// comes after this one takes it over.
///
/// Threads: any; each has workspaces of its own.
void keepWorkspaces(const c10::openreg::OpenRegStream& stream, bool withBias);

/// Whether a device poses as one that NVIDIA's libraries compute on.
bool posesAsNvidia();

/// Allocates memory for the stream and frees it at once: what a library takes while a
/// kernel runs. Nobody touches it, so the host has no memory behind it. If there is not
/// enough, the library takes another algorithm, and nothing happens.
void borrowWorkspace(const c10::openreg::OpenRegStream& stream, size_t bytes);

/// The most bytes that libraries had of a device at a time, kept ones included, since
/// resetLibraryPeak().
size_t libraryPeak(c10::DeviceIndex device);
void resetLibraryPeak(c10::DeviceIndex device);

/// Whether an operator, by its name without overload, is one that these libraries
/// compute.
bool isMatrixProduct(std::string_view op);

} // namespace at::native::openreg
