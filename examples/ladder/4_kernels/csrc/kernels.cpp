// Ways to a kernel, besides the fallback for everything else.
#include "driver.h"

#include <ATen/ATen.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/add_meta.h>
#include <ATen/ops/mul_meta.h>
#include <torch/library.h>

namespace mini {
using namespace at;

// Of operators.cpp: to the CPU. It serves kernels that do not take their arguments, and can
// be registered for an operator alone.
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

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
      self.device() != out.device() || !self.is_contiguous() ||
      !out.is_contiguous() || out.sizes() != self.sizes()) {
    return native::call_fallback_fn<&fallback, _ops::sigmoid_out>::call(
        self, out);
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

template <class Meta>
struct BinaryKernel final : Meta {
  explicit BinaryKernel(Tensor* given) : given_(given) {}

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
  template <class Function>
  bool run(Function function) {
    struct Loop {
      std::array<char*, 3> data{};
      std::array<float, 3> number{}; // in place of data, of a tensor of the CPU
      DimVector shape;
      std::array<DimVector, 3> strides;
      float at(int i) const {
        return data[i] ? *reinterpret_cast<float*>(data[i]) : number[i];
      }
    } loop;
    loop.shape = this->shape();
    for (int i = 0; i < 3; ++i) {
      loop.strides[i] = this->strides(i);
      if (this->is_cpu_scalar(i)) {
        loop.number[i] = this->tensor(i).item().toFloat();
      } else if (this->dtype(i) == kFloat) {
        loop.data[i] = static_cast<char*>(miniKernelAddress(this->data_ptr(i)));
      } else {
        return false;
      }
    }
    if (this->common_dtype() != kFloat) {
      return false;
    }
    const DeviceGuard on(this->device(0));
    miniLaunch([loop, function, count = this->numel()]() mutable {
      std::vector<int64_t> at(loop.shape.size());
      for (int64_t n = 0; n < count; ++n) {
        *reinterpret_cast<float*>(loop.data[0]) =
            function(loop.at(1), loop.at(2));
        for (size_t d = 0; d < at.size(); ++d) {
          const bool wraps = ++at[d] == loop.shape[d];
          for (int i = 0; i < 3; ++i) {
            const int64_t steps = wraps ? 1 - loop.shape[d] : 1;
            loop.data[i] += steps * loop.strides[i][d];
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

bool addInto(
    BinaryKernel<meta::structured_add_Tensor>& kernel,
    const Tensor& self,
    const Tensor& other,
    const Scalar& alpha) {
  kernel.meta(self, other, alpha);
  return kernel.run([factor = alpha.to<float>()](float x, float y) {
    return x + factor * y;
  });
}
Tensor& add_out(
    const Tensor& self,
    const Tensor& other,
    const Scalar& alpha,
    Tensor& out) {
  BinaryKernel<meta::structured_add_Tensor> kernel(&out);
  return addInto(kernel, self, other, alpha)
      ? out
      : native::call_fallback_fn<&fallback, _ops::add_out>::call(
            self, other, alpha, out);
}
Tensor add(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  BinaryKernel<meta::structured_add_Tensor> kernel(nullptr);
  const bool done = addInto(kernel, self, other, alpha);
  Tensor out = kernel.maybe_get_output(0);
  return done ? out : mini::add_out(self, other, alpha, out);
}
Tensor& add_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  return mini::add_out(self, other, alpha, self);
}

bool mulInto(
    BinaryKernel<meta::structured_mul_Tensor>& kernel,
    const Tensor& self,
    const Tensor& other) {
  kernel.meta(self, other);
  return kernel.run([](float x, float y) { return x * y; });
}
Tensor& mul_out(const Tensor& self, const Tensor& other, Tensor& out) {
  BinaryKernel<meta::structured_mul_Tensor> kernel(&out);
  return mulInto(kernel, self, other)
      ? out
      : native::call_fallback_fn<&fallback, _ops::mul_out>::call(
            self, other, out);
}
Tensor mul(const Tensor& self, const Tensor& other) {
  BinaryKernel<meta::structured_mul_Tensor> kernel(nullptr);
  const bool done = mulInto(kernel, self, other);
  Tensor out = kernel.maybe_get_output(0);
  return done ? out : mini::mul_out(self, other, out);
}
Tensor& mul_(Tensor& self, const Tensor& other) {
  return mini::mul_out(self, other, self);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("add.Tensor", mini::add);
  m.impl("add.out", mini::add_out);
  m.impl("add_.Tensor", mini::add_);
  m.impl("mul.Tensor", mini::mul);
  m.impl("mul.out", mini::mul_out);
  m.impl("mul_.Tensor", mini::mul_);
  m.impl("sigmoid.out", mini::sigmoid_out);
  m.impl("cumsum.out", torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

} // namespace mini
