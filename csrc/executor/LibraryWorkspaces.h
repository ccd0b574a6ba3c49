// Memory that the matrix libraries of a real GPU keep, for a device that poses as
// one.
#pragma once

#include "runtime/OpenRegStream.h"

#include <string_view>

namespace at::native::openreg {

/// Allocates what the libraries keep for the calling thread and the stream, the
/// first time the thread computes a product there. It is never freed: a thread that
/// comes after this one takes it over.
///
/// Threads: any; each has workspaces of its own.
void keepWorkspaces(const c10::openreg::OpenRegStream& stream, bool withBias);

/// Whether an operator, by its name without overload, is one that these libraries
/// compute.
bool isMatrixProduct(std::string_view op);

} // namespace at::native::openreg
