#include "executor/Rehearsal.h"

#include "executor/ArgumentTypes.h"
#include "executor/Layouts.h"
#include "runtime/OpenRegGenerator.h"
#include "runtime/OpenRegSingleThread.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

namespace at::native::openreg {
namespace {

/// Host tensors in the place of a call's device tensors.
class StandIns {
 public:
  const Tensor& of(const Tensor& tensor) {
    if (!isOpenReg(tensor)) {
      return tensor;
    }
    for (const Pair& pair : pairs_) {
      if (pair.original.is_same(tensor)) {
        return pair.standIn;
      }
    }
    TORCH_INTERNAL_ASSERT(!hasLayout(tensor.unsafeGetTensorImpl()));
    pairs_.push_back({tensor, make(tensor)});
    return pairs_.back().standIn;
  }

  /// The device's tensor that a result of the kernel is, or looks at; undefined if the
  /// kernel has made the result.
  Tensor originalOf(const Tensor& result) const {
    for (const Pair& pair : pairs_) {
      if (pair.standIn.is_same(result)) {
        return pair.original;
      }
    }
    for (const Pair& pair : pairs_) {
      if (pair.standIn.is_alias_of(result)) {
        return pair.original.as_strided(
            result.sizes(),
            result.strides(),
            pair.original.storage_offset() + result.storage_offset());
      }
    }
    return Tensor();
  }

  /// Lets the device's tensor have the sizes that the kernel gave its stand-in.
  void carryResize(const Tensor& original) const {
    for (const Pair& pair : pairs_) {
      const Tensor& resized = pair.standIn;
      if (pair.original.is_same(original) &&
          resized.sizes() != original.sizes()) {
        original.resize_(resized.sizes());
        if (resized.strides() != original.strides()) {
          original.as_strided_(resized.sizes(), resized.strides());
        }
      }
    }
  }

 private:
  struct Pair {
    Tensor original;
    Tensor standIn;
  };

  // Ones, since probabilities must not all be 0; but an index of 0 is one that any
  // dimension has.
  static Tensor make(const Tensor& tensor) {
    const auto dtype = tensor.scalar_type();
    const auto bytes = at::detail::computeStorageNbytes(
        tensor.sizes(), tensor.strides(), tensor.itemsize());
    const auto count = static_cast<int64_t>(bytes / tensor.itemsize());
    const bool isReal = isFloatingType(dtype) && !isFloat8Type(dtype);
    const Tensor memory =
        isReal ? at::ones({count}, dtype) : at::zeros({count}, dtype);
    const Tensor made = memory.as_strided(tensor.sizes(), tensor.strides());
    made._set_conj(tensor.is_conj());
    made._set_neg(tensor.is_neg());
    return made;
  }

  std::vector<Pair> pairs_;
};

bool mayDependOnData(const OperatorInfo& op) {
  return op.readsData || op.kernel != kCpuKernel || op.isOfOneCall ||
      !std::string_view(op.name).starts_with("aten::");
}

/// The results on the device for those on the host.
class DeviceResults {
 public:
  DeviceResults(const StandIns& standIns, c10::Device device)
      : standIns_(standIns), device_(device) {}

  /// Returns false for what cannot be made beforehand.
  bool add(const c10::IValue& value) {
    if (value.isTensor()) {
      const auto made = make(value.toTensor());
      call_.results.emplace_back(made.value_or(Tensor()));
      return made.has_value();
    }
    if (value.isTensorList()) {
      std::vector<Tensor> list;
      for (const Tensor& tensor : value.toTensorVector()) {
        const auto made = make(tensor);
        if (!made) {
          return false;
        }
        list.push_back(*made);
      }
      call_.results.emplace_back(std::move(list));
      return true;
    }
    call_.results.push_back(value);
    return value.isNone();
  }
  RehearsedCall take() {
    return std::move(call_);
  }

 private:
  std::optional<Tensor> make(const Tensor& result) {
    const Tensor original =
        result.defined() ? standIns_.originalOf(result) : Tensor();
    if (original.defined() || !result.defined()) {
      call_.made.emplace_back();
      return original;
    }
    if (!result.is_cpu() || hasLayout(result.unsafeGetTensorImpl()) ||
        !result.is_non_overlapping_and_dense()) {
      return std::nullopt;
    }
    call_.made.push_back(at::empty_strided(
        result.sizes(),
        result.strides(),
        TensorOptions(device_).dtype(result.scalar_type())));
    return call_.made.back();
  }

  const StandIns& standIns_;
  const c10::Device device_;
  RehearsedCall call_;
};

} // namespace

std::optional<RehearsedCall> rehearse(
    const Invocation& call,
    RehearsedKernel kernel) {
  const OperatorInfo& op = call.op;
  bool strided = true;
  visitTensors(call.arguments, [&](const Tensor& tensor) {
    strided &= !hasLayout(tensor.unsafeGetTensorImpl());
  });
  if (!strided || mayDependOnData(op)) {
    return std::nullopt;
  }
  StandIns standIns;
  ArgumentList arguments;
  arguments.map(call.arguments, [&](const Tensor& tensor) {
    return &standIns.of(tensor);
  });
  std::optional<Generator> generator;
  if (op.generator) {
    generator = Generator(c10::make_intrusive<c10::openreg::GeneratorState>());
    arguments.replace(*op.generator, argument(generator));
  }
  const auto made = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    const c10::openreg::SingleThread single;
    return kernel(arguments);
  }();
  for (size_t place = 0; place < call.arguments.size(); ++place) {
    if (op.mayResize && op.writes(place)) {
      visitTensors(call.arguments[place], [&](const Tensor& tensor) {
        standIns.carryResize(tensor);
      });
    }
  }
  DeviceResults results(standIns, call.device);
  for (const c10::IValue& value : made) {
    if (!results.add(value)) {
      return std::nullopt;
    }
  }
  return results.take();
}

void rehearse(
    const Invocation& call,
    std::span<const Tensor> outputs,
    c10::function_ref<void(ArgumentSpan, std::span<Tensor>)> kernel) {
  StandIns standIns;
  ArgumentList arguments;
  arguments.map(call.arguments, [&](const Tensor& tensor) {
    return &standIns.of(tensor);
  });
  c10::SmallVector<Tensor, 4> written;
  for (const Tensor& output : outputs) {
    written.push_back(standIns.of(output));
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::openreg::SingleThread single;
  kernel(arguments, written);
}

std::vector<Tensor> tensorsAmong(std::span<const c10::IValue> results) {
  std::vector<Tensor> tensors;
  for (const c10::IValue& value : results) {
    if (value.isTensor()) {
      tensors.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      const auto list = value.toTensorVector();
      tensors.insert(tensors.end(), list.begin(), list.end());
    }
  }
  return tensors;
}

} // namespace at::native::openreg
