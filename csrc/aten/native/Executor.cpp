#include "aten/native/Executor.h"

#include "runtime/OpenRegGenerator.h"
#include "runtime/OpenRegGuard.h"

#include <mutex>
#include <string>
#include <unordered_set>

namespace at::native::openreg {

using c10::IValue;
using c10::openreg::CpuDraw;
using torch::jit::Stack;

namespace {

// Records may be read long after an operator is gone.
const char* immortal(const std::string& name) {
  static std::mutex mutex;
  static auto* names = new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  return names->insert(name).first->c_str();
}

bool isGenerator(const c10::Argument& argument) {
  return argument.real_type()->str().find("Generator") != std::string::npos;
}

c10::List<std::optional<Tensor>> optionalTensors(
    AliasFrame& frame,
    const IValue& value) {
  c10::List<std::optional<Tensor>> aliases;
  for (const IValue& item : value.toListRef()) {
    aliases.push_back(
        item.isNone() ? std::nullopt
                      : std::optional(frame.alias(item.toTensor())));
  }
  return aliases;
}

IValue toDevice(AliasFrame& frame, IValue value) {
  if (value.isTensor()) {
    return frame.wrap(std::move(value).toTensor());
  }
  if (value.isTensorList()) {
    auto tensors = value.toTensorVector();
    value = IValue(); // so that each tensor has one owner
    for (Tensor& tensor : tensors) {
      tensor = frame.wrap(std::move(tensor));
    }
    return tensors;
  }
  return value;
}

void finishOutput(AliasFrame& frame, const IValue& value) {
  if (value.isTensor()) {
    frame.finish(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorVector()) {
      frame.finish(tensor);
    }
  }
}

} // namespace

const char* immortalName(const c10::FunctionSchema& schema) {
  return immortal(c10::toString(schema.operator_name()));
}

void checkFinished(bool finished, const OpenRegStream& stream) {
  if (C10_UNLIKELY(!finished)) {
    OPENREG_CHECK(orStreamSynchronize(stream)); // it failed: to hear why
  }
}

Executor::Executor(
    const c10::FunctionSchema& schema,
    c10::DispatchKey key,
    c10::DispatchKey kernel)
    : name_(immortalName(schema)),
      kernel_(kernel),
      waits_(FallbackCount::of(name_)),
      arguments_(schema.arguments().size()),
      devices_(schema, key) {
  for (size_t place = 0; place < arguments_; ++place) {
    const c10::Argument& argument = schema.arguments()[place];
    if (argument.alias_info() && argument.alias_info()->isWrite()) {
      outputs_.push_back(place);
    }
    if (isGenerator(argument)) {
      generator_ = place;
    }
  }
}

IValue Executor::toCpu(AliasFrame& frame, const IValue& value) const {
  if (value.isTensor()) {
    const Tensor& tensor = value.toTensor();
    Tensor alias = frame.alias(tensor);
    if (kernel_ != kCpuKernel && isOpenReg(tensor) && tensor.requires_grad()) {
      alias.requires_grad_(); // a sparse kernel asks whether it must save more
    }
    return alias;
  }
  if (value.isTensorList()) {
    auto tensors = value.toTensorVector();
    for (Tensor& tensor : tensors) {
      tensor = frame.alias(tensor);
    }
    return tensors;
  }
  if (value.isOptionalTensorList()) {
    return optionalTensors(frame, value);
  }
  if (value.isDevice() && value.toDevice().is_privateuseone()) {
    return c10::Device(c10::kCPU);
  }
  return value;
}

// docs:begin execute
void Executor::operator()(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet /*keys*/,
    Stack* stack) {
  const auto arguments = stack->end() - static_cast<ptrdiff_t>(arguments_);
  const c10::Device device = devices_.check(arguments);
  const c10::openreg::OpenRegGuard guard(device);
  const auto stream = c10::openreg::getCurrentOpenRegStream(device.index());
  waits_.note();

  AliasFrame frame(stream);
  Stack cpu;
  cpu.reserve(arguments_);
  for (size_t place = 0; place < arguments_; ++place) {
    cpu.push_back(toCpu(frame, arguments[place]));
  }
  std::optional<at::Generator> generator;
  if (generator_) {
    generator = c10::openreg::generatorFor(
        cpu[*generator_].toOptional<at::Generator>(), stream);
  }

  runHere(name_, stream, [&] {
    std::optional<CpuDraw> draw;
    if (generator) {
      draw.emplace(*generator);
      cpu[*generator_] = draw->generator();
    }
    callKernelBoxed(op, kernel_, &cpu);
  });

  for (size_t place : outputs_) {
    finishOutput(frame, arguments[place]);
  }
  Stack results;
  results.reserve(cpu.size());
  for (IValue& result : cpu) {
    results.push_back(toDevice(frame, std::move(result)));
  }
  torch::jit::drop(*stack, arguments_);
  std::move(results.begin(), results.end(), std::back_inserter(*stack));
}
// docs:end execute

void wrapper_cpu_fallback(const c10::OperatorHandle& op, Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU),
      "openreg runs ",
      op.operator_name(),
      " with its CPU kernel, but there is none; register one with "
      "torch.library.impl(\"",
      op.operator_name(),
      "\", \"cpu\") or, for openreg itself, \"openreg\"");
  Executor(op.schema())(op, kCpuKernel, stack);
}

} // namespace at::native::openreg
