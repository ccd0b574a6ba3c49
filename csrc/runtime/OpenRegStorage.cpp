#include "runtime/OpenRegStorage.h"

#include "runtime/OpenRegDeviceType.h"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace c10::openreg {

// docs:begin storage-hook
namespace {

/// PyTorch calls this for the storages that it makes itself, as `torch.UntypedStorage` and
/// torch.load() do. If it passes no memory, the storage allocates its own.
intrusive_ptr<StorageImpl> createStorage(
    StorageImpl::use_byte_size_t byBytes,
    SymInt bytes,
    DataPtr memory,
    Allocator* allocator,
    bool resizable) {
  if (memory.device().type() != kDeviceType) {
    return make_intrusive<OpenRegStorageImpl>(
        byBytes, bytes, allocator, resizable);
  }
  return make_intrusive<OpenRegStorageImpl>(
      byBytes, std::move(bytes), std::move(memory), allocator, resizable);
}

struct RegisterStorage {
  RegisterStorage() {
    // PyTorch refuses a function for CUDA.
    if (kDeviceType == DeviceType::PrivateUse1) {
      SetStorageImplCreate(kDeviceType, &createStorage);
    }
  }
} registerStorage;

} // namespace
// docs:end storage-hook

/// The storages that have a description. One of our class holds its own; for the others,
/// which a CPU kernel or another library made, it is kept here.
class Descriptions {
 public:
  static Descriptions& all() {
    static auto* descriptions = new Descriptions; // threads may outlive statics
    return *descriptions;
  }

  bool exist() const {
    return exist_.load(std::memory_order_relaxed);
  }

  void add(const Storage& storage, const Description& entries) {
    std::vector<StorageEntry> dead; // destroyed without the lock
    const std::lock_guard lock(mutex_);
    if (known_.size() >= most_) {
      std::erase_if(known_, [&](auto& one) {
        const bool expired = one.second.storage.expired();
        if (expired) {
          dead.push_back(std::move(one.second));
        }
        return expired;
      });
      most_ = 2 * known_.size() + 16;
    }
    auto& place = placeOf(
        known_
            .try_emplace(
                storage.unsafeGetStorageImpl(), storage.getWeakStorageImpl())
            .first->second);
    Description changed = entries;
    if (place) {
      changed.insert(place->begin(), place->end());
    }
    place = std::make_shared<const Description>(std::move(changed));
    exist_.store(true, std::memory_order_relaxed);
  }

  Description of(const Storage& storage) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(storage.unsafeGetStorageImpl());
    return found == known_.end() ? Description() : *placeOf(found->second);
  }

  std::vector<Description> at(const char* begin, const char* end) {
    std::vector<std::pair<Weak, std::shared_ptr<const Description>>> known;
    {
      const std::lock_guard lock(mutex_);
      for (auto& [storage, one] : known_) {
        known.emplace_back(one.storage, placeOf(one));
      }
    }
    std::vector<Description> found;
    for (const auto& [weak, description] : known) {
      const auto storage = weak.lock(); // may take the GIL
      const auto* first =
          storage ? static_cast<const char*>(storage->data()) : end;
      if (first < end && begin < first + storage->nbytes()) {
        found.push_back(*description);
      }
    }
    return found;
  }

 private:
  using Weak = weak_intrusive_ptr<StorageImpl>;
  /// The weak reference keeps the address from being used for another storage.
  struct StorageEntry {
    Weak storage;
    std::shared_ptr<const Description>
        description; // of a storage of another class
  };

  static std::shared_ptr<const Description>& placeOf(StorageEntry& entry) {
    auto* own =
        dynamic_cast<OpenRegStorageImpl*>(entry.storage._unsafe_get_target());
    return own ? own->description_ : entry.description;
  }

  std::mutex mutex_;
  std::unordered_map<const StorageImpl*, StorageEntry> known_;
  size_t most_ = 16; // entries until those that have died are dropped
  std::atomic<bool> exist_ = false;
};

void describe(const Storage& storage, const Description& entries) {
  if (!entries.empty()) {
    Descriptions::all().add(storage, entries);
  }
}

Description descriptionOf(const Storage& storage) {
  return Descriptions::all().of(storage);
}

std::vector<Description> descriptionsAt(const char* begin, const char* end) {
  return Descriptions::all().at(begin, end);
}

void copyDescription(const Storage& from, const Storage& to) {
  if (C10_UNLIKELY(Descriptions::all().exist())) {
    describe(to, descriptionOf(from));
  }
}

} // namespace c10::openreg
