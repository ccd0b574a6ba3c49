#include "aten/native/PhiloxDropout.h"

#include "aten/native/PhiloxDraws.h"
#include "aten/native/PhiloxNumbers.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

namespace at::native::openreg::philox {
namespace {

/// How many elements a thread of CUDA's kernel reads at once: as many as the size and
/// the address of the tensor allow.
int64_t widthFor(const Tensor& input) {
  if (!input.is_non_overlapping_and_dense()) {
    return 1;
  }
  constexpr int64_t kMost = 16; // bytes
  const auto address = reinterpret_cast<uintptr_t>(input.const_data_ptr());
  int64_t width = kMost / input.itemsize();
  while (width > 1 &&
         (address % static_cast<uintptr_t>(width * input.itemsize()) != 0 ||
          input.numel() % width != 0)) {
    width /= 2;
  }
  return width;
}

/// How CUDA's kernel gives words to elements. A thread that reads two or more elements at
/// once takes new blocks for them each time, and leaves words over.
struct WordOrder {
  int64_t width; ///< elements at once
  int64_t threads;

  int64_t words() const { // of a block
    return width == 2 ? 2 : 4;
  }
  int64_t blocks() const { // at once
    return width > 4 ? width / 4 : 1;
  }
  int64_t rounds(int64_t count) const {
    const int64_t atOnce = threads * words() * blocks();
    return (count + atOnce - 1) / atOnce * blocks();
  }
  int64_t element(int64_t round, int64_t thread, int64_t word) const {
    return width == 1 ? (round * 4 + word) * threads + thread
                      : (round / blocks() * threads + thread) * width +
            round % blocks() * 4 + word;
  }
};

} // namespace

std::tuple<Tensor, Tensor> native_dropout(
    const Tensor& input,
    double p,
    std::optional<bool> train) {
  const auto asMask = input.options().dtype(kBool);
  if (!train.value_or(true) || input.numel() == 0) {
    return {input.clone(), at::ones_like(input, asMask)};
  }
  if (p == 1) {
    return {at::zeros_like(input), at::zeros_like(input, asMask)};
  }
  Tensor result = at::empty_like(input);
  Tensor mask = at::empty_like(input, asMask);
  const OpenRegStream stream = streamOf(input);
  // Elements in the order of the memory, or of the indices if there are gaps.
  auto iter = TensorIteratorConfig()
                  .check_all_same_dtype(false)
                  .add_output(mask)
                  .add_output(result)
                  .add_const_input(input)
                  .build();
  DrawGrid grid(input.numel(), 4, input.device());
  const PhiloxDraw draw =
      c10::openreg::drawFrom(std::nullopt, stream, grid.increment());
  const WordOrder order{widthFor(input), grid.threads};
  grid.rounds = order.rounds(input.numel());
  AT_DISPATCH_V2(
      input.scalar_type(),
      "native_dropout",
      AT_WRAP([&] {
        using C = Computed<scalar_t>;
        const auto bound = static_cast<C>(1 - p);
        const C scale = static_cast<C>(1.0 / bound);
        launch(
            "native_dropout",
            stream,
            {.reads = {&input}, .writes = {&mask, &result}},
            DrawWork([=,
                      places = std::array{
                          ElementPlaces(iter, 0),
                          ElementPlaces(iter, 1),
                          ElementPlaces(iter, 2)}](std::span<Tensor> tensors) {
              const auto* const from =
                  static_cast<const char*>(tensors[0].const_data_ptr());
              auto* const maskTo =
                  static_cast<char*>(tensors[1].mutable_data_ptr());
              auto* const to =
                  static_cast<char*>(tensors[2].mutable_data_ptr());
              drawBlocks(draw.point(), grid, [&](const DrawBatch& batch) {
                inVectors([&] {
                  for (int64_t word = 0; word < order.words(); ++word) {
                    for (int64_t i = 0; i < batch.count; ++i) {
                      const int64_t element =
                          order.element(batch.round, batch.thread + i, word);
                      if (element >= places[0].count()) {
                        continue;
                      }
                      const bool keeps =
                          static_cast<C>(uniformOf(batch.words[word][i])) <
                          bound;
                      scalar_t value;
                      std::memcpy(
                          &value, from + places[2](element), sizeof(value));
                      value = static_cast<scalar_t>(
                          static_cast<C>(value) * static_cast<C>(keeps) *
                          scale);
                      std::memcpy(
                          to + places[1](element), &value, sizeof(value));
                      maskTo[places[0](element)] = static_cast<char>(keeps);
                    }
                  }
                });
              });
            }));
      }),
      kHalf,
      kBFloat16,
      AT_EXPAND(AT_FLOATING_TYPES));
  return {std::move(result), std::move(mask)};
}

Tensor native_dropout_backward(
    const Tensor& grad_output,
    const Tensor& mask,
    double scale) {
  return grad_output.mul(mask).mul_(scale);
}

} // namespace at::native::openreg::philox
