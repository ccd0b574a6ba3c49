// One operator call as the driver makes it: into a message, and back.
#pragma once

#include "remote/DeviceProcess.h"
#include "remote/Values.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <vector>

namespace c10::openreg::remote {

/// What decides where a kernel's allocations go: see OutputScope.
struct OutputPlan {
  size_t hostBytes = SIZE_MAX;
  std::vector<std::pair<void*, size_t>> planned; // at kernel addresses
};

/// Arguments and results are those of a CPU kernel: CPU tensors whose storages lie
/// at kernel addresses of one device, or in host memory.
class RemoteCall {
 public:
  /// Looks at the arguments on the stack, which must stay there. `written` has a bit for
  /// each argument that the kernel writes to.
  RemoteCall(
      const c10::FunctionSchema& schema,
      uint64_t written,
      const torch::jit::Stack& stack);

  /// Whether a message can express the whole call.
  bool crosses() const {
    return crosses_;
  }

  /// The device whose memory the tensors lie in; -1 if none has any.
  DeviceIndex device() const {
    return device_;
  }

  /// Writes the message and returns its length. Throws WireError if it is too long.
  size_t write(
      std::span<char> room,
      const DeviceProcess& process,
      const OutputPlan& plan);

  /// Applies to the arguments what the kernel did to them, and puts its results in
  /// their place on the stack. Throws WireError if the message is not an answer.
  void finish(
      std::span<const char> message,
      DeviceProcess& process,
      torch::jit::Stack& stack);

 private:
  int32_t indexOf(const at::Tensor& tensor);
  uint32_t indexOfStorage(StorageImpl* storage);
  bool isPlanned(const WireStorage& storage) const;
  Storage makeStorage(const WireStorage& storage, DeviceProcess& process) const;
  void applyChanges(const WireResult& result, DeviceProcess& process);

  const c10::FunctionSchema& schema_;
  bool crosses_ = true;
  bool writes_ = false; // the argument that is being looked at
  DeviceIndex device_ = -1;
  std::vector<at::Tensor> tensors_;
  std::vector<uint32_t> storageOf_; // each tensor
  std::vector<Storage> storages_;
  std::vector<WireSlot> planned_; // memory of outputs
  std::vector<at::Generator> generators_;
  ValueList values_;
};

} // namespace c10::openreg::remote
