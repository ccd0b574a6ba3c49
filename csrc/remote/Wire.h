// What driver and device process say to each other about one operator call. No
// torch in here: the parser runs alone under a fuzzer (docs/device_process.md).
#pragma once

#include "remote/WireParts.h"

#include <optional>
#include <vector>

namespace c10::openreg::remote {

// docs:begin wire-kinds
/// Increased when anything below changes; both sides must have the same version.
inline constexpr uint32_t kWireVersion = 2;

enum class MessageKind : uint32_t {
  Call = 1, // driver: run this operator
  Result, // device: it ran
  Error, // device: it threw
  Unknown, // device: I have no such operator
  UnsupportedResult, // device: its results have no form here
  Allocate, // device, in the middle of a call: memory for an output, please
  Allocation, // driver: there it is
  Kernel, // driver: run this compiled kernel
  Done, // device: it ran
};

/// The kind of an exception in a kernel, so that the driver throws the same.
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

/// An argument of a compiled kernel.
enum class WordKind : uint64_t {
  Value, // the word itself
  Memory, // an offset in the device's memory
  Content, // a place in WireKernel::contents
};

/// A function of a library that the driver has compiled.
struct WireKernel {
  std::string_view library, name;
  int32_t threads = 1;
  std::span<const WordKind> kinds;
  std::span<const uint64_t> words; // as many
  std::span<const char> contents; // numbers of the host
};

/// A storage of the call that has other memory now.
struct WireResize {
  uint32_t storage = 0;
  WireStorage now;
};

/// A tensor of the call that has other metadata now.
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

/// Parses a message and checks everything that can be checked without torch: each
/// tensor lies within its storage, each storage within `memoryBytes`, and each index
/// names something that exists. The result points into `message`. Throws WireError.
void parseCall(
    std::span<const char> message,
    uint64_t memoryBytes,
    WireCall& call);

/// The same for a compiled kernel. The compiler answers for what the kernel reads and
/// writes around the addresses that it is given.
WireKernel parseKernel(std::span<const char> message, uint64_t memoryBytes);
size_t writeKernel(std::span<char> room, const WireKernel& kernel);

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
std::vector<uint64_t> parseUnsupportedResult(std::span<const char> message);

struct WireAllocate {
  std::vector<uint64_t> freed;
  uint64_t bytes = 0;
};
WireAllocate parseAllocate(std::span<const char> message);

/// The offset that was given, or nothing.
std::optional<uint64_t> parseAllocation(std::span<const char> message);

MessageKind kindOf(std::span<const char> message);

} // namespace c10::openreg::remote
