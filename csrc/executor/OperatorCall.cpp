#include "executor/OperatorCall.h"

#include "executor/ArgumentTypes.h"
#include "executor/Rehearsal.h"
#include "executor/RemoteKernel.h"
#include "runtime/OpenRegCapture.h"
#include "runtime/OpenRegGenerator.h"
#include "runtime/OpenRegGuard.h"
#include "runtime/OpenRegRunningHere.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>

#include <algorithm>

namespace at::native::openreg {

using c10::openreg::CpuDraw;

// --- the kernel -----------------------------------------------------------------

namespace {

void runBoxed(KernelRun& run) {
  auto stack = boxArguments(run.arguments);
  run.op.handle.redispatchBoxed(run.op.kernel, &stack);
  std::move(stack.begin(), stack.end(), std::back_inserter(run.results));
}

/// What a typed kernel returns of them is no result.
bool returnsArguments(const c10::FunctionSchema& schema) {
  return std::ranges::all_of(schema.returns(), [](const c10::Argument& result) {
    return result.alias_info() && result.alias_info()->isWrite();
  });
}

bool runRemotely(const OpenRegStream* outputs, KernelRun& run) {
  auto stack = boxArguments(run.arguments);
  if (!callRemotely(run.op, outputs, stack)) {
    return false;
  }
  if (!run.op.runKernel || !returnsArguments(run.op.handle.schema())) {
    std::move(stack.begin(), stack.end(), std::back_inserter(run.results));
  }
  return true;
}

template <class Run>
void runDrawing(KernelRun& run, Run kernel) {
  std::optional<CpuDraw> draw;
  if (run.op.generator) {
    draw.emplace(*run.get<const std::optional<Generator>&>(*run.op.generator));
  }
  kernel();
}

void runLocally(KernelRun& run) {
  run.op.runKernel ? run.op.runKernel(run) : runBoxed(run);
}

} // namespace

void runKernel(const OpenRegStream* outputs, KernelRun& run) {
  runDrawing(run, [&] {
    if (C10_LIKELY(!kernelsRunElsewhere()) || run.op.callsKernels ||
        !runRemotely(outputs, run)) {
      runLocally(run);
    }
  });
}

namespace {

/// A call of an operator whose kernel makes the outputs.
class OperatorCall {
 public:
  OperatorCall(OperatorInfo& op, ArgumentSpan arguments, Results& results)
      : call_(op, arguments), results_(results) {
    if (!op.runKernel) {
      // What a sparse tensor is made of lies on the current device.
      guard_.emplace(call_.device);
    }
    if (op.generator) {
      chooseGenerator(*op.generator);
    }
  }

  void run() {
    OperatorInfo& op = call_.op;
    if (op.outputs == OutputSource::Kernel) {
      if (C10_UNLIKELY(c10::openreg::isCapturing(call_.stream))) {
        return capture(nullptr);
      }
      op.waits.note(call_.stream.stream());
      return wait();
    }
    if (trySmall()) {
      return;
    }
    const Signature key = call_.signature();
    if (auto outputs = op.shapes.make(key, call_.device)) {
      queue(outputs->tensors, std::move(outputs->earlier));
      setResults(std::move(outputs->tensors));
      return;
    }
    if (C10_UNLIKELY(c10::openreg::isCapturing(call_.stream))) {
      return capture(&key);
    }
    op.firstCalls.note();
    temporariesOnHost_ = true;
    wait();
    remember(key);
  }

  void wait() {
    // A kernel of another library may be written in Python.
    const bool isPyTorchs =
        std::string_view(call_.op.name).starts_with("aten::");
    runNow([&](const KernelNow& kernel, Body body) {
      isPyTorchs ? runAndWait(kernel, body) : runHere(kernel, body);
      return true;
    });
  }

 private:
  /// To be done before the call is run or queued, in the order of the program.
  void chooseGenerator(size_t place) {
    const Argument& given = call_.arguments[place];
    generator_ = c10::openreg::generatorFor(
        given.type->box(given.value).toOptional<Generator>(), call_.stream);
    changed_.assign(call_.arguments.begin(), call_.arguments.end());
    changed_[place] = argument(generator_);
    call_.arguments = {changed_.data(), changed_.size()};
  }

  /// Adds the call to the graph that its stream records. If nobody knows its results
  /// beforehand, a call that waits invalidates the capture, as it does on a GPU.
  void capture(const Signature* key) {
    auto rehearsed = rehearse(call_, [this](ArgumentSpan arguments) {
      KernelRun run{call_.op, arguments};
      runDrawing(run, [&] { runLocally(run); });
      return std::move(run.results);
    });
    if (!rehearsed) {
      return wait();
    }
    queue(rehearsed->made);
    results_ = std::move(rehearsed->results);
    if (key) {
      rehearsed->made.clear();
      remember(*key);
    }
  }

  bool trySmall() {
    try {
      if (!runNow(&tryRun)) {
        return false;
      }
    } catch (const c10::Error& error) {
      if (!call_.op.checksData) {
        throw;
      }
      auto outputs = call_.op.shapes.make(call_.signature(), call_.device);
      if (!outputs) {
        throw;
      }
      // If an identical call has succeeded before, the error comes from the data.
      call_.judgeError(error);
      setResults(std::move(outputs->tensors));
      return true;
    }
    if (call_.op.checksData) {
      remember(call_.signature());
    }
    return true;
  }

  /// Runs the kernel on aliases, by a function of Launch.h, and takes its results.
  template <class Launch>
  bool runNow(Launch launch) {
    AliasFrame frame(call_.stream);
    ArgumentList aliases;
    KernelRun run{call_.op, {}};
    const c10::openreg::RunningHere here(call_.stream);
    const bool ran = call_.withKernel({}, [&](const KernelNow& kernel) {
      return launch(kernel, [&] {
        aliases.map(call_.arguments, [&](const Tensor& tensor) {
          return &aliasOf(frame, tensor);
        });
        run.arguments = aliases;
        const at::AutoDispatchBelowADInplaceOrView below;
        StreamMemory memory(call_.stream);
        OutputScope scope(
            temporariesOnHost_ ? nullptr : &memory,
            call_.hasNumbers ? kNumberBytes : 0);
        if (temporariesOnHost_) {
          scope.logTo(allocations_);
        }
        runKernel(&call_.stream, run);
      });
    });
    if (ran) {
      finish(frame, run);
    }
    return ran;
  }

  const Tensor& aliasOf(AliasFrame& frame, const Tensor& tensor) const {
    const Tensor& alias = frame.alias(tensor);
    if (call_.op.kernel != kCpuKernel && isOpenReg(tensor) &&
        tensor.requires_grad()) {
      alias.requires_grad_(); // a sparse kernel asks whether it must save more
    }
    return alias;
  }

  void finish(AliasFrame& frame, KernelRun& run) {
    if (call_.op.mayResize) {
      for (size_t place = 0; place < call_.arguments.size(); ++place) {
        if (call_.op.writes(place)) {
          visitTensors(call_.arguments[place], [&](const Tensor& tensor) {
            frame.finish(tensor);
          });
        }
      }
    }
    for (c10::IValue& result : run.results) {
      if (temporariesOnHost_) {
        earlier_.push_back(allocationsBefore(result));
      }
      results_.push_back(toDevice(frame, std::move(result)));
    }
  }

  /// How many allocations of as many bytes came before that of a result.
  size_t allocationsBefore(const c10::IValue& result) const {
    if (!result.isTensor() || !result.toTensor().has_storage()) {
      return 0;
    }
    const void* memory = result.toTensor().storage().data();
    // The latest at that place: memory of a temporary may have been used again.
    const auto made = std::find_if(
        allocations_.rbegin(),
        allocations_.rend(),
        [&](const HostAllocation& one) { return one.pointer == memory; });
    if (made == allocations_.rend()) {
      return 0;
    }
    return static_cast<size_t>(std::count_if(
        std::next(made), allocations_.rend(), [&](const HostAllocation& one) {
          return one.bytes == made->bytes;
        }));
  }

  static c10::IValue toDevice(AliasFrame& frame, c10::IValue value) {
    if (value.isTensor()) {
      return frame.wrap(std::move(value).toTensor());
    }
    if (value.isTensorList()) {
      auto tensors = value.toTensorVector();
      value = c10::IValue(); // so that each tensor has one owner
      for (Tensor& tensor : tensors) {
        tensor = frame.wrap(std::move(tensor));
      }
      return tensors;
    }
    return value;
  }

  void remember(const Signature& key) {
    c10::SmallVector<Tensor, 4> outputs;
    for (c10::IValue& result : results_) {
      outputs.push_back(std::move(result).toTensor()); // each has one owner
    }
    call_.op.shapes.add(key, outputs, earlier_);
    for (size_t i = 0; i < outputs.size(); ++i) {
      results_[i] = std::move(outputs[i]);
    }
  }

  void setResults(std::vector<Tensor> outputs) {
    results_.clear();
    for (Tensor& output : outputs) {
      results_.emplace_back(std::move(output));
    }
  }

  void queue(std::span<const Tensor> outputs, std::vector<size_t> earlier = {});

  Invocation call_;
  std::optional<Generator> generator_;
  c10::SmallVector<Argument, 6> changed_;
  std::optional<c10::openreg::OpenRegGuard> guard_;
  bool temporariesOnHost_ = false;
  std::vector<HostAllocation> allocations_; // of a kernel with such temporaries
  std::vector<size_t> earlier_; // for each result: see OutputShapeCache
  Results& results_;
};

// --- later ----------------------------------------------------------------------

bool liesAsPlanned(const Tensor& planned, const Tensor& result) {
  return result.const_data_ptr() == planned.const_data_ptr() &&
      result.strides() == planned.strides();
}

/// Copies results that do not lie where they were planned.
void settleOutputs(
    std::span<const Tensor> planned,
    std::span<const Tensor> results) {
  // First all clones: a result may lie in memory that is planned for another, or in
  // its own but in another order.
  std::vector<Tensor> elsewhere(planned.size());
  for (size_t i = 0; i < planned.size(); ++i) {
    if (planned[i].defined() && !liesAsPlanned(planned[i], results[i])) {
      elsewhere[i] = results[i].clone();
    }
  }
  for (size_t i = 0; i < planned.size(); ++i) {
    if (elsewhere[i].defined()) {
      planned[i].copy_(elsewhere[i]);
    }
  }
}

// docs:begin run-planned
void runPlanned(QueuedInvocation& queued, std::span<const size_t> earlier) {
  c10::SmallVector<PlannedMemory, 2> planned;
  for (size_t place = 0; place < queued.outputs.size(); ++place) {
    const Tensor& output = queued.outputs[place];
    if (output.defined() && output.numel() > 0) {
      planned.push_back(
          {output.mutable_data_ptr(),
           output.storage().nbytes(),
           earlier.empty() ? 0 : earlier[place]});
    }
  }
  {
    KernelRun run{queued.op, queued.arguments};
    {
      const OutputScope scope(nullptr, 0, planned);
      runKernel(nullptr, run);
    }
    settleOutputs(queued.outputs, tensorsAmong(run.results));
  }
  TORCH_CHECK(
      !isPlannedMemoryKept(planned),
      queued.op.name,
      " keeps memory of its output beyond the call, so it cannot be queued; "
      "please report it");
}
// docs:end run-planned

void OperatorCall::queue(
    std::span<const Tensor> outputs,
    std::vector<size_t> earlier) {
  struct Work {
    std::unique_ptr<QueuedInvocation> queued;
    std::vector<size_t> earlier;
    bool gradMode;
    void operator()() {
      const c10::AutoGradMode mode(gradMode);
      runPlanned(*queued, earlier);
    }
  };
  call_.withKernel(outputs, [&](const KernelNow& kernel) {
    openreg::queue(
        kernel,
        Work{
            std::make_unique<QueuedInvocation>(call_, outputs),
            std::move(earlier),
            c10::GradMode::is_enabled()});
  });
}

} // namespace

Results callOperator(OperatorInfo& op, ArgumentSpan arguments) {
  Results results;
  OperatorCall(op, arguments, results).run();
  return results;
}

Results callAndWait(OperatorInfo& op, ArgumentSpan arguments) {
  Results results;
  OperatorCall(op, arguments, results).wait();
  return results;
}

} // namespace at::native::openreg
