// What travels when processes share memory or events.
#pragma once

#include "runtime/ipc/Ledger.h"

#include <c10/util/Exception.h>

#include <openreg.h>

#include <cstring>
#include <string>
#include <type_traits>

namespace c10::openreg::ipc {

/// Which memory a storage has, and where its owner counts who uses it.
struct Message {
  orIpcMemHandle_t memory;
  IpcLedger::Address ledger;
  uint64_t block;
  uint64_t offset; // of the storage in the allocation
  uint64_t bytes; // of the storage
};

template <class T>
std::string toBytes(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

/// Throws if there are more or fewer bytes than `what` has.
template <class T>
T fromBytes(const std::string& bytes, const char* what) {
  static_assert(std::is_trivially_copyable_v<T>);
  TORCH_CHECK(
      bytes.size() == sizeof(T),
      what,
      " expects byte-like object of size ",
      sizeof(T),
      ", but got ",
      bytes.size());
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

} // namespace c10::openreg::ipc
