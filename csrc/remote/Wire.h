// What driver and device process say to each other about one operator call. No
// torch in here: the parser runs alone under a fuzzer (docs/device_process.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

namespace c10::openreg::remote {

/// A message that cannot be: too short, out of bounds, of another version.
class WireError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws a WireError of these words and numbers.
template <class... Parts>
[[noreturn]] void failWire(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw WireError(text.str());
}

// docs:begin wire-kinds
/// Raised when anything below changes; both sides must have the same.
inline constexpr uint32_t kWireVersion = 1;

enum class MessageKind : uint32_t {
  Call = 1, // driver: run this operator
  Result, // device: it ran
  Error, // device: it threw
  Unknown, // device: I have no such operator
  Unspeakable, // device: its results have no form here
  Allocate, // device, in the middle of a call: memory for an output, please
  Allocation, // driver: there it is
};

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

/// What an exception in a kernel was, so that the driver throws the same.
enum class ErrorKind : uint32_t {
  Error,
  Index,
  Value,
  Type,
  NotImplemented,
  LinAlg,
  OutOfMemory,
  Other,
};
// docs:end wire-kinds

inline constexpr int32_t kUndefined = -1;
inline constexpr int32_t kNone = -2;

enum TensorFlags : uint32_t {
  kConj = 1,
  kNeg = 2,
  kWrappedNumber = 4,
  kAllFlags = 7,
};

// --- bytes ----------------------------------------------------------------------

/// Appends to a buffer of fixed size. Everything is aligned to 8 bytes, so that
/// lists can be read where they lie.
class Writer {
 public:
  explicit Writer(std::span<char> buffer) : buffer_(buffer) {}

  template <class T>
  void put(T value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
    char word[8] = {};
    std::memcpy(word, &value, sizeof(T));
    std::memcpy(take(8), word, 8);
  }
  template <class T>
  void putAll(std::span<const T> values) {
    put<uint64_t>(values.size());
    putBytes(values.data(), values.size_bytes());
  }
  void putText(std::string_view text) {
    putAll(std::span<const char>(text));
  }
  void putBytes(const void* bytes, size_t count) {
    char* to = take((count + 7) / 8 * 8);
    if (count != 0) {
      std::memcpy(to, bytes, count);
    }
  }

  size_t size() const {
    return used_;
  }

 private:
  char* take(size_t count) {
    if (count > buffer_.size() - used_) {
      failWire(
          "a message has at most ",
          buffer_.size(),
          " bytes, and this one is longer");
    }
    char* place = buffer_.data() + used_;
    used_ += count;
    return place;
  }

  const std::span<char> buffer_;
  size_t used_ = 0;
};

/// Reads what a Writer wrote, and nothing beyond it.
class Reader {
 public:
  explicit Reader(std::span<const char> message) : rest_(message) {}

  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(8).data(), sizeof(T));
    return value;
  }
  /// One of an enumeration that begins at `first` and ends with `last`.
  template <class T>
  T getOf(T first, T last) {
    const auto value = get<T>();
    if (value < first || value > last) {
      failWire(
          "expected a kind in [",
          static_cast<int64_t>(first),
          ", ",
          static_cast<int64_t>(last),
          "], but got ",
          static_cast<int64_t>(value));
    }
    return value;
  }
  /// A number of things of which each takes at least 8 bytes.
  size_t getCount() {
    const auto count = get<uint64_t>();
    if (count > rest_.size() / 8) {
      failWire(
          count,
          " things cannot be in the ",
          rest_.size(),
          " bytes that are left");
    }
    return count;
  }
  template <class T>
  std::span<const T> getAll() {
    const auto count = get<uint64_t>();
    if (count > rest_.size() / sizeof(T)) {
      failWire(
          "a list of ",
          count,
          " is longer than the ",
          rest_.size(),
          " bytes that are left");
    }
    const auto bytes = getBytes(count * sizeof(T));
    return {reinterpret_cast<const T*>(bytes.data()), count};
  }
  std::string_view getText() {
    const auto letters = getAll<char>();
    return {letters.data(), letters.size()};
  }
  std::span<const char> getBytes(size_t count) {
    if (count > rest_.size()) {
      failWire(
          count, " bytes are more than the ", rest_.size(), " that are left");
    }
    return take((count + 7) / 8 * 8).first(count);
  }
  void expectEnd() const {
    if (!rest_.empty()) {
      failWire(rest_.size(), " bytes follow the end of a message");
    }
  }

 private:
  std::span<const char> take(size_t count) {
    if (count > rest_.size()) {
      failWire("a message ends ", count - rest_.size(), " bytes too early");
    }
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::span<const char> rest_;
};

// --- parts of messages ----------------------------------------------------------

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

/// What a kernel's result depends on besides its arguments.
struct WireSettings {
  int32_t threads = 1;
  uint32_t defaultDtype = 0;
  uint32_t flags = 0; // see Settings.cpp
  /// Allocations of more bytes are outputs, and the driver's business.
  uint64_t hostBytes = UINT64_MAX;
};

/// Memory of an output that exists already: for the allocation of as many bytes.
struct WireSlot {
  uint64_t offset = 0, bytes = 0;
};

struct WireCall {
  std::string_view name, overload;
  WireSettings settings;
  std::vector<WireSlot> planned;
  std::vector<WireStorage> storages;
  std::vector<WireTensor> tensors;
  std::vector<WireValue> values;
};

/// A storage of the call whose memory is another now.
struct WireResize {
  uint32_t storage = 0;
  WireStorage now;
};

/// A tensor of the call whose metadata are others now.
struct WireChange {
  uint32_t tensor = 0;
  WireTensor now;
};

struct WireResult {
  std::vector<uint64_t> freed; // offsets of allocations
  std::vector<std::string_view> warnings;
  std::vector<WireResize> resizes;
  std::vector<WireStorage> storages; // new ones: numbered after the call's
  std::vector<WireTensor> tensors; // likewise
  std::vector<WireChange> changes;
  std::vector<WireValue> values; // the results, then the states of generators
};

void putSlots(Writer& writer, std::span<const WireSlot> slots);
void putStorage(Writer& writer, const WireStorage& storage);
void putTensor(Writer& writer, const WireTensor& tensor);
void putValue(Writer& writer, const WireValue& value);

/// Parses a message and checks all that can be checked without torch: a tensor lies
/// within its storage and a storage within `memoryBytes`, and whatever is named by
/// an index exists. What it gives points into `message`. Throws WireError.
void parseCall(
    std::span<const char> message,
    uint64_t memoryBytes,
    WireCall& call);

/// The same for the answer to a call that had so many tensors, and storages of so
/// many bytes.
void parseResult(
    std::span<const char> message,
    uint64_t memoryBytes,
    std::span<const uint64_t> storageBytes,
    size_t tensors,
    WireResult& result);

struct WireFailure {
  std::vector<uint64_t> freed;
  ErrorKind kind = ErrorKind::Error;
  std::string_view text;
};
WireFailure parseError(std::span<const char> message);

/// What kernels have freed that ran for nothing.
std::vector<uint64_t> parseUnspeakable(std::span<const char> message);

struct WireAllocate {
  std::vector<uint64_t> freed;
  uint64_t bytes = 0;
};
WireAllocate parseAllocate(std::span<const char> message);

/// The offset that was given, or nothing.
std::optional<uint64_t> parseAllocation(std::span<const char> message);

MessageKind kindOf(std::span<const char> message);

} // namespace c10::openreg::remote
