#include "aten/native/Lstm.h"

#include "aten/native/Recurrent.h"
#include "executor/OperatorKernel.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/native/RNN.h>
#include <ATen/ops/mkldnn_rnn_layer_backward_ops.h>

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
/// Whether the CPU would leave an LSTM of such tensors to oneDNN. Autocast changes
/// the dtype on the way there.
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
    return false; // for the error of the other way
  }
  const ScalarType dtype = autocast::is_autocast_enabled(kPrivateUse1)
      ? autocast::get_autocast_dtype(kPrivateUse1)
      : input.scalar_type();
  switch (dtype) {
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

/// The derivative of a layer, in the form that the executor calls operators in. It
/// is the same for both biases; the kernel returns one tensor twice, this once, as
/// outputs of a queued kernel share no memory.
template <class Op, class Signature>
struct LayerBackward;

template <class Op, class Result, class... Args>
struct LayerBackward<Op, Result(Args...)> {
  using Outputs = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;
  using schema = Outputs(Args...);
  static constexpr const char* name = Op::name;
  static constexpr const char* overload_name = Op::overload_name;
  static constexpr bool callsKernel = true;

  static Outputs redispatch(DispatchKeySet /*keys*/, Args... args) {
    auto [input, weight1, weight2, bias, sameBias, hx, cx] =
        callCpuKernel<Op>(args...);
    return {input, weight1, weight2, bias, hx, cx};
  }
};

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
  if (takesOneDnn(input, hx, params)) {
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
    return {std::move(output), std::move(hy), std::move(cy)};
  }
  auto [output, last] = runRecurrent(
      {RecurrentKind::Lstm,
       has_biases,
       num_layers,
       dropout,
       train,
       bidirectional,
       batch_first},
      input,
      Tensor(),
      hx,
      params);
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

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>
mkldnn_rnn_layer_backward(
    const Tensor& input,
    const Tensor& weight1,
    const Tensor& weight2,
    const Tensor& weight3,
    const Tensor& weight4,
    const Tensor& hx,
    const Tensor& cx,
    const Tensor& output,
    const Tensor& hy,
    const Tensor& cy,
    const std::optional<Tensor>& grad_output,
    const std::optional<Tensor>& grad_hy,
    const std::optional<Tensor>& grad_cy,
    bool reverse,
    int64_t mode,
    int64_t hidden_size,
    int64_t num_layers,
    bool has_biases,
    bool train,
    bool bidirectional,
    IntArrayRef batch_sizes,
    bool batch_first,
    const Tensor& workspace) {
  using Op = at::_ops::mkldnn_rnn_layer_backward;
  auto [dx, dw1, dw2, bias, dhx, dcx] =
      CachedKernel<LayerBackward<Op, Op::schema>>::call(
          input,
          weight1,
          weight2,
          weight3,
          weight4,
          hx,
          cx,
          output,
          hy,
          cy,
          grad_output,
          grad_hy,
          grad_cy,
          reverse,
          mode,
          hidden_size,
          num_layers,
          has_biases,
          train,
          bidirectional,
          batch_sizes,
          batch_first,
          workspace);
  return {dx, dw1, dw2, bias, bias, dhx, dcx};
}

} // namespace at::native::openreg
