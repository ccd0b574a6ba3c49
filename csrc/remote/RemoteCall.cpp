#include "remote/RemoteCall.h"

#include "remote/Settings.h"

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>

namespace c10::openreg::remote {
namespace {

// Numbers and indices of the host travel with the message; more of them would be a
// copy that nobody asked for.
constexpr size_t kMostHostBytes = size_t{1} << 20;

bool isPlain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == at::kStrided &&
      !tensor.is_quantized() && !tensor.is_nested() &&
      !tensor._is_zerotensor() &&
      !tensor.unsafeGetTensorImpl()->is_python_dispatch() &&
      tensor.has_storage();
}

} // namespace

// --- there ------------------------------------------------------------------------

RemoteCall::RemoteCall(
    const c10::FunctionSchema& schema,
    uint64_t written,
    const torch::jit::Stack& stack)
    : schema_(schema) {
  const size_t count = schema.arguments().size();
  for (size_t place = 0; place < count && crosses_; ++place) {
    const IValue& value = torch::jit::peek(stack, place, count);
    writes_ = (written >> place & 1) != 0;
    crosses_ = values_.add(
        value, [this](const at::Tensor& tensor) { return indexOf(tensor); });
    if (value.isGenerator()) {
      generators_.push_back(value.toGenerator());
    }
  }
}

int32_t RemoteCall::indexOf(const at::Tensor& tensor) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].is_same(tensor)) {
      return static_cast<int32_t>(i);
    }
  }
  if (!isPlain(tensor)) {
    return kNone;
  }
  StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->data()) {
    const DeviceIndex device = deviceOfKernelAddress(storage->data());
    if (device >= 0 ? device_ >= 0 && device_ != device
                    : writes_ || storage->nbytes() > kMostHostBytes) {
      return kNone;
    }
    device_ = std::max(device_, device);
  }
  tensors_.push_back(tensor);
  storageOf_.push_back(indexOfStorage(storage));
  return static_cast<int32_t>(tensors_.size() - 1);
}

uint32_t RemoteCall::indexOfStorage(StorageImpl* storage) {
  for (size_t i = 0; i < storages_.size(); ++i) {
    if (storages_[i].unsafeGetStorageImpl() == storage) {
      return static_cast<uint32_t>(i);
    }
  }
  storages_.push_back(Storage(
      c10::intrusive_ptr<StorageImpl>::unsafe_reclaim_from_nonowning(storage)));
  return static_cast<uint32_t>(storages_.size() - 1);
}

// docs:begin write-call
size_t RemoteCall::write(
    std::span<char> room,
    const DeviceProcess& process,
    const OutputPlan& plan) {
  const auto offsetOf = [&](const void* data) {
    return static_cast<uint64_t>(
        static_cast<const char*>(data) - process.memoryAt(0));
  };
  for (const auto& [pointer, bytes] : plan.planned) {
    planned_.push_back({offsetOf(pointer), bytes});
  }
  Writer writer(room);
  writer.put(MessageKind::Call);
  writer.putText(schema_.name());
  writer.putText(schema_.overload_name());
  writer.put<int32_t>(at::get_num_threads());
  writer.put(static_cast<uint32_t>(get_default_dtype_as_scalartype()));
  writer.put(currentSwitches());
  writer.put<uint64_t>(plan.hostBytes);
  putSlots(writer, planned_);
  writer.put<uint64_t>(storages_.size());
  for (const Storage& storage : storages_) {
    const auto* data = static_cast<const char*>(storage.data());
    WireStorage described;
    described.bytes = data ? storage.nbytes() : 0;
    if (data && deviceOfKernelAddress(data) < 0) {
      described.kind = StorageKind::Host;
      described.content = {data, storage.nbytes()};
    } else if (data) {
      described.offset = offsetOf(data);
    }
    putStorage(writer, described);
  }
  writer.put<uint64_t>(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    WireTensor described = describeTensor(*tensors_[i].unsafeGetTensorImpl());
    described.storage = storageOf_[i];
    putTensor(writer, described);
  }
  values_.write(writer);
  return writer.size();
}
// docs:end write-call

// --- and back ---------------------------------------------------------------------

bool RemoteCall::isPlanned(const WireStorage& storage) const {
  return std::any_of(
      planned_.begin(), planned_.end(), [&](const WireSlot& slot) {
        return slot.offset == storage.offset && slot.bytes == storage.bytes;
      });
}

Storage RemoteCall::makeStorage(
    const WireStorage& storage,
    DeviceProcess& process) const {
  auto* allocator = c10::GetCPUAllocator(); // the executor's
  DataPtr memory;
  if (storage.kind == StorageKind::Host) {
    memory = allocator->allocate(storage.bytes);
    std::copy(
        storage.content.begin(),
        storage.content.end(),
        static_cast<char*>(memory.get()));
  } else if (storage.bytes != 0) {
    memory = isPlanned(storage)
        ? DataPtr(process.memoryAt(storage.offset), Device(kCPU))
        : process.takeBack(storage.offset, storage.bytes);
    if (!memory) {
      failWire("no memory was lent at offset ", storage.offset);
    }
  } else {
    memory = allocator->allocate(0);
  }
  return Storage(c10::make_intrusive<StorageImpl>(
      StorageImpl::use_byte_size_t(),
      storage.bytes,
      std::move(memory),
      allocator,
      /*resizable=*/true));
}

void RemoteCall::applyChanges(
    const WireResult& result,
    DeviceProcess& process) {
  for (const auto& [place, now] : result.resizes) {
    Storage fresh = makeStorage(now, process);
    StorageImpl* resized = storages_[place].unsafeGetStorageImpl();
    resized->set_data_ptr_noswap(
        std::move(fresh.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks()));
    resized->set_nbytes(now.bytes);
  }
  for (const WireStorage& storage : result.storages) {
    storages_.push_back(makeStorage(storage, process));
  }
  for (const auto& [place, now] : result.changes) {
    TensorImpl* changed = tensors_[place].unsafeGetTensorImpl();
    if (dtypeOf(now) != typeMetaToScalarType(changed->dtype())) {
      throw WireError("a kernel changed the dtype of an argument");
    }
    if (now.storage != storageOf_[place]) {
      changed->set_storage_keep_dtype(storages_[now.storage]);
    }
    applyMetadata(*changed, now);
  }
}

void RemoteCall::finish(
    std::span<const char> message,
    DeviceProcess& process,
    torch::jit::Stack& stack) {
  std::vector<uint64_t> storageBytes;
  for (const Storage& storage : storages_) {
    storageBytes.push_back(storage.nbytes());
  }
  WireResult result;
  parseResult(
      message, process.memory().bytes, storageBytes, tensors_.size(), result);
  process.giveBack(result.freed);
  applyChanges(result, process);
  for (const WireTensor& tensor : result.tensors) {
    tensors_.push_back(makeTensor(tensor, storages_[tensor.storage]));
  }
  storages_.clear(); // a tensor of ours may be moved to the device in place
  ValueReader reader(result.values, tensors_);
  std::vector<IValue> results;
  for (const auto& returned : schema_.returns()) {
    results.push_back(reader.next(returned.real_type()));
  }
  for (const at::Generator& generator : generators_) {
    reader.nextState(generator);
  }
  tensors_.clear();
  torch::jit::drop(stack, schema_.arguments().size());
  std::move(results.begin(), results.end(), std::back_inserter(stack));
  for (const std::string_view warning : result.warnings) {
    TORCH_WARN(warning);
  }
}

} // namespace c10::openreg::remote
