// What the operators of recurrent nets are told of the net, and the dtype of its numbers.
#pragma once

#include "runtime/OpenRegDeviceType.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace at::native::openreg {

enum class RecurrentKind { Lstm, Gru, Tanh, Relu };

/// What all operators of recurrent nets are told.
struct RecurrentNet {
  RecurrentKind kind;
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train;
  bool bidirectional;
  bool batch_first = false;
};

/// The dtype that a net of such an input computes in. Autocast changes it on the way.
inline ScalarType computedDtype(const Tensor& input) {
  const ScalarType own = input.scalar_type();
  return autocast::is_autocast_enabled(c10::openreg::kDeviceType) &&
          own != kDouble
      ? autocast::get_autocast_dtype(c10::openreg::kDeviceType)
      : own;
}

} // namespace at::native::openreg
