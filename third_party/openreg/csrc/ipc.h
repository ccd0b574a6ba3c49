// What processes share: objects in memory that all of them can see, and handles
// that name them.
#pragma once

#include "openreg/error.h"
#include "os.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace openreg::ipc {

enum class Kind : uint32_t { Memory = 1, Event = 2 };

// docs:begin ipc-shared
/// An object that its owner shares. It lies in a file that the owner keeps open
/// and other processes map.
struct alignas(128) Shared {
  /// The number of the object among all that the process ever shared; 0: freed.
  std::atomic<uint64_t> stamp;

  // Of memory, written before the stamp: where to find it.
  os::File file;
  uint64_t offset;
  uint64_t bytes;
  uint32_t device; // the device's number in every process, not the visible one

  // Of an event: how often it was recorded, which record has finished, and who
  // made the latest. Processes that wait sleep on the word.
  std::atomic<uint64_t> recorded;
  std::atomic<uint64_t> finished;
  std::atomic<int32_t> recorder;
  std::atomic<uint64_t> recorderStarted;
  std::atomic<uint32_t> word;
};
// docs:end ipc-shared
static_assert(std::atomic<uint64_t>::is_always_lock_free);

/// How an object is named in other processes; the bytes of the API's handles.
struct Handle {
  Kind kind;
  int32_t owner;
  uint64_t ownerStarted;
  int32_t descriptor;
  uint32_t place;
  uint64_t fileDevice;
  uint64_t fileInode;
  uint64_t stamp;
  uint64_t reserved;
  uint64_t check; // over all before it, to recognise what is no handle
};
static_assert(sizeof(Handle) == 64);

/// The objects that this process shares.
///
/// Threads: any may call anything.
class Table {
 public:
  /// A new object; the last owner of the pointer ends it. nullptr if there are
  /// too many. Throws std::bad_alloc.
  template <class Fill>
  std::shared_ptr<Shared> create(Fill fill) {
    std::shared_ptr<Shared> made = take();
    if (made) {
      fill(*made);
      made->stamp.store(++lastStamp_, std::memory_order_release);
    }
    return made;
  }

  /// The handle of an object of this table.
  Handle handleOf(Kind kind, const Shared& object) const;

 private:
  void map();
  std::shared_ptr<Shared> take();
  void giveBack(Shared* object);

  std::mutex mutex_;
  int file_ = -1;
  os::Process owner_;
  Shared* objects_ = nullptr;
  uint32_t used_ = 0;
  std::vector<uint32_t> free_;
  std::atomic<uint64_t> lastStamp_{0};
};

/// The object that a handle of another process names, for as long as the pointer
/// is kept. nullptr with the thread's error set.
std::shared_ptr<Shared> open(Kind kind, const Handle& handle);

} // namespace openreg::ipc
