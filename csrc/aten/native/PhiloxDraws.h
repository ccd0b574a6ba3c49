// How a GPU draws: the order in which its threads take numbers, and a loop in that order
// for kernels here.
#pragma once

#include "aten/native/PhiloxVectors.h"
#include "executor/HandKernel.h"
#include "runtime/OpenRegGenerator.h"

#include <ATen/Parallel.h>
#include <ATen/native/TensorIterator.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace at::native::openreg {

using c10::openreg::PhiloxDraw;
using c10::openreg::PhiloxPoint;
using MaybeGenerator = std::optional<Generator>;

/// How a GPU spreads numbers over its threads. Each thread takes a block of four words of
/// its own per round.
struct DrawGrid {
  static constexpr int64_t kBlockSize = 256; // of CUDA's threads

  int64_t threads;
  int64_t rounds;

  /// For `count` numbers, `unroll` of which a thread takes in a round.
  DrawGrid(int64_t count, int unroll, c10::Device device);

  uint64_t increment() const {
    return static_cast<uint64_t>(rounds) * 4;
  }
};

/// The words of neighbouring threads in one round.
struct DrawBatch {
  static constexpr int64_t kThreads = 64;

  int64_t round;
  int64_t thread; ///< the first
  int64_t count;
  uint32_t words[4][kThreads];

  /// Of one of the threads.
  c10::openreg::PhiloxBlock block(int64_t i) const {
    return {{words[0][i], words[1][i], words[2][i], words[3][i]}};
  }
};

template <class Visit>
[[gnu::always_inline]] inline void visitBatches(
    PhiloxPoint point,
    const DrawGrid& grid,
    int64_t begin,
    int64_t end,
    const Visit& visit) {
  const int64_t inRound =
      (grid.threads + DrawBatch::kThreads - 1) / DrawBatch::kThreads;
  DrawBatch batch;
  for (int64_t number = begin; number < end; ++number) {
    batch.round = number / inRound;
    batch.thread = number % inRound * DrawBatch::kThreads;
    batch.count = std::min(DrawBatch::kThreads, grid.threads - batch.thread);
    const uint64_t offset =
        point.offset + static_cast<uint64_t>(batch.round) * 4;
    for (int64_t i = 0; i < DrawBatch::kThreads; ++i) {
      const auto block = c10::openreg::philox(
          point.seed, offset, static_cast<uint64_t>(batch.thread + i));
      for (int word = 0; word < 4; ++word) {
        batch.words[word][i] = block.words[word];
      }
    }
    visit(batch);
  }
}

#ifdef OPENREG_WITH_VECTORS
template <class Visit>
OPENREG_WITH_VECTORS void visitBatchesInVectors(
    PhiloxPoint point,
    const DrawGrid& grid,
    int64_t begin,
    int64_t end,
    const Visit& visit) {
  visitBatches(point, grid, begin, end, visit);
}
#endif

/// Calls `visit` with the words of all threads in all rounds, on as many threads of the
/// host as the kernel has.
template <class Visit>
void drawBlocks(PhiloxPoint point, const DrawGrid& grid, const Visit& visit) {
  const int64_t batches = grid.rounds *
      ((grid.threads + DrawBatch::kThreads - 1) / DrawBatch::kThreads);
  constexpr int64_t kGrain = 64; // batches: some twenty microseconds
  at::parallel_for(0, batches, kGrain, [&](int64_t begin, int64_t end) {
#ifdef OPENREG_WITH_VECTORS
    if (processorHasVectors()) {
      return visitBatchesInVectors(point, grid, begin, end, visit);
    }
#endif
    visitBatches(point, grid, begin, end, visit);
  });
}

/// Where the elements of an operand of an iterator lie, in the iterator's order.
class ElementPlaces {
 public:
  ElementPlaces(const TensorIteratorBase& iter, int operand);

  int64_t count() const {
    return count_;
  }

  /// In bytes from the first element of the tensor.
  int64_t operator()(int64_t element) const {
    if (dense_) {
      return start_ + element * size_;
    }
    int64_t place = start_;
    for (size_t dim = 0; dim < shape_.size(); ++dim) {
      place += element % shape_[dim] * strides_[dim];
      element /= shape_[dim];
    }
    return place;
  }

  /// Copies values to elements `first` and following.
  template <class T>
  void store(char* data, int64_t first, const T* values, int64_t count) const {
    if (dense_) {
      std::memcpy(
          data + (*this)(first),
          values,
          static_cast<size_t>(count) * sizeof(T));
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(data + (*this)(first + i), &values[i], sizeof(T));
    }
  }

 private:
  int64_t count_;
  int64_t size_; // of an element, in bytes
  int64_t start_; // in bytes, from the tensor's first element
  bool dense_;
  std::vector<int64_t> shape_, strides_; // the latter in bytes
};

/// The dimensions of tensors in the order in which CUDA's kernels for two tensors number
/// elements: that of the indices, unless the strides of both agree on another.
std::vector<int64_t> commonOrder(const Tensor& a, const Tensor& b);

/// Where the elements of a tensor lie, in an order of its dimensions.
class TensorPlaces {
 public:
  TensorPlaces(const Tensor& tensor, std::span<const int64_t> order)
      : dense_(
            tensor.is_contiguous() &&
            std::is_sorted(order.begin(), order.end())) {
    for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
      shape_.push_back(tensor.size(*dim));
      strides_.push_back(tensor.stride(*dim));
    }
  }
  int64_t operator()(int64_t element) const {
    if (dense_) {
      return element;
    }
    int64_t place = 0;
    for (size_t dim = 0; dim < shape_.size(); ++dim) {
      place += element % shape_[dim] * strides_[dim];
      element /= shape_[dim];
    }
    return place;
  }

 private:
  bool dense_;
  std::vector<int64_t> shape_, strides_;
};

// docs:begin draw-fill
/// Fills the output of an iterator with numbers of a distribution. `transform(words)`
/// makes `unroll` numbers of the four words of a block. Number `i` of a thread is as many
/// elements after the one before as there are threads.
template <class T, int unroll, class Transform>
void fillWith(
    const char* name,
    TensorIteratorBase& iter,
    const MaybeGenerator& generator,
    Transform transform) {
  const Tensor out(iter.tensor(0));
  const OpenRegStream stream = streamOf(out);
  const DrawGrid grid(iter.numel(), unroll, out.device());
  const PhiloxDraw draw =
      c10::openreg::drawFrom(generator, stream, grid.increment());
  if (!iter.can_use_32bit_indexing()) { // the parts draw, as CUDA's do
    for (auto& part : iter.with_32bit_indexing()) {
      fillWith<T, unroll>(name, part, generator, transform);
    }
    return;
  }
  launch(
      name,
      stream,
      {.writes = {&out}},
      [=, places = ElementPlaces(iter, 0)](std::span<Tensor> tensors) {
        auto* const data = static_cast<char*>(tensors[0].mutable_data_ptr());
        drawBlocks(draw.point(), grid, [&](const DrawBatch& batch) {
          T numbers[unroll][DrawBatch::kThreads];
          for (int64_t i = 0; i < DrawBatch::kThreads; ++i) {
            const std::array<T, unroll> made = transform(batch.block(i));
            for (int number = 0; number < unroll; ++number) {
              numbers[number][i] = made[static_cast<size_t>(number)];
            }
          }
          for (int number = 0; number < unroll; ++number) {
            const int64_t first =
                (batch.round * unroll + number) * grid.threads + batch.thread;
            const int64_t count = std::min(batch.count, places.count() - first);
            if (count > 0) {
              places.store(data, first, numbers[number], count);
            }
          }
        });
      });
}
// docs:end draw-fill

} // namespace at::native::openreg
