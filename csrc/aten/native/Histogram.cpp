#include "aten/native/Histogram.h"

#include "executor/HandKernel.h"
#include "executor/OperatorKernel.h"

#include <ATen/Dispatch.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/histc_ops.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <span>

namespace at::native::openreg {
namespace {

// The product below does not fit into 64 bits for every range.
using Wide = unsigned __int128;

struct Bins {
  int64_t count;
  int64_t low;
  int64_t high; // belongs to the last bin

  bool has(int64_t value) const {
    return low <= value && value <= high;
  }
  int64_t of(int64_t value) const {
    const auto from = static_cast<uint64_t>(low);
    const Wide place = static_cast<uint64_t>(value) - from;
    const uint64_t range = static_cast<uint64_t>(high) - from;
    const auto bin = static_cast<int64_t>(place * count / range);
    return std::min(bin, count - 1);
  }
};

Bins binsOf(const Tensor& self, int64_t count, int64_t low, int64_t high) {
  TORCH_CHECK(count > 0, "bins must be > 0, but got ", count);
  if (low == high && self.numel() > 0) {
    const auto [least, most] = at::aminmax(self);
    low = least.item<int64_t>();
    high = most.item<int64_t>();
  }
  if (low == high) {
    --low;
    ++high;
  }
  TORCH_CHECK(
      low < high,
      "max must be larger than min, but got min ",
      low,
      " and max ",
      high);
  return {count, low, high};
}

bool counts(ScalarType dtype) {
  return isIntegralType(dtype, /*includeBool=*/false) &&
      !isBarebonesUnsignedType(dtype);
}

} // namespace

Tensor histc(
    const Tensor& self,
    int64_t bins,
    const Scalar& min,
    const Scalar& max) {
  if (!counts(self.scalar_type())) {
    return WaitingKernel<at::_ops::histc>::call(self, bins, min, max);
  }
  if (kernelsRunElsewhere()) { // they have the CPU's kernels, and this is ours
    static FallbackCount& stays =
        FallbackCount::of("aten::histc", FallbackKind::StaysHere);
    stays.note();
  }
  const Bins into = binsOf(self, bins, min.to<int64_t>(), max.to<int64_t>());
  Tensor output = at::zeros({bins}, self.options());
  launch(
      "aten::histc",
      streamOf(self),
      {.reads = {&self}, .writes = {&output}},
      [into](std::span<Tensor> aliases) {
        const Tensor values = aliases[0].contiguous();
        AT_DISPATCH_INTEGRAL_TYPES(values.scalar_type(), "histc", [&] {
          auto* found = aliases[1].mutable_data_ptr<scalar_t>();
          const auto* first = values.const_data_ptr<scalar_t>();
          for (const scalar_t value : std::span(first, values.numel())) {
            if (into.has(value)) {
              ++found[into.of(value)];
            }
          }
        });
      });
  return output;
}

Tensor& histc_out(
    const Tensor& self,
    int64_t bins,
    const Scalar& min,
    const Scalar& max,
    Tensor& out) {
  if (!counts(self.scalar_type())) {
    return WaitingKernel<at::_ops::histc_out>::call(self, bins, min, max, out);
  }
  const Argument arguments[] = {
      argument(self),
      argument(bins),
      argument(min),
      argument(max),
      argument(out)};
  WaitingKernel<at::_ops::histc_out>::info().devices.check(arguments);
  const Tensor found = openreg::histc(self, bins, min, max);
  at::native::resize_output(out, found.sizes());
  return out.copy_(found);
}

} // namespace at::native::openreg
