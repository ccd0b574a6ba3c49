// Registration of the operators that PyTorch sends elsewhere for CUDA than for
// PrivateUse1, where the device stands in for it.
#include "aten/native/Attention.h"
#include "aten/native/Convolution.h"
#include "aten/native/Copy.h"
#include "aten/native/Extra.h"
#include "aten/native/PhiloxChoices.h"
#include "runtime/OpenRegHooks.h"
#include "runtime/OpenRegLibrary.h"

#include <ATen/native/Copy.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/convolution_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/linalg_svd_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/linalg_svdvals_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/log_softmax_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/softmax_compositeimplicitautograd_dispatch.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace at::native::openreg {

namespace {

// A backend from outside has _copy_from() for this.
Tensor& copyInto(Tensor& self, const Tensor& src, bool non_blocking) {
  TORCH_CHECK(
      !self._is_zerotensor(),
      "ZeroTensors are immutable. Please materialize the tensor using "
      "`.clone()`, if you want a mutable zero tensor.");
  if (src._is_zerotensor()) {
    self.zero_();
  } else if (!self.is_same(src)) {
    openreg::_copy_from(src, self, non_blocking);
  }
  return self;
}

// For kernels of PyTorch's that call its copy_() and not the operator.
void copyKernel(TensorIterator& iter, bool non_blocking) {
  openreg::_copy_from(iter.tensor(1), iter.tensor(0), non_blocking);
}

// PyTorch asks a backend from outside about inputs of its own. Others take the CPU's
// kernel, which refuses a weight of the device.
Tensor convolution(
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& bias,
    SymIntArrayRef stride,
    SymIntArrayRef padding,
    SymIntArrayRef dilation,
    bool transposed,
    SymIntArrayRef output_padding,
    SymInt groups) {
  const auto run = c10::openreg::isOpenReg(input.device())
      ? &openreg::convolution_overrideable
      : &at::compositeexplicitautograd::convolution_symint;
  return run(
      input,
      weight,
      bias,
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      std::move(groups));
}

std::tuple<Tensor, Tensor, Tensor> convolutionBackward(
    const Tensor& grad_output,
    const Tensor& input,
    const Tensor& weight,
    OptionalSymIntArrayRef /*bias_sizes*/,
    SymIntArrayRef stride,
    SymIntArrayRef padding,
    SymIntArrayRef dilation,
    bool transposed,
    SymIntArrayRef output_padding,
    SymInt groups,
    std::array<bool, 3> output_mask) {
  return openreg::convolution_backward_overrideable(
      grad_output,
      input,
      weight,
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      std::move(groups),
      output_mask);
}

// Programs call cuDNN's by name; autocast has them on its lists.
Tensor cudnnConvolution(
    const Tensor& self,
    const Tensor& weight,
    SymIntArrayRef padding,
    SymIntArrayRef stride,
    SymIntArrayRef dilation,
    SymInt groups,
    bool /*benchmark*/,
    bool /*deterministic*/,
    bool /*allow_tf32*/) {
  return convolution(
      self,
      weight,
      /*bias=*/{},
      stride,
      padding,
      dilation,
      /*transposed=*/false,
      /*output_padding=*/std::vector<SymInt>(padding.size(), 0),
      std::move(groups));
}

Tensor cudnnConvolutionTranspose(
    const Tensor& self,
    const Tensor& weight,
    SymIntArrayRef padding,
    SymIntArrayRef output_padding,
    SymIntArrayRef stride,
    SymIntArrayRef dilation,
    SymInt groups,
    bool /*benchmark*/,
    bool /*deterministic*/,
    bool /*allow_tf32*/) {
  return convolution(
      self,
      weight,
      /*bias=*/{},
      stride,
      padding,
      dilation,
      /*transposed=*/true,
      output_padding,
      std::move(groups));
}

// PyTorch has CUDA's kernels convert from half to float, which the CPU's cannot.
Tensor softmax(
    const Tensor& self,
    int64_t dim,
    std::optional<ScalarType> dtype) {
  return at::compositeimplicitautograd::softmax(
      dtype == kFloat ? self.to(kFloat) : self, dim, dtype);
}
Tensor logSoftmax(
    const Tensor& self,
    int64_t dim,
    std::optional<ScalarType> dtype) {
  return at::compositeimplicitautograd::log_softmax(
      dtype == kFloat ? self.to(kFloat) : self, dim, dtype);
}

// A program may choose among cuSOLVER's algorithms. LAPACK has the one.
void checkSvdDriver(std::optional<std::string_view> driver) {
  TORCH_CHECK(
      !driver || *driver == "gesvd" || *driver == "gesvdj" ||
          *driver == "gesvda",
      "torch.linalg.svd: driver must be one of gesvd, gesvdj and gesvda, but "
      "it is ",
      *driver);
}
std::tuple<Tensor, Tensor, Tensor> linalgSvd(
    const Tensor& matrix,
    bool full_matrices,
    std::optional<std::string_view> driver) {
  checkSvdDriver(driver);
  return at::compositeimplicitautograd::linalg_svd(matrix, full_matrices);
}
Tensor linalgSvdvals(
    const Tensor& matrix,
    std::optional<std::string_view> driver) {
  checkSvdDriver(driver);
  return at::compositeimplicitautograd::linalg_svdvals(matrix);
}

// No library has a kernel for some lengths: there is the one for all.
bool noLibraryCtcLoss(
    const Tensor& /*log_probs*/,
    const Tensor& /*targets*/,
    IntArrayRef /*input_lengths*/,
    IntArrayRef /*target_lengths*/,
    int64_t /*blank*/) {
  return false;
}
bool noLibraryCtcLossOfTensors(
    const Tensor& /*log_probs*/,
    const Tensor& /*targets*/,
    const Tensor& /*input_lengths*/,
    const Tensor& /*target_lengths*/,
    int64_t /*blank*/) {
  return false;
}

// FSDP frees parameters by it; PyTorch's own asks how it was built.
void resizeStorageBytes(const Tensor& variable, SymInt new_size) {
  c10::openreg::resizeStorage(
      variable.storage(),
      static_cast<size_t>(new_size.guard_int(__FILE__, __LINE__)));
}

} // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  if (c10::openreg::kDeviceType != c10::DeviceType::CUDA) {
    return;
  }
  for (const char* name : {"_use_cudnn_ctc_loss", "_use_miopen_ctc_loss"}) {
    m.impl(name, TORCH_FN(noLibraryCtcLoss));
    m.impl(
        c10::str(name, ".Tensor").c_str(), TORCH_FN(noLibraryCtcLossOfTensors));
  }
  m.impl("convolution", TORCH_FN(convolution));
  m.impl("convolution_backward", TORCH_FN(convolutionBackward));
  m.impl("copy_", TORCH_FN(copyInto));
  m.impl("cudnn_convolution", TORCH_FN(cudnnConvolution));
  m.impl("cudnn_convolution_transpose", TORCH_FN(cudnnConvolutionTranspose));
  m.impl("linalg_svd", TORCH_FN(linalgSvd));
  m.impl("linalg_svdvals", TORCH_FN(linalgSvdvals));
  m.impl("log_softmax.int", TORCH_FN(logSoftmax));
  m.impl("softmax.int", TORCH_FN(softmax));
  abs_stub.set_cuda_dispatch_ptr(&abs_kernel);
  multinomial_with_replacement_stub.set_cuda_dispatch_ptr(
      &philox::multinomialWithReplacement);
  copy_stub.set_cuda_dispatch_ptr(&copyKernel);
  _fused_sdp_choice_stub.set_cuda_dispatch_ptr(&_fused_sdp_choice);
}

TORCH_LIBRARY_IMPL(inductor, CUDA, m) {
  if (c10::openreg::kDeviceType == c10::DeviceType::CUDA) {
    m.impl("resize_storage_bytes_", TORCH_FN(resizeStorageBytes));
  }
}

// What is made of operators with gradients of their own.
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, m) {
  if (c10::openreg::kDeviceType == c10::DeviceType::CUDA) {
    m.impl("linalg_svd", TORCH_FN(linalgSvd));
    m.impl("linalg_svdvals", TORCH_FN(linalgSvdvals));
    m.impl("log_softmax.int", TORCH_FN(logSoftmax));
    m.impl("softmax.int", TORCH_FN(softmax));
  }
}

TORCH_LIBRARY_IMPL(aten, QuantizedCUDA, m) {
  if (c10::openreg::kDeviceType == c10::DeviceType::CUDA) {
    m.impl("copy_", TORCH_FN(copyInto));
  }
}

} // namespace at::native::openreg
