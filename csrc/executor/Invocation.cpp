#include "executor/Invocation.h"

#include "executor/HandKernel.h"
#include "executor/Layouts.h"
#include "executor/LibraryWorkspaces.h"

#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <ATen/core/jit_type.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string>

namespace at::native::openreg {

// --- the call -------------------------------------------------------------------

namespace {

bool takesNumbers(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(
      schema.arguments(), [](const c10::Argument& argument) {
        const auto optional = argument.type()->cast<c10::OptionalType>();
        const auto type =
            optional ? optional->getElementType() : argument.type();
        return type->kind() == c10::TypeKind::NumberType;
      });
}

} // namespace

Invocation::Invocation(OperatorInfo& called, ArgumentSpan given)
    : op(called), arguments(given), stream(survey()) {
  for (uint64_t written = op.written; written != 0; written &= written - 1) {
    const Argument& argument = arguments[std::countr_zero(written)];
    if (C10_LIKELY(argument.type->kind == ArgumentType::Kind::Tensor)) {
      beginWriting(argument.tensor());
    } else {
      visitTensors(argument, &beginWriting);
    }
  }
  if (C10_UNLIKELY(op.isProduct)) {
    // A bias, that is a row to add to a matrix, is another library's affair.
    keepWorkspaces(stream, op.addsRows && arguments[0].tensor().dim() == 1);
  }
}

// One look at all arguments. Mostly all tensors are on one device; if they are not,
// the rules of DeviceCheck decide.
OpenRegStream Invocation::survey() {
  using Kind = ArgumentType::Kind;
  bool found = false, same = true;
  const auto look = [&](const Tensor& tensor) {
    const c10::Device place = tensor.device();
    if (!found) {
      device = place;
      found = true;
    } else {
      same &= device == place;
    }
    bytes += static_cast<size_t>(tensor.numel()) * tensor.itemsize();
    variant = variant * 64 + static_cast<uint64_t>(tensor.scalar_type()) + 1;
    hasNumbers |= place.is_cpu() && tensor.dim() == 0;
    checkMemory(tensor);
  };
  for (const Argument& argument : arguments) {
    switch (argument.type->kind) {
      case Kind::Tensor:
        if (argument.tensor().defined()) {
          look(argument.tensor());
        }
        break;
      case Kind::Tensors:
        argument.type->visit(argument.value, look);
        break;
      case Kind::Number:
        hasNumbers = true;
        [[fallthrough]];
      case Kind::Text:
        variant = variant * 64 + argument.type->variant(argument.value);
        break;
      default:
        break;
    }
  }
  variant |= uint64_t{1} << 63; // never 0
  if (op.outputs == OutputSource::Kernel && !op.runKernel) {
    hasNumbers |= takesNumbers(op.handle.schema()); // boxed ones do not tell
  }
  if (C10_UNLIKELY(!same || !found || !c10::openreg::isOpenReg(device))) {
    device = op.devices.check(arguments);
  }
  return c10::openreg::currentStreamOf(device);
}

// The factors come first, or after what is added.
Invocation::Factors Invocation::factors() const {
  const size_t place = op.addsFirst ? 1 : 0;
  return {arguments[place].tensor(), arguments[place + 1].tensor()};
}

// docs:begin even-product
/// Whether MKL rounds this product the same with any number of threads: it divides
/// matrices among the threads, and these can be divided into parts as wide as its kernels.
bool Invocation::isEvenProduct() const {
  const auto [a, b] = factors();
  const int64_t rows = a.size(-2), columns = b.size(-1);
  return a.scalar_type() == kFloat && rows % 4 == 0 &&
      (columns % 16 == 0 || columns <= 16);
}
// docs:end even-product

namespace {

/// Whether a sum has several results, each of them one thread's work. The strides of
/// the result have a say too in how PyTorch cuts it.
bool hasWholeSums(ArgumentSpan arguments) {
  const Tensor& tensor = arguments[0].tensor();
  const auto summed = at::native::make_dim_mask(
      getArgument<OptionalIntArrayRef>(arguments, 1), tensor.dim());
  int64_t results = 1;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    results *= summed[static_cast<size_t>(dim)] ? 1 : tensor.size(dim);
  }
  return results > 1 &&
      std::all_of(arguments.begin(), arguments.end(), [](const Argument& one) {
           return one.type->kind != ArgumentType::Kind::Tensor ||
               one.tensor().is_contiguous();
         });
}

} // namespace

bool Invocation::needsAllThreads() const {
  const auto hasImages = [](const Argument& argument) {
    if (argument.type->kind != ArgumentType::Kind::Tensor) {
      return true; // a parameter, which is optional
    }
    const Tensor& tensor = argument.tensor();
    return tensor.dim() > 2 && tensor.is_contiguous() &&
        tensor.numel() > tensor.size(0) * tensor.size(1);
  };
  switch (op.threadSums) {
    case ThreadSums::Never:
      return false;
    case ThreadSums::IfLargeSum:
      return bytes >= kLargeSum &&
          !(op.runStructured && hasWholeSums(arguments));
    case ThreadSums::IfLarge:
      return bytes >= kLargeSum;
    case ThreadSums::IfUneven:
      return at::get_num_threads() > 1 && !isEvenProduct();
    case ThreadSums::UnlessLastDim: {
      const auto dim = getArgument<int64_t>(arguments, 1);
      return dim != -1 && dim != arguments[0].tensor().dim() - 1;
    }
    case ThreadSums::UnlessImages:
      return !std::ranges::all_of(arguments, hasImages);
    case ThreadSums::OfParameters: {
      const auto wanted =
          getArgument<std::array<bool, 3>>(arguments, arguments.size() - 1);
      return wanted[1] || wanted[2];
    }
    case ThreadSums::Always:
      return true;
  }
  return true;
}

bool Invocation::isQuick() const {
  constexpr double kQuick = 15;
  return microseconds() <= kQuick;
}

double Invocation::microseconds() const {
  if (needsAllThreads()) {
    return std::numeric_limits<double>::infinity();
  }
  if (C10_LIKELY(!op.isProduct)) {
    return microsecondsFor(bytes);
  }
  const auto [a, b] = factors();
  constexpr double kProductsPerMicrosecond = 20'000;
  const double products = static_cast<double>(a.numel()) *
      static_cast<double>(b.numel()) /
      static_cast<double>(std::max<int64_t>(a.size(-1), 1));
  const double batch = a.dim() == 3 ? static_cast<double>(a.size(0)) : 1;
  return products / std::max(batch, 1.0) / kProductsPerMicrosecond;
}

bool Invocation::hasWrongDtype() const {
  if (op.kernelChecks != KernelChecks::WeightDtype) {
    return false;
  }
  bool wrong = false;
  visitTensors(arguments[2], [&](const Tensor& weight) {
    wrong = weight.scalar_type() != arguments[0].tensor().scalar_type();
  });
  return wrong;
}

void Invocation::listAccesses(
    std::span<const Tensor> outputs,
    std::vector<MemoryAccess>& accesses) const {
  for (size_t place = 0; place < arguments.size(); ++place) {
    visitTensors(arguments[place], [&](const Tensor& tensor) {
      if (isOpenReg(tensor)) {
        listAccess(tensor, op.writes(place), accesses);
      }
    });
  }
  for (const Tensor& output : outputs) {
    if (isOpenReg(output)) {
      listAccess(output, /*writes=*/true, accesses);
    }
  }
}

bool Invocation::isKnownGood(std::span<const Tensor> outputs) const {
  if (op.addsRows) {
    const Tensor& rows = arguments[0].tensor();
    if (!at::is_expandable_to(rows.sizes(), outputs[0].sizes())) {
      rows.expand(outputs[0].sizes()); // for its sentence
    }
  }
  switch (op.kernelChecks) {
    case KernelChecks::Nothing:
    case KernelChecks::WeightDtype: // part of the variant
      return op.supported.has(variant);
    case KernelChecks::Arguments:
      return op.supported.has(variant) &&
          op.shapes.make(signature(), device).has_value();
    case KernelChecks::Numbers:
      return false;
    case KernelChecks::NumbersIfAsked:
      return op.supported.has(variant) && !asksForErrors();
  }
  return false;
}

bool Invocation::asksForErrors() const {
  const auto place = op.handle.schema().argumentIndexWithName("check_errors");
  return getArgument<bool>(arguments, static_cast<size_t>(*place));
}

// Learning rates and the like may differ from call to call of an operator that
// returns nothing.
Signature Invocation::signature() const {
  const bool returnsNothing = op.handle.schema().returns().empty();
  // A kernel may ask whether it must keep something for the backward pass.
  Signature key{c10::GradMode::is_enabled()};
  for (const Argument& argument : arguments) {
    if (argument.type->kind != ArgumentType::Kind::Rate || !returnsNothing) {
      argument.type->encode(key, argument.value);
    }
  }
  return key;
}

void Invocation::judgeError(const c10::Error& error) const {
  const auto* failure = dynamic_cast<const c10::AcceleratorError*>(&error);
  const bool isIllegal =
      failure && failure->get_error_code() == orErrorIllegalAddress;
  if (!isIllegal &&
      (!op.checksData || hasWrongDtype() ||
       dynamic_cast<const c10::NotImplementedError*>(&error) ||
       dynamic_cast<const c10::OutOfMemoryError*>(&error))) {
    throw; // called from the handler of `error`
  }
  const orError_t code = isIllegal ? orErrorIllegalAddress : orErrorAssert;
  launch(
      op.name,
      stream,
      {},
      [code, message = std::string(error.what_without_backtrace())](auto&&) {
        orKernelFail(code, message.c_str());
      });
}

QueuedInvocation::QueuedInvocation(
    const Invocation& call,
    std::span<const Tensor> made)
    : op(call.op), frame(call.stream) {
  arguments.hold(call.arguments, [this](const Tensor& tensor) {
    return &frame.aliasForLater(tensor);
  });
  for (const Tensor& output : made) {
    outputs.push_back(frame.aliasForLater(output));
  }
}

} // namespace at::native::openreg
