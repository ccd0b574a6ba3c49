#include "aten/native/RecurrentMemory.h"

#include "executor/LibraryWorkspaces.h"
#include "executor/RecurrentWorkspace.h"
#include "runtime/OpenRegDeviceAllocator.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <unordered_set>

namespace at::native::openreg {
namespace {

using c10::openreg::currentStreamOf;
using c10::openreg::PoolStats;

size_t bytesOf(TensorList tensors) {
  size_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    bytes += tensor.defined() ? tensor.nbytes() : 0;
  }
  return bytes;
}

/// Of a dtype.
size_t bytesAs(ScalarType dtype, TensorList tensors) {
  size_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    const auto count = static_cast<size_t>(tensor.numel());
    bytes += count * c10::elementSize(dtype);
  }
  return bytes;
}

size_t allocatedOn(c10::DeviceIndex device) {
  auto& pool = c10::openreg::getOpenRegDeviceAllocator().pool(device);
  return static_cast<size_t>(
      pool.stats().allocatedBytes[PoolStats::All].current);
}

const c10::StorageImpl* storageOf(const Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

Tensor keep(const Tensor& like, size_t bytes) {
  return at::empty({static_cast<int64_t>(bytes)}, like.options().dtype(kByte));
}

/// Passes a tensor on. Keeps memory, the tensor and the input that it was made of until
/// the gradient arrives, and then takes more memory.
struct KeptMemory : torch::autograd::Function<KeptMemory> {
  static Tensor forward(
      torch::autograd::AutogradContext* context,
      const Tensor& output,
      const Tensor& input,
      int64_t kept,
      int64_t workspace) {
    // Even what is empty: a checkpoint counts what is saved.
    context->save_for_backward(
        {keep(output, static_cast<size_t>(kept)), input, output.detach()});
    context->saved_data["workspace"] = workspace;
    return output;
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      const torch::autograd::variable_list& gradients) {
    const int64_t bytes = context->saved_data["workspace"].toInt();
    if (gradients[0].defined()) {
      borrowWorkspace(
          currentStreamOf(gradients[0].device()), static_cast<size_t>(bytes));
    }
    return {gradients[0], Tensor(), Tensor(), Tensor()};
  }
};

/// Keeps what a node saved in the host's memory until it is wanted.
class KeptByHost final : public torch::autograd::SavedVariableHooks {
 public:
  void call_pack_hook(const Tensor& tensor) override {
    device_ = tensor.device();
    kept_ = at::empty(
        tensor.sizes(), tensor.options().device(kCPU).pinned_memory(true));
    kept_.copy_(tensor, /*non_blocking=*/true);
  }
  Tensor call_unpack_hook() override {
    return kept_.to(device_, kept_.scalar_type(), /*non_blocking=*/true);
  }

 private:
  Tensor kept_;
  Device device_ = kCPU;
};

RecurrentShape::Kind kindOf(RecurrentKind kind) {
  switch (kind) {
    case RecurrentKind::Lstm:
      return RecurrentShape::Lstm;
    case RecurrentKind::Gru:
      return RecurrentShape::Gru;
    default:
      return RecurrentShape::Plain;
  }
}

// Wrapped tensors, as those of tracing and torch.func, have no memory to count.
bool isPlain(const Tensor& tensor) {
  constexpr c10::DispatchKeySet kWrappers(
      {c10::DispatchKey::Python,
       c10::DispatchKey::Functionalize,
       c10::DispatchKey::FuncTorchBatched,
       c10::DispatchKey::FuncTorchGradWrapper});
  return !tensor.key_set().has_any(kWrappers) &&
      c10::openreg::isOpenReg(tensor.device());
}

bool isComputedByCudnn(const Tensor& input, ScalarType dtype) {
  return posesAsNvidia() && isPlain(input) &&
      at::globalContext().userEnabledCuDNN() &&
      (dtype == kFloat || dtype == kHalf || dtype == kBFloat16);
}

} // namespace

RecurrentMemory::RecurrentMemory(
    const RecurrentNet& net,
    const Tensor& input,
    const Tensor& batch_sizes,
    TensorList hx,
    TensorList params) {
  const ScalarType dtype = computedDtype(input);
  if (C10_LIKELY(!isComputedByCudnn(input, dtype)) || hx.empty() ||
      params.empty() || input.dim() < 2 || hx[0].dim() != 3 ||
      net.num_layers < 1) {
    return;
  }
  const auto number = [](int64_t size) { return static_cast<size_t>(size); };
  const size_t batch = number(hx[0].size(1));
  const size_t rows =
      number(input.numel() / std::max<int64_t>(input.size(-1), 1));
  const int64_t hidden = hx.back().size(2);
  // Autocast makes one copy of the weights. Those of another dtype PyTorch lays out for
  // cuDNN at each call.
  const bool castsWeights = params[0].scalar_type() != dtype;
  const bool copiesWeights = !castsWeights && dtype == kBFloat16;
  const RecurrentShape shape{
      kindOf(net.kind),
      dtype,
      number(net.num_layers),
      net.bidirectional ? 2U : 1U,
      batch_sizes.defined() ? number(batch_sizes.numel())
                            : rows / std::max<size_t>(batch, 1),
      batch,
      number(input.size(-1)),
      number(hidden),
      hx[0].size(2) == hidden ? 0 : number(hx[0].size(2)),
      net.dropout != 0 && net.train,
      bytesAs(dtype, params),
      copiesWeights};
  const bool castsInput = input.scalar_type() != dtype;
  const size_t inputs = bytesAs(dtype, {input});
  need_ = Need{
      shape.reserve() +
          (castsWeights || copiesWeights ? shape.weightBytes : 0) +
          (castsInput ? inputs : 0),
      shape.workspace(),
      shape.weightBytes + inputs + bytesAs(dtype, hx)};
  input_ = castsInput ? keep(input, 0) : input.detach();
  before_ = allocatedOn(input.device().index());
  // cuDNN allocates its workspace, then the block that it keeps. So do we, before the
  // operators here do, so that the pool gets the same segments.
  const auto stream = currentStreamOf(input.device());
  const BorrowedWorkspace workspace(stream, need_->workspace);
  borrowWorkspace(stream, need_->kept);
}

// oneDNN saves three times what cuDNN does, and a copy of an input in another layout.
void RecurrentMemory::moveOneDnnsToHost(
    const Tensor& input,
    const Tensor& output,
    int64_t layers) const {
  if (C10_LIKELY(!need_) || !output.grad_fn()) {
    return;
  }
  using Layer = torch::autograd::generated::MkldnnRnnLayerBackward0;
  using torch::autograd::Node;
  std::vector<Node*> next{output.grad_fn().get()};
  std::unordered_set<Node*> seen(next.begin(), next.end());
  std::unordered_set<const c10::StorageImpl*> programs{storageOf(input)};
  std::vector<Layer*> found;
  for (size_t place = 0; place < next.size() && layers > 0; ++place) {
    if (auto* layer = dynamic_cast<Layer*>(next[place])) {
      --layers;
      if (!layer->result3_.has_hooks()) { // those of a program come first
        found.push_back(layer);
        programs.insert(storageOf(layer->result0_.unpack(layer->getptr())));
      }
    }
    for (const auto& edge : next[place]->next_edges()) {
      if (edge.function && seen.insert(edge.function.get()).second) {
        next.push_back(edge.function.get());
      }
    }
  }
  for (Layer* layer : found) {
    layer->result3_.register_hooks(std::make_unique<KeptByHost>());
    if (!programs.contains(storageOf(layer->input_.unpack()))) {
      layer->input_.register_hooks(std::make_unique<KeptByHost>());
    }
  }
}

Tensor RecurrentMemory::finish(const Tensor& output, TensorList results) const {
  if (C10_LIKELY(!need_)) {
    return output;
  }
  const auto device = output.device();
  const size_t now = allocatedOn(device.index());
  const size_t own = before_ + bytesOf(results);
  const size_t keptHere = now > own ? now - own : 0;
  const size_t missing = need_->kept > keptHere ? need_->kept - keptHere : 0;
  const auto stream = currentStreamOf(device);
  const BorrowedWorkspace workspace(stream, need_->workspace);
  if (!output.requires_grad() || !GradMode::is_enabled()) {
    borrowWorkspace(stream, missing);
    return output;
  }
  return KeptMemory::apply(
      output,
      input_,
      static_cast<int64_t>(missing),
      static_cast<int64_t>(need_->workspace + need_->gradients));
}

} // namespace at::native::openreg
