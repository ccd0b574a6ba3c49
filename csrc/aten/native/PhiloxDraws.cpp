#include "aten/native/PhiloxDraws.h"

#include "executor/ParallelFor.h"
#include "runtime/OpenRegFunctions.h"

#include <numeric>

#ifdef OPENREG_WITH_VECTORS
#include <immintrin.h>
#endif

namespace at::native::openreg {
namespace {

#ifdef OPENREG_WITH_VECTORS
/// philox() of all threads of a batch. A multiplication of vectors takes the low half of
/// each 64 bits, so a vector has a word of every other thread: of those with even
/// numbers, or of their neighbours.
[[gnu::target("avx2")]] void makeWordsInVectors(
    uint64_t seed,
    uint64_t offset,
    DrawBatch& batch) {
  const __m256i multipliers[] = {
      _mm256_set1_epi64x(c10::openreg::kPhiloxMultipliers[0]),
      _mm256_set1_epi64x(c10::openreg::kPhiloxMultipliers[1])};
  const auto position = static_cast<int64_t>(offset / 4);
  for (int64_t i = 0; i < DrawBatch::kThreads; i += 8) {
    __m256i words[2][4];
    for (int64_t odd = 0; odd < 2; ++odd) {
      __m256i a = _mm256_set1_epi64x(position);
      __m256i b = _mm256_set1_epi64x(position >> 32);
      __m256i c = _mm256_add_epi64(
          _mm256_set1_epi64x(batch.thread + i + odd),
          _mm256_setr_epi64x(0, 2, 4, 6));
      __m256i d = _mm256_srli_epi64(c, 32);
      auto first = static_cast<uint32_t>(seed);
      auto second = static_cast<uint32_t>(seed >> 32);
      for (int round = 0; round < c10::openreg::kPhiloxRounds; ++round) {
        const __m256i one = _mm256_mul_epu32(a, multipliers[0]);
        const __m256i two = _mm256_mul_epu32(c, multipliers[1]);
        a = _mm256_xor_si256(_mm256_srli_epi64(two, 32), b);
        a = _mm256_xor_si256(a, _mm256_set1_epi64x(first));
        b = two;
        c = _mm256_xor_si256(_mm256_srli_epi64(one, 32), d);
        c = _mm256_xor_si256(c, _mm256_set1_epi64x(second));
        d = one;
        first += c10::openreg::kPhiloxSteps[0];
        second += c10::openreg::kPhiloxSteps[1];
      }
      words[odd][0] = a, words[odd][1] = b;
      words[odd][2] = c, words[odd][3] = d;
    }
    for (int word = 0; word < 4; ++word) {
      const __m256i neighbours = _mm256_slli_epi64(words[1][word], 32);
      _mm256_storeu_si256(
          reinterpret_cast<__m256i*>(&batch.words[word][i]),
          _mm256_blend_epi32(words[0][word], neighbours, 0b10101010));
    }
  }
}
#endif

/// Of the threads of a batch, at a multiple of four of the offset.
void makeWords(uint64_t seed, uint64_t offset, DrawBatch& batch) {
#ifdef OPENREG_WITH_VECTORS
  if (processorHasVectors()) {
    return makeWordsInVectors(seed, offset, batch);
  }
#endif
  const auto thread = static_cast<uint64_t>(batch.thread);
  for (uint64_t i = 0; i < DrawBatch::kThreads; ++i) {
    const auto block = c10::openreg::philox(seed, offset, thread + i);
    for (int word = 0; word < 4; ++word) {
      batch.words[word][i] = block.words[word];
    }
  }
}

} // namespace

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
      const uint64_t offset =
          point.offset + static_cast<uint64_t>(batch.round) * 4;
      makeWords(point.seed, offset, batch);
      visit(batch);
    }
  };
  parallelFor(grid.rounds * inRound, kGrain, visitBatches);
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
