// What a recurrent net takes of memory on an NVIDIA GPU, for a device that poses as
// one.
#pragma once

#include "aten/native/RecurrentNet.h"

#include <ATen/core/Tensor.h>

#include <optional>

namespace at::native::openreg {

/// Follows one forward pass. The net here is composed of operators, which keep tensors
/// for the backward pass; cuDNN keeps the input, the output and one block. This adds what
/// is missing until then, and what cuDNN takes while a pass runs.
class [[nodiscard]] RecurrentMemory {
 public:
  /// Does nothing unless the device poses as an NVIDIA GPU and cuDNN would run the net.
  RecurrentMemory(
      const RecurrentNet& net,
      const Tensor& input,
      const Tensor& batch_sizes,
      TensorList hx,
      TensorList params);

  /// Moves what oneDNN's layers saved for the backward pass of `output` to the host's
  /// memory, but for tensors of the program: the device of a GPU has none of it.
  void moveOneDnnsToHost(
      const Tensor& input,
      const Tensor& output,
      int64_t layers) const;

  /// The output, with a node in the graph that counts for the backward pass. `results`
  /// are the tensors that the pass returns.
  Tensor finish(const Tensor& output, TensorList results) const;

 private:
  struct Need {
    size_t kept, workspace, gradients; // bytes
  };

  std::optional<Need> need_;
  Tensor input_; // that the backward pass reads, or an empty one
  size_t before_ = 0; // allocated bytes
};

} // namespace at::native::openreg
