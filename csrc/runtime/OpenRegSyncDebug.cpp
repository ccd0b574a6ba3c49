#include "runtime/OpenRegSyncDebug.h"

#include "runtime/OpenRegTrace.h"

#include <c10/util/Exception.h>

#include <atomic>

namespace c10::openreg {
namespace {

std::atomic<SyncDebugMode> current{SyncDebugMode::Disabled};

} // namespace

void set_sync_debug_mode(int mode) {
  TORCH_CHECK(
      mode >= 0 && mode <= 2,
      "invalid value of debug_mode, expected one of 0,1,2, but got ",
      mode);
  current = static_cast<SyncDebugMode>(mode);
}

SyncDebugMode get_sync_debug_mode() noexcept {
  return current.load(std::memory_order_relaxed);
}

namespace {

void judgeSynchronization() {
  const SyncDebugMode mode = get_sync_debug_mode();
  if (C10_LIKELY(mode == SyncDebugMode::Disabled)) {
    return;
  }
  const auto sentence =
      c10::str("called a synchronizing ", deviceTitle(), " operation");
  TORCH_CHECK(mode != SyncDebugMode::Error, sentence);
  TORCH_WARN(sentence);
}

} // namespace

void noteSynchronization(orStream_t stream) {
  judgeSynchronization();
  trace(&Trace::trace_gpu_stream_synchronization, numberOf(stream));
}

} // namespace c10::openreg
