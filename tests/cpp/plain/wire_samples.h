// Well-formed messages to begin with, for tests and for the fuzzer.
#pragma once

#include "remote/Wire.h"

#include <vector>

namespace wire_samples {

using namespace c10::openreg::remote;

inline constexpr uint64_t kMemoryBytes = 1 << 20;

/// A buffer to write one message to.
class Message {
 public:
  explicit Message(size_t bytes = 1 << 16) : room_(bytes), writer_(room_) {}

  Writer& writer() {
    return writer_;
  }
  std::vector<char> bytes() const {
    return {
        room_.begin(), room_.begin() + static_cast<ptrdiff_t>(writer_.size())};
  }

 private:
  std::vector<char> room_;
  Writer writer_;
};

inline std::vector<WireValue> allValues() {
  static constexpr int64_t kInts[] = {1, -2, 3};
  static constexpr double kDoubles[] = {0.5, 1e300};
  static constexpr uint8_t kBools[] = {1, 0, 1};
  static constexpr int32_t kTensors[] = {0, 1, kUndefined};
  static constexpr int32_t kOptional[] = {1, kNone};
  std::vector<WireValue> values(15);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].kind = static_cast<ValueKind>(i);
  }
  const auto value = [&](ValueKind kind) -> WireValue& {
    return values[static_cast<size_t>(kind)];
  };
  value(ValueKind::Bool).number = 1;
  value(ValueKind::Int).number = -7;
  value(ValueKind::Double).real = 0.25;
  value(ValueKind::Complex).imaginary = -1;
  value(ValueKind::String).text = "mean";
  value(ValueKind::Generator).text = "a state of odd length";
  value(ValueKind::Tensor).number = 1;
  value(ValueKind::Ints).ints = kInts;
  value(ValueKind::Doubles).doubles = kDoubles;
  value(ValueKind::Bools).bools = kBools;
  value(ValueKind::Tensors).tensors = kTensors;
  value(ValueKind::OptionalTensors).tensors = kOptional;
  value(ValueKind::List).number = 1;
  values.emplace_back().kind = ValueKind::Int; // inside of the list
  return values;
}

inline void putValues(Writer& writer) {
  const auto values = allValues();
  writer.put<uint64_t>(values.size() - 1);
  for (const WireValue& value : values) {
    putValue(writer, value);
  }
}

inline WireTensor matrix(uint32_t storage) {
  static constexpr int64_t kSizes[] = {2, 3}, kStrides[] = {3, 1};
  WireTensor tensor;
  tensor.storage = storage;
  tensor.dtype = 6;
  tensor.itemBytes = 4;
  tensor.flags = kNeg;
  tensor.offset = 1;
  tensor.sizes = kSizes;
  tensor.strides = kStrides;
  return tensor;
}

/// `storage` and `tensor` stand for the first of each.
inline std::vector<char> call(
    const WireStorage& storage = {StorageKind::Device, 4096, 28, {}},
    const WireTensor& tensor = matrix(0),
    const WireSlot& slot = {8192, 512}) {
  static constexpr char kContent[28] = "bytes of the host";
  Message message;
  Writer& writer = message.writer();
  writer.put(MessageKind::Call);
  writer.putText("aten::add");
  writer.putText("Tensor");
  writer.put<int32_t>(2);
  writer.put<uint32_t>(6);
  writer.put<uint32_t>(8);
  writer.put<uint64_t>(16);
  putSlots(writer, std::vector<WireSlot>{slot});
  writer.put<uint64_t>(2);
  putStorage(writer, storage);
  putStorage(writer, {StorageKind::Host, 0, sizeof(kContent), kContent});
  writer.put<uint64_t>(2);
  putTensor(writer, tensor);
  putTensor(writer, matrix(1));
  putValues(writer);
  return message.bytes();
}

/// Of a call with one storage of 28 bytes and one tensor.
inline std::vector<char> result() {
  static constexpr uint64_t kFreed[] = {512, 1024};
  Message message;
  Writer& writer = message.writer();
  writer.put(MessageKind::Result);
  writer.putAll(std::span<const uint64_t>(kFreed));
  writer.put<uint64_t>(1);
  writer.putText("a warning");
  writer.put<uint64_t>(1);
  writer.put<uint32_t>(0);
  putStorage(writer, {StorageKind::Device, 8192, 64, {}});
  writer.put<uint64_t>(1);
  putStorage(writer, {StorageKind::Device, 512, 28, {}});
  writer.put<uint64_t>(1);
  putTensor(writer, matrix(1));
  writer.put<uint64_t>(1);
  writer.put<uint32_t>(0);
  putTensor(writer, matrix(0));
  putValues(writer);
  return message.bytes();
}

/// A compiled kernel of a tensor, a number and a number of the host.
inline std::vector<char> kernel(uint64_t offset = 4096, uint64_t place = 0) {
  static constexpr char kContent[8] = {1};
  static constexpr WordKind kKinds[] = {
      WordKind::Memory, WordKind::Value, WordKind::Content};
  const uint64_t words[] = {offset, 7, place};
  std::vector<char> room(1 << 12);
  room.resize(
      writeKernel(room, {"/a/kernel.so", "add", 2, kKinds, words, kContent}));
  return room;
}

/// Reads the bytes as every kind of message there is; throws nothing but WireError.
inline void parseAsAnything(std::span<const char> bytes) {
  const auto attempt = [](auto&& parse) {
    try {
      parse();
    } catch (const WireError&) {
    }
  };
  static constexpr uint64_t kStorageBytes[] = {28};
  attempt([&] {
    WireCall parsed;
    parseCall(bytes, kMemoryBytes, parsed);
  });
  attempt([&] {
    WireResult parsed;
    parseResult(bytes, kMemoryBytes, kStorageBytes, 1, parsed);
  });
  attempt([&] { parseKernel(bytes, kMemoryBytes); });
  attempt([&] { parseError(bytes); });
  attempt([&] { parseUnsupportedResult(bytes); });
  attempt([&] { parseAllocate(bytes); });
  attempt([&] { parseAllocation(bytes); });
  attempt([&] { kindOf(bytes); });
}

} // namespace wire_samples
