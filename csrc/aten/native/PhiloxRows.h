// Kernels that fill tensors: numbers are made in rows, whatever the dtype, and rounded as
// they are stored.
#pragma once

#include "aten/native/PhiloxDraws.h"
#include "aten/native/PhiloxNumbers.h"

namespace at::native::openreg {

// docs:begin draw-fill
/// Numbers of a distribution for a tensor of any dtype. C is what they are computed in:
/// float, double or int64_t.
template <class C>
struct Fill {
  using Row = C[DrawBatch::kThreads];

  const char* name;
  int unroll; ///< how many numbers a block gives
  /// Makes the numbers of a batch: the first of each thread is the first row.
  std::function<void(const DrawBatch&, Row*)> make;
  /// Rounds numbers to the dtype, and stores them as elements `first` and following.
  std::function<void(
      const ElementPlaces&,
      char* data,
      int64_t first,
      const Row&,
      int64_t count)>
      store;
};

/// Fills the output of an iterator. Number `i` of a thread is as many elements after the
/// one before as there are threads.
template <class C>
void fillWith(
    TensorIteratorBase& iter,
    const MaybeGenerator& generator,
    const Fill<C>& fill) {
  const Tensor out(iter.tensor(0));
  const OpenRegStream stream = drawingStreamOf(out);
  const DrawGrid grid(iter.numel(), fill.unroll, out.device());
  const PhiloxDraw draw =
      c10::openreg::drawFrom(generator, stream, grid.increment());
  if (!iter.can_use_32bit_indexing()) { // the parts draw, as CUDA's do
    for (auto& part : iter.with_32bit_indexing()) {
      fillWith(part, generator, fill);
    }
    return;
  }
  launch(
      fill.name,
      stream,
      {.writes = {&out}},
      DrawWork([=, places = ElementPlaces(iter, 0)](std::span<Tensor> tensors) {
        auto* const data = static_cast<char*>(tensors[0].mutable_data_ptr());
        drawBlocks(draw.point(), grid, [&](const DrawBatch& batch) {
          typename Fill<C>::Row numbers[4];
          fill.make(batch, numbers);
          for (int number = 0; number < fill.unroll; ++number) {
            const int64_t first =
                (batch.round * fill.unroll + number) * grid.threads +
                batch.thread;
            const int64_t count = std::min(batch.count, places.count() - first);
            if (count > 0) {
              fill.store(places, data, first, numbers[number], count);
            }
          }
        });
      }));
}
// docs:end draw-fill

/// For Fill::store: stores `last(rounded)`.
template <class T, class C, class Last = std::identity>
auto storing(Last last = {}) {
  return [=](const ElementPlaces& places,
             char* data,
             int64_t first,
             const typename Fill<C>::Row& numbers,
             int64_t count) {
    T rounded[DrawBatch::kThreads];
    inVectors([&] {
      const Last lastOf = last;
      for (int64_t i = 0; i < DrawBatch::kThreads; ++i) {
        rounded[i] = lastOf(static_cast<T>(numbers[i]));
      }
    });
    places.store(data, first, rounded, count);
  };
}

/// For Fill::make: `number(drawn)` of each of the numbers that `draw` makes of a block.
template <auto draw, class Number>
auto each(Number number) {
  return [=](const DrawBatch& batch, auto* rows) {
    inVectors([&] {
      const Number numberOf = number;
      const DrawBatch& from = batch;
      auto* const to = rows;
      for (int64_t i = 0; i < DrawBatch::kThreads; ++i) {
        const auto drawn = draw(from.block(i));
#pragma GCC unroll 4
        for (size_t n = 0; n < drawn.size(); ++n) {
          to[n][i] = numberOf(drawn[n]);
        }
      }
    });
  };
}

/// AT_DISPATCH's sentence.
inline void checkDtype(bool supported, const char* name, ScalarType type) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      supported, '"', name, "\" not implemented for '", toString(type), "'");
}

} // namespace at::native::openreg
