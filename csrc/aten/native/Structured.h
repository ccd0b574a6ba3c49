// The executor for structured operators: their meta functions give the outputs,
// so the kernel can be queued.
#pragma once

#include "aten/native/Held.h"
#include "aten/native/LibraryWorkspaces.h"
#include "aten/native/Typed.h"

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>

#include <array>

namespace at::native::openreg {

// --- arguments for meta functions ---------------------------------------------

template <class T>
const T& forMeta(const T& argument) {
  return argument;
}
inline OptionalTensorRef forMeta(const std::optional<Tensor>& tensor) {
  return tensor ? OptionalTensorRef(*tensor) : OptionalTensorRef();
}
inline OptionalScalarRef forMeta(const std::optional<Scalar>& scalar) {
  return scalar ? OptionalScalarRef(*scalar) : OptionalScalarRef();
}
inline int64_t forMeta(const c10::SymInt& number) {
  return number.guard_int(__FILE__, __LINE__);
}
inline IntArrayRef forMeta(c10::SymIntArrayRef numbers) {
  return C10_AS_INTARRAYREF_SLOW(numbers);
}
inline IOptTensorListRef forMeta(
    const c10::List<std::optional<Tensor>>& tensors) {
  return tensors;
}

// --- outputs ------------------------------------------------------------------

Tensor makeOutput(
    IntArrayRef sizes,
    IntArrayRef strides,
    const TensorOptions& options,
    c10::Device device);
void checkInPlace(
    const Tensor& self,
    IntArrayRef sizes,
    const TensorOptions& options);
void resizeOutput(
    const Tensor& output,
    IntArrayRef sizes,
    IntArrayRef strides,
    const TensorOptions& options);

enum class Form { Functional, InPlace, Out };

/// Runs a meta function of PyTorch and makes, checks or resizes the outputs it
/// asks for.
template <class Meta, Form form, size_t count>
class MetaRun final : public Meta {
 public:
  explicit MetaRun(c10::Device device) : device_(device) {}

  std::array<Tensor, count> outputs;

  void set_output_strided(
      int64_t place,
      IntArrayRef sizes,
      IntArrayRef strides,
      TensorOptions options) override {
    set_output_raw_strided(place, sizes, strides, options);
  }
  void set_output_raw_strided(
      int64_t place,
      IntArrayRef sizes,
      IntArrayRef strides,
      TensorOptions options) override {
    Tensor& output = outputs[place];
    if constexpr (form == Form::Functional) {
      output = makeOutput(sizes, strides, options, device_);
    } else if constexpr (form == Form::InPlace) {
      checkInPlace(output, sizes, options);
    } else {
      resizeOutput(output, sizes, strides, options);
    }
    if constexpr (std::is_base_of_v<TensorIteratorBase, Meta>) {
      Meta::set_output_raw_strided(place, sizes, strides, options);
    }
  }
  const Tensor& maybe_get_output(int64_t place) override {
    return outputs[place];
  }

  /// Whether the CPU's strides are those of the outputs. It casts its inputs to one
  /// dtype before it looks at their strides, a device afterwards; that matters for
  /// inputs whose strides a cast does not keep.
  template <class... Args>
  bool hasStridesOfCpu(const Args&... args) const {
    bool same = true;
    if constexpr (std::is_base_of_v<TensorIteratorBase, Meta>) {
      const auto look = [&](const Tensor& tensor) {
        same &= tensor.scalar_type() == this->common_dtype_ ||
            tensor.is_non_overlapping_and_dense();
      };
      if (this->common_dtype_ != ScalarType::Undefined) {
        (visitTensors(args, look), ...);
      }
    }
    return same;
  }

 private:
  const c10::Device device_;
};

/// Queues `Op`, called on what was held of `args`.
template <class Op, class... Args>
void launchOperator(
    const char* name,
    const OpenRegStream& stream,
    size_t bytes,
    const Args&... args) {
  launch(
      name, stream, bytes, [held = std::make_tuple(hold(args)...)]() mutable {
        std::apply(
            [](auto&... argument) { CpuKernel<Op>::call(pass(argument)...); },
            held);
      });
}

/// Runs `Op`, which writes to outputs that were made, after the stream's work.
template <class Op, class... Args>
void runOperatorHere(
    const char* name,
    const OpenRegStream& stream,
    const Args&... args) {
  auto held = std::make_tuple(hold(args)...);
  const HostScope outputsAreMade;
  runHere(name, stream, [&] {
    std::apply(
        [](auto&... argument) { CpuKernel<Op>::call(pass(argument)...); },
        held);
  });
}

/// How many bytes the tensors of a call have: what its work is estimated by.
template <class... Args>
size_t bytesOf(const Args&... args) {
  size_t bytes = 0;
  const auto add = [&](const Tensor& tensor) {
    bytes += static_cast<size_t>(tensor.numel()) * tensor.itemsize();
  };
  (visitTensors(args, add), ...);
  return bytes;
}

/// Breaks the device as a kernel that found bad data does. To be called where
/// `error` is caught: if it is not about data, it goes on.
void failDevice(
    const char* name,
    const OpenRegStream& stream,
    const c10::Error& error);

/// Notes that an operator works with arguments of a kind. Without data the kernel
/// may not have looked at them.
inline void prove(ProvenKinds& proven, uint64_t kind, size_t bytes) {
  if (C10_UNLIKELY(!proven.has(kind)) && bytes != 0) {
    proven.add(kind);
  }
}

/// Runs an operator now, if it is small and the stream idle, or if it never ran
/// with such arguments. Returns false if it is to be queued instead. If the
/// operator looks at its data, an error that `meta()` does not find in the
/// arguments is there: then the call returns, as on a GPU, and the device is
/// broken.
template <class Op, class TryNow, class RunNow, class Meta>
bool runNow(
    const OpenRegStream& stream,
    size_t bytes,
    uint64_t kind,
    TryNow tryNow,
    RunNow runNow,
    Meta meta) {
  const auto& prepared = Prepared<Op>::get();
  try {
    if (bytes <= kSmallBytes && tryNow()) {
      prove(prepared.proven, kind, bytes);
      return true;
    }
    if (C10_LIKELY(prepared.proven.has(kind))) {
      return false;
    }
    runNow();
    prove(prepared.proven, kind, bytes);
    return true;
  } catch (const c10::Error& error) {
    if (!prepared.asserts) {
      throw;
    }
    meta();
    failDevice(prepared.name, stream, error);
    return true;
  }
}

// docs:begin structured
/// The kernel of a structured operator. Small work on an idle stream runs at once,
/// as Typed does it. Else the meta function checks the arguments and tells the
/// outputs, these are made, and the `out` form of the CPU kernel is queued.
template <
    class Op,
    class OutOp,
    class Meta,
    size_t count,
    class Signature = typename Op::schema>
struct Structured;

template <
    class Op,
    class OutOp,
    class Meta,
    size_t count,
    class R,
    class... Args>
struct Structured<Op, OutOp, Meta, count, R(Args...)> {
  static R call(Args... args) {
    const c10::Device device = deviceOf<Op>(args...);
    const OpenRegStream stream = c10::openreg::currentStreamOf(device);
    const size_t bytes = bytesOf(args...);
    const char* name = Prepared<Op>::get().name;
    keepWorkspacesFor<Op>(stream, args...);
    std::optional<R> result;
    const auto inferOutputs = [&] {
      MetaRun<Meta, Form::Functional, count> meta(device);
      meta.meta(forMeta(args)...);
      result.emplace(asTuple(std::move(meta.outputs)));
      return meta.hasStridesOfCpu(args...);
    };
    if (!runNow<Op>(
            stream,
            bytes,
            kindOf(args...),
            [&] {
              result = Typed<Op>::tryCall(stream, args...);
              return result.has_value();
            },
            [&] {
              if (inferOutputs()) {
                withOutputs(*result, [&](const auto&... outputs) {
                  runOperatorHere<OutOp>(name, stream, args..., outputs...);
                });
              } else {
                result = Typed<Op>::callHere(stream, args...);
              }
            },
            inferOutputs)) {
      if (C10_LIKELY(inferOutputs())) {
        withOutputs(*result, [&](const auto&... outputs) {
          launchOperator<OutOp>(name, stream, bytes, args..., outputs...);
        });
      } else {
        result.emplace(Typed<Op>::call(args...));
      }
    }
    return std::move(*result);
  }

 private:
  static R asTuple(std::array<Tensor, count> outputs) {
    if constexpr (count == 1) {
      return std::move(outputs[0]);
    } else {
      return std::tuple_cat(std::move(outputs));
    }
  }

  template <class Use>
  static void withOutputs(const R& outputs, Use use) {
    if constexpr (count == 1) {
      use(outputs);
    } else {
      std::apply(use, outputs);
    }
  }
};
// docs:end structured

/// The same for the form that changes its first argument.
template <class Op, class Meta, class Signature = typename Op::schema>
struct StructuredInPlace;

template <class Op, class Meta, class... Args>
struct StructuredInPlace<Op, Meta, Tensor&(Tensor&, Args...)> {
  static Tensor& call(Tensor& self, Args... args) {
    const c10::Device device = deviceOf<Op>(self, args...);
    const OpenRegStream stream = c10::openreg::currentStreamOf(device);
    const size_t bytes = bytesOf(self, args...);
    keepWorkspacesFor<Op>(stream, self, args...);
    const auto checkArguments = [&] {
      MetaRun<Meta, Form::InPlace, 1> meta(device);
      meta.outputs[0] = self;
      meta.meta(self, forMeta(args)...);
    };
    if (!runNow<Op>(
            stream,
            bytes,
            kindOf(self, args...),
            [&] { return Typed<Op>::tryCall(stream, self, args...); },
            [&] { Typed<Op>::callHere(stream, self, args...); },
            checkArguments)) {
      checkArguments();
      launchOperator<Op>(
          Prepared<Op>::get().name, stream, bytes, self, args...);
    }
    return self;
  }
};

/// The same for the form that writes to its last `count` arguments.
template <
    class Op,
    class Meta,
    size_t count,
    class Signature = typename Op::schema>
struct StructuredOut;

template <class Op, class Meta, size_t count, class Result, class... Args>
struct StructuredOut<Op, Meta, count, Result(Args...)> {
  static Result call(Args... args) {
    const c10::Device device = deviceOf<Op>(args...);
    const OpenRegStream stream = c10::openreg::currentStreamOf(device);
    const size_t bytes = bytesOf(args...);
    keepWorkspacesFor<Op>(stream, args...);
    const auto resizeOutputs = [&] {
      MetaRun<Meta, Form::Out, count> meta(device);
      runMeta(
          meta,
          std::forward_as_tuple(args...),
          std::make_index_sequence<sizeof...(Args) - count>());
    };
    if (!runNow<Op>(
            stream,
            bytes,
            kindOf(args...),
            [&] { return Typed<Op>::tryCall(stream, args...); },
            [&] { Typed<Op>::callHere(stream, args...); },
            resizeOutputs)) {
      resizeOutputs();
      launchOperator<Op>(Prepared<Op>::get().name, stream, bytes, args...);
    }
    return asResult<Result>(outputsAmong<Args...>(args...));
  }

 private:
  template <class Run, class Tuple, size_t... inputs>
  static void runMeta(
      Run& meta,
      Tuple args,
      std::index_sequence<inputs...> /*unused*/) {
    size_t place = 0;
    std::apply(
        [&](auto&... output) { ((meta.outputs[place++] = output), ...); },
        outputsOf(args, std::make_index_sequence<count>()));
    meta.meta(forMeta(std::get<inputs>(args))...);
  }

  template <class Tuple, size_t... places>
  static auto outputsOf(
      Tuple& args,
      std::index_sequence<places...> /*unused*/) {
    return std::tie(std::get<sizeof...(Args) - count + places>(args)...);
  }
};

} // namespace at::native::openreg
