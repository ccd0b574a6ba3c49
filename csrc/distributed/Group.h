// What the calls of one group share: its ranks, its state and its streams.
#pragma once

#include "distributed/TrafficLedger.h"
#include "runtime/OpenRegEvent.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace c10::openreg::occl {

/// A group of ranks as one of them sees it. Calls that are queued own it too, so it
/// outlives its process group as long as they need it.
///
/// Threads: any may call anything.
class Group {
 public:
  Group(int rank, int size, std::string name)
      : rank(rank), size(size), name_(std::move(name)) {}

  const int rank;
  const int size;

  std::string name() const;
  void setName(const std::string& name);

  void setTransport(std::unique_ptr<Transport> transport) {
    transport_ = std::move(transport);
  }
  Transport& transport() const {
    return *transport_;
  }

  /// Sets the links of a cluster that this machine poses as.
  void setNetwork(Network network) {
    network_.emplace(std::move(network));
  }
  /// Sleeps until the links would have carried a call for which all ranks were ready at
  /// a given moment. A failure of the group wakes the thread.
  template <class Call>
  void passLinks(const char* kind, const Call& call, Moment ready) {
    if (network_) {
      passLinks(kind, network_->of(call), ready);
    }
  }

  /// The first failure ends the group: everything that waits is woken.
  void fail(const std::string& why) noexcept;
  /// Throws DistBackendError with the first failure, if there was one.
  void check() const;
  bool failed() const {
    return failed_.load(std::memory_order_acquire);
  }

  // --- streams ---

  /// Which calls follow each other: collectives of a group, messages between two ranks
  /// in one direction with one tag.
  struct Lane {
    DeviceIndex device;
    int peer = -1; // none: collectives
    bool receives = false;
    int tag = 0;
    auto operator<=>(const Lane&) const = default;
  };
  /// A stream for these calls alone, made on first use. Its worker may wait for other
  /// ranks as long as it takes, because no other work is behind it.
  OpenRegStream streamFor(const Lane& lane, bool highPriority);

  /// Held while a collective is queued.
  std::mutex orderMutex;
  /// Makes a stream for collectives wait for those of other devices: they follow each
  /// other too. The caller holds `orderMutex`.
  void followOtherDevices(const OpenRegStream& stream);

  /// Waits until everything that is queued has run.
  void finish() const;
  /// The same after a failure; devices that were told of it forget it.
  void settle() const noexcept;

  ~Group();

 private:
  void passLinks(const char* kind, const Traffic& traffic, Moment ready);

  mutable std::mutex mutex_;
  std::string name_;
  std::string failure_;
  std::atomic<bool> failed_{false};
  std::condition_variable fails_;
  std::unique_ptr<Transport> transport_;
  std::optional<Network> network_;
  std::map<Lane, orStream_t> streams_;
  std::optional<OpenRegStream> last_; // that a collective was queued in
};

} // namespace c10::openreg::occl
