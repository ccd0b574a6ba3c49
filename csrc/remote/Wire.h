// What driver and device process say to each other about one operator call. No
// torch in here: the parser runs alone under a fuzzer (docs/device_process.md).
#pragma once

#include "remote/WireParts.h"

#include <optional>
#include <vector>

namespace c10::openreg::remote {

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

/// What a kernel's result depends on besides its arguments.
struct WireSettings {
  int32_t threads = 1;
  uint32_t defaultDtype = 0;
  uint32_t flags = 0; // see Settings.cpp
  /// Allocations of more bytes are outputs, and the driver's business.
  uint64_t hostBytes = UINT64_MAX;
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
