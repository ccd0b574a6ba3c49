#include "runtime/OpenRegSerialization.h"

#include <torch/csrc/jit/serialization/pickler_helper.h>

namespace c10::openreg {
namespace {

// PyTorch's own entries of the saved map ("conj", "neg") have no prefix.
const std::string kPrefix = "openreg.";

struct FlagsMeta final : BackendMeta {
  TensorFlags flags;

  // A copy of the tensor's metadata gets flags of its own.
  intrusive_ptr<BackendMeta> clone(
      const intrusive_ptr<BackendMeta>& /*self*/) const override {
    auto copy = make_intrusive<FlagsMeta>();
    copy->flags = flags;
    return copy;
  }
};

FlagsMeta* metaOf(const at::Tensor& tensor) {
  TORCH_CHECK(
      tensor.device().type() == DeviceType::PrivateUse1,
      "expected a tensor of an openreg device, but got one of ",
      tensor.device());
  return static_cast<FlagsMeta*>(
      tensor.unsafeGetTensorImpl()->get_backend_meta_intrusive_ptr().get());
}

// docs:begin backend-meta
void saveFlags(const at::Tensor& tensor, TensorFlags& saved) {
  for (const auto& [name, value] : getTensorFlags(tensor)) {
    saved[kPrefix + name] = value;
  }
}

void loadFlags(const at::Tensor& tensor, TensorFlags& saved) {
  for (const auto& [name, value] : saved) {
    if (name.starts_with(kPrefix)) {
      setTensorFlag(tensor, name.substr(kPrefix.size()), value);
    }
  }
}

struct RegisterSerialization {
  RegisterSerialization() {
    torch::jit::TensorBackendMetaRegistry(
        DeviceType::PrivateUse1, &saveFlags, &loadFlags);
  }
} registerSerialization;
// docs:end backend-meta

} // namespace

TensorFlags getTensorFlags(const at::Tensor& tensor) {
  const FlagsMeta* meta = metaOf(tensor);
  return meta ? meta->flags : TensorFlags();
}

void setTensorFlag(const at::Tensor& tensor, std::string name, bool value) {
  FlagsMeta* meta = metaOf(tensor);
  if (!meta) {
    auto made = make_intrusive<FlagsMeta>();
    meta = made.get();
    tensor.unsafeGetTensorImpl()->set_backend_meta(std::move(made));
  }
  meta->flags[std::move(name)] = value;
}

} // namespace c10::openreg
