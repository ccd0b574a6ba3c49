#include "aten/native/PhiloxFills.h"

#include "aten/native/PhiloxDraws.h"
#include "aten/native/PhiloxMath.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/native/DistributionTemplates.h>

#include <limits>

namespace at::native::openreg::philox {
namespace {

#define OPENREG_FLOATS kHalf, kBFloat16, AT_EXPAND(AT_FLOATING_TYPES)
#define OPENREG_NUMBERS kBool, AT_EXPAND(AT_INTEGRAL_TYPES), OPENREG_FLOATS

/// Calls `fill(T(), C())` with the dtype of a tensor and what its numbers are computed
/// in.
template <class Fill>
void forFloats(ScalarType type, Fill fill) {
  AT_DISPATCH_V2(
      type,
      "random numbers of this distribution",
      AT_WRAP([&] { fill(scalar_t(), Computed<scalar_t>()); }),
      OPENREG_FLOATS);
}
template <class Fill>
void forNumbers(ScalarType type, Fill fill) {
  AT_DISPATCH_V2(
      type,
      "random numbers of this distribution",
      AT_WRAP([&] { fill(scalar_t(), Computed<scalar_t>()); }),
      OPENREG_NUMBERS);
}

template <class Fill>
void forIntegers(ScalarType type, Fill fill) {
  AT_DISPATCH_V2(
      type,
      "random_",
      AT_WRAP([&] { fill(scalar_t()); }),
      OPENREG_NUMBERS,
      kUInt16,
      kUInt32,
      kUInt64);
}

/// Fills with `make(number)` of the numbers that `draw` makes of a block.
template <class T, class C, class Make>
void fillFrom(
    const char* name,
    TensorIteratorBase& iter,
    const MaybeGenerator& generator,
    std::array<C, kUnroll<C>> (*draw)(const PhiloxBlock&),
    Make make) {
  const auto transform = [=](const PhiloxBlock& block) {
    return eachOf<T>(draw(block), make);
  };
  fillWith<T, kUnroll<C>>(name, iter, generator, transform);
}

// PyTorch's templates check the arguments and call one of these.
struct Philox;

template <class>
struct Uniform {
  void operator()(
      TensorIteratorBase& iter,
      double from,
      double to,
      const MaybeGenerator& generator) const {
    forFloats(iter.dtype(), [&]<class T, class C>(T, C) {
      const auto low = static_cast<T>(from), high = static_cast<T>(to);
      const auto range = static_cast<C>(high - low);
      fillFrom<T, C>("uniform_", iter, generator, uniformsOf<C>, [=](C u) {
        const auto value = static_cast<T>(fused(u, range, static_cast<C>(low)));
        return value == high ? low : value;
      });
    });
  }
};

template <class>
struct Bernoulli {
  void operator()(
      const TensorBase& self,
      double p,
      const MaybeGenerator& generator) const {
    auto iter = TensorIterator::borrowing_nullary_op(self);
    forNumbers(iter.dtype(), [&]<class T, class C>(T, C) {
      const auto bound = static_cast<C>(p);
      fillFrom<T, C>("bernoulli_", iter, generator, uniformsOf<C>, [=](C u) {
        return u <= bound;
      });
    });
  }
};

// --- integers ---

/// Numbers made of words of 32 or 64 bits.
template <class T, class Make>
void fillFromWords(
    TensorIteratorBase& iter,
    const MaybeGenerator& generator,
    bool wide,
    Make make) {
  if (wide) {
    const auto transform = [=](const PhiloxBlock& block) {
      const auto& w = block.words;
      return std::array<T, 2>{
          make(wideOf(w[0], w[1])), make(wideOf(w[2], w[3]))};
    };
    fillWith<T, 2>("random_", iter, generator, transform);
  } else {
    const auto transform = [=](const PhiloxBlock& block) {
      const auto& w = block.words;
      return std::array<T, 4>{make(w[0]), make(w[1]), make(w[2]), make(w[3])};
    };
    fillWith<T, 4>("random_", iter, generator, transform);
  }
}

template <class>
struct FromTo {
  void operator()(
      TensorIteratorBase& iter,
      uint64_t range,
      int64_t base,
      const MaybeGenerator& generator) const {
    forIntegers(iter.dtype(), [&]<class T>(T) {
      const bool wide = range >= (uint64_t{1} << 28);
      const auto make = [=]<class Word>(Word word) {
        // A division of 32 bits takes a fraction of the time.
        const uint64_t rest = word % static_cast<Word>(range);
        return static_cast<T>(
            static_cast<int64_t>(rest + static_cast<uint64_t>(base)));
      };
      fillFromWords<T>(iter, generator, wide, make);
    });
  }

  // All of 64 bits.
  void operator()(TensorIteratorBase& iter, const MaybeGenerator& generator)
      const {
    AT_DISPATCH_V2(
        iter.dtype(),
        "random_",
        AT_WRAP([&] {
          fillFromWords<scalar_t>(iter, generator, true, [](uint64_t word) {
            return static_cast<scalar_t>(static_cast<int64_t>(word));
          });
        }),
        kLong,
        kFloat,
        kDouble,
        kBFloat16);
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
    forIntegers(iter.dtype(), [&]<class T>(T) {
      constexpr uint64_t bound = boundOf<T>();
      constexpr bool wide = bound == 0 || bound > (uint64_t{1} << 32);
      fillFromWords<T>(iter, generator, wide, [](uint64_t word) {
        if constexpr (bound != 0) {
          word %= bound;
        }
        return static_cast<T>(word);
      });
    });
  }
};

// --- distributions of floating-point numbers ---

template <class>
struct Normal {
  void operator()(
      const TensorBase& self,
      double mean,
      double std,
      const MaybeGenerator& generator) const {
    auto iter = TensorIterator::borrowing_nullary_op(self);
    forFloats(iter.dtype(), [&]<class T, class C>(T, C) {
      const auto m = static_cast<C>(mean), s = static_cast<C>(std);
      fillFrom<T, C>(
          "normal_", iter, generator, gpu::normalsOfBlock<C>, [=](C n) {
            return fused(n, s, m);
          });
    });
  }
};

template <class>
struct LogNormal {
  void operator()(
      TensorIteratorBase& iter,
      double mean,
      double std,
      const MaybeGenerator& generator) const {
    forFloats(iter.dtype(), [&]<class T, class C>(T, C) {
      const auto m = static_cast<C>(mean), s = static_cast<C>(std);
      fillFrom<T, C>(
          "log_normal_", iter, generator, gpu::normalsOfBlock<C>, [=](C n) {
            return gpu::fastExp(fused(n, s, m));
          });
    });
  }
};

template <class>
struct Exponential {
  void operator()(
      TensorIteratorBase& iter,
      double lambda,
      const MaybeGenerator& generator) const {
    forFloats(iter.dtype(), [&]<class T, class C>(T, C) {
      constexpr C kHalfStep = std::numeric_limits<C>::epsilon() / 2;
      const C scale = C(-1) / static_cast<C>(lambda);
      fillFrom<T, C>("exponential_", iter, generator, uniformsOf<C>, [=](C u) {
        return scale * (u >= 1 - kHalfStep ? -kHalfStep : gpu::fastLog(u));
      });
    });
  }
};

template <class>
struct Cauchy {
  void operator()(
      TensorIteratorBase& iter,
      double median,
      double sigma,
      const MaybeGenerator& generator) const {
    forFloats(iter.dtype(), [&]<class T, class C>(T, C) {
      constexpr C kStep = std::numeric_limits<C>::epsilon();
      const auto m = static_cast<C>(median), s = static_cast<C>(sigma);
      fillFrom<T, C>("cauchy_", iter, generator, uniformsOf<C>, [=](C u) {
        const C clipped = std::clamp(u, C(kStep), C(1 - kStep));
        const C angle = std::numbers::pi_v<C> * (clipped - C(0.5));
        return fused(s, gpu::fastTan(angle), m);
      });
    });
  }
};

template <class>
struct Geometric {
  void operator()(
      TensorIteratorBase& iter,
      double p,
      const MaybeGenerator& generator) const {
    forNumbers(iter.dtype(), [&]<class T, class C>(T, C) {
      const C log = gpu::fastLog(C(1) - static_cast<C>(p));
      fillFrom<T, C>("geometric_", iter, generator, uniformsOf<C>, [=](C u) {
        return std::ceil(gpu::fastLog(u) / log);
      });
    });
  }
};

} // namespace

Tensor& uniform_(
    Tensor& self,
    double from,
    double to,
    std::optional<Generator> generator) {
  return templates::uniform_impl_<Uniform, Philox>(self, from, to, generator);
}

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

Tensor& bernoulli_(Tensor& self, double p, std::optional<Generator> generator) {
  return templates::bernoulli_impl_<Bernoulli, Philox>(self, p, generator);
}

Tensor& normal_(
    Tensor& self,
    double mean,
    double std,
    std::optional<Generator> generator) {
  return templates::normal_impl_<Normal, Philox>(self, mean, std, generator);
}

Tensor& log_normal_(
    Tensor& self,
    double mean,
    double std,
    std::optional<Generator> generator) {
  return templates::log_normal_impl_<LogNormal, Philox>(
      self, mean, std, generator);
}

Tensor& exponential_(
    Tensor& self,
    double lambda,
    std::optional<Generator> generator) {
  return templates::exponential_impl_<Exponential, Philox>(
      self, lambda, generator);
}

Tensor& cauchy_(
    Tensor& self,
    double median,
    double sigma,
    std::optional<Generator> generator) {
  return templates::cauchy_impl_<Cauchy, Philox>(
      self, median, sigma, generator);
}

Tensor& geometric_(Tensor& self, double p, std::optional<Generator> generator) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      self.scalar_type() != kBool,
      "\"geometric_cuda\" not implemented for 'Bool'");
  return templates::geometric_impl_<Geometric, Philox>(self, p, generator);
}

Tensor normal_Tensor_float(
    const Tensor& mean,
    double std,
    std::optional<Generator> generator) {
  return templates::normal_impl<Normal, Philox>(mean, std, generator);
}

Tensor& normal_Tensor_float_out(
    const Tensor& mean,
    double std,
    std::optional<Generator> generator,
    Tensor& out) {
  return templates::normal_out_impl<Normal, Philox>(out, mean, std, generator);
}

Tensor normal_float_Tensor(
    double mean,
    const Tensor& std,
    std::optional<Generator> generator) {
  return templates::normal_impl<Normal, Philox>(mean, std, generator);
}

Tensor& normal_float_Tensor_out(
    double mean,
    const Tensor& std,
    std::optional<Generator> generator,
    Tensor& out) {
  return templates::normal_out_impl<Normal, Philox>(out, mean, std, generator);
}

Tensor normal_Tensor_Tensor(
    const Tensor& mean,
    const Tensor& std,
    std::optional<Generator> generator) {
  return templates::normal_impl<Normal, Philox>(mean, std, generator);
}

Tensor& normal_Tensor_Tensor_out(
    const Tensor& mean,
    const Tensor& std,
    std::optional<Generator> generator,
    Tensor& out) {
  return templates::normal_out_impl<Normal, Philox>(out, mean, std, generator);
}

} // namespace at::native::openreg::philox
