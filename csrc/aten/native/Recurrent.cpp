#include "aten/native/Recurrent.h"

#include "aten/native/RecurrentMemory.h"
#include "runtime/OpenRegDeviceType.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/native/RNN.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

namespace at::native::openreg {
namespace {

// --- one step -----------------------------------------------------------------

/// The hidden state of one layer, and the cell state of an LSTM.
using State = std::vector<Tensor>;

/// The weights of one layer in one direction.
struct Layer {
  Tensor w_ih, w_hh, b_ih, b_hh, w_hr;

  Tensor gatesOfInput(const Tensor& input) const {
    return at::linear(input, w_ih, b_ih);
  }
  Tensor gatesOfHidden(const Tensor& hidden) const {
    return at::linear(hidden, w_hh, b_hh);
  }
  Tensor project(const Tensor& hidden) const {
    return w_hr.defined() ? at::matmul(hidden, w_hr.t()) : hidden;
  }
};

// The operators, their order and which of them work in place are the CPU's: where
// the rows of a tensor end decides which numbers a kernel takes as a vector, and so
// the bits. Under torch.func the tensor to change may be the same for all samples,
// and cannot take what differs among them.
bool isTransformed() {
  return c10::impl::tls_is_dispatch_key_included(
      c10::DispatchKey::FuncTorchDynamicLayerBackMode);
}
Tensor addTo(const Tensor& to, const Tensor& other) {
  return isTransformed() ? to.add(other) : to.add_(other);
}
Tensor mulTo(const Tensor& to, const Tensor& other) {
  return isTransformed() ? to.mul(other) : to.mul_(other);
}

State lstmStep(const Layer& layer, const Tensor& gates, const State& last) {
  const auto parts =
      addTo(layer.gatesOfHidden(last[0]), gates).unsafe_chunk(4, 1);
  const Tensor in = parts[0].sigmoid_(), forget = parts[1].sigmoid_(),
               cell = parts[2].tanh_(), out = parts[3].sigmoid_();
  Tensor cy = (forget * last[1]).add_(in * cell);
  Tensor hy = layer.project(out * cy.tanh());
  return {hy, cy};
}

State gruStep(const Layer& layer, const Tensor& gates, const State& last) {
  const auto input = gates.unsafe_chunk(3, 1);
  const auto hidden = layer.gatesOfHidden(last[0]).unsafe_chunk(3, 1);
  const Tensor reset = addTo(hidden[0], input[0]).sigmoid_();
  const Tensor update = addTo(hidden[1], input[1]).sigmoid_();
  const Tensor fresh = input[2].add(mulTo(hidden[2], reset)).tanh_();
  return {(last[0] - fresh).mul_(update).add_(fresh)};
}

/// The next state; `gates` is the input's part of the sum.
State step(
    RecurrentKind kind,
    const Layer& layer,
    const Tensor& gates,
    const State& last) {
  switch (kind) {
    case RecurrentKind::Lstm:
      return lstmStep(layer, gates, last);
    case RecurrentKind::Gru:
      return gruStep(layer, gates, last);
    case RecurrentKind::Tanh:
      return {addTo(layer.gatesOfHidden(last[0]), gates).tanh()};
    default:
      return {addTo(layer.gatesOfHidden(last[0]), gates).relu()};
  }
}

// --- one layer ----------------------------------------------------------------

/// Steps one after the other: the first dimension of `data`, or, if it is packed,
/// as many rows per step as `batch_sizes` says: ever fewer.
struct Sequence {
  Tensor data;
  Tensor batch_sizes;

  bool isPacked() const {
    return batch_sizes.defined();
  }
  std::vector<Tensor> split(const Tensor& values) const {
    if (!isPacked()) {
      return values.unbind(0);
    }
    std::vector<Tensor> steps;
    int64_t begin = 0;
    const auto* sizes = batch_sizes.const_data_ptr<int64_t>();
    for (const int64_t size : IntArrayRef(sizes, batch_sizes.numel())) {
      steps.push_back(values.narrow(0, begin, size));
      begin += size;
    }
    return steps;
  }
  Tensor join(const std::vector<Tensor>& steps) const {
    return isPacked() ? at::cat(steps, 0) : at::stack(steps, 0);
  }
};

State slice(const State& state, int64_t begin, int64_t end) {
  State part;
  for (const Tensor& tensor : state) {
    part.push_back(tensor.narrow(0, begin, end - begin));
  }
  return part;
}

State concatenate(const std::vector<State>& parts) {
  State whole;
  for (size_t place = 0; place < parts[0].size(); ++place) {
    std::vector<Tensor> tensors;
    for (const State& part : parts) {
      tensors.push_back(part[place]);
    }
    whole.push_back(at::cat(tensors, 0));
  }
  return whole;
}

/// A layer in one direction: its output, and its last state.
std::pair<Tensor, State> runLayer(
    RecurrentKind kind,
    const Layer& layer,
    const Sequence& input,
    const State& first,
    bool reverse) {
  auto steps = input.split(layer.gatesOfInput(input.data));
  TORCH_CHECK(
      !steps.empty(), "Expected sequence length to be larger than 0 in RNN");
  if (reverse) {
    std::reverse(steps.begin(), steps.end());
  }
  const auto rowsOf = [&](const Tensor& gates) {
    return input.isPacked() ? gates.size(0) : 0;
  };
  int64_t rows = rowsOf(steps[0]);
  State state = reverse && input.isPacked() ? slice(first, 0, rows) : first;
  std::vector<State> ended; // of sequences that are over
  std::vector<Tensor> outputs;
  for (const Tensor& gates : steps) {
    const int64_t before = std::exchange(rows, rowsOf(gates));
    if (rows < before) {
      ended.push_back(slice(state, rows, before));
      state = slice(state, 0, rows);
    } else if (rows > before) {
      state = concatenate({state, slice(first, before, rows)});
    }
    state = step(kind, layer, gates, state);
    outputs.push_back(state[0]);
  }
  if (reverse) {
    std::reverse(outputs.begin(), outputs.end());
  } else if (input.isPacked()) {
    ended.push_back(state);
    std::reverse(ended.begin(), ended.end());
    state = concatenate(ended);
  }
  return {input.join(outputs), state};
}

// --- the net ------------------------------------------------------------------

std::vector<Layer> layersOf(
    TensorList params,
    bool has_biases,
    bool has_projections) {
  const size_t count =
      2 + (has_biases ? 2 : 0) + static_cast<size_t>(has_projections);
  TORCH_CHECK(
      params.size() % count == 0, "got an incorrect number of RNN parameters");
  std::vector<Layer> layers;
  for (; !params.empty(); params = params.slice(count)) {
    layers.push_back(
        {params[0],
         params[1],
         has_biases ? params[2] : Tensor(),
         has_biases ? params[3] : Tensor(),
         has_projections ? params[count - 1] : Tensor()});
  }
  return layers;
}

/// Autocast casts what a product takes, and states are also added: without this a
/// sum would be of the wider type, and the rest with it.
std::vector<Tensor> lowered(TensorList hx) {
  return autocast::is_autocast_enabled(c10::openreg::kDeviceType)
      ? autocast::cached_cast(
            autocast::get_autocast_dtype(c10::openreg::kDeviceType),
            hx,
            c10::openreg::kDeviceType)
      : hx.vec();
}

/// The states of each layer, of tensors that have them for all.
std::vector<State> byLayer(TensorList hx) {
  std::vector<State> states;
  for (const Tensor& tensor : hx) {
    const auto parts = tensor.unbind(0);
    states.resize(parts.size());
    for (size_t place = 0; place < parts.size(); ++place) {
      states[place].push_back(parts[place]);
    }
  }
  return states;
}

std::vector<Tensor> stackLayers(const std::vector<State>& states) {
  std::vector<Tensor> bound;
  for (size_t kind = 0; kind < states[0].size(); ++kind) {
    std::vector<Tensor> tensors;
    for (const State& state : states) {
      tensors.push_back(state[kind]);
    }
    bound.push_back(at::stack(tensors, 0));
  }
  return bound;
}

} // namespace

std::pair<Tensor, std::vector<Tensor>> runRecurrent(
    const RecurrentNet& net,
    const Tensor& input,
    const Tensor& batch_sizes,
    TensorList hx,
    TensorList params) {
  check_attributes(input, params, hx);
  const RecurrentMemory memory(net, input, batch_sizes, hx, params);
  Sequence sequence{
      net.batch_first ? input.transpose(0, 1) : input, batch_sizes};
  const bool has_projections =
      hx.size() == 2 && hx[0].sym_size(2) != hx[1].sym_size(2);
  const auto layers = layersOf(params, net.has_biases, has_projections);
  auto states = byLayer(lowered(hx));
  const size_t directions = net.bidirectional ? 2 : 1;
  const size_t count = static_cast<size_t>(net.num_layers) * directions;
  TORCH_CHECK(
      states.size() == count, "Expected more hidden states in stacked_rnn");
  TORCH_CHECK(layers.size() == count, "Expected more weights in stacked_rnn");
  for (size_t first = 0; first < count; first += directions) {
    std::vector<Tensor> outputs;
    for (size_t place = first; place < first + directions; ++place) {
      auto [output, last] = runLayer(
          net.kind,
          layers[place],
          sequence,
          states[place],
          /*reverse=*/place != first);
      outputs.push_back(std::move(output));
      states[place] = std::move(last);
    }
    sequence.data = net.bidirectional ? at::cat(outputs, -1) : outputs[0];
    if (net.dropout != 0 && net.train && first + directions < count) {
      sequence.data = at::dropout(sequence.data, net.dropout, /*train=*/true);
    }
  }
  auto last = stackLayers(states);
  if (net.batch_first) {
    sequence.data.transpose_(0, 1);
  }
  std::vector<Tensor> results(last);
  results.push_back(sequence.data);
  return {memory.finish(sequence.data, results), last};
}

// --- cells --------------------------------------------------------------------

namespace {

State runCell(
    RecurrentKind kind,
    const Tensor& input,
    TensorList hx,
    const Layer& layer) {
  TORCH_CHECK(
      input.sym_size(1) == layer.w_ih.sym_size(1),
      "input has inconsistent input_size: got ",
      input.sym_size(1),
      " expected ",
      layer.w_ih.sym_size(1));
  for (size_t place = 0; place < hx.size(); ++place) {
    TORCH_CHECK(
        input.sym_size(0) == hx[place].sym_size(0),
        "Input batch size ",
        input.sym_size(0),
        " doesn't match hidden",
        place,
        " batch size ",
        hx[place].sym_size(0));
    TORCH_CHECK(
        hx[place].sym_size(1) == layer.w_hh.sym_size(1),
        "hidden",
        place,
        " has inconsistent hidden_size: got ",
        hx[place].sym_size(1),
        ", expected ",
        layer.w_hh.sym_size(1));
  }
  return step(kind, layer, layer.gatesOfInput(input), hx.vec());
}

Tensor orUndefined(const std::optional<Tensor>& bias) {
  return bias.value_or(Tensor());
}

} // namespace

Tensor gru_cell(
    const Tensor& input,
    const Tensor& hx,
    const Tensor& w_ih,
    const Tensor& w_hh,
    const std::optional<Tensor>& b_ih,
    const std::optional<Tensor>& b_hh) {
  return runCell(
      RecurrentKind::Gru,
      input,
      hx,
      {w_ih, w_hh, orUndefined(b_ih), orUndefined(b_hh), Tensor()})[0];
}

std::tuple<Tensor, Tensor> lstm_cell(
    const Tensor& input,
    TensorList hx,
    const Tensor& w_ih,
    const Tensor& w_hh,
    const std::optional<Tensor>& b_ih,
    const std::optional<Tensor>& b_hh) {
  TORCH_CHECK(hx.size() == 2, "lstm_cell expects two hidden states");
  const State next = runCell(
      RecurrentKind::Lstm,
      input,
      hx,
      {w_ih, w_hh, orUndefined(b_ih), orUndefined(b_hh), Tensor()});
  return {next[0], next[1]};
}

} // namespace at::native::openreg
