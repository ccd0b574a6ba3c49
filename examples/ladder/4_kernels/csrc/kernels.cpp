// Ways to a kernel, besides the fallback for everything else.
#include "driver.h"

#include <ATen/ATen.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/add_meta.h>
#include <torch/library.h>

namespace mini {
using namespace at;

// --- one operator to the CPU, whatever is registered for all ------------------------

void toCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  native::cpu_fallback(op, stack);
}

// --- queued, and the CPU for dtypes that the device does not have ----------------

bool hasKernels(ScalarType dtype) {
  return dtype == kFloat || dtype == kHalf || dtype == kBFloat16;
}

template <class Number, class Function>
void launchUnary(const Tensor& in, const Tensor& out, Function function) {
  const DeviceGuard on(in.device());
  const auto* x = static_cast<Number*>(miniKernelAddress(in.const_data_ptr()));
  auto* y = static_cast<Number*>(miniKernelAddress(out.mutable_data_ptr()));
  miniLaunch([x, y, n = in.numel(), function] {
    std::transform(x, x + n, y, [&](Number v) {
      return static_cast<Number>(function(static_cast<float>(v)));
    });
  });
}

// sigmoid() is an operator with an out form; the functional and the in-place form are
// PyTorch's, and come here.
Tensor& sigmoid_out(const Tensor& self, Tensor& out) {
  if (!hasKernels(self.scalar_type()) || self.dtype() != out.dtype() ||
      !self.is_contiguous() || !out.is_contiguous() ||
      out.sizes() != self.sizes()) {
    return native::call_fallback_fn<&toCpu, _ops::sigmoid_out>::call(self, out);
  }
  const auto sigmoid = [](float v) { return 1 / (1 + std::exp(-v)); };
  switch (self.scalar_type()) {
    case kFloat:
      launchUnary<float>(self, out, sigmoid);
      break;
    case kHalf:
      launchUnary<Half>(self, out, sigmoid);
      break;
    default:
      launchUnary<BFloat16>(self, out, sigmoid);
  }
  return out;
}

// --- structured, by hand: PyTorch's meta function finds shape, dtype, strides -----

struct AddKernel final : meta::structured_add_Tensor {
  explicit AddKernel(Tensor* given) : given_(given) {}

  void set_output_raw_strided(
      int64_t /*index*/,
      IntArrayRef sizes,
      IntArrayRef strides,
      TensorOptions options) override {
    if (!given_) {
      made_ = strides.empty() ? at::empty(sizes, options)
                              : at::empty_strided(sizes, strides, options);
    } else if (native::resize_output(*given_, sizes) && !strides.empty()) {
      given_->as_strided_(sizes, strides); // as the iterator takes them to be
    }
    // The iterator checks devices and overlaps, and knows how operands broadcast.
    TensorIteratorBase::set_output_raw_strided(0, sizes, strides, options);
  }
  void set_output_strided(
      int64_t index,
      IntArrayRef sizes,
      IntArrayRef strides,
      TensorOptions options) override {
    set_output_raw_strided(index, sizes, strides, options);
  }
  const Tensor& maybe_get_output(int64_t /*index*/) override {
    return given_ ? *given_ : made_;
  }

  /// False: not for this kernel.
  bool run(const Scalar& alpha) {
    if (common_dtype() != kFloat || dtype(0) != kFloat || dtype(1) != kFloat ||
        dtype(2) != kFloat || is_cpu_scalar(1) || is_cpu_scalar(2)) {
      return false;
    }
    const DeviceGuard on(device(0));
    struct Loop {
      std::array<char*, 3> data;
      DimVector shape;
      std::array<DimVector, 3> strides;
    } loop;
    loop.shape = shape();
    for (int i = 0; i < 3; ++i) {
      loop.data[i] = static_cast<char*>(miniKernelAddress(data_ptr(i)));
      loop.strides[i] = strides(i);
    }
    miniLaunch([loop, factor = alpha.to<float>(), count = numel()] {
      DimVector at(loop.shape.size(), 0);
      auto data = loop.data;
      for (int64_t n = 0; n < count; ++n) {
        const auto* x = reinterpret_cast<float*>(data[1]);
        const auto* y = reinterpret_cast<float*>(data[2]);
        *reinterpret_cast<float*>(data[0]) = *x + factor * *y;
        for (size_t d = 0; d < at.size(); ++d) {
          const bool wraps = ++at[d] == loop.shape[d];
          for (int i = 0; i < 3; ++i) {
            const int64_t steps = wraps ? 1 - loop.shape[d] : 1;
            data[i] += steps * loop.strides[i][d];
          }
          if (!wraps) {
            break;
          }
          at[d] = 0;
        }
      }
    });
    return true;
  }

 private:
  Tensor* given_;
  Tensor made_;
};

Tensor& add_out(
    const Tensor& self,
    const Tensor& other,
    const Scalar& alpha,
    Tensor& out) {
  AddKernel kernel(&out);
  kernel.meta(self, other, alpha);
  return kernel.run(alpha)
      ? out
      : native::call_fallback_fn<&toCpu, _ops::add_out>::call(
            self, other, alpha, out);
}

Tensor add(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  AddKernel kernel(nullptr);
  kernel.meta(self, other, alpha);
  Tensor out = kernel.maybe_get_output(0);
  return kernel.run(alpha) ? out : mini::add_out(self, other, alpha, out);
}

Tensor& add_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  return mini::add_out(self, other, alpha, self);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("add.Tensor", mini::add);
  m.impl("add.out", mini::add_out);
  m.impl("add_.Tensor", mini::add_);
  m.impl("sigmoid.out", mini::sigmoid_out);
  m.impl("cumsum.out", torch::CppFunction::makeFromBoxedFunction<&toCpu>());
}

} // namespace mini
