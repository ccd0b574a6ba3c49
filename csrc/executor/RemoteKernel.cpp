#include "executor/RemoteKernel.h"

#include "executor/Launch.h"
#include "remote/RemoteCall.h"
#include "runtime/OpenRegFunctions.h"

#include <ATen/Parallel.h>

#include <array>
#include <memory>

namespace at::native::openreg {

using namespace c10::openreg::remote;

namespace {

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

/// By pointer: room in the thread-local storage of a library is scarce.
Link& linkTo(c10::DeviceIndex device) {
  using Links = std::array<Link, c10::openreg::kMaxDevices>;
  thread_local const auto links = std::make_unique<Links>();
  Link& link = (*links)[static_cast<size_t>(device)];
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

// Memory for an output, if the device has some.
size_t writeAllocation(
    Link& link,
    const WireAllocate& wanted,
    const c10::openreg::OpenRegStream* outputs) {
  link.process->giveBack(wanted.freed);
  c10::DataPtr memory;
  if (outputs) {
    StreamMemory source(*outputs);
    memory = allocateFrom(source, wanted.bytes);
  }
  Writer writer(link.channel->room());
  writer.put(MessageKind::Allocation);
  writer.put<uint64_t>(memory ? 1 : 0);
  writer.put<uint64_t>(
      memory ? link.process->lend(std::move(memory), wanted.bytes) : 0);
  return writer.size();
}

/// What the kernel's allocations follow, here as there.
OutputPlan outputPlan() {
  OutputPlan plan;
  if (OutputScope* scope = OutputScope::current()) {
    plan.hostBytes = scope->hostBytes();
    for (const PlannedMemory& memory : scope->takeAllPlanned()) {
      plan.planned.emplace_back(memory.pointer, memory.bytes);
    }
  }
  return plan;
}

// docs:begin run-remotely
/// Returns false if the call did not get through.
bool converse(
    Link& link,
    RemoteCall& call,
    OperatorInfo& op,
    const c10::openreg::OpenRegStream* outputs,
    torch::jit::Stack& stack) {
  Channel& channel = *link.channel;
  size_t bytes = call.write(channel.room(), *link.process, outputPlan());
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
        bytes = writeAllocation(link, parseAllocate(message), outputs);
        continue;
      case MessageKind::Unknown:
        op.isForeign.store(true);
        return false;
      case MessageKind::UnsupportedResult:
        link.process->giveBack(parseUnsupportedResult(message));
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

} // namespace

bool callRemotely(
    OperatorInfo& op,
    const c10::openreg::OpenRegStream* outputs,
    torch::jit::Stack& stack) {
  if (op.kernel == kCpuKernel && !op.isForeign.load()) {
    RemoteCall call(op.handle.schema(), op.written, stack);
    const c10::DeviceIndex device = call.device() >= 0 || !outputs
        ? call.device()
        : outputs->device_index();
    if (call.crosses() && device >= 0 &&
        converse(linkTo(device), call, op, outputs, stack)) {
      return true;
    }
  }
  op.staysHere.note();
  return false;
}
// docs:end run-remotely

void runCompiledRemotely(
    c10::DeviceIndex device,
    const std::string& library,
    const std::string& name,
    std::span<const RemoteWord> words) {
  Link& link = linkTo(device);
  std::vector<WordKind> kinds;
  std::vector<uint64_t> sent;
  std::vector<char> contents;
  for (const RemoteWord& word : words) {
    if (!word.content.empty()) {
      contents.resize((contents.size() + 15) / 16 * 16);
      kinds.push_back(WordKind::Content);
      sent.push_back(contents.size());
      contents.insert(contents.end(), word.content.begin(), word.content.end());
    } else if (word.isAddress && word.word != 0) {
      kinds.push_back(WordKind::Memory);
      sent.push_back(
          word.word - reinterpret_cast<uint64_t>(link.process->memoryAt(0)));
    } else {
      kinds.push_back(WordKind::Value);
      sent.push_back(word.word);
    }
  }
  Channel& channel = *link.channel;
  channel.pass(
      Side::Device,
      writeKernel(
          channel.room(),
          {library, name, at::get_num_threads(), kinds, sent, contents}));
  if (!channel.await(Side::Driver, [&] { return link.process->lost(); })) {
    link.process->throwLost();
  }
  const auto message = channel.message();
  if (kindOf(message) == MessageKind::Error) {
    const auto failure = parseError(message);
    link.process->giveBack(failure.freed);
    rethrow(failure);
  }
  require(
      kindOf(message) == MessageKind::Done,
      "the device process answered a kernel with a message of kind ",
      static_cast<uint32_t>(kindOf(message)));
}

} // namespace at::native::openreg
