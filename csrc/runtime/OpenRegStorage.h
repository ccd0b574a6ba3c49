// The memory of a tensor, and what is known of it beyond its bytes.
#pragma once

#include <c10/core/Storage.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace c10::openreg {

// docs:begin storage
/// Names, and values that only their writer can read.
using Description = std::map<std::string, std::string>;

/// A storage of the device, with room for a description. Without one it is like any other
/// storage, except for an empty pointer.
class OpenRegStorageImpl final : public StorageImpl {
 public:
  using StorageImpl::StorageImpl;

 private:
  friend class Descriptions;

  std::shared_ptr<const Description> description_;
};
// docs:end storage

/// Adds entries to the description of a storage, or replaces those of the same name.
/// All tensors that share the storage have them.
///
/// Threads: any, for all functions of this file; descriptionsAt() may take the GIL, so
/// it is called without locks.
void describe(const Storage& storage, const Description& entries);

/// A copy of the description; empty if there is none.
Description descriptionOf(const Storage& storage);

/// The descriptions of all living storages that overlap [begin, end).
std::vector<Description> descriptionsAt(const char* begin, const char* end);

/// Gives a copy of a tensor's memory a copy of its description. Costs nothing while no
/// storage has one.
void copyDescription(const Storage& from, const Storage& to);

} // namespace c10::openreg
