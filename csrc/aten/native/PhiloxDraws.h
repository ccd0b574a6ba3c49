// How a GPU draws: the order in which its threads take numbers, and a loop in that order
// for kernels here.
#pragma once

#include "aten/native/PhiloxVectors.h"
#include "executor/HandKernel.h"
#include "runtime/OpenRegGenerator.h"

#include <ATen/native/TensorIterator.h>
#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <vector>

namespace at::native::openreg {

using c10::openreg::PhiloxDraw;
using c10::openreg::PhiloxPoint;
using MaybeGenerator = std::optional<Generator>;

/// For launch(), which is compiled once for all kernels of this type.
using DrawWork = std::function<void(std::span<Tensor>)>;

/// The stream that a draw for a tensor goes to. Throws if the tensor is the CPU's: a
/// generator of ours brings that here as well.
OpenRegStream drawingStreamOf(const TensorBase& tensor);

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

/// Calls `visit` with the words of all threads in all rounds, on as many threads of the
/// host as the kernel has.
void drawBlocks(
    PhiloxPoint point,
    const DrawGrid& grid,
    c10::function_ref<void(const DrawBatch&)> visit);

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

} // namespace at::native::openreg
