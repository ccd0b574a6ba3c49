// A group of which one rank alone runs. Free of torch.
#pragma once

#include "distributed/Collective.h"

namespace c10::openreg::occl {

/// Pretends that the other ranks give what this one gives, so that estimates can run
/// one rank of many. Nothing waits, and links take no time.
///
/// Threads: as a Transport's.
class AloneTransport final : public Transport {
 public:
  explicit AloneTransport(int rank) : rank_(rank) {}

  const char* name() const override {
    return "none: the other ranks are missing";
  }
  Moment run(const Collective& call, Deadline deadline) override;
  /// What is received is zeros.
  void transfer(const std::vector<Transfer>& messages, Deadline deadline)
      override;
  void abort(const std::string& /*why*/) noexcept override {}

 private:
  const int rank_;
};

} // namespace c10::openreg::occl
