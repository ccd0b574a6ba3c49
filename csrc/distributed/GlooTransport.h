// A group whose ranks may be on several hosts: messages of Gloo, which is in torch.
#pragma once

#include "distributed/Collective.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <memory>
#include <mutex>
#include <set>

namespace c10::openreg::occl {

// docs:begin gloo-transport
/// Every collective consists of a few rounds in which ranks send each other parts of
/// their memory. Reductions are done here, in the order of the ranks, so that all have
/// the same bits. Of Gloo only messages are used. A round of headers comes first: no byte
/// is sent to a rank that makes a different call.
///
/// Threads: as a Transport's.
// docs:end gloo-transport
class GlooTransport final : public Transport {
 public:
  GlooTransport(c10::intrusive_ptr<c10d::Backend> engine, std::string group);

  const char* name() const override {
    return "gloo";
  }
  Moment run(const Collective& call, Deadline deadline) override;
  void transfer(const std::vector<Transfer>& messages, Deadline deadline)
      override;
  void abort(const std::string& why) noexcept override;

 private:
  struct Message;
  using Works = std::vector<std::unique_ptr<Message>>;

  std::unique_ptr<Message> begin(Kind kind, int peer, int tag, Span memory);
  void finish(Message& message, Deadline deadline);
  void finishAll(Works& works, Deadline deadline);
  void checkUsable();
  [[noreturn]] void throwUnreachable(int peer, const std::string& why) const;

  /// Gives each rank one span and takes one; nothing where there are no bytes.
  void exchange(
      const std::vector<Span>& give,
      const std::vector<Span>& take,
      Deadline deadline);
  void checkHeaders(const Collective& call, Deadline deadline);

  void broadcast(const Span& memory, int root, Deadline deadline);
  void allReduce(const Collective& call, Deadline deadline);
  void reduceTo(
      const Collective& call,
      const std::vector<Span>& give,
      Span own,
      Span result,
      Deadline deadline);

  const c10::intrusive_ptr<c10d::Backend> engine_;
  const std::string group_;
  const int rank_;
  const int size_;
  uint64_t sequence_ = 0; // of the thread that runs collectives
  std::vector<double> factors_;

  std::mutex mutex_;
  std::set<c10d::Work*> works_; // that somebody waits for
  std::string aborted_;
};

} // namespace c10::openreg::occl
