// Memory that the libraries of a real GPU take, for a device that poses as one.
#pragma once

#include "runtime/OpenRegStream.h"

#include <c10/core/Allocator.h>
#include <c10/macros/Macros.h>

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

/// What a library takes while a kernel runs: memory for the stream, as long as this
/// lives. Nobody touches it, so the host has no memory behind it. If there is not
/// enough, the library takes another algorithm, and has none.
class [[nodiscard]] BorrowedWorkspace {
 public:
  BorrowedWorkspace(const c10::openreg::OpenRegStream& stream, size_t bytes);
  ~BorrowedWorkspace();
  C10_DISABLE_COPY_AND_ASSIGN(BorrowedWorkspace);

 private:
  c10::DataPtr memory_;
  c10::DeviceIndex device_;
  size_t bytes_ = 0;
};
/// The same for a kernel that takes nothing else meanwhile.
void borrowWorkspace(const c10::openreg::OpenRegStream& stream, size_t bytes);

/// The most bytes that libraries had of a device at a time, kept ones included, since
/// resetLibraryPeak().
size_t libraryPeak(c10::DeviceIndex device);
void resetLibraryPeak(c10::DeviceIndex device);

/// Whether an operator, by its name without overload, is one that these libraries
/// compute.
bool isMatrixProduct(std::string_view op);

} // namespace at::native::openreg
