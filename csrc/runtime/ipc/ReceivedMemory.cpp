#include "runtime/ipc/ReceivedMemory.h"

#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegEvent.h"
#include "runtime/ipc/ReceivedRanges.h"

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <unistd.h>

namespace c10::openreg::ipc {
namespace {

/// Memory of another process.
struct ReceivedBlock {
  ReceivedBlock(const Message& message)
      : reference(message.ledger, static_cast<uint32_t>(message.block)) {
    OPENREG_CHECK(orIpcOpenMemHandle(
        &base, message.memory, orIpcMemLazyEnablePeerAccess));
    orMemGetAddressRange(nullptr, &size, base);
    receivedRanges().add(base, size);
  }
  ReceivedBlock(const ReceivedBlock&) = delete;
  ReceivedBlock& operator=(const ReceivedBlock&) = delete;
  ~ReceivedBlock() {
    receivedRanges().remove(base);
    OPENREG_CHECK_WARN(orIpcCloseMemHandle(base));
  }

  // The reference goes last: until then the owner keeps the memory.
  const IpcReference reference;
  void* base = nullptr;
  size_t size = 0;
  DeviceIndex device = -1;
  const pid_t process = getpid();
  std::mutex mutex;
  std::vector<OpenRegStream> streams; // that used it, besides the current one
};

// docs:begin ipc-release
// Queued work may still use the memory. So it is released behind that work, in the
// current stream, without waiting. On a stream that accepts no more work the
// callable is destroyed at once.
void releaseReceived(void* context) {
  std::unique_ptr<ReceivedBlock> received(static_cast<ReceivedBlock*>(context));
  if (received->process != getpid()) {
    received.release(); // a forked child has none of it
    return;
  }
  const OpenRegStream stream =
      currentStreamOf(Device(kDeviceType, received->device));
  try {
    for (const OpenRegStream& used : received->streams) {
      OpenRegEvent event;
      event.record(used);
      event.block(stream);
    }
  } catch (const Error&) {
    orGetLastError(); // a broken device, which its next user hears of
  }
  const orLaunchConfig config{"release shared memory", orLaunchSmall};
  if (orLaunchKernelEx(&config, stream, [owned = std::move(received)] {}) !=
      orSuccess) {
    orGetLastError();
  }
}
// docs:end ipc-release

} // namespace

DataPtr openMemory(const Message& message) {
  auto received = std::make_unique<ReceivedBlock>(message);
  const size_t size = received->size;
  TORCH_CHECK(
      message.offset <= size && message.bytes <= size - message.offset,
      message.bytes,
      " bytes at offset ",
      message.offset,
      " do not lie in the shared allocation of ",
      size,
      " bytes");
  received->device = static_cast<DeviceIndex>(deviceOfPointer(received->base));
  const Device device(kDeviceType, received->device);
  char* const data = static_cast<char*>(received->base) + message.offset;
  return {data, received.release(), &releaseReceived, device};
}

bool isReceived(const DataPtr& data) {
  return data.get_deleter() == &releaseReceived;
}

bool recordReceived(const DataPtr& data, const OpenRegStream& stream) {
  if (!isReceived(data)) {
    return false;
  }
  auto* received = static_cast<ReceivedBlock*>(data.get_context());
  std::lock_guard lock(received->mutex);
  received->streams.push_back(stream);
  return true;
}

} // namespace c10::openreg::ipc
