// The driver's side of a device process: its start, its end, and the memory lent to it.
// Free of c10, so that it is tested under the sanitizers too.
#pragma once

#include "remote/Channel.h"
#include "remote/ChildProcess.h"
#include "remote/ControlSocket.h"
#include "remote/MemoryLoans.h"

#include <openreg.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace c10 {
class DataPtr;
}

namespace c10::openreg::remote {

/// The device whose memory contains a kernel address; -1 for memory of another process,
/// which a device process has not mapped.
int deviceOfKernelAddress(const void* pointer);

// docs:begin device-process
/// A process that runs the kernels of one device. There is one per device, so that
/// one can be lost without the others. It starts with the first kernel and ends with
/// this process, or when the device is reset. A thread waits for its end: an unexpected
/// end breaks the device with orErrorDeviceLost.
///
/// Threads: any may call anything.
// docs:end device-process
class DeviceProcess {
 public:
  /// The process of a device, started if there is none. Throws if it does not start, or
  /// if it was lost and the device has not been reset since.
  static std::shared_ptr<DeviceProcess> of(int device);

  /// Ends the process of a device, if it has one; the next kernel starts another.
  static void end(int device);

  DeviceProcess(const DeviceProcess&) = delete;
  DeviceProcess& operator=(const DeviceProcess&) = delete;

  const orDeviceMemory& memory() const {
    return memory_;
  }
  char* memoryAt(uint64_t offset) const {
    return static_cast<char*>(memory_.base) + offset;
  }

  /// Whether it was neither lost nor ended.
  bool usable() const {
    return usable_.load(std::memory_order_relaxed);
  }

  /// A channel with a thread at its other end.
  std::unique_ptr<Channel> newChannel();

  /// To be called while waiting for an answer: checks whether the process can still
  /// give one. A process that is stopped is ended.
  bool lost();

  /// Breaks the device, and the running kernel, and throws.
  [[noreturn]] void throwLost();

  // --- memory that kernels there got for outputs ---

  /// Takes ownership of memory at a kernel address of the device. Returns its offset.
  template <class Memory>
  uint64_t lend(Memory memory, size_t bytes) {
    const auto offset =
        static_cast<uint64_t>(static_cast<char*>(memory.get()) - memoryAt(0));
    loans_.add(offset, bytes, std::move(memory));
    return offset;
  }
  /// Takes the memory back; empty if none of that size was lent there.
  template <class Memory = DataPtr>
  Memory takeBack(uint64_t offset, size_t bytes) {
    return loans_.take<Memory>(offset, bytes);
  }
  void giveBack(const std::vector<uint64_t>& offsets) {
    for (const uint64_t offset : offsets) {
      loans_.drop(offset);
    }
  }

 private:
  explicit DeviceProcess(int device);

  void start();
  void noteEnd(const std::string& what);
  std::string whatHappened();
  void publishStatus();
  static void watch(std::shared_ptr<DeviceProcess> process);

  const int device_;
  orDeviceMemory memory_{};
  std::unique_ptr<ChildProcess> process_;
  ControlSocket control_;
  Mapping statusMemory_;
  std::mutex controlMutex_;
  std::atomic<bool> usable_{false};
  MemoryLoans loans_;

  std::mutex mutex_;
  bool ended_ = false; // on purpose, which does not break the device
  std::string what_; // happened
};

} // namespace c10::openreg::remote
