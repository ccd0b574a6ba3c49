#include "aten/native/PhiloxIntegers.h"

#include "aten/native/PhiloxRows.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/native/DistributionTemplates.h>

#include <limits>

namespace at::native::openreg::philox {
namespace {

#define OPENREG_NUMBERS                               \
  kBool, kHalf, kBFloat16, kUInt16, kUInt32, kUInt64, \
      AT_EXPAND(AT_INTEGRAL_TYPES), AT_EXPAND(AT_FLOATING_TYPES)

/// The words of a block as numbers of 32 bits, and as numbers of 64.
std::array<uint32_t, 4> narrowWords(const PhiloxBlock& block) {
  const auto& w = block.words;
  return {w[0], w[1], w[2], w[3]};
}
std::array<uint64_t, 2> wideWords(const PhiloxBlock& block) {
  const auto& w = block.words;
  return {wideOf(w[0], w[1]), wideOf(w[2], w[3])};
}

/// For Fill::make: `base` and what is left of each word after division by `range`, or
/// the whole word if that is 0.
template <auto words>
decltype(Fill<int64_t>::make) rests(uint64_t range, uint64_t base) {
  const uint64_t mask = range - 1;
  if ((range & mask) == 0) {
    return each<words>([=](uint64_t word) {
      return static_cast<int64_t>((word & mask) + base);
    });
  }
  // 1 / range in 64 bits, rounded up.
  const uint64_t part = std::numeric_limits<uint64_t>::max() / range + 1;
  return each<words>([=]<class Word>(Word word) {
    uint64_t rest;
    if constexpr (sizeof(Word) == 4) {
      // The fraction of word / range, times the range: exact, and faster than a division.
      const unsigned __int128 fraction = part * word;
      rest = static_cast<uint64_t>((fraction * range) >> 64);
    } else {
      rest = word % range;
    }
    return static_cast<int64_t>(rest + base);
  });
}

/// Fills with integers from `base` on.
void fillFromWords(
    TensorIteratorBase& iter,
    const MaybeGenerator& generator,
    bool wide,
    uint64_t range,
    int64_t base) {
  decltype(Fill<int64_t>::store) store;
  AT_DISPATCH_V2(
      iter.dtype(),
      "random_",
      AT_WRAP([&] { store = storing<scalar_t, int64_t>(); }),
      OPENREG_NUMBERS);
  const auto from = static_cast<uint64_t>(base);
  fillWith<int64_t>(
      iter,
      generator,
      {"random_",
       wide ? 2 : 4,
       wide ? rests<wideWords>(range, from) : rests<narrowWords>(range, from),
       std::move(store)});
}

template <class>
struct FromTo {
  void operator()(
      TensorIteratorBase& iter,
      uint64_t range,
      int64_t base,
      const MaybeGenerator& generator) const {
    const bool wide = range >= (uint64_t{1} << 28);
    fillFromWords(iter, generator, wide, range, base);
  }

  // All of 64 bits.
  void operator()(TensorIteratorBase& iter, const MaybeGenerator& generator)
      const {
    const ScalarType type = iter.dtype();
    checkDtype(
        type == kLong || type == kFloat || type == kDouble || type == kBFloat16,
        "random_",
        type);
    fillFromWords(iter, generator, true, 0, 0);
  }
};

/// The bound below which random_() without arguments stays; 0: there is none.
template <class T>
constexpr uint64_t boundOf() {
  if constexpr (std::is_same_v<T, bool>) {
    return 2;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(std::numeric_limits<T>::max()) + 1;
  } else {
    return (uint64_t{1} << std::numeric_limits<T>::digits) + 1;
  }
}

template <class>
struct Random {
  void operator()(TensorIteratorBase& iter, const MaybeGenerator& generator)
      const {
    uint64_t bound = 0;
    AT_DISPATCH_V2(
        iter.dtype(),
        "random_",
        AT_WRAP([&] { bound = boundOf<scalar_t>(); }),
        OPENREG_NUMBERS);
    const bool wide = bound == 0 || bound > (uint64_t{1} << 32);
    fillFromWords(iter, generator, wide, bound, 0);
  }
};

struct Philox;

} // namespace

Tensor& random_(Tensor& self, std::optional<Generator> generator) {
  return templates::random_impl<Random, Philox>(self, generator);
}

Tensor& random_to_(
    Tensor& self,
    int64_t to,
    std::optional<Generator> generator) {
  return random_from_(self, 0, to, generator);
}

Tensor& random_from_(
    Tensor& self,
    int64_t from,
    std::optional<int64_t> to,
    std::optional<Generator> generator) {
  return templates::random_from_to_impl<FromTo, Philox>(
      self, from, to, generator);
}

} // namespace at::native::openreg::philox
