#include "aten/native/PhiloxChoices.h"

#include "aten/native/PhiloxDraws.h"
#include "aten/native/PhiloxThread.h"
#include "executor/ParallelFor.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <limits>

namespace at::native::openreg::philox {
namespace {

struct KeyedNumber {
  uint64_t key;
  int64_t number;
};

/// Sorts by key; what has the same key stays in its order.
void sortByKey(std::vector<KeyedNumber>& all, int bits) {
  constexpr int kDigit = 11;
  constexpr size_t kDigits = size_t{1} << kDigit;
  std::vector<KeyedNumber> sorted(all.size());
  for (int shift = 0; shift < bits; shift += kDigit) {
    const auto digit = [shift](const KeyedNumber& one) {
      return (one.key >> shift) % kDigits;
    };
    std::array<size_t, kDigits + 1> begins{};
    for (const KeyedNumber& one : all) {
      ++begins[digit(one) + 1];
    }
    for (size_t i = 1; i < kDigits; ++i) {
      begins[i] += begins[i - 1];
    }
    for (const KeyedNumber& one : all) {
      sorted[begins[digit(one)]++] = one;
    }
    all.swap(sorted);
  }
}

/// Numbers with the same key would stay in their order: these are shuffled.
void shuffleEqual(std::vector<KeyedNumber>& all, PhiloxPoint point) {
  for (size_t begin = 0, end; begin < all.size(); begin = end) {
    for (end = begin + 1; end < all.size() && all[end].key == all[begin].key;) {
      ++end;
    }
    if (end - begin > 1) {
      gpu::PhiloxThread thread(point, static_cast<int64_t>(begin));
      for (size_t last = end - begin - 1; last > 0; --last) {
        const size_t other = thread.word() % static_cast<uint32_t>(last + 1);
        std::swap(all[begin + last].number, all[begin + other].number);
      }
    }
  }
}

/// How many bits of a key make equal ones rare among n.
int keyBits(int64_t n) {
  const auto count = static_cast<double>(n);
  const double bits = std::ceil(
      std::log2(count - (6 * count * count + 1) / (std::log(0.9) * 12)));
  return std::min(64, static_cast<int>(bits));
}

} // namespace

// Keys are drawn, and the numbers sorted by them.
Tensor& randperm_out(
    int64_t n,
    std::optional<Generator> generator,
    Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  check_supported_max_int_with_precision(n, out);
  out.resize_({n});
  if (n == 0) {
    return out;
  }
  const int bits = keyBits(n);
  const bool wide = bits > 32;
  Tensor keys = at::empty({n}, out.options().dtype(wide ? kLong : kInt));
  if (wide) {
    using Limits = std::numeric_limits<int64_t>;
    keys.random_(Limits::min(), Limits::max(), generator);
  } else {
    using Limits = std::numeric_limits<int32_t>;
    keys.random_(Limits::min(), Limits::max(), generator);
  }
  const OpenRegStream stream = drawingStreamOf(out);
  const PhiloxDraw draw =
      c10::openreg::drawFrom(generator, stream, static_cast<uint64_t>(n));
  AT_DISPATCH_V2(
      out.scalar_type(),
      "randperm",
      AT_WRAP([&] {
        launch(
            "randperm",
            stream,
            {.reads = {&keys}, .writes = {&out}},
            DrawWork([=](std::span<Tensor> tensors) {
              const uint64_t mask = ~uint64_t{0} >> (64 - bits);
              // A key all of whose bits count is sorted as a signed number.
              const uint64_t sign =
                  bits == 32 || bits == 64 ? uint64_t{1} << (bits - 1) : 0;
              std::vector<KeyedNumber> all(static_cast<size_t>(n));
              for (int64_t i = 0; i < n; ++i) {
                const uint64_t key = wide
                    ? static_cast<uint64_t>(
                          tensors[0].const_data_ptr<int64_t>()[i])
                    : static_cast<uint32_t>(
                          tensors[0].const_data_ptr<int32_t>()[i]);
                all[static_cast<size_t>(i)] = {(key & mask) ^ sign, i};
              }
              sortByKey(all, bits);
              shuffleEqual(all, draw.point());
              auto* const to = tensors[1].mutable_data_ptr<scalar_t>();
              const int64_t stride = tensors[1].stride(0);
              for (int64_t i = 0; i < n; ++i) {
                to[i * stride] =
                    static_cast<scalar_t>(all[static_cast<size_t>(i)].number);
              }
            }));
      }),
      kHalf,
      kBFloat16,
      AT_EXPAND(AT_ALL_TYPES));
  return out;
}

void multinomialWithReplacement(
    Tensor& result,
    const Tensor& self,
    int64_t n_sample,
    std::optional<Generator> generator) {
  constexpr int64_t kBlockSize = 128; // of CUDA's threads
  const bool isVector = self.dim() == 1;
  const int64_t rows = isVector ? 1 : self.size(0);
  const int64_t categories = self.size(-1);
  result.resize_(
      isVector ? std::vector{n_sample} : std::vector{rows, n_sample});
  if (result.numel() == 0) {
    return;
  }
  const OpenRegStream stream = drawingStreamOf(self);
  const PhiloxDraw draw = c10::openreg::drawFrom(generator, stream, 4);
  const Tensor weights = self.contiguous();
  AT_DISPATCH_V2(
      self.scalar_type(),
      "multinomial",
      AT_WRAP([&] {
        launch(
            "multinomial",
            stream,
            {.reads = {&weights}, .writes = {&result}},
            DrawWork([=](std::span<Tensor> tensors) {
              using C = Computed<scalar_t>;
              const PhiloxPoint point = draw.point();
              const int64_t threads =
                  (n_sample + kBlockSize - 1) / kBlockSize * kBlockSize;
              std::vector<scalar_t> sums(static_cast<size_t>(categories));
              for (int64_t row = 0; row < rows; ++row) {
                const auto* const weight =
                    tensors[0].const_data_ptr<scalar_t>() + row * categories;
                C sum = 0;
                for (int64_t i = 0; i < categories; ++i) {
                  TORCH_CHECK(
                      !(weight[i] < 0),
                      "invalid multinomial distribution (probability ",
                      weight[i],
                      " is below 0)");
                  sum += static_cast<C>(weight[i]);
                }
                TORCH_CHECK(
                    sum > 0 && std::isfinite(sum),
                    "invalid multinomial distribution (sum of probabilities "
                    "is ",
                    sum,
                    ", but must be above 0 and finite)");
                scalar_t running = 0;
                for (int64_t i = 0; i < categories; ++i) {
                  running = running +
                      static_cast<scalar_t>(static_cast<C>(weight[i]) / sum);
                  sums[static_cast<size_t>(i)] = running;
                }
                auto* const chosen =
                    tensors[1].mutable_data_ptr<int64_t>() + row * n_sample;
                parallelFor(
                    n_sample, kBlockSize, [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        const auto block = c10::openreg::philox(
                            point.seed,
                            point.offset,
                            static_cast<uint64_t>(row * threads + i));
                        const auto u =
                            static_cast<scalar_t>(uniformOf(block.words[0]));
                        int64_t choice =
                            std::lower_bound(sums.begin(), sums.end(), u) -
                            sums.begin();
                        choice = std::min(choice, categories - 1);
                        while (choice > 0 && weight[choice] == 0) {
                          --choice;
                        }
                        chosen[i] = choice;
                      }
                    });
              }
            }));
      }),
      kHalf,
      kBFloat16,
      AT_EXPAND(AT_FLOATING_TYPES));
}

} // namespace at::native::openreg::philox
