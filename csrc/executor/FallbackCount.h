// Operators that do not run as a GPU would run them: counted, and reported or
// forbidden.
#pragma once

#include <openreg.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace at::native::openreg {

// docs:begin fallback-kinds
enum class FallbackKind {
  /// The operator has no queued form: the host waits for the stream, if that is
  /// busy, because the shapes of the outputs are known only once the kernel has run.
  Waits,
  /// The operator has a queued form, but the first call with such dtypes or shapes waits
  /// for the stream: it shows what the kernel supports or what the outputs are like.
  FirstCall,
  /// With OPENREG_EXECUTOR=process: the call cannot cross to the device process, so
  /// the kernel runs in this one.
  StaysHere,
};
// docs:end fallback-kinds

/// Counts such calls of one operator.
///
/// Threads: any.
class FallbackCount {
 public:
  /// `name` is never freed. Counts live as long as the process.
  static FallbackCount& of(const char* name, FallbackKind kind);

  /// Counts a call; warns the first time or throws, if OPENREG_FALLBACK says so: a first
  /// call is never refused.
  /// An operator that waits on a GPU as well is also reported to OpenRegSyncDebug.h,
  /// with the stream that is waited for.
  void note(orStream_t stream = nullptr) {
    if (calls_.fetch_add(1, std::memory_order_relaxed) == 0) {
      noteFirst();
    }
    if (isWatched()) {
      judge(stream);
    }
  }

  struct Entry {
    std::string name;
    uint64_t calls;
  };
  /// The operators that were counted, most calls first.
  static std::vector<Entry> report();
  static void reset();

 private:
  FallbackCount(const char* name, FallbackKind kind)
      : name_(name), kind_(kind) {}

  static bool isWatched();
  void noteFirst() const;
  void judge(orStream_t stream) const;

  const char* const name_;
  const FallbackKind kind_;
  std::atomic<uint64_t> calls_{0};
};

} // namespace at::native::openreg
