// An observer of the order of work and of its memory, which the sanitizer implements.
// The observer of OpenRegSubmit.h sees the work itself.
#pragma once

#include <openreg.h>

#include <atomic>
#include <cstddef>

namespace c10::openreg {

// docs:begin runtime-observer
/// Is notified of everything that orders work, and of memory that is allocated or freed,
/// on the thread where it happens. It changes nothing and waits for no stream.
///
/// Threads: any number may call it at a time, with or without the GIL, but never while
/// they hold a lock of the runtime that a kernel needs.
class RuntimeObserver {
 public:
  virtual ~RuntimeObserver() = default;

  // --- order ---
  virtual void onEventRecord(orEvent_t event, orStream_t stream) = 0;
  virtual void onEventDestroy(orEvent_t event) = 0;
  /// Later work of the stream runs after the event.
  virtual void onStreamWait(orStream_t stream, orEvent_t event) = 0;
  /// The host has seen that an event has happened, or that a stream or device is idle.
  virtual void onHostWaitForEvent(orEvent_t event) = 0;
  virtual void onHostWaitForStream(orStream_t stream) = 0;
  virtual void onHostWaitForDevice(int device) = 0;

  // --- memory ---
  /// Addresses that no earlier work can still use.
  virtual void onMap(const void* pointer, size_t bytes) = 0;
  virtual void onAllocate(
      const void* pointer,
      size_t bytes,
      orStream_t stream) = 0;
  /// The last allocation was made by a kernel that runs on this thread and uses it now.
  virtual void onAllocateInKernel(const void* pointer) = 0;
  /// An allocation turns out to be a result of the last work of this thread.
  virtual void onResult(const void* pointer) = 0;
  virtual void onFree(const void* pointer) = 0;
  virtual void onRecordStream(const void* pointer, orStream_t stream) = 0;
  virtual void onPin(const void* pointer, size_t bytes) = 0;
  virtual void onUnpin(const void* pointer) = 0;

  // --- graphs ---
  virtual void onCaptureBegin(const void* graph, orStream_t stream) = 0;
  /// The capture has ended; it may have failed.
  virtual void onCaptureEnd(const void* graph) = 0;
  /// An event that each replay records or waits for.
  virtual void onExternalRecord(orEvent_t event, orStream_t stream) = 0;
  virtual void onExternalWait(orStream_t stream, orEvent_t event) = 0;
  /// The replay is work of the stream that follows: submit() is called next.
  virtual void onReplay(const void* graph, orStream_t stream) = 0;
  virtual void onGraphReset(const void* graph) = 0;
};
// docs:end runtime-observer

/// Sets the observer, or none with nullptr, and returns the previous one, which must
/// stay alive: threads may still be inside it.
RuntimeObserver* exchangeRuntimeObserver(RuntimeObserver* observer);

namespace detail {
extern std::atomic<RuntimeObserver*> runtimeObserver;
} // namespace detail

/// Calls one of its methods, if there is an observer.
template <class... Parameters, class... Arguments>
inline void observe(
    void (RuntimeObserver::*method)(Parameters...),
    Arguments... arguments) {
  RuntimeObserver* observer =
      detail::runtimeObserver.load(std::memory_order_acquire);
  if (observer != nullptr) [[unlikely]] {
    (observer->*method)(arguments...);
  }
}

} // namespace c10::openreg
