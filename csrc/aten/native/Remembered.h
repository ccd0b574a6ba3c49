// The executor for operators without a meta function in C++ whose outputs depend
// on the shapes of the arguments alone.
#pragma once

#include "aten/native/Held.h"
#include "aten/native/Planned.h"
#include "aten/native/Signature.h"
#include "aten/native/Structured.h"

namespace at::native::openreg {

// docs:begin remembered
/// The kernel of such an operator. The first call of its kind waits for its stream
/// and shows what the outputs are like; a later call with the same shapes, dtypes
/// and numbers is queued, with outputs made beforehand. Small work on an idle
/// stream runs at once in any case.
template <class Op, class Signature = typename Op::schema>
struct Remembered;

template <class Op, class Result, class... Args>
struct Remembered<Op, Result(Args...)> {
  static Result call(Args... args) {
    const c10::Device device = deviceOf<Op>(args...);
    const OpenRegStream stream = c10::openreg::currentStreamOf(device);
    const size_t bytes = bytesOf(args...);
    (chooseGenerator(stream, args), ...);
    static OutputMemory memory;
    if (bytes <= kSmallBytes) {
      try {
        if (auto result = Typed<Op>::tryCall(stream, args...)) {
          if (Prepared<Op>::get().asserts) {
            remember(memory, signatureOf(args...), result);
          }
          return finish(result, args...);
        }
      } catch (const c10::Error& error) {
        if (!Prepared<Op>::get().asserts) {
          throw;
        }
        auto outputs = memory.make(signatureOf(args...), device);
        if (!outputs) {
          throw;
        }
        // Such a call has worked, so it is the data.
        failDevice(Prepared<Op>::get().name, stream, error);
        return asResultOf(std::move(*outputs), args...);
      }
    }
    const auto key = signatureOf(args...);
    if (auto outputs = memory.make(key, device)) {
      return queue(stream, bytes, std::move(*outputs), args...);
    }
    auto result = [&] {
      const HostScope noTemporariesOnTheDevice;
      return Typed<Op>::callHere(stream, args...);
    }();
    remember(memory, key, result);
    return finish(result, args...);
  }
  // docs:end remembered

 private:
  static constexpr bool kInPlace = ReturnsOutputs<Result>::value;

  // `result` is what Typed gives: whether it ran, or the outputs.
  template <class Ran>
  static void remember(
      OutputMemory& memory,
      const openreg::Signature& key,
      const Ran& result) {
    if constexpr (kInPlace) {
      memory.add(key, {});
    } else {
      memory.add(key, tensorsOf(*result));
    }
  }

  template <class Ran, class... Given>
  static Result finish(Ran& result, Given&... args) {
    if constexpr (kInPlace) {
      return asResult<Result>(outputsAmong<Args...>(args...));
    } else {
      return std::move(*result);
    }
  }

  template <class... Given>
  static Result queue(
      const OpenRegStream& stream,
      size_t bytes,
      std::vector<Tensor> outputs,
      Given&... args) {
    const char* name = Prepared<Op>::get().name;
    if constexpr (kInPlace) {
      launchOperator<Op>(name, stream, bytes, args...);
    } else {
      launchPlanned(
          name,
          stream,
          bytes,
          outputs,
          [held = std::make_tuple(hold(args)...)]() mutable {
            return std::apply(
                [](auto&... argument) {
                  return CpuKernel<Op>::call(pass(argument)...);
                },
                held);
          });
    }
    return asResultOf(std::move(outputs), args...);
  }

  template <class... Given>
  static Result asResultOf(std::vector<Tensor> outputs, Given&... args) {
    if constexpr (kInPlace) {
      return asResult<Result>(outputsAmong<Args...>(args...));
    } else if constexpr (std::is_same_v<Result, Tensor>) {
      return std::move(outputs[0]);
    } else {
      return asTuple(
          std::move(outputs),
          std::make_index_sequence<std::tuple_size_v<Result>>());
    }
  }
  template <size_t... places>
  static auto asTuple(
      std::vector<Tensor> outputs,
      std::index_sequence<places...> /*unused*/) {
    return Result{std::move(outputs[places])...};
  }
};

// docs:begin remembered-lists
/// The same for an operator that returns nothing and changes tensors of lists:
/// those of fused optimizers and of the scaler of gradients. Their learning rates
/// and the like may be another at each call, and the kernels take any.
template <class Op, class... Args>
struct Remembered<Op, void(Args...)> {
  static void call(Args... args) {
    const c10::Device device = deviceOf<Op>(args...);
    const OpenRegStream stream = c10::openreg::currentStreamOf(device);
    const char* name = Prepared<Op>::get().name;
    openreg::Signature key;
    (encodeUnlessRate(key, args), ...);
    static OutputMemory memory;
    if (memory.make(key, device)) {
      launchOperator<Op>(name, stream, bytesOf(args...), args...);
      return;
    }
    AliasFrame frame(stream);
    runHere(name, stream, [&] {
      CpuKernel<Op>::call(passTo<Args>(frame, args)...);
    });
    memory.add(key, {});
  }
  // docs:end remembered-lists

 private:
  template <class T>
  static void encodeUnlessRate(openreg::Signature& key, const T& argument) {
    if constexpr (!std::is_same_v<T, double>) {
      encode(key, argument);
    }
  }
};

} // namespace at::native::openreg
