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

// --- what is written, in this order: both ends follow it -------------------------

/// To be written, or to be read.
template <class T, class Part>
concept Like = std::is_same_v<std::remove_const_t<T>, Part>;

template <class Visit>
void forEachField(Like<WireTensor> auto& tensor, Visit visit) {
  visit(tensor.storage);
  visit(tensor.dtype);
  visit(tensor.itemBytes);
  visit(tensor.flags);
  visit(tensor.offset);
  visit(tensor.sizes);
  visit(tensor.strides);
}

/// Of a value after its kind.
template <class Visit>
void forEachField(Like<WireValue> auto& value, Visit visit) {
  switch (value.kind) {
    case ValueKind::None:
      break;
    case ValueKind::Bool:
    case ValueKind::Int:
    case ValueKind::Device:
    case ValueKind::Tensor:
    case ValueKind::List:
      visit(value.number);
      break;
    case ValueKind::Double:
      visit(value.real);
      break;
    case ValueKind::Complex:
      visit(value.real);
      visit(value.imaginary);
      break;
    case ValueKind::String:
    case ValueKind::Generator:
      visit(value.text);
      break;
    case ValueKind::Ints:
      visit(value.ints);
      break;
    case ValueKind::Doubles:
      visit(value.doubles);
      break;
    case ValueKind::Bools:
      visit(value.bools);
      break;
    case ValueKind::Tensors:
    case ValueKind::OptionalTensors:
      visit(value.tensors);
      break;
  }
}

void getValue(
    Reader& reader,
    size_t tensors,
    size_t depth,
    std::vector<WireValue>& values) {
  WireValue value;
  value.kind = reader.getOf(ValueKind::None, ValueKind::List);
  forEachField(value, [&](auto& field) { reader.getField(field); });
  if (value.kind == ValueKind::Tensor) {
    checkTensorIndex(value.number, tensors, /*optional=*/false);
  }
  for (const int32_t index : value.tensors) {
    checkTensorIndex(index, tensors, value.kind == ValueKind::OptionalTensors);
  }
  size_t following = 0;
  if (value.kind == ValueKind::List) {
    require(depth < kDeepestList, "lists are nested too deeply");
    following = reader.checkCount(static_cast<uint64_t>(value.number));
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
  forEachField(tensor, [&](auto& field) { writer.putField(field); });
}

void putValue(Writer& writer, const WireValue& value) {
  writer.put(value.kind);
  forEachField(value, [&](auto& field) { writer.putField(field); });
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
  forEachField(tensor, [&](auto& field) { reader.getField(field); });
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
