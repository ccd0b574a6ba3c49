// What the operators of recurrent nets are told of the net.
#pragma once

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

} // namespace at::native::openreg
