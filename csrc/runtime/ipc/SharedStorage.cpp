#include "runtime/ipc/SharedStorage.h"

#include "runtime/OpenRegCopyOnWrite.h"
#include "runtime/OpenRegStorage.h"
#include "runtime/OpenRegStream.h"
#include "runtime/ipc/ReceivedMemory.h"
#include "runtime/ipc/SentBlocks.h"

#include <utility>

namespace c10::openreg::ipc {

std::string sendStorage(const Storage& storage) {
  StorageImpl& impl = *storage.unsafeGetStorageImpl();
  TORCH_CHECK(
      storage.device_type() == kDeviceType,
      "expected a storage of an openreg device, but got one of ",
      storage.device());
  if (impl.nbytes() == 0 || !impl.data()) {
    return "";
  }
  TORCH_CHECK(
      !isReceived(impl.data_ptr()),
      "Attempted to send ",
      deviceTitle(),
      " tensor received from another process; this is not currently supported. "
      "Consider cloning before sending.");
  beginWrite(impl); // the other process may write
  getCurrentOpenRegStream(storage.device().index()).synchronize();
  sentBlocks().collect();
  return toBytes(sentBlocks().send(impl));
}

Storage receiveStorage(const std::string& bytes) {
  const auto message = fromBytes<Message>(bytes, "a received tensor");
  DataPtr memory = sentBlocks().isOwn(message) ? sentBlocks().receive(message)
                                               : openMemory(message);
  return Storage(make_intrusive<OpenRegStorageImpl>(
      StorageImpl::use_byte_size_t(),
      message.bytes,
      std::move(memory),
      /*allocator=*/nullptr,
      /*resizable=*/false));
}

} // namespace c10::openreg::ipc
