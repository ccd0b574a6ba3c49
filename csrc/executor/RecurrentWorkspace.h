// Memory that cuDNN takes for a recurrent net beside its tensors, on a device that
// poses as an NVIDIA GPU.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>

namespace at::native::openreg {

/// A recurrent net as cuDNN sees it.
struct RecurrentShape {
  enum Kind : uint8_t { Lstm, Gru, Plain };

  Kind kind;
  c10::ScalarType dtype;
  size_t layers, directions;
  size_t steps, batch;
  size_t input, hidden; // numbers per step
  size_t projected; // numbers per step of a projected state, or 0
  bool dropsOut; // between layers
  size_t weightBytes; // of all layers
  bool copiesWeights; // at each call

  /// Bytes that a pass takes while it runs.
  size_t workspace() const;
  /// Bytes that the forward pass keeps for the backward pass.
  size_t reserve() const;
};

} // namespace at::native::openreg
