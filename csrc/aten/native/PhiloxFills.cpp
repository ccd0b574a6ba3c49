#include "aten/native/PhiloxFills.h"

#include "aten/native/PhiloxNormals.h"
#include "aten/native/PhiloxRows.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/native/DistributionTemplates.h>

#include <limits>

namespace at::native::openreg::philox {
namespace {

constexpr const char* kAnyFill = "random numbers of this distribution";

/// For Fill::store.
template <class C>
decltype(Fill<C>::store) storeAs(ScalarType type) {
  if constexpr (std::is_same_v<C, double>) {
    return storing<double, double>();
  } else {
    decltype(Fill<C>::store) store;
    AT_DISPATCH_V2(
        type,
        kAnyFill,
        AT_WRAP([&] { store = storing<scalar_t, C>(); }),
        kBool,
        AT_EXPAND(AT_INTEGRAL_TYPES),
        kHalf,
        kBFloat16,
        kFloat);
    return store;
  }
}

/// Calls `fill(C())` with what numbers of a dtype are computed in.
template <class Compute>
void forNumbers(ScalarType type, Compute fill) {
  if (type == kDouble) {
    fill(double());
  } else {
    fill(float());
  }
}
template <class Compute>
void forFloats(ScalarType type, Compute fill) {
  checkDtype(isFloatingType(type), kAnyFill, type);
  forNumbers(type, fill);
}

/// Fills with `number(drawn)`.
template <auto draw, class C, class Number>
void fillFrom(
    const char* name,
    TensorIteratorBase& iter,
    const MaybeGenerator& generator,
    C,
    Number number) {
  fillWith<C>(
      iter,
      generator,
      {name, kUnroll<C>, each<draw>(number), storeAs<C>(iter.dtype())});
}

/// For Fill::make: `number(normal)` of each of the normal numbers.
template <class C, class Number>
decltype(Fill<C>::make) eachNormal(Number number) {
  if constexpr (std::is_same_v<C, double>) {
    return each<gpu::wideNormalsOf>(number);
  } else {
    return [=](const DrawBatch& batch, typename Fill<C>::Row* rows) {
      inVectors([&] {
        const Number numberOf = number;
        const auto& words = batch.words;
        auto* const to = rows;
        gpu::normalsOfPairs(words[0], words[1], to[0], to[1]);
        gpu::normalsOfPairs(words[2], words[3], to[2], to[3]);
        for (int n = 0; n < kUnroll<C>; ++n) {
          for (int64_t i = 0; i < DrawBatch::kThreads; ++i) {
            to[n][i] = numberOf(to[n][i]);
          }
        }
      });
    };
  }
}

/// Fills with `number(normal)`.
template <class C, class Number>
void fillFromNormals(
    const char* name,
    TensorIteratorBase& iter,
    const MaybeGenerator& generator,
    C,
    Number number) {
  fillWith<C>(
      iter,
      generator,
      {name, kUnroll<C>, eachNormal<C>(number), storeAs<C>(iter.dtype())});
}

template <class C>
struct Line {
  C slope, start;

  C operator()(C x) const {
    return fused(x, slope, start);
  }
};

// PyTorch's templates check the arguments and call one of these.
struct Philox;

template <class>
struct Uniform {
  void operator()(
      TensorIteratorBase& iter,
      double from,
      double to,
      const MaybeGenerator& generator) const {
    AT_DISPATCH_V2(
        iter.dtype(),
        kAnyFill,
        AT_WRAP([&] {
          using C = Computed<scalar_t>;
          const auto low = static_cast<scalar_t>(from);
          const auto high = static_cast<scalar_t>(to);
          const Line<C> line{static_cast<C>(high - low), static_cast<C>(low)};
          const auto last = [=](scalar_t value) {
            return value == high ? low : value;
          };
          fillWith<C>(
              iter,
              generator,
              {"uniform_",
               kUnroll<C>,
               each<uniformsOf<C>>(line),
               storing<scalar_t, C>(last)});
        }),
        kHalf,
        kBFloat16,
        AT_EXPAND(AT_FLOATING_TYPES));
  }
};

template <class>
struct Bernoulli {
  void operator()(
      const TensorBase& self,
      double p,
      const MaybeGenerator& generator) const {
    auto iter = TensorIterator::borrowing_nullary_op(self);
    forNumbers(iter.dtype(), [&]<class C>(C c) {
      const auto bound = static_cast<C>(p);
      fillFrom<uniformsOf<C>>("bernoulli_", iter, generator, c, [=](C u) {
        return static_cast<C>(u <= bound);
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
    forFloats(iter.dtype(), [&]<class C>(C c) {
      const Line<C> line{static_cast<C>(std), static_cast<C>(mean)};
      fillFromNormals("normal_", iter, generator, c, line);
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
    forFloats(iter.dtype(), [&]<class C>(C c) {
      const Line<C> line{static_cast<C>(std), static_cast<C>(mean)};
      fillFromNormals("log_normal_", iter, generator, c, [=](C normal) {
        return gpu::fastExp(line(normal));
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
    forFloats(iter.dtype(), [&]<class C>(C c) {
      constexpr C kHalfStep = std::numeric_limits<C>::epsilon() / 2;
      const C scale = C(-1) / static_cast<C>(lambda);
      fillFrom<uniformsOf<C>>("exponential_", iter, generator, c, [=](C u) {
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
    forFloats(iter.dtype(), [&]<class C>(C c) {
      constexpr C kStep = std::numeric_limits<C>::epsilon();
      const auto m = static_cast<C>(median), s = static_cast<C>(sigma);
      fillFrom<uniformsOf<C>>("cauchy_", iter, generator, c, [=](C u) {
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
    forNumbers(iter.dtype(), [&]<class C>(C c) {
      const C log = gpu::fastLog(C(1) - static_cast<C>(p));
      fillFrom<uniformsOf<C>>("geometric_", iter, generator, c, [=](C u) {
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
