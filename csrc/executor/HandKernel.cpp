#include "executor/HandKernel.h"

namespace at::native::openreg {

size_t TensorUse::bytes() const {
  size_t bytes = 0;
  for (const auto& list : {reads, writes}) {
    for (const Tensor* tensor : list) {
      checkMemory(*tensor);
      bytes += tensor->defined() ? tensor->nbytes() : 0;
    }
  }
  return bytes;
}

void TensorUse::list(std::vector<MemoryAccess>& accesses) const {
  for (const auto& [list, writesTo] :
       {std::pair(reads, false), std::pair(writes, true)}) {
    for (const Tensor* tensor : list) {
      if (tensor->defined()) {
        listAccess(*tensor, writesTo, accesses);
      }
    }
  }
}

TensorAliases::TensorAliases(
    const TensorUse& tensors,
    const OpenRegStream& stream)
    : frame_(stream) {
  for (const auto& list : {tensors.reads, tensors.writes}) {
    for (const Tensor* tensor : list) {
      aliases_.push_back(
          tensor->defined() ? frame_.aliasForLater(*tensor) : Tensor());
    }
  }
}

} // namespace at::native::openreg
