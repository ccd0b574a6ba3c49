// The executor for operators that are called often: typed, so that nothing is
// boxed.
#pragma once

#include "aten/native/Arguments.h"
#include "aten/native/Executor.h"

#include <ATen/core/boxing/impl/boxing.h>

#include <array>
#include <atomic>
#include <string_view>

namespace at::native::openreg {

/// The kinds of arguments, dtypes and words, that an operator was seen to work
/// with. A kernel says only when it runs what it does not support, which is too
/// late once it is queued: so the first call of a kind is not.
class ProvenKinds {
 public:
  bool has(uint64_t kind) const {
    for (const auto& proven : proven_) {
      const uint64_t known = proven.load(std::memory_order_relaxed);
      if (known == kind || known == 0) {
        return known == kind;
      }
    }
    return false;
  }
  /// When it is full, further kinds are never queued.
  void add(uint64_t kind) {
    for (auto& proven : proven_) {
      uint64_t known = 0;
      if (proven.compare_exchange_strong(known, kind) || known == kind) {
        return;
      }
    }
  }

 private:
  std::array<std::atomic<uint64_t>, 24> proven_{};
};

inline void addKind(uint64_t& kind, std::string_view text) {
  kind = kind * 64 + std::hash<std::string_view>()(text);
}
inline void addKind(
    uint64_t& kind,
    const std::optional<std::string_view>& text) {
  addKind(kind, text.value_or(std::string_view()));
}
inline void addKind(uint64_t& kind, const Scalar& number) {
  kind = kind * 64 + static_cast<uint64_t>(number.type()) + 1;
}
inline void addKind(uint64_t& kind, const std::optional<Scalar>& number) {
  number ? addKind(kind, *number) : addKind(kind, std::string_view());
}
template <class T>
void addKind(uint64_t& kind, const T& argument) {
  visitTensors(argument, [&](const Tensor& tensor) {
    kind = kind * 64 + static_cast<uint64_t>(tensor.scalar_type()) + 1;
  });
}

/// What ProvenKinds tells apart; never 0.
template <class... Args>
uint64_t kindOf(const Args&... args) {
  uint64_t kind = 1;
  (addKind(kind, args), ...);
  return kind | uint64_t{1} << 63;
}

/// Whether an error in the operator's kernel is about its data: an index out of
/// bounds. On a GPU such an error is asynchronous.
bool checksDataInKernel(std::string_view name);

/// What is prepared once per operator.
template <class Op>
struct Prepared {
  Prepared()
      : schema(c10::Dispatcher::singleton()
                   .findSchemaOrThrow(Op::name, Op::overload_name)
                   .schema()),
        name(immortalName(schema)),
        devices(schema),
        waits(FallbackCount::of(name)),
        asserts(checksDataInKernel(name)) {}

  const c10::FunctionSchema& schema;
  const char* const name;
  const DeviceCheck devices;
  FallbackCount& waits;
  const bool asserts; // see checksDataInKernel()
  mutable ProvenKinds proven;

  static const Prepared& get() {
    static const Prepared prepared;
    return prepared;
  }
};

/// The device of the call. Mostly all tensors are on one device; if they are not,
/// the rules of DeviceCheck decide.
template <class Op, class... Args>
c10::Device deviceOf(const Args&... args) {
  std::optional<c10::Device> device;
  bool same = true;
  const auto look = [&](const Tensor& tensor) {
    if (!device) {
      device = tensor.device();
    } else {
      same &= *device == tensor.device();
    }
  };
  (visitTensors(args, look), ...);
  if (C10_LIKELY(same && device && device->is_privateuseone())) {
    return *device;
  }
  const auto boxed = c10::impl::boxArgs(args...);
  return Prepared<Op>::get().devices.check(boxed.begin());
}

// --- operators that return their output arguments -------------------------------

template <class T>
inline constexpr bool kIsOutput = std::is_same_v<T, Tensor&>;

/// The arguments of type `Tensor&`, as an operator returns them: a reference, or a
/// tuple of some.
template <class... Args, class... Given>
auto outputsAmong(Given&... args) {
  return std::tuple_cat([&] {
    if constexpr (kIsOutput<Args>) {
      return std::tuple<Tensor&>(args);
    } else {
      return std::tuple<>();
    }
  }()...);
}

template <class Result>
struct ReturnsOutputs : std::is_reference<Result> {};
template <class... T>
struct ReturnsOutputs<std::tuple<T...>>
    : std::bool_constant<(std::is_reference_v<T> && ...)> {};

template <class Result, class Outputs>
Result asResult(Outputs outputs) {
  if constexpr (std::is_reference_v<Result>) {
    return std::get<0>(outputs);
  } else {
    return outputs;
  }
}

// docs:begin typed
/// The kernel of operator `Op`: its CPU kernel, called on aliases.
template <class Op, class Signature = typename Op::schema>
struct Typed;

template <class Op, class Result, class... Args>
struct Typed<Op, Result(Args...)> {
  static constexpr bool kReturnsOutputs = ReturnsOutputs<Result>::value;

  static Result call(Args... args) {
    const OpenRegStream stream =
        c10::openreg::currentStreamOf(deviceOf<Op>(args...));
    Prepared<Op>::get().waits.note();
    (chooseGenerator(stream, args), ...);
    if constexpr (kReturnsOutputs) {
      run(orLaunchHere, stream, args...);
      return asResult<Result>(outputsAmong<Args...>(args...));
    } else {
      return *run(orLaunchHere, stream, args...);
    }
  }

  /// Waits for the stream's earlier work.
  static auto callHere(const OpenRegStream& stream, Args... args) {
    return run(orLaunchHere, stream, args...);
  }

  /// Runs at once or not at all: false or std::nullopt in the latter case.
  static auto tryCall(const OpenRegStream& stream, Args... args) {
    return run(orLaunchTry, stream, args...);
  }

 private:
  template <class... Given>
  static auto run(unsigned how, const OpenRegStream& stream, Given&... args) {
    AliasFrame frame(stream);
    const char* name = Prepared<Op>::get().name;
    if constexpr (kReturnsOutputs) {
      const auto body = [&] {
        CpuKernel<Op>::call(passTo<Args>(frame, args)...);
      };
      const bool ran = runOnThisThread(name, how, stream, body);
      if (ran) {
        (finish<Args>(frame, args), ...);
      }
      return ran;
    } else {
      std::optional<Result> result;
      const auto body = [&] {
        result.emplace(CpuKernel<Op>::call(passTo<Args>(frame, args)...));
      };
      if (runOnThisThread(name, how, stream, body)) {
        result.emplace(toDevice(frame, std::move(*result)));
      }
      return result;
    }
  }

  template <class T, class Given>
  static void finish(AliasFrame& frame, Given& argument) {
    if constexpr (kIsOutput<T>) {
      frame.finish(argument);
    }
  }
};
// docs:end typed

} // namespace at::native::openreg
