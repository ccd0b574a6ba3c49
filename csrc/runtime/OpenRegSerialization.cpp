#include "runtime/OpenRegSerialization.h"

#include "runtime/OpenRegDeviceType.h"

#include <torch/csrc/jit/serialization/pickler_helper.h>

namespace c10::openreg {
namespace {

// PyTorch's own entries of the saved map ("conj", "neg") have no prefix.
const std::string kPrefix = "openreg.";

/// The entries that PyTorch saves: our flags, with the prefix, and whatever else
/// torch._utils.set_tensor_metadata() was given.
struct SavedEntries final : BackendMeta {
  TensorFlags all;

  // A copy of the tensor's metadata gets entries of its own.
  intrusive_ptr<BackendMeta> clone(
      const intrusive_ptr<BackendMeta>& /*self*/) const override {
    auto copy = make_intrusive<SavedEntries>();
    copy->all = all;
    return copy;
  }
};

SavedEntries* entriesOf(const at::Tensor& tensor) {
  TORCH_CHECK(
      tensor.device().type() == kDeviceType,
      "expected a tensor of an openreg device, but got one of ",
      tensor.device());
  return static_cast<SavedEntries*>(
      tensor.unsafeGetTensorImpl()->get_backend_meta_intrusive_ptr().get());
}

TensorFlags& makeEntries(const at::Tensor& tensor) {
  if (SavedEntries* entries = entriesOf(tensor)) {
    return entries->all;
  }
  auto made = make_intrusive<SavedEntries>();
  TensorFlags& all = made->all;
  tensor.unsafeGetTensorImpl()->set_backend_meta(std::move(made));
  return all;
}

// docs:begin backend-meta
void saveEntries(const at::Tensor& tensor, TensorFlags& saved) {
  if (const SavedEntries* entries = entriesOf(tensor)) {
    saved.insert(entries->all.begin(), entries->all.end());
  }
}

void loadEntries(const at::Tensor& tensor, TensorFlags& saved) {
  for (const auto& [name, value] : saved) {
    makeEntries(tensor)[name] = value;
  }
}

struct RegisterSerialization {
  RegisterSerialization() {
    // PyTorch refuses functions for CUDA.
    if (kDeviceType == DeviceType::PrivateUse1) {
      torch::jit::TensorBackendMetaRegistry(
          kDeviceType, &saveEntries, &loadEntries);
    }
  }
} registerSerialization;
// docs:end backend-meta

} // namespace

TensorFlags getTensorFlags(const at::Tensor& tensor) {
  TensorFlags flags;
  if (const SavedEntries* entries = entriesOf(tensor)) {
    for (const auto& [name, value] : entries->all) {
      if (name.starts_with(kPrefix)) {
        flags[name.substr(kPrefix.size())] = value;
      }
    }
  }
  return flags;
}

void setTensorFlag(
    const at::Tensor& tensor,
    const std::string& name,
    bool value) {
  makeEntries(tensor)[kPrefix + name] = value;
}

} // namespace c10::openreg
