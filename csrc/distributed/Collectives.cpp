// The calls of c10d, as collectives over memory.
#include "distributed/ProcessGroupOCCL.h"
#include "distributed/TensorSpans.h"

namespace c10::openreg::occl {

using c10d::OpType;
using WorkPtr = ProcessGroupOCCL::WorkPtr;

namespace {

std::vector<Span> spansOf(const std::vector<at::Tensor>& tensors, bool writes) {
  std::vector<Span> spans;
  spans.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    spans.push_back(spanOf(tensor, writes));
  }
  return spans;
}

// c10d passes lists of one tensor, from times when a process had many devices.
at::Tensor& single(const char* what, std::vector<at::Tensor>& tensors) {
  TORCH_CHECK_VALUE(
      tensors.size() == 1,
      what,
      " needs one tensor per rank, but got ",
      tensors.size());
  return tensors[0];
}

c10::Device checkAll(
    const char* what,
    const std::vector<at::Tensor>& first,
    const std::vector<at::Tensor>& second) {
  std::vector<at::Tensor> all = first;
  all.insert(all.end(), second.begin(), second.end());
  const c10::Device device = checkTensors(what, all);
  for (const at::Tensor& tensor : all) {
    checkContiguous(what, tensor);
  }
  return device;
}

} // namespace

// --- one tensor per rank ----------------------------------------------------------

WorkPtr ProcessGroupOCCL::broadcast(
    Tensors& tensors,
    const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = single("broadcast", tensors);
  const c10::Device device = checkTensors("broadcast", tensors);
  checkRoot("broadcast", options.rootRank);
  const bool isRoot = options.rootRank == getRank();
  Collective call = moving(Kind::Broadcast, tensor.scalar_type());
  call.root = static_cast<int>(options.rootRank);
  call.outputs = {spanOf(tensor, !isRoot)};
  if (isRoot) {
    call.inputs = call.outputs;
  }
  return start(
      {OpType::BROADCAST,
       "occl:broadcast",
       device,
       {std::move(call)},
       tensors,
       tensors,
       options.timeout});
}

WorkPtr ProcessGroupOCCL::allreduce(
    Tensors& tensors,
    const c10d::AllreduceOptions& options) {
  single("all_reduce", tensors);
  c10d::AllreduceCoalescedOptions all;
  static_cast<c10d::AllreduceOptions&>(all) = options;
  return allreduce_coalesced(tensors, all);
}

WorkPtr ProcessGroupOCCL::allreduce_sparse(
    Tensors& /*tensors*/,
    const c10d::AllreduceOptions& /*options*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      "occl does not reduce sparse tensors; make them dense first, with "
      "to_dense(), or use a group with the backend 'gloo' and CPU tensors");
}

WorkPtr ProcessGroupOCCL::allreduce_coalesced(
    Tensors& tensors,
    const c10d::AllreduceCoalescedOptions& options) {
  const c10::Device device = checkTensors("all_reduce", tensors);
  Job job{
      tensors.size() == 1 ? OpType::ALLREDUCE : OpType::ALLREDUCE_COALESCED,
      "occl:all_reduce",
      device,
      {},
      tensors,
      tensors,
      options.timeout};
  for (const at::Tensor& tensor : tensors) {
    Collective call =
        reducing(Kind::AllReduce, tensor.scalar_type(), options.reduceOp);
    call.outputs = {spanOf(tensor, true)};
    call.inputs = call.outputs;
    job.steps.emplace_back(std::move(call));
  }
  return start(std::move(job));
}

WorkPtr ProcessGroupOCCL::reduce(
    Tensors& tensors,
    const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = single("reduce", tensors);
  const c10::Device device = checkTensors("reduce", tensors);
  checkRoot("reduce", options.rootRank);
  const bool isRoot = options.rootRank == getRank();
  Collective call =
      reducing(Kind::Reduce, tensor.scalar_type(), options.reduceOp);
  call.root = static_cast<int>(options.rootRank);
  call.inputs = {spanOf(tensor, isRoot)};
  if (isRoot) {
    call.outputs = call.inputs;
  }
  return start(
      {OpType::REDUCE,
       "occl:reduce",
       device,
       {std::move(call)},
       tensors,
       tensors,
       options.timeout});
}

// --- a tensor for each rank -------------------------------------------------------

WorkPtr ProcessGroupOCCL::allgather(
    TensorLists& outputs,
    Tensors& inputs,
    const c10d::AllgatherOptions& options) {
  single("all_gather", inputs);
  TORCH_CHECK_VALUE(
      outputs.size() == 1, "all_gather needs one list of tensors");
  return allgather_coalesced(outputs, inputs, options);
}

WorkPtr ProcessGroupOCCL::allgather_coalesced(
    TensorLists& outputs,
    Tensors& inputs,
    const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(
      outputs.size() == inputs.size() && !inputs.empty(),
      "all_gather needs a list of outputs for each input");
  Job job{
      OpType::ALLGATHER,
      "occl:all_gather",
      inputs[0].device(),
      {},
      inputs,
      {},
      options.timeout};
  for (size_t i = 0; i < inputs.size(); ++i) {
    checkAll("all_gather", {inputs[i]}, outputs[i]);
    checkCount("all_gather", outputs[i].size(), static_cast<size_t>(getSize()));
    Collective call = moving(Kind::AllGather, inputs[i].scalar_type());
    call.inputs = {spanOf(inputs[i], false)};
    call.outputs = spansOf(outputs[i], true);
    job.outputs.insert(job.outputs.end(), outputs[i].begin(), outputs[i].end());
    job.steps.emplace_back(std::move(call));
  }
  return start(std::move(job));
}

WorkPtr ProcessGroupOCCL::_allgather_base(
    at::Tensor& output,
    at::Tensor& input,
    const c10d::AllgatherOptions& options) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPtr ProcessGroupOCCL::allgather_into_tensor_coalesced(
    Tensors& outputs,
    Tensors& inputs,
    const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(
      outputs.size() == inputs.size() && !inputs.empty(),
      "all_gather_into_tensor needs an output for each input");
  Job job{
      OpType::_ALLGATHER_BASE,
      "occl:all_gather",
      inputs[0].device(),
      {},
      inputs,
      outputs,
      options.timeout};
  for (size_t i = 0; i < inputs.size(); ++i) {
    checkAll("all_gather_into_tensor", {inputs[i]}, {outputs[i]});
    TORCH_CHECK_VALUE(
        outputs[i].numel() == inputs[i].numel() * getSize(),
        "all_gather_into_tensor: output tensor size must be equal to "
        "world_size times input tensor size: ",
        getSize(),
        " times ",
        inputs[i].numel(),
        " is not ",
        outputs[i].numel());
    Collective call = moving(Kind::AllGather, inputs[i].scalar_type());
    call.inputs = {spanOf(inputs[i], false)};
    call.outputs =
        partsOf("all_gather_into_tensor", outputs[i], getSize(), {}, true);
    job.steps.emplace_back(std::move(call));
  }
  return start(std::move(job));
}

WorkPtr ProcessGroupOCCL::gather(
    TensorLists& outputs,
    Tensors& inputs,
    const c10d::GatherOptions& options) {
  const at::Tensor& input = single("gather", inputs);
  checkRoot("gather", options.rootRank);
  const bool isRoot = options.rootRank == getRank();
  const Tensors all = isRoot && !outputs.empty() ? outputs[0] : Tensors{};
  checkCount("gather", all.size(), isRoot ? static_cast<size_t>(getSize()) : 0);
  const c10::Device device = checkAll("gather", inputs, all);
  Collective call = moving(Kind::Gather, input.scalar_type());
  call.root = static_cast<int>(options.rootRank);
  call.inputs = {spanOf(input, false)};
  call.outputs = spansOf(all, true);
  return start(
      {OpType::GATHER,
       "occl:gather",
       device,
       {std::move(call)},
       inputs,
       all,
       options.timeout});
}

WorkPtr ProcessGroupOCCL::scatter(
    Tensors& outputs,
    TensorLists& inputs,
    const c10d::ScatterOptions& options) {
  const at::Tensor& output = single("scatter", outputs);
  checkRoot("scatter", options.rootRank);
  const bool isRoot = options.rootRank == getRank();
  const Tensors all = isRoot && !inputs.empty() ? inputs[0] : Tensors{};
  checkCount(
      "scatter", all.size(), isRoot ? static_cast<size_t>(getSize()) : 0);
  const c10::Device device = checkAll("scatter", outputs, all);
  Collective call = moving(Kind::Scatter, output.scalar_type());
  call.root = static_cast<int>(options.rootRank);
  call.inputs = spansOf(all, false);
  call.outputs = {spanOf(output, true)};
  return start(
      {OpType::SCATTER,
       "occl:scatter",
       device,
       {std::move(call)},
       all,
       outputs,
       options.timeout});
}

WorkPtr ProcessGroupOCCL::reduce_scatter(
    Tensors& outputs,
    TensorLists& inputs,
    const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = single("reduce_scatter", outputs);
  TORCH_CHECK_VALUE(
      inputs.size() == 1, "reduce_scatter needs one list of tensors");
  checkCount(
      "reduce_scatter", inputs[0].size(), static_cast<size_t>(getSize()));
  const c10::Device device = checkAll("reduce_scatter", outputs, inputs[0]);
  Collective call =
      reducing(Kind::ReduceScatter, output.scalar_type(), options.reduceOp);
  call.inputs = spansOf(inputs[0], false);
  call.outputs = {spanOf(output, true)};
  return start(
      {OpType::REDUCE_SCATTER,
       "occl:reduce_scatter",
       device,
       {std::move(call)},
       inputs[0],
       outputs,
       options.timeout});
}

WorkPtr ProcessGroupOCCL::_reduce_scatter_base(
    at::Tensor& output,
    at::Tensor& input,
    const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkPtr ProcessGroupOCCL::reduce_scatter_tensor_coalesced(
    Tensors& outputs,
    Tensors& inputs,
    const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(
      outputs.size() == inputs.size() && !inputs.empty(),
      "reduce_scatter_tensor needs an output for each input");
  Job job{
      OpType::_REDUCE_SCATTER_BASE,
      "occl:reduce_scatter",
      inputs[0].device(),
      {},
      inputs,
      outputs,
      options.timeout};
  for (size_t i = 0; i < inputs.size(); ++i) {
    checkAll("reduce_scatter_tensor", {inputs[i]}, {outputs[i]});
    TORCH_CHECK_VALUE(
        inputs[i].numel() == outputs[i].numel() * getSize(),
        "reduce_scatter_tensor: input tensor must be the same size as output "
        "size times world size: ",
        outputs[i].numel(),
        " times ",
        getSize(),
        " is not ",
        inputs[i].numel());
    Collective call = reducing(
        Kind::ReduceScatter, inputs[i].scalar_type(), options.reduceOp);
    call.inputs =
        partsOf("reduce_scatter_tensor", inputs[i], getSize(), {}, false);
    call.outputs = {spanOf(outputs[i], true)};
    job.steps.emplace_back(std::move(call));
  }
  return start(std::move(job));
}

WorkPtr ProcessGroupOCCL::alltoall_base(
    at::Tensor& output,
    at::Tensor& input,
    std::vector<int64_t>& outputSizes,
    std::vector<int64_t>& inputSizes,
    const c10d::AllToAllOptions& options) {
  const c10::Device device = checkAll("all_to_all_single", {input}, {output});
  Collective call = moving(Kind::AllToAll, input.scalar_type());
  call.inputs =
      partsOf("all_to_all_single", input, getSize(), inputSizes, false);
  call.outputs =
      partsOf("all_to_all_single", output, getSize(), outputSizes, true);
  return start(
      {OpType::ALLTOALL_BASE,
       "occl:all_to_all",
       device,
       {std::move(call)},
       {input},
       {output},
       options.timeout});
}

WorkPtr ProcessGroupOCCL::alltoall(
    Tensors& outputs,
    Tensors& inputs,
    const c10d::AllToAllOptions& options) {
  const c10::Device device = checkAll("all_to_all", inputs, outputs);
  checkCount("all_to_all", inputs.size(), static_cast<size_t>(getSize()));
  checkCount("all_to_all", outputs.size(), static_cast<size_t>(getSize()));
  Collective call = moving(Kind::AllToAll, inputs[0].scalar_type());
  call.inputs = spansOf(inputs, false);
  call.outputs = spansOf(outputs, true);
  return start(
      {OpType::ALLTOALL,
       "occl:all_to_all",
       device,
       {std::move(call)},
       inputs,
       outputs,
       options.timeout});
}

} // namespace c10::openreg::occl
