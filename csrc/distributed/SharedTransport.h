// A group whose ranks are on one host: memory that they share. Free of torch.
#pragma once

#include "distributed/SharedBoard.h"
#include "remote/Descriptor.h"

#include <mutex>

namespace c10::openreg::occl {

// docs:begin shared-transport
/// Small messages go through staging memory: the ranks meet once, and everybody reads.
/// For large ones, ranks read each other's device memory in place, and in an all_reduce
/// or a broadcast write to it: they meet before and after. If the memory of some rank
/// cannot be shared, large messages go through staging memory in parts. The choice
/// follows from what all ranks have said, so all make the same one.
///
/// Threads: as a Transport's.
// docs:end shared-transport
class SharedTransport final : public Transport {
 public:
  /// What a rank has mapped and what others may map of it.
  struct Memory {
    char* base; ///< nullptr in others' until it is needed
    FileAddress address;
  };
  struct Rank {
    int process;
    std::vector<Memory> memories; ///< one per device
  };

  SharedTransport(
      remote::Mapping board,
      int rank,
      std::vector<Rank> ranks,
      std::string group);

  /// Sets what moves messages to single ranks.
  void setMessages(std::unique_ptr<Transport> messages) {
    messages_ = std::move(messages);
  }
  /// Throws std::runtime_error if memory of a rank cannot be opened.
  void tryMemories(int peer) const;

  const char* name() const override {
    return "shared memory";
  }
  Moment run(const Collective& call, Deadline deadline) override;
  void transfer(const std::vector<Transfer>& messages, Deadline deadline)
      override {
    messages_->transfer(messages, deadline);
  }
  void abort(const std::string& why) noexcept override;

 private:
  using Sources = std::vector<const char*>;

  bool find(const Span* span, Place* place) const;
  const char* stagingOf(const Collective& call, int owner) const;
  void stage(const Collective& call, size_t from);
  void checkOffers(const Collective& call);
  char* reach(int peer, const Place& place, uint64_t bytes, DataType type);

  void runDirect(const Collective& call, Deadline deadline);
  void broadcastDirect(const Collective& call);
  void runInParts(const Collective& call, Deadline deadline);
  void take(
      const Collective& call,
      const Sources& sources,
      size_t from,
      size_t most) const;

  const remote::Mapping memory_;
  SharedBoard board_;
  const int rank_;
  const int size_;
  const std::string group_;
  std::vector<Rank> ranks_;
  std::vector<remote::Mapping> mapped_;
  std::vector<Offer> offers_; // of the others, checked
  uint64_t sequence_ = 0;
  std::unique_ptr<Transport> messages_;

  std::mutex mutex_;
  std::string aborted_;
};

} // namespace c10::openreg::occl
