#include "aten/native/Lstm.h"

#include "aten/native/Recurrent.h"
#include "aten/native/RecurrentMemory.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/RNN.h>

#include <algorithm>

namespace at::native::openreg {
namespace {

bool oneDnnSupports(const char* question) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(question, "")
      .typed<bool()>()
      .call();
}

// docs:begin lstm
/// Whether the CPU would leave an LSTM of such tensors to oneDNN.
bool takesOneDnn(const Tensor& input, TensorList hx, TensorList params) {
  if (!lstm_mkldnn_stub.DEFAULT || !globalContext().userEnabledMkldnn() ||
      hx[0].unsafeGetTensorImpl()->has_symbolic_sizes_strides() ||
      hx[0].size(2) != hx[1].size(2) || input.sym_numel() == 0) {
    return false;
  }
  const auto isHere = [&](const Tensor& tensor) {
    return tensor.device() == input.device() && tensor.layout() == kStrided;
  };
  if (!std::all_of(hx.begin(), hx.end(), isHere) ||
      !std::all_of(params.begin(), params.end(), isHere)) {
    return false; // the other way raises the error
  }
  switch (computedDtype(input)) {
    case kFloat:
      return true;
    case kBFloat16:
      return oneDnnSupports("mkldnn::_is_mkldnn_bf16_supported");
    case kHalf:
      return !GradMode::is_enabled() &&
          oneDnnSupports("mkldnn::_is_mkldnn_fp16_supported");
    default:
      return false;
  }
}
// docs:end lstm

} // namespace

std::tuple<Tensor, Tensor, Tensor> lstm_input(
    const Tensor& input,
    TensorList hx,
    TensorList params,
    bool has_biases,
    int64_t num_layers,
    double dropout,
    bool train,
    bool bidirectional,
    bool batch_first) {
  TORCH_CHECK(hx.size() == 2, "lstm expects two hidden states");
  const RecurrentNet net{
      RecurrentKind::Lstm,
      has_biases,
      num_layers,
      dropout,
      train,
      bidirectional,
      batch_first};
  if (takesOneDnn(input, hx, params)) {
    const RecurrentMemory memory(net, input, Tensor(), hx, params);
    // The CPU's own code, which calls operators: of the tensors' device.
    Tensor output, hy, cy;
    lstm_mkldnn_stub.DEFAULT(
        output,
        hy,
        cy,
        input,
        hx,
        params,
        has_biases,
        num_layers,
        dropout,
        train,
        bidirectional,
        batch_first);
    memory.moveOneDnnsToHost(
        input, output, num_layers * (bidirectional ? 2 : 1));
    output = memory.finish(output, {output, hy, cy});
    return {std::move(output), std::move(hy), std::move(cy)};
  }
  auto [output, last] = runRecurrent(net, input, Tensor(), hx, params);
  return {std::move(output), std::move(last[0]), std::move(last[1])};
}

std::tuple<Tensor, Tensor, Tensor> lstm_data(
    const Tensor& data,
    const Tensor& batch_sizes,
    TensorList hx,
    TensorList params,
    bool has_biases,
    int64_t num_layers,
    double dropout,
    bool train,
    bool bidirectional) {
  TORCH_CHECK(hx.size() == 2, "lstm expects two hidden states");
  auto [output, last] = runRecurrent(
      {RecurrentKind::Lstm,
       has_biases,
       num_layers,
       dropout,
       train,
       bidirectional},
      data,
      batch_sizes,
      hx,
      params);
  return {std::move(output), std::move(last[0]), std::move(last[1])};
}

} // namespace at::native::openreg
