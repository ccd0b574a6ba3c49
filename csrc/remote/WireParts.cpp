#include "remote/WireParts.h"

namespace c10::openreg::remote {
namespace {

constexpr size_t kMostDimensions = 64; // PyTorch's own bound
constexpr size_t kDeepestList = 4;

void requireWithin(uint64_t offset, uint64_t bytes, uint64_t memoryBytes) {
  require(
      bytes <= memoryBytes && offset <= memoryBytes - bytes,
      "memory of ",
      bytes,
      " bytes at offset ",
      offset,
      " is not within the ",
      memoryBytes,
      " bytes of the device");
}

// Whether the last element lies within the storage.
bool fits(const WireTensor& tensor, uint64_t bytes) {
  auto last = uint64_t(tensor.offset);
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) {
      return true;
    }
    uint64_t span = 0;
    if (__builtin_mul_overflow(
            uint64_t(tensor.sizes[i] - 1),
            uint64_t(tensor.strides[i]),
            &span) ||
        __builtin_add_overflow(last, span, &last)) {
      return false;
    }
  }
  return last < bytes / tensor.itemBytes;
}

void checkTensorIndex(int64_t index, size_t tensors, bool optional) {
  require(
      (index >= 0 && static_cast<uint64_t>(index) < tensors) ||
          index == kUndefined || (optional && index == kNone),
      "tensor ",
      index,
      " is not in [0, ",
      tensors,
      ")");
}

void getValue(
    Reader& reader,
    size_t tensors,
    size_t depth,
    std::vector<WireValue>& values) {
  WireValue value;
  value.kind = reader.getOf(ValueKind::None, ValueKind::List);
  size_t following = 0;
  switch (value.kind) {
    case ValueKind::None:
      break;
    case ValueKind::Bool:
    case ValueKind::Int:
    case ValueKind::Device:
      value.number = reader.get<int64_t>();
      break;
    case ValueKind::Tensor:
      value.number = reader.get<int64_t>();
      checkTensorIndex(value.number, tensors, /*optional=*/false);
      break;
    case ValueKind::Double:
      value.real = reader.get<double>();
      break;
    case ValueKind::Complex:
      value.real = reader.get<double>();
      value.imaginary = reader.get<double>();
      break;
    case ValueKind::String:
    case ValueKind::Generator:
      value.text = reader.getText();
      break;
    case ValueKind::Ints:
      value.ints = reader.getAll<int64_t>();
      break;
    case ValueKind::Doubles:
      value.doubles = reader.getAll<double>();
      break;
    case ValueKind::Bools:
      value.bools = reader.getAll<uint8_t>();
      break;
    case ValueKind::Tensors:
    case ValueKind::OptionalTensors:
      value.tensors = reader.getAll<int32_t>();
      for (const int32_t index : value.tensors) {
        checkTensorIndex(
            index, tensors, value.kind == ValueKind::OptionalTensors);
      }
      break;
    case ValueKind::List:
      require(depth < kDeepestList, "lists are nested too deeply");
      following = reader.getCount();
      value.number = static_cast<int64_t>(following);
      break;
  }
  values.push_back(value);
  for (size_t i = 0; i < following; ++i) {
    getValue(reader, tensors, depth + 1, values);
  }
}

} // namespace

// --- writing --------------------------------------------------------------------

void putSlots(Writer& writer, std::span<const WireSlot> slots) {
  writer.put<uint64_t>(slots.size());
  for (const WireSlot& slot : slots) {
    writer.put(slot.offset);
    writer.put(slot.bytes);
  }
}

void putStorage(Writer& writer, const WireStorage& storage) {
  writer.put(storage.kind);
  writer.put(storage.bytes);
  if (storage.kind == StorageKind::Host) {
    writer.putBytes(storage.content.data(), storage.content.size());
  } else {
    writer.put(storage.offset);
  }
}

void putTensor(Writer& writer, const WireTensor& tensor) {
  writer.put(tensor.storage);
  writer.put(tensor.dtype);
  writer.put(tensor.itemBytes);
  writer.put(tensor.flags);
  writer.put(tensor.offset);
  writer.putAll(tensor.sizes);
  writer.putAll(tensor.strides);
}

void putValue(Writer& writer, const WireValue& value) {
  writer.put(value.kind);
  switch (value.kind) {
    case ValueKind::None:
      break;
    case ValueKind::Bool:
    case ValueKind::Int:
    case ValueKind::Device:
    case ValueKind::Tensor:
    case ValueKind::List:
      writer.put(value.number);
      break;
    case ValueKind::Double:
      writer.put(value.real);
      break;
    case ValueKind::Complex:
      writer.put(value.real);
      writer.put(value.imaginary);
      break;
    case ValueKind::String:
    case ValueKind::Generator:
      writer.putText(value.text);
      break;
    case ValueKind::Ints:
      writer.putAll(value.ints);
      break;
    case ValueKind::Doubles:
      writer.putAll(value.doubles);
      break;
    case ValueKind::Bools:
      writer.putAll(value.bools);
      break;
    case ValueKind::Tensors:
    case ValueKind::OptionalTensors:
      writer.putAll(value.tensors);
      break;
  }
}

// --- reading --------------------------------------------------------------------

void getSlots(
    Reader& reader,
    uint64_t memoryBytes,
    std::vector<WireSlot>& slots) {
  slots.clear();
  for (size_t left = reader.getCount(); left > 0; --left) {
    WireSlot& slot = slots.emplace_back();
    slot.offset = reader.get<uint64_t>();
    slot.bytes = reader.get<uint64_t>();
    requireWithin(slot.offset, slot.bytes, memoryBytes);
  }
}

WireStorage getStorage(Reader& reader, uint64_t memoryBytes) {
  WireStorage storage;
  storage.kind = reader.getOf(StorageKind::Device, StorageKind::Host);
  storage.bytes = reader.get<uint64_t>();
  if (storage.kind == StorageKind::Host) {
    storage.content = reader.getBytes(storage.bytes);
    return storage;
  }
  storage.offset = reader.get<uint64_t>();
  requireWithin(storage.offset, storage.bytes, memoryBytes);
  return storage;
}

WireTensor getTensor(Reader& reader, std::span<const uint64_t> storageBytes) {
  WireTensor tensor;
  tensor.storage = reader.get<uint32_t>();
  tensor.dtype = reader.get<uint32_t>();
  tensor.itemBytes = reader.get<uint32_t>();
  tensor.flags = reader.get<uint32_t>();
  tensor.offset = reader.get<int64_t>();
  tensor.sizes = reader.getAll<int64_t>();
  tensor.strides = reader.getAll<int64_t>();
  require(
      tensor.storage < storageBytes.size(),
      "storage ",
      tensor.storage,
      " is not in [0, ",
      storageBytes.size(),
      ")");
  require(
      tensor.itemBytes >= 1 && tensor.itemBytes <= 16,
      "an element has 1 to 16 bytes, not ",
      tensor.itemBytes);
  require(
      (tensor.flags & ~uint32_t{kAllFlags}) == 0,
      "unknown flags ",
      tensor.flags,
      " of a tensor");
  require(
      tensor.sizes.size() == tensor.strides.size() &&
          tensor.sizes.size() <= kMostDimensions,
      "a tensor has ",
      tensor.sizes.size(),
      " sizes and ",
      tensor.strides.size(),
      " strides");
  bool negative = tensor.offset < 0;
  uint64_t elements = 1;
  bool overflows = false;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    negative = negative || tensor.sizes[i] < 0 || tensor.strides[i] < 0;
    overflows = overflows ||
        __builtin_mul_overflow(
                    elements, uint64_t(tensor.sizes[i]), &elements) ||
        elements > uint64_t(INT64_MAX) / 16;
  }
  require(!negative, "a tensor has a negative size, stride or offset");
  require(!overflows, "a tensor has more elements than can be counted");
  require(
      fits(tensor, storageBytes[tensor.storage]),
      "a tensor reaches beyond the ",
      storageBytes[tensor.storage],
      " bytes of its storage");
  return tensor;
}

void getValues(Reader& reader, size_t tensors, std::vector<WireValue>& values) {
  values.clear();
  const size_t count = reader.getCount();
  for (size_t i = 0; i < count; ++i) {
    getValue(reader, tensors, 0, values);
  }
}

} // namespace c10::openreg::remote
