#include "executor/HandKernel.h"

namespace at::native::openreg {

size_t TensorUse::bytes() const {
  size_t bytes = 0;
  for (const auto& list : {reads, writes}) {
    for (const Tensor* tensor : list) {
      bytes += tensor->nbytes();
    }
  }
  return bytes;
}

void TensorUse::list(std::vector<MemoryAccess>& accesses) const {
  for (const Tensor* tensor : reads) {
    accesses.push_back(accessTo(*tensor, false));
  }
  for (const Tensor* tensor : writes) {
    accesses.push_back(accessTo(*tensor, true));
  }
}

TensorAliases::TensorAliases(
    const TensorUse& tensors,
    const OpenRegStream& stream)
    : frame_(stream) {
  for (const auto& list : {tensors.reads, tensors.writes}) {
    for (const Tensor* tensor : list) {
      aliases_.push_back(frame_.aliasForLater(*tensor));
    }
  }
}

} // namespace at::native::openreg
