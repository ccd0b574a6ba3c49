#include "device_process/Call.h"

#include "device_process/DriverMemory.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>

namespace openreg::device {
namespace {

using remote::StorageKind;
using remote::WireStorage;
using remote::WireTensor;
using remote::Writer;

c10::Storage makeStorage(const WireStorage& storage) {
  c10::DataPtr data;
  if (storage.kind == StorageKind::Host) {
    data = c10::GetCPUAllocator()->allocate(storage.bytes);
    std::copy(
        storage.content.begin(),
        storage.content.end(),
        static_cast<char*>(data.get()));
  } else if (storage.bytes != 0) {
    data = {memoryBase() + storage.offset, c10::Device(c10::kCPU)};
  }
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      storage.bytes,
      std::move(data),
      c10::GetCPUAllocator(), // the one that OutputScope acts on
      /*resizable=*/true));
}

// Memory that was asked for is named; any other is copied.
WireStorage describeStorage(const c10::Storage& storage) {
  WireStorage described;
  described.bytes = storage.nbytes();
  if (!storage.data()) {
    described.bytes = 0;
  } else if (const auto offset = offsetOf(storage.data_ptr())) {
    described.offset = *offset;
  } else {
    described.kind = StorageKind::Host;
    described.content = {
        static_cast<const char*>(storage.data()), storage.nbytes()};
  }
  return described;
}

// The driver owns it now.
void release(const c10::Storage& storage) {
  if (offsetOf(storage.data_ptr())) {
    storage.unsafeGetStorageImpl()
        ->_mutable_data_ptr_no_checks()
        .release_context();
  }
}

bool sameMetadata(const WireTensor& a, const WireTensor& b) {
  return a.storage == b.storage && a.flags == b.flags && a.offset == b.offset &&
      std::ranges::equal(a.sizes, b.sizes) &&
      std::ranges::equal(a.strides, b.strides);
}

} // namespace

Call::Call(const c10::OperatorHandle& op, const remote::WireCall& call)
    : op_(op), call_(call) {
  for (const WireStorage& storage : call.storages) {
    storages_.push_back(makeStorage(storage));
    addresses_.push_back(storages_.back().data());
  }
  for (const WireTensor& tensor : call.tensors) {
    tensors_.push_back(remote::makeTensor(tensor, storages_[tensor.storage]));
  }
  remote::ValueReader reader(call.values, tensors_);
  for (const auto& argument : op.schema().arguments()) {
    stack_.push_back(reader.next(argument.real_type()));
    if (stack_.back().isGenerator()) {
      generators_.push_back(stack_.back().toGenerator());
    }
  }
  if (!reader.atEnd()) {
    throw remote::WireError("a call has more values than the operator takes");
  }
}

void Call::run() {
  const at::AutoDispatchBelowADInplaceOrView below;
  op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
}

// --- what came of it --------------------------------------------------------------

uint32_t Call::indexOfStorage(const c10::Storage& storage) {
  for (size_t i = 0; i < storages_.size(); ++i) {
    if (storages_[i].unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) {
      return static_cast<uint32_t>(i);
    }
  }
  storages_.push_back(storage);
  return static_cast<uint32_t>(storages_.size() - 1);
}

WireTensor Call::describe(const at::Tensor& tensor) {
  WireTensor described = remote::describeTensor(*tensor.unsafeGetTensorImpl());
  described.storage = indexOfStorage(tensor.storage());
  return described;
}

int32_t Call::indexOf(const at::Tensor& tensor) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].is_same(tensor)) {
      return static_cast<int32_t>(i);
    }
  }
  if (tensor.layout() != at::kStrided || tensor.is_nested() ||
      tensor.is_quantized() || !tensor.has_storage()) {
    return remote::kNone;
  }
  tensors_.push_back(tensor);
  indexOfStorage(tensor.storage());
  return static_cast<int32_t>(tensors_.size() - 1);
}

void Call::writeResizes(Writer& writer) {
  std::vector<uint32_t> resized;
  for (uint32_t i = 0; i < addresses_.size(); ++i) {
    if (storages_[i].data() != addresses_[i] ||
        storages_[i].nbytes() != call_.storages[i].bytes) {
      resized.push_back(i);
    }
  }
  writer.put<uint64_t>(resized.size());
  for (const uint32_t i : resized) {
    writer.put(i);
    putStorage(writer, describeStorage(storages_[i]));
    release(storages_[i]);
  }
}

void Call::writeNewStorages(Writer& writer) {
  writer.put<uint64_t>(storages_.size() - addresses_.size());
  for (size_t i = addresses_.size(); i < storages_.size(); ++i) {
    putStorage(writer, describeStorage(storages_[i]));
    release(storages_[i]);
  }
}

void Call::writeChanges(Writer& writer) {
  std::vector<uint32_t> changed;
  for (uint32_t i = 0; i < call_.tensors.size(); ++i) {
    if (!sameMetadata(describe(tensors_[i]), call_.tensors[i])) {
      changed.push_back(i);
    }
  }
  writer.put<uint64_t>(changed.size());
  for (const uint32_t i : changed) {
    writer.put(i);
    putTensor(writer, describe(tensors_[i]));
  }
}

bool Call::crosses() {
  for (const c10::IValue& result : stack_) {
    if (!results_.add(result, [this](const at::Tensor& tensor) {
          return indexOf(tensor);
        })) {
      return false;
    }
  }
  return true;
}

void Call::moveResults() {
  for (size_t i = 0; i < call_.tensors.size(); ++i) {
    indexOfStorage(tensors_[i].storage()); // it may have got another one
  }
  // The last one first: in the order in which kernels of the driver get theirs, so
  // that memory looks the same.
  for (size_t i = storages_.size(); i-- > 0;) {
    const c10::Storage& storage = storages_[i];
    const bool cameSo =
        i < addresses_.size() && storage.data() == addresses_[i];
    if (!cameSo && !offsetOf(storage.data_ptr())) {
      c10::DataPtr moved = c10::GetCPUAllocator()->allocate(storage.nbytes());
      if (offsetOf(moved)) {
        std::memcpy(moved.get(), storage.data(), storage.nbytes());
        storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(moved));
      }
    }
  }
}

size_t Call::writeResult(
    std::span<char> room,
    const std::vector<std::string>& warnings) {
  for (const at::Generator& generator : generators_) {
    results_.addGenerator(generator);
  }
  Writer writer(room);
  writer.put(remote::MessageKind::Result);
  const auto freed = takeFreed();
  writer.putAll(std::span<const uint64_t>(freed));
  writer.put<uint64_t>(warnings.size());
  for (const std::string& warning : warnings) {
    writer.putText(warning);
  }
  writeResizes(writer);
  writeNewStorages(writer);
  const size_t given = call_.tensors.size();
  writer.put<uint64_t>(tensors_.size() - given);
  for (size_t i = given; i < tensors_.size(); ++i) {
    putTensor(writer, describe(tensors_[i]));
  }
  writeChanges(writer);
  results_.write(writer);
  return writer.size();
}

size_t writeError(
    std::span<char> room,
    remote::ErrorKind kind,
    std::string_view text) {
  Writer writer(room);
  writer.put(remote::MessageKind::Error);
  const auto freed = takeFreed();
  writer.putAll(std::span<const uint64_t>(freed));
  writer.put(kind);
  writer.putText(text);
  return writer.size();
}

} // namespace openreg::device
