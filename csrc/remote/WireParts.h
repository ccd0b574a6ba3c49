// What messages are made of: storages, tensors and values. No torch in here: the
// parser runs alone under a fuzzer (docs/device_process.md).
#pragma once

#include "remote/Bytes.h"

#include <vector>

namespace c10::openreg::remote {

// docs:begin wire-values
enum class ValueKind : uint32_t {
  None,
  Bool,
  Int,
  Double,
  Complex,
  String,
  Device,
  Generator, // its state, there and back
  Tensor, // an index into the tensors of the message; -1: undefined
  Ints,
  Doubles,
  Bools,
  Tensors, // indices
  OptionalTensors, // indices; -2: None
  List, // of the values that follow
};

enum class StorageKind : uint32_t {
  Device, // an offset into the device's memory
  Host, // the bytes follow
};
// docs:end wire-values

inline constexpr int32_t kUndefined = -1;
inline constexpr int32_t kNone = -2;

enum TensorFlags : uint32_t {
  kConj = 1,
  kNeg = 2,
  kWrappedNumber = 4,
  kAllFlags = 7,
};

struct WireStorage {
  StorageKind kind = StorageKind::Device;
  uint64_t offset = 0; // in the device's memory
  uint64_t bytes = 0; // of the storage
  std::span<const char> content; // of a storage of the host
};

struct WireTensor {
  uint32_t storage = 0;
  uint32_t dtype = 0;
  uint32_t itemBytes = 0;
  uint32_t flags = 0;
  int64_t offset = 0; // in elements
  std::span<const int64_t> sizes, strides;
};

struct WireValue {
  ValueKind kind = ValueKind::None;
  int64_t number = 0; // Bool, Int, Device, Tensor; of a List how many follow
  double real = 0, imaginary = 0;
  std::string_view text; // String, and the state of a Generator
  std::span<const int64_t> ints;
  std::span<const double> doubles;
  std::span<const uint8_t> bools;
  std::span<const int32_t> tensors;
};

/// Memory of an output that exists already, for an allocation of the same size.
struct WireSlot {
  uint64_t offset = 0, bytes = 0;
};

void putSlots(Writer& writer, std::span<const WireSlot> slots);
void putStorage(Writer& writer, const WireStorage& storage);
void putTensor(Writer& writer, const WireTensor& tensor);
void putValue(Writer& writer, const WireValue& value);

/// Each of these reads what the function above wrote, and checks it: memory lies
/// within `memoryBytes`, a tensor within its storage, and what is named by an index
/// exists. Throws WireError.
void getSlots(
    Reader& reader,
    uint64_t memoryBytes,
    std::vector<WireSlot>& slots);
WireStorage getStorage(Reader& reader, uint64_t memoryBytes);
WireTensor getTensor(Reader& reader, std::span<const uint64_t> storageBytes);

/// A count, then so many values; lists are followed by what they hold.
void getValues(Reader& reader, size_t tensors, std::vector<WireValue>& values);

} // namespace c10::openreg::remote
