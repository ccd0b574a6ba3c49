// How the ranks of a new group agree on a transport.
#pragma once

#include "distributed/Collective.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>

namespace c10::openreg::occl {

// docs:begin rendezvous
/// Shared memory, if all ranks are processes of one user on one host and each of them
/// could open what the others offer; otherwise Gloo. Every rank hears of every other
/// rank's answer, so that all choose the same. `engine` is Gloo's group, which messages
/// between two ranks go through in any case. With PyTorch's fake group as the engine this
/// rank is alone.
///
/// Threads: any. Waits until all ranks of the group call it.
// docs:end rendezvous
std::unique_ptr<Transport> connect(
    c10d::Store& store,
    c10::intrusive_ptr<c10d::Backend> engine,
    const std::string& group);

} // namespace c10::openreg::occl
