#include "executor/StructuredKernel.h"

#include "executor/DeviceTensor.h"
#include "executor/Iterators.h"
#include "executor/OperatorCall.h"
#include "executor/Rehearsal.h"
#include "executor/RemoteKernel.h"
#include "runtime/OpenRegCapture.h"
#include "runtime/OpenRegLostMemory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/Resize.h>

#include <optional>

namespace at::native::openreg {

// --- outputs --------------------------------------------------------------------

namespace {

void checkInPlace(
    const Tensor& self,
    IntArrayRef sizes,
    const TensorOptions& options) {
  TORCH_CHECK(
      options.dtype() == self.dtype(),
      "Bad in-place call: input tensor dtype ",
      self.dtype(),
      " and output tensor dtype ",
      options.dtype(),
      " should match");
  TORCH_CHECK(
      sizes == self.sizes(),
      "Bad in-place call: input tensor size ",
      self.sizes(),
      " and output tensor size ",
      sizes,
      " should match");
}

void resizeOutput(
    const Tensor& output,
    IntArrayRef sizes,
    IntArrayRef strides,
    const TensorOptions& options) {
  TORCH_CHECK(
      options.dtype() == output.dtype(),
      "Expected out tensor to have dtype ",
      options.dtype(),
      ", but got ",
      output.dtype(),
      " instead");
  if (!at::native::resize_output(output, sizes)) {
    return;
  }
  if (!strides.empty()) {
    output.as_strided_(sizes, strides);
  } else if (const auto format = options.memory_format_opt()) {
    output.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
}

} // namespace

void StructuredRun::setOutput(
    int64_t place,
    IntArrayRef sizes,
    IntArrayRef strides,
    const TensorOptions& options,
    bool exactStrides) {
  Tensor& output = outputs_[place];
  if (call_ && form_ == Form::Functional) {
    output = makeDeviceTensor(sizes, strides, options, call_->stream);
    return;
  }
  if (call_ && form_ == Form::InPlace) {
    checkInPlace(output, sizes, options);
  } else if (call_) {
    resizeOutput(output, sizes, strides, options);
  }
  if (exactStrides && !strides.empty() && output.strides() != strides) {
    // The kernel works on host memory, and what it wrote is copied.
    if (!proxies_) {
      proxies_ = std::make_unique<std::array<Tensor, kMostOutputs>>();
    }
    (*proxies_)[place] =
        at::detail::empty_strided_cpu(sizes, strides, output.scalar_type());
  }
}

void StructuredRun::copyProxies() {
  for (size_t place = 0; proxies_ && place < outputs_.size(); ++place) {
    if (hasProxy(place)) {
      outputs_[place].copy_((*proxies_)[place]);
    }
  }
}

// --- the kernel ---------------------------------------------------------------------

void StructuredRun::runOnAliases(TensorIteratorBase* iterator, Body kernel) {
  const at::AutoDispatchBelowADInplaceOrView below;
  AliasFrame frame(call_->stream);
  ArgumentList arguments;
  arguments.map(
      arguments_, [&](const Tensor& tensor) { return &frame.alias(tensor); });
  std::optional<OutputsAsCpus> asCpus;
  c10::SmallVector<Tensor, 4> aliases;
  std::span<Tensor> outputs = outputs_;
  if (form_ == Form::Functional) {
    asCpus.emplace(outputs_, call_->device); // nobody else has them yet
  } else {
    for (const Tensor& output : outputs_) {
      aliases.push_back(frame.alias(output));
    }
    outputs = aliases;
  }
  if (iterator) { // the CPU's casts while it is built
    StructuredRun anew(arguments, outputs);
    call_->op.runStructured(anew);
    return;
  }
  const auto given = std::exchange(arguments_, arguments);
  const auto made = std::exchange(outputs_, outputs);
  kernel();
  copyProxies();
  arguments_ = given;
  outputs_ = made;
}

void StructuredRun::compute(TensorIteratorBase* iterator, Body kernel) {
  inferred_ = true;
  if (!call_) {
    kernel();
    copyProxies();
    return;
  }
  const bool makesOutputs = form_ == Form::Functional;
  casts_ = iterator && castsOperands(*iterator, !makesOutputs);
  hasStridesOfCpu_ = !casts_ || !makesOutputs || keepsStrides(*iterator);
  if (!call_->isSmall() || !hasStridesOfCpu_) {
    return;
  }
  const bool wantsAliases = casts_ || call_->op.wantsCpuTensors ||
      c10::openreg::detail::anyMemoryLost.load(std::memory_order_relaxed);
  const auto run = [&] {
    if (iterator && !wantsAliases) {
      pointAtMemory(*iterator);
      kernel();
      return;
    }
    runOnAliases(iterator, kernel);
  };
  computed_ = call_->withKernel(outputs_, [&](const KernelNow& launched) {
    return tryRun(launched, run);
  });
}

// --- the call -----------------------------------------------------------------------

namespace {

/// Runs the operator on arguments and outputs that are the CPU's.
void runOnCpu(
    OperatorInfo& op,
    ArgumentSpan arguments,
    std::span<Tensor> outputs) {
  if (C10_UNLIKELY(kernelsRunElsewhere())) {
    auto stack = boxArguments(arguments);
    if (op.outForm) {
      stack.insert(stack.end(), outputs.begin(), outputs.end());
    }
    if (callRemotely(op.outForm ? *op.outForm : op, nullptr, stack)) {
      return;
    }
  }
  StructuredRun run(arguments, outputs);
  op.runStructured(run);
}

struct QueuedStructuredCall {
  std::unique_ptr<QueuedInvocation> queued;
  void operator()() {
    runOnCpu(queued->op, queued->arguments, queued->outputs);
  }
};

// docs:begin prepared-structured
/// A call in a graph: the object and the tensors it works on. The constructor runs the
/// meta function, on aliases; each replay runs only the kernel.
class StructuredNode {
 public:
  explicit StructuredNode(std::unique_ptr<QueuedInvocation> queued)
      : kept_(std::make_unique<Recording>(std::move(queued))) {
    const at::AutoDispatchBelowADInplaceOrView below;
    kept_->queued->op.runStructured(kept_->run);
  }
  void operator()() {
    kept_->run.repeat();
  }

 private:
  struct Recording {
    explicit Recording(std::unique_ptr<QueuedInvocation> invocation)
        : queued(std::move(invocation)),
          run(queued->arguments, queued->outputs, /*keeps=*/true) {}

    const std::unique_ptr<QueuedInvocation> queued;
    StructuredRun run;
  };
  std::unique_ptr<Recording> kept_;
};
// docs:end prepared-structured

/// Adds the call to the graph that its stream records, with the outputs that there are.
void captureCall(
    const Invocation& call,
    const StructuredRun& run,
    std::span<Tensor> outputs) {
  if (!call.isKnownGood(outputs) &&
      (!call.op.supported.has(call.variant) ||
       call.op.kernelChecks == KernelChecks::Arguments)) {
    rehearse(call, outputs, [&](ArgumentSpan given, std::span<Tensor> written) {
      StructuredRun rehearsal(given, written);
      call.op.runStructured(rehearsal);
    });
    call.noteSupported();
  }
  call.withKernel(outputs, [&](const KernelNow& kernel) {
    auto queued = std::make_unique<QueuedInvocation>(call, outputs);
    // Kernels of half precision take a number out of their iterator.
    if (run.casts() || kernelsRunElsewhere() ||
        isReducedFloatingType(outputs[0].scalar_type())) {
      queue(kernel, QueuedStructuredCall{std::move(queued)});
    } else {
      queue(kernel, StructuredNode(std::move(queued)));
    }
  });
}

/// Goes on with a call whose outputs are there, but not yet computed.
void finishCall(
    const Invocation& call,
    const StructuredRun& run,
    std::span<Tensor> outputs) {
  OperatorInfo& op = call.op;
  if (C10_UNLIKELY(c10::openreg::isCapturing(call.stream))) {
    return captureCall(call, run, outputs);
  }
  if (C10_UNLIKELY(!run.hasStridesOfCpu())) {
    Results results = callAndWait(op, call.arguments);
    for (size_t place = 0; place < outputs.size(); ++place) {
      outputs[place] = std::move(results[place]).toTensor();
    }
    return;
  }
  const bool isKnownGood = call.isKnownGood(outputs);
  call.withKernel(outputs, [&](const KernelNow& kernel) {
    auto queued = std::make_unique<QueuedInvocation>(call, outputs);
    if (C10_LIKELY(isKnownGood)) {
      queue(kernel, QueuedStructuredCall{std::move(queued)});
      return;
    }
    op.firstCalls.note();
    runAndWait(
        kernel, [&] { runOnCpu(op, queued->arguments, queued->outputs); });
    call.noteSupported();
  });
}

} // namespace

// docs:begin call-structured
void callStructured(
    OperatorInfo& op,
    Form form,
    ArgumentSpan arguments,
    std::span<Tensor> outputs) {
  const Invocation call(op, arguments);
  StructuredRun run(call, form, outputs);
  try {
    op.runStructured(run);
    if (run.computed()) {
      call.noteSupported();
    } else {
      finishCall(call, run, outputs);
    }
  } catch (const c10::Error& error) {
    if (!run.inferred()) {
      throw; // the meta function found it in the arguments
    }
    call.judgeError(error);
  }
}
// docs:end call-structured

} // namespace at::native::openreg
