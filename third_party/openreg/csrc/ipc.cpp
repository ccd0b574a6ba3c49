#include "ipc.h"

#include "error.h"
#include "runtime.h"

#include <cstddef>
#include <cstring>
#include <new>

namespace openreg::ipc {
namespace {

constexpr uint32_t kMostObjects = 1 << 15;

// FNV-1a. It is no secret: who may open a file is the system's decision.
uint64_t checkOf(const Handle& handle) {
  unsigned char bytes[offsetof(Handle, check)];
  std::memcpy(bytes, &handle, sizeof(bytes));
  uint64_t hash = 0xcbf29ce484222325u;
  for (const unsigned char byte : bytes) {
    hash = (hash ^ byte) * 0x100000001b3u;
  }
  return hash;
}

const char* nameOf(Kind kind) {
  return kind == Kind::Memory ? "memory" : "event";
}

// The page that an object lies on; objects do not cross pages.
size_t pageOf(uint32_t place) {
  return place * sizeof(Shared) / os::pageSize() * os::pageSize();
}

} // namespace

void Table::map() {
  process::markUsed();
  owner_ = os::thisProcess();
  constexpr size_t kBytes = kMostObjects * sizeof(Shared);
  const int file = os::createSparseMemory("openreg shared objects", kBytes);
  void* const objects = file < 0 ? nullptr : os::mapAnywhere(file, 0, kBytes);
  if (!objects) {
    if (file >= 0) {
      os::closeSparseMemory(file);
    }
    throw std::bad_alloc();
  }
  objects_ = static_cast<Shared*>(objects);
  file_ = file;
}

std::shared_ptr<Shared> Table::take() {
  std::lock_guard lock(mutex_);
  if (file_ < 0) {
    map();
  }
  if (free_.empty()) {
    if (used_ == kMostObjects) {
      return nullptr;
    }
    free_.reserve(used_ + 1); // so that giveBack() cannot fail
    free_.push_back(used_++);
  }
  Shared* const object = new (&objects_[free_.back()]) Shared{};
  free_.pop_back();
  return {object, [this](Shared* ended) { giveBack(ended); }};
}

void Table::giveBack(Shared* object) {
  object->stamp.store(0);
  std::lock_guard lock(mutex_);
  free_.push_back(static_cast<uint32_t>(object - objects_));
}

Handle Table::handleOf(Kind kind, const Shared& object) const {
  const os::File file = os::identify(file_);
  Handle handle{
      .kind = kind,
      .owner = owner_.number,
      .ownerStarted = owner_.started,
      .descriptor = file.descriptor,
      .place = static_cast<uint32_t>(&object - objects_),
      .fileDevice = file.device,
      .fileInode = file.inode,
      .stamp = object.stamp.load(),
      .reserved = 0,
      .check = 0};
  handle.check = checkOf(handle);
  return handle;
}

// docs:begin ipc-open
std::shared_ptr<Shared> open(Kind kind, const Handle& handle) {
  if (handle.check != checkOf(handle) || handle.kind != kind ||
      handle.place >= kMostObjects) {
    fail(
        orErrorInvalidHandle,
        "the bytes are not a handle of %s; were all %zu passed on?",
        nameOf(kind),
        sizeof(Handle));
    return nullptr;
  }
  const os::Process owner{handle.owner, handle.ownerStarted};
  if (owner == os::thisProcess()) {
    fail(
        orErrorDeviceUninitialized,
        "the %s is this process's own; a handle is for other processes",
        nameOf(kind));
    return nullptr;
  }
  const int file = os::openFileOf(
      owner, {handle.descriptor, handle.fileDevice, handle.fileInode});
  if (file < 0) {
    fail(
        orErrorMapBufferObjectFailed,
        "process %d, which shares the %s, has ended, belongs to another user "
        "or cannot be seen from here; it must live until the handle is open",
        handle.owner,
        nameOf(kind));
    return nullptr;
  }
  const size_t page = pageOf(handle.place);
  auto* const mapped =
      static_cast<char*>(os::mapAnywhere(file, page, os::pageSize()));
  os::closeSparseMemory(file);
  if (!mapped) {
    throw std::bad_alloc();
  }
  std::shared_ptr<Shared> object(
      reinterpret_cast<Shared*>(mapped + handle.place * sizeof(Shared) - page),
      [mapped](Shared*) { os::unmap(mapped, os::pageSize()); });
  if (object->stamp.load(std::memory_order_acquire) != handle.stamp) {
    fail(
        orErrorInvalidHandle,
        "process %d has %s the %s since it made the handle",
        handle.owner,
        kind == Kind::Memory ? "freed" : "destroyed",
        nameOf(kind));
    return nullptr;
  }
  return object;
}
// docs:end ipc-open

} // namespace openreg::ipc
