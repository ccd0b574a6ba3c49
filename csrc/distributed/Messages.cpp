// Messages between two ranks, barriers, and checks of ranks.
#include "distributed/ProcessGroupOCCL.h"
#include "distributed/TensorSpans.h"

#include <algorithm>

namespace c10::openreg::occl {

using c10d::OpType;
using WorkPtr = ProcessGroupOCCL::WorkPtr;

void ProcessGroupOCCL::checkRoot(const char* what, int64_t root) const {
  TORCH_CHECK_VALUE(
      root >= 0 && root < getSize(),
      what,
      " needs a rank in [0, ",
      getSize(),
      "), but got ",
      root);
}

void ProcessGroupOCCL::checkCount(
    const char* what,
    size_t count,
    size_t expected) const {
  TORCH_CHECK_VALUE(
      count == expected,
      what,
      " needs ",
      expected,
      " tensors on rank ",
      getRank(),
      ", but got ",
      count);
}

WorkPtr ProcessGroupOCCL::transfer(
    const char* what,
    Tensors& tensors,
    Transfer message) {
  checkCount(what, tensors.size(), 1);
  const at::Tensor& tensor = tensors[0];
  const c10::Device device = checkTensors(what, tensors);
  const bool receives = message.kind == Kind::Receive;
  TORCH_CHECK_VALUE(
      message.tag >= 0,
      what,
      " needs a tag that is not negative, but got ",
      message.tag);
  TORCH_CHECK_VALUE(
      message.peer != getRank(),
      what,
      ": rank ",
      getRank(),
      " cannot exchange messages with itself");
  message.dtype = static_cast<int>(tensor.scalar_type());
  message.memory = spanOf(tensor, receives);
  auto source = std::make_shared<int>(message.peer);
  message.source = source.get();
  constexpr int kTags = 16; // streams per peer and direction, at most
  Job job{
      receives ? OpType::RECV : OpType::SEND,
      receives ? "occl:recv" : "occl:send",
      device,
      {std::vector<Transfer>{message}},
      receives ? Tensors{} : tensors,
      receives ? tensors : Tensors{}};
  job.sources = {std::move(source)};
  job.lane = Group::Lane{
      device.index(),
      message.peer < 0 ? getSize() : message.peer,
      receives,
      message.tag % kTags};
  return start(std::move(job));
}

WorkPtr ProcessGroupOCCL::send(Tensors& tensors, int peer, int tag) {
  checkRoot("send", peer);
  return transfer("send", tensors, {Kind::Send, peer, tag});
}

WorkPtr ProcessGroupOCCL::recv(Tensors& tensors, int peer, int tag) {
  checkRoot("recv", peer);
  return transfer("recv", tensors, {Kind::Receive, peer, tag});
}

WorkPtr ProcessGroupOCCL::recvAnysource(Tensors& tensors, int tag) {
  return transfer("recv", tensors, {Kind::Receive, -1, tag});
}

c10::Device ProcessGroupOCCL::deviceFor(
    const c10d::BarrierOptions& options) const {
  if (options.device && options.device->has_index() &&
      isOpenReg(*options.device)) {
    return *options.device;
  }
  if (!options.device_ids.empty()) {
    return {
        c10::openreg::kDeviceType,
        static_cast<DeviceIndex>(options.device_ids[0])};
  }
  return getBoundDeviceId().value_or(
      c10::Device(c10::openreg::kDeviceType, current_device()));
}

WorkPtr ProcessGroupOCCL::barrier(const c10d::BarrierOptions& options) {
  Collective call;
  call.kind = Kind::Barrier;
  Job job{
      OpType::BARRIER,
      "occl:barrier",
      deviceFor(options),
      {std::move(call)},
      {},
      {},
      options.timeout};
  job.hostWaits = true;
  job.runsHere = !options.asyncOp;
  return start(std::move(job));
}

// Uses the store alone, so that a missing rank breaks nothing.
void ProcessGroupOCCL::monitoredBarrier(
    const c10d::BarrierOptions& options,
    bool waitAllRanks) {
  const auto timeout = options.timeout == c10d::kUnsetTimeout
      ? options_->timeout
      : options.timeout;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const std::string round = "monitored/" + std::to_string(monitored_++) + "/";
  const auto keyOf = [&](int rank) { return round + std::to_string(rank); };
  const auto come = [&](int rank) {
    store_->set(keyOf(rank), std::vector<uint8_t>{1});
  };
  std::string missing;
  const auto await = [&](int rank) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    try {
      store_->wait({keyOf(rank)}, std::max(left, std::chrono::milliseconds(1)));
    } catch (const std::exception&) {
      if (!store_->check({keyOf(rank)})) {
        missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
      }
    }
  };
  if (getRank() == 0) {
    for (int rank = 1; rank < getSize() && (missing.empty() || waitAllRanks);
         ++rank) {
      await(rank);
    }
  } else {
    come(getRank());
    await(0); // comes after all others
  }
  TORCH_CHECK_WITH(
      DistBackendError,
      missing.empty(),
      "monitored_barrier of group '",
      group_->name(),
      "': no word from rank ",
      missing,
      " within ",
      timeout.count(),
      " ms");
  if (getRank() == 0) {
    come(0);
  }
}

} // namespace c10::openreg::occl
