#include "distributed/FlightRecorder.h"

#include <c10/util/ApproximateClock.h>
#include <c10/util/env.h>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

#include <algorithm>

namespace c10::openreg::occl {
namespace {

using c10d::new_dict;
using c10d::new_list;

// torchfrtrace accepts only the libraries of a fixed list.
constexpr const char* kLibrary = "nccl:";

c10::IValue framesOf(torch::CapturedTraceback* stack) {
  auto frames = new_list();
  if (!stack) {
    return frames;
  }
  const auto known = torch::symbolize({stack});
  for (const uint64_t index : known.tracebacks.at(0)) {
    const auto& frame = known.all_frames.at(index);
    auto told = new_dict();
    told.insert(c10d::name_key, frame.funcname);
    told.insert(c10d::filename_key, frame.filename);
    told.insert(c10d::line_key, static_cast<int64_t>(frame.lineno));
    frames.push_back(told);
  }
  return frames;
}

} // namespace

FlightRecorder& FlightRecorder::get() {
  // Never destroyed: stacks refer to Python, which ends earlier.
  static auto* recorder = new FlightRecorder;
  return *recorder;
}

FlightRecorder::FlightRecorder()
    : most_(static_cast<size_t>(std::max(
          0,
          c10d::getCvarInt(
              {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"},
              2000)))),
      keepsStacks_(c10::utils::get_env("TORCH_FR_BUFFER_SIZE").has_value()) {}

FlightRecorder::Notes FlightRecorder::noteOf(
    const std::vector<at::Tensor>& tensors) {
  Notes notes;
  for (const at::Tensor& tensor : tensors) {
    const auto sizes = tensor.sizes();
    notes.push_back({tensor.scalar_type(), {sizes.begin(), sizes.end()}});
  }
  return notes;
}

c10::IValue FlightRecorder::sizesOf(const Notes& notes) {
  auto all = new_list();
  for (const TensorNote& note : notes) {
    auto sizes = new_list();
    for (const int64_t size : note.sizes) {
      sizes.push_back(size);
    }
    all.push_back(sizes);
  }
  return all;
}

c10::IValue FlightRecorder::typesOf(const Notes& notes) {
  std::vector<std::string> all;
  for (const TensorNote& note : notes) {
    all.emplace_back(c10::toString(note.dtype));
  }
  return all;
}

void FlightRecorder::record(
    Call call,
    const std::vector<at::Tensor>& inputs,
    const std::vector<at::Tensor>& outputs) {
  Entry entry{
      std::move(call),
      0,
      c10::getTime(),
      std::this_thread::get_id(),
      noteOf(inputs),
      noteOf(outputs),
      keepsStacks_ ? torch::CapturedTraceback::gather(
                         /*python=*/true, /*script=*/false, /*cpp=*/false)
                   : nullptr};
  const std::lock_guard lock(mutex_);
  entry.number = count_++;
  if (entries_.size() < most_) {
    entries_.push_back(std::move(entry));
  } else {
    std::swap(entries_[entry.number % most_], entry); // goes without the lock
  }
}

c10::IValue FlightRecorder::describe(const Entry& entry) {
  const Call& call = entry.call;
  const bool isMessage = !call.message.empty();
  const auto progress = call.outcome->progress();
  const auto sequence = static_cast<int64_t>(call.sequence);
  const auto timeOr = [](const std::optional<int64_t>& time) {
    return time ? c10::IValue(*time) : c10::IValue();
  };
  auto told = new_dict();
  told.insert(c10d::record_id_key, static_cast<int64_t>(entry.number));
  told.insert(c10d::pg_id_key, 0);
  told.insert(
      c10d::pg_name_key,
      std::make_tuple(call.group->name, call.group->description));
  told.insert(c10d::thread_id_key, c10::str(entry.thread));
  told.insert(c10d::thread_name_key, "");
  told.insert(c10d::collective_seq_id_key, isMessage ? 0 : sequence);
  told.insert(c10d::p2p_seq_id_key, isMessage ? sequence : 0);
  told.insert(c10d::op_id_key, static_cast<int64_t>(entry.number));
  told.insert(
      c10d::profiling_name_key,
      c10::str(kLibrary, call.name, isMessage ? " " : "", call.message));
  told.insert(c10d::time_created_key, entry.created);
  told.insert(c10d::input_sizes_key, sizesOf(entry.inputs));
  told.insert(c10d::input_dtypes_key, typesOf(entry.inputs));
  told.insert(c10d::output_sizes_key, sizesOf(entry.outputs));
  told.insert(c10d::output_dtypes_key, typesOf(entry.outputs));
  told.insert(
      c10d::state_key,
      progress.ended       ? c10d::completed_state
          : progress.begun ? c10d::started_state
                           : c10d::scheduled_state);
  told.insert(c10d::time_discovered_started_key, timeOr(progress.begun));
  told.insert(c10d::time_discovered_completed_key, timeOr(progress.ended));
  if (progress.begun && progress.ended) {
    told.insert(
        c10d::duration_key,
        static_cast<double>(*progress.ended - *progress.begun) / 1e6);
  }
  told.insert(c10d::retired_key, progress.over);
  told.insert(c10d::timeout_key, static_cast<int64_t>(call.timeout.count()));
  told.insert(c10d::is_p2p_key, isMessage);
  return told;
}

std::string FlightRecorder::dump(
    bool withCalls,
    bool withStacks,
    bool onlyActive) const {
  std::unique_lock lock(mutex_);
  std::vector<Entry> entries = entries_;
  lock.unlock(); // Python's is taken for stacks
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.number < b.number;
  });

  auto groups = new_dict();
  auto calls = new_list();
  for (const Entry& entry : entries) {
    const Members& members = *entry.call.group;
    auto group = new_dict();
    group.insert("name", members.name);
    group.insert("desc", members.description);
    group.insert("ranks", c10d::ranks_str(members.ranks));
    groups.insert_or_assign(members.name, group);
    if (onlyActive && entry.call.outcome->progress().ended) {
      continue;
    }
    auto told = describe(entry).toGenericDict();
    if (withStacks) {
      told.insert(c10d::frames_key, framesOf(entry.stack.get()));
    }
    calls.push_back(told);
  }
  auto result = new_dict();
  result.insert(c10d::version_key, c10d::version_val);
  result.insert(c10d::comm_lib_version_key, "occl");
  result.insert(c10d::pg_config_key, groups);
  result.insert(c10d::pg_status_key, new_dict());
  if (withCalls) {
    result.insert(c10d::entries_key, calls);
  }
  return c10d::pickle_str(result);
}

// Called by a stream's thread, which must not wait for Python's lock: no stacks.
void FlightRecorder::dumpOnce(int rank) noexcept {
  if (!enabled() || !c10::utils::get_env("TORCH_FR_DUMP_TEMP_FILE") ||
      dumped_.exchange(true)) {
    return;
  }
  try {
    c10d::DebugInfoWriter::getWriter(rank).write(dump(true, false, false));
  } catch (const std::exception& error) {
    TORCH_WARN("the calls of rank ", rank, " were not written: ", error.what());
  }
}

} // namespace c10::openreg::occl
