// Watches the runtime and finds bugs of programs.
#pragma once

#include "runtime/OpenRegObserver.h"
#include "runtime/OpenRegSubmit.h"
#include "sanitizer/Checker.h"
#include "sanitizer/HostAccesses.h"
#include "sanitizer/RedZoneChecks.h"

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace c10::openreg::sanitizer {

/// One for the process. While it is on, it is the observer of all work and order.
///
/// Threads: any may call anything.
class Sanitizer final : public SubmissionObserver,
                        public RuntimeObserver,
                        public HostObserver {
 public:
  /// Called on the thread that did what was found, without locks of the sanitizer.
  using Report = std::function<void(const Finding&)>;

  static Sanitizer& get();

  /// Begins with nothing known. Throws if kernels run in processes of their own.
  void enable(unsigned checks, Report report);
  void disable();
  /// Memory that is allocated now and was not when it was enabled: of devices, then
  /// pinned.
  std::vector<Block> liveBlocks();
  /// Bits of Checks; 0: it is off.
  unsigned checks() const {
    return checks_.load(std::memory_order_relaxed);
  }

  // --- SubmissionObserver ---
  void onSubmit(
      const Submission& work,
      const std::vector<MemoryAccess>& accesses) override;
  void onLaunched(const Submission& work) override;

  // --- RuntimeObserver ---
  void onEventRecord(orEvent_t event, orStream_t stream) override;
  void onEventDestroy(orEvent_t event) override;
  void onStreamWait(orStream_t stream, orEvent_t event) override;
  void onHostWaitForEvent(orEvent_t event) override;
  void onHostWaitForStream(orStream_t stream) override;
  void onHostWaitForDevice(int device) override;
  void onMap(const void* pointer, size_t bytes) override;
  void onAllocate(const void* pointer, size_t bytes, orStream_t stream)
      override;
  void onAllocateInKernel(const void* pointer) override;
  void onResult(const void* pointer) override;
  void onFree(const void* pointer) override;
  void onRecordStream(const void* pointer, orStream_t stream) override;
  void onPin(const void* pointer, size_t bytes) override;
  void onUnpin(const void* pointer) override;
  void onCaptureBegin(const void* graph, orStream_t stream) override;
  void onCaptureEnd(const void* graph) override;
  void onExternalRecord(orEvent_t event, orStream_t stream) override;
  void onExternalWait(orStream_t stream, orEvent_t event) override;
  void onReplay(const void* graph, orStream_t stream) override;
  void onGraphReset(const void* graph) override;

  // --- HostObserver ---
  void onHostAccess(const char* name, const std::vector<MemoryAccess>& accesses)
      override;

 private:
  Sanitizer() = default;

  WorkPtr makeWork(const char* name, orStream_t stream, int device);
  /// Does something with what is known, and reports what it finds.
  template <class Do>
  void checked(Do action);
  /// Tells what orders the host, and looks at what is over then.
  template <class Wait>
  void hostWaits(Wait wait);
  void report(const Findings& findings);
  RedZonePtr makeZone(const void* pointer, size_t bytes, orStream_t stream)
      const;
  std::vector<MemoryUse> toUses(
      const std::vector<MemoryAccess>& accesses) const;
  PlacePtr placeFor(unsigned checks) const;
  bool looksFor(unsigned checks) const {
    return (this->checks() & checks) != 0;
  }

  std::atomic<unsigned> checks_{0};
  std::mutex switching_; // enable() and disable()
  std::mutex mutex_;
  Checker checker_; // the mutex guards it
  RedZoneChecks zones_;
  Report report_;
  SubmissionObserver* before_ = nullptr;
  std::unique_ptr<HostAccesses> hostAccesses_;
};

} // namespace c10::openreg::sanitizer
