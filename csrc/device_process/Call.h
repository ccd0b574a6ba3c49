// One operator call as the device process runs it.
#pragma once

#include "remote/Values.h"
#include "remote/Wire.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <string>
#include <vector>

namespace openreg::device {

namespace remote = c10::openreg::remote;

/// Makes the arguments of a message, runs the kernel, and describes what came of it.
class Call {
 public:
  /// Throws remote::WireError, or whatever an invalid value throws.
  Call(const c10::OperatorHandle& op, const remote::WireCall& call);

  void run();

  /// Whether the results can be sent: all tensors among them are strided.
  bool crosses();

  /// Moves results that lie in memory of this process to memory that is asked for.
  void moveResults();

  /// Writes the results and returns the length of the message. From then on the driver
  /// owns the memory of outputs.
  size_t writeResult(
      std::span<char> room,
      const std::vector<std::string>& warnings);

 private:
  void writeResizes(remote::Writer& writer);
  void writeNewStorages(remote::Writer& writer);
  void writeChanges(remote::Writer& writer);
  int32_t indexOf(const at::Tensor& tensor);
  uint32_t indexOfStorage(const c10::Storage& storage);
  remote::WireTensor describe(const at::Tensor& tensor);

  const c10::OperatorHandle& op_;
  const remote::WireCall& call_;
  torch::jit::Stack stack_;
  std::vector<c10::Storage> storages_;
  std::vector<const void*> addresses_; // of the call's storages, as they came
  std::vector<at::Tensor> tensors_;
  std::vector<at::Generator> generators_;
  remote::ValueList results_;
};

/// An answer of that kind.
size_t writeError(
    std::span<char> room,
    remote::ErrorKind kind,
    std::string_view text);

} // namespace openreg::device
