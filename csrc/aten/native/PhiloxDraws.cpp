#include "aten/native/PhiloxDraws.h"

#include "runtime/OpenRegFunctions.h"

#include <ATen/Parallel.h>

#include <numeric>

namespace at::native::openreg {

OpenRegStream drawingStreamOf(const TensorBase& tensor) {
  TORCH_CHECK(
      isOpenReg(tensor),
      "Expected a '",
      c10::DeviceTypeName(tensor.device().type(), /*lower_case=*/true),
      "' device type for generator but found '",
      c10::DeviceTypeName(c10::openreg::kDeviceType, /*lower_case=*/true),
      "'");
  return streamOf(tensor);
}

DrawGrid::DrawGrid(int64_t count, int unroll, c10::Device device) {
  const orDeviceProp properties =
      c10::openreg::get_device_properties(device.index());
  const int64_t most = properties.multiProcessorCount *
      (properties.maxThreadsPerMultiProcessor / kBlockSize);
  threads = std::min(most, (count + kBlockSize - 1) / kBlockSize) * kBlockSize;
  rounds = (count - 1) / (threads * unroll) + 1;
}

void drawBlocks(
    PhiloxPoint point,
    const DrawGrid& grid,
    c10::function_ref<void(const DrawBatch&)> visit) {
  const int64_t inRound =
      (grid.threads + DrawBatch::kThreads - 1) / DrawBatch::kThreads;
  constexpr int64_t kGrain = 64; // batches: some twenty microseconds
  const auto visitBatches = [&](int64_t begin, int64_t end) {
    DrawBatch batch;
    for (int64_t number = begin; number < end; ++number) {
      batch.round = number / inRound;
      batch.thread = number % inRound * DrawBatch::kThreads;
      batch.count = std::min(DrawBatch::kThreads, grid.threads - batch.thread);
      inVectors([&] {
        const uint64_t seed = point.seed;
        const uint64_t offset =
            point.offset + static_cast<uint64_t>(batch.round) * 4;
        const auto thread = static_cast<uint64_t>(batch.thread);
        auto& words = batch.words;
        for (uint64_t i = 0; i < DrawBatch::kThreads; ++i) {
          const auto block = c10::openreg::philox(seed, offset, thread + i);
          for (int word = 0; word < 4; ++word) {
            words[word][i] = block.words[word];
          }
        }
      });
      visit(batch);
    }
  };
  at::parallel_for(0, grid.rounds * inRound, kGrain, visitBatches);
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
