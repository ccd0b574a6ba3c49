#include "aten/native/PhiloxDraws.h"

#include "runtime/OpenRegFunctions.h"

#include <numeric>

namespace at::native::openreg {

DrawGrid::DrawGrid(int64_t count, int unroll, c10::Device device) {
  const orDeviceProp properties =
      c10::openreg::get_device_properties(device.index());
  const int64_t most = properties.multiProcessorCount *
      (properties.maxThreadsPerMultiProcessor / kBlockSize);
  threads = std::min(most, (count + kBlockSize - 1) / kBlockSize) * kBlockSize;
  rounds = (count - 1) / (threads * unroll) + 1;
}

ElementPlaces::ElementPlaces(const TensorIteratorBase& iter, int operand)
    : count_(iter.numel()),
      size_(iter.element_size(operand)),
      start_(
          static_cast<const char*>(iter.data_ptr(operand)) -
          static_cast<const char*>(iter.tensor_base(operand).const_data_ptr())),
      shape_(iter.shape().begin(), iter.shape().end()),
      strides_(iter.strides(operand).begin(), iter.strides(operand).end()) {
  dense_ = shape_.empty() || (shape_.size() == 1 && strides_[0] == size_);
}

std::vector<int64_t> commonOrder(const Tensor& a, const Tensor& b) {
  std::vector<int64_t> order(static_cast<size_t>(a.dim()));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = i + 1; j < order.size(); ++j) {
      const int64_t x = order[i], y = order[j];
      const bool isSwapped = a.stride(x) <= a.stride(y) &&
          b.stride(x) <= b.stride(y) &&
          (a.stride(x) < a.stride(y) || b.stride(x) < b.stride(y));
      if (a.size(x) != 1 && a.size(y) != 1 && isSwapped) {
        std::swap(order[i], order[j]);
      }
    }
  }
  return order;
}

} // namespace at::native::openreg
