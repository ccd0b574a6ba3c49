#include "remote/Wire.h"

namespace c10::openreg::remote {
namespace {

void expectKind(Reader& reader, MessageKind kind) {
  const auto found = reader.get<MessageKind>();
  require(
      found == kind,
      "expected a message of kind ",
      static_cast<uint32_t>(kind),
      ", but got ",
      static_cast<uint32_t>(found));
}

std::vector<uint64_t> getFreed(Reader& reader) {
  const auto freed = reader.getAll<uint64_t>();
  return {freed.begin(), freed.end()};
}

} // namespace

MessageKind kindOf(std::span<const char> message) {
  return Reader(message).getOf(MessageKind::Call, MessageKind::Done);
}

// docs:begin parse-call
void parseCall(
    std::span<const char> message,
    uint64_t memoryBytes,
    WireCall& call) {
  Reader reader(message);
  expectKind(reader, MessageKind::Call);
  call.name = reader.getText();
  call.overload = reader.getText();
  call.settings = {};
  call.settings.threads = reader.get<int32_t>();
  call.settings.defaultDtype = reader.get<uint32_t>();
  call.settings.flags = reader.get<uint32_t>();
  call.settings.hostBytes = reader.get<uint64_t>();
  getSlots(reader, memoryBytes, call.planned);
  call.storages.clear();
  std::vector<uint64_t> bytes;
  for (size_t left = reader.getCount(); left > 0; --left) {
    call.storages.push_back(getStorage(reader, memoryBytes));
    bytes.push_back(call.storages.back().bytes);
  }
  call.tensors.clear();
  for (size_t left = reader.getCount(); left > 0; --left) {
    call.tensors.push_back(getTensor(reader, bytes));
  }
  getValues(reader, call.tensors.size(), call.values);
  reader.expectEnd();
}
// docs:end parse-call

WireKernel parseKernel(std::span<const char> message, uint64_t memoryBytes) {
  Reader reader(message);
  expectKind(reader, MessageKind::Kernel);
  WireKernel kernel;
  kernel.library = reader.getText();
  kernel.name = reader.getText();
  kernel.threads = reader.get<int32_t>();
  kernel.kinds = reader.getAll<WordKind>();
  kernel.words = reader.getAll<uint64_t>();
  kernel.contents = reader.getAll<char>();
  reader.expectEnd();
  require(
      kernel.kinds.size() == kernel.words.size(),
      kernel.words.size(),
      " words have ",
      kernel.kinds.size(),
      " kinds");
  for (size_t i = 0; i < kernel.words.size(); ++i) {
    const uint64_t bytes = kernel.kinds[i] == WordKind::Memory ? memoryBytes
        : kernel.kinds[i] == WordKind::Content ? kernel.contents.size()
                                               : UINT64_MAX;
    require(
        kernel.kinds[i] <= WordKind::Content,
        "expected a kind in [0, 2], but got ",
        static_cast<uint64_t>(kernel.kinds[i]));
    require(
        kernel.words[i] <= bytes,
        "argument ",
        i,
        " is at ",
        kernel.words[i],
        " of ",
        bytes,
        " bytes");
  }
  return kernel;
}

size_t writeKernel(std::span<char> room, const WireKernel& kernel) {
  Writer writer(room);
  writer.put(MessageKind::Kernel);
  writer.putText(kernel.library);
  writer.putText(kernel.name);
  writer.put(kernel.threads);
  writer.putAll(kernel.kinds);
  writer.putAll(kernel.words);
  writer.putAll(kernel.contents);
  return writer.size();
}

void parseResult(
    std::span<const char> message,
    uint64_t memoryBytes,
    std::span<const uint64_t> storageBytes,
    size_t tensors,
    WireResult& result) {
  Reader reader(message);
  expectKind(reader, MessageKind::Result);
  result.freed = getFreed(reader);
  std::vector<uint64_t> bytes(storageBytes.begin(), storageBytes.end());
  result.warnings.clear();
  for (size_t left = reader.getCount(); left > 0; --left) {
    result.warnings.push_back(reader.getText());
  }
  result.resizes.clear();
  for (size_t left = reader.getCount(); left > 0; --left) {
    const auto storage = reader.get<uint32_t>();
    require(
        storage < storageBytes.size(),
        "storage ",
        storage,
        " is not of the call");
    result.resizes.push_back({storage, getStorage(reader, memoryBytes)});
    bytes[storage] = result.resizes.back().now.bytes;
  }
  result.storages.clear();
  for (size_t left = reader.getCount(); left > 0; --left) {
    result.storages.push_back(getStorage(reader, memoryBytes));
    bytes.push_back(result.storages.back().bytes);
  }
  result.tensors.clear();
  for (size_t left = reader.getCount(); left > 0; --left) {
    result.tensors.push_back(getTensor(reader, bytes));
  }
  result.changes.clear();
  for (size_t left = reader.getCount(); left > 0; --left) {
    const auto tensor = reader.get<uint32_t>();
    require(tensor < tensors, "tensor ", tensor, " is not of the call");
    result.changes.push_back({tensor, getTensor(reader, bytes)});
  }
  getValues(reader, tensors + result.tensors.size(), result.values);
  reader.expectEnd();
}

WireFailure parseError(std::span<const char> message) {
  Reader reader(message);
  expectKind(reader, MessageKind::Error);
  WireFailure failure;
  failure.freed = getFreed(reader);
  failure.kind = reader.getOf(ErrorKind::Error, ErrorKind::Other);
  failure.text = reader.getText();
  reader.expectEnd();
  return failure;
}

std::vector<uint64_t> parseUnsupportedResult(std::span<const char> message) {
  Reader reader(message);
  expectKind(reader, MessageKind::UnsupportedResult);
  auto freed = getFreed(reader);
  reader.expectEnd();
  return freed;
}

WireAllocate parseAllocate(std::span<const char> message) {
  Reader reader(message);
  expectKind(reader, MessageKind::Allocate);
  WireAllocate allocate;
  allocate.freed = getFreed(reader);
  allocate.bytes = reader.get<uint64_t>();
  reader.expectEnd();
  return allocate;
}

std::optional<uint64_t> parseAllocation(std::span<const char> message) {
  Reader reader(message);
  expectKind(reader, MessageKind::Allocation);
  const bool given = reader.get<uint64_t>() != 0;
  const auto offset = reader.get<uint64_t>();
  reader.expectEnd();
  return given ? std::optional(offset) : std::nullopt;
}

} // namespace c10::openreg::remote
