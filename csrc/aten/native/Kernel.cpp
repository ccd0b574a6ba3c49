#include "aten/native/Kernel.h"

#include "aten/native/Executor.h"
#include "remote/RemoteCall.h"
#include "runtime/OpenRegFunctions.h"

#include <c10/util/env.h>

#include <array>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace at::native::openreg {

using namespace c10::openreg::remote;

const bool kKernelsRunElsewhere =
    c10::utils::get_env("OPENREG_EXECUTOR") == "process";

namespace {

/// What is known of an operator once one was called.
struct Known {
  explicit Known(const c10::FunctionSchema& schema)
      : stays(
            FallbackCount::of(immortalName(schema), FallbackKind::StaysHere)) {
    for (size_t place = 0; place < schema.arguments().size(); ++place) {
      const auto* alias = schema.arguments()[place].alias_info();
      if (alias && alias->isWrite()) {
        written.push_back(place);
      }
    }
  }

  FallbackCount& stays;
  std::vector<size_t> written; // places of arguments
  std::atomic<bool> isForeign{false}; // the device process does not have it
};

/// The calling thread's way to a device process.
struct Link {
  std::shared_ptr<DeviceProcess> process;
  std::unique_ptr<Channel> channel;

  ~Link() {
    disconnect();
  }
  void disconnect() {
    if (channel) {
      channel->close();
      channel.reset();
    }
    process.reset();
  }
};

/// What each thread has of its own.
struct ThreadState {
  std::unordered_map<const c10::FunctionSchema*, Known*> known;
  std::array<Link, c10::openreg::kMaxDevices> links;
};

// By pointer: room in the thread-local storage of a library is scarce.
ThreadState& threadState() {
  thread_local const auto state = std::make_unique<ThreadState>();
  return *state;
}

Known& know(const c10::FunctionSchema& schema) {
  static std::mutex mutex;
  static auto* all = new std::
      unordered_map<const c10::FunctionSchema*, std::unique_ptr<Known>>;
  Known*& known = threadState().known[&schema];
  if (!known) {
    const std::lock_guard lock(mutex);
    auto& entry = (*all)[&schema];
    if (!entry) {
      entry = std::make_unique<Known>(schema);
    }
    known = entry.get();
  }
  return *known;
}

Link& linkTo(c10::DeviceIndex device) {
  Link& link = threadState().links[static_cast<size_t>(device)];
  if (C10_UNLIKELY(!link.process || !link.process->usable())) {
    link.disconnect();
    link.process = DeviceProcess::of(device);
    link.channel = link.process->newChannel();
  }
  return link;
}

[[noreturn]] void rethrow(const WireFailure& failure) {
  const std::string text(failure.text);
  switch (failure.kind) {
    case ErrorKind::Index:
      C10_THROW_ERROR(IndexError, text);
    case ErrorKind::Value:
      C10_THROW_ERROR(ValueError, text);
    case ErrorKind::Type:
      C10_THROW_ERROR(TypeError, text);
    case ErrorKind::NotImplemented:
      C10_THROW_ERROR(NotImplementedError, text);
    case ErrorKind::LinAlg:
      C10_THROW_ERROR(LinAlgError, text);
    case ErrorKind::OutOfMemory:
      C10_THROW_ERROR(OutOfMemoryError, text);
    case ErrorKind::Error:
      C10_THROW_ERROR(Error, text);
    case ErrorKind::Other:
      break;
  }
  throw std::runtime_error(text);
}

// Memory for an output, if it is one and the device has some.
size_t writeAllocation(Link& link, const WireAllocate& wanted) {
  link.process->giveBack(wanted.freed);
  c10::DataPtr memory = allocateOutput(wanted.bytes);
  Writer writer(link.channel->room());
  writer.put(MessageKind::Allocation);
  if (deviceOfKernelAddress(memory.get()) >= 0) {
    writer.put<uint64_t>(1);
    writer.put(link.process->lend(std::move(memory), wanted.bytes));
  } else {
    writer.put<uint64_t>(0);
    writer.put<uint64_t>(0);
  }
  return writer.size();
}

// docs:begin run-remotely
/// Returns false if the call did not get through.
bool converse(
    Link& link,
    RemoteCall& call,
    Known& known,
    torch::jit::Stack& stack) {
  Channel& channel = *link.channel;
  size_t bytes = call.write(channel.room(), link.process->memory());
  for (;;) {
    channel.pass(Side::Device, bytes);
    if (!channel.await(Side::Driver, [&] { return link.process->lost(); })) {
      link.process->throwLost();
    }
    const auto message = channel.message();
    switch (kindOf(message)) {
      case MessageKind::Result:
        call.finish(message, *link.process, stack);
        return true;
      case MessageKind::Allocate:
        bytes = writeAllocation(link, parseAllocate(message));
        continue;
      case MessageKind::Unknown:
        known.isForeign.store(true);
        return false;
      case MessageKind::Unspeakable:
        link.process->giveBack(parseUnspeakable(message));
        return false;
      case MessageKind::Error: {
        const auto failure = parseError(message);
        link.process->giveBack(failure.freed);
        rethrow(failure);
      }
      default:
        throw WireError("the device process answered with a question");
    }
  }
}

void runRemotely(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet kernel,
    torch::jit::Stack* stack) {
  Known& known = know(op.schema());
  if (kernel == kCpuKernel && !known.isForeign.load()) {
    RemoteCall call(op.schema(), known.written, *stack);
    const OpenRegStream* outputs = outputPlace().stream;
    const c10::DeviceIndex device = call.device() >= 0 || !outputs
        ? call.device()
        : outputs->device_index();
    if (call.crosses() && device >= 0 &&
        converse(linkTo(device), call, known, *stack)) {
      return;
    }
  }
  known.stays.note();
  op.redispatchBoxed(kernel, stack);
}
// docs:end run-remotely

} // namespace

const c10::KernelFunction& remoteKernel() {
  static const auto kernel =
      c10::KernelFunction::makeFromBoxedFunction<&runRemotely>();
  return kernel;
}

} // namespace at::native::openreg
