// Where in a Python program something happens.
#pragma once

#include "sanitizer/Work.h"

#include <torch/csrc/profiler/combined_traceback.h>

#include <memory>
#include <string>

namespace c10::openreg::sanitizer {

/// The stack of the calling thread. In a backward pass, which has no Python of its own,
/// that of the forward operator as well, if it is still known.
///
/// Threads: any.
class Stacks final : public Place {
 public:
  /// Takes Python's lock: to be called without locks that its owner may wait for.
  static std::shared_ptr<const Stacks> gather();

  std::shared_ptr<torch::CapturedTraceback> here;
  std::shared_ptr<torch::CapturedTraceback> forward; ///< may be nullptr
  std::string node; ///< of autograd; empty outside of a backward pass
};

} // namespace c10::openreg::sanitizer
