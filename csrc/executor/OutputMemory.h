// Where the tensors that a CPU kernel allocates are placed.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <span>
#include <vector>

namespace at::native::openreg {

/// Device memory as CPU kernels use it, at kernel addresses. The driver has one per
/// stream, the device process asks the driver.
class DeviceMemorySource {
 public:
  /// Memory for an output, or nullptr if there is none without waiting.
  virtual void* tryAllocate(size_t bytes) = 0;

 protected:
  ~DeviceMemorySource() = default;
};

/// Memory that was made for an output before its kernel runs.
struct PlannedMemory {
  void* pointer;
  size_t bytes;
  /// How many temporaries of the same size the kernel allocates before the output.
  size_t earlier = 0;
};

/// An allocation that a kernel made in host memory.
struct HostAllocation {
  const void* pointer;
  size_t bytes;
};

// docs:begin output-scope
/// While it lives, it decides where the CPU allocator puts each tensor that the calling
/// thread makes:
/// - A tensor with as many bytes as the next planned output gets the memory of that
///   output, so a kernel that allocates its output finds it already made.
/// - Other tensors come from `source`, so that an output lies in the right place when
///   the kernel returns it. Without a source, or if the source has no memory without
///   waiting, they lie in host memory.
/// - Tensors of up to `hostBytes` bytes always lie in host memory: a kernel may cast a
///   number that it gets, and the copy is not an output.
/// Scopes nest; the innermost one counts. It does nothing else to the thread, so an
/// exception that leaves it leaves nothing behind.
///
/// Threads: a scope belongs to its thread; memory may be freed by any.
// docs:end output-scope
class [[nodiscard]] OutputScope {
 public:
  explicit OutputScope(
      DeviceMemorySource* source,
      size_t hostBytes = 0,
      std::span<const PlannedMemory> planned = {});
  ~OutputScope();
  OutputScope(const OutputScope&) = delete;
  OutputScope& operator=(const OutputScope&) = delete;

  /// The innermost scope of the calling thread, or nullptr.
  static OutputScope* current();

  /// From now on, notes what is allocated in host memory, in order.
  void logTo(std::vector<HostAllocation>& log) {
    log_ = &log;
  }

  size_t hostBytes() const {
    return source_ ? hostBytes_ : SIZE_MAX;
  }
  /// What is planned and not taken, for a kernel that runs elsewhere; nobody gets it
  /// afterwards.
  c10::SmallVector<PlannedMemory, 2> takeAllPlanned();

 private:
  friend class OutputAllocator;

  void* takePlanned(size_t bytes);

  OutputScope* const outer_;
  DeviceMemorySource* const source_;
  const size_t hostBytes_;
  c10::SmallVector<PlannedMemory, 2> planned_; // 0 bytes: taken
  std::vector<HostAllocation>* log_ = nullptr;
};

/// How many bytes of a kernel's allocations are its numbers.
inline constexpr size_t kNumberBytes = 16;

/// The owner of device memory at kernel addresses.
struct DeviceMemoryOwner {
  bool (*owns)(const void* pointer);
  void (*free)(void* pointer);
};

/// Replaces PyTorch's CPU allocator with the one that scopes act on. To be called once,
/// before any kernel runs.
void installOutputAllocator(const DeviceMemoryOwner& owner);

/// That allocator: for storages of aliases, which CPU kernels may resize.
c10::Allocator* outputAllocator();

/// Whether memory came from the source of a scope.
bool isSourceMemory(const c10::DataPtr& memory);
/// Whether it is planned memory.
bool isPlannedMemory(const c10::DataPtr& memory);

/// Memory of a source as an allocation; empty if there is none at once.
c10::DataPtr allocateFrom(DeviceMemorySource& source, size_t bytes);

/// Whether a tensor still has memory that was planned for an output. To be asked when
/// the results of the kernel are gone: one that keeps such a tensor would write to
/// the output of a call that is over.
bool isPlannedMemoryKept(std::span<const PlannedMemory> planned);

} // namespace at::native::openreg
