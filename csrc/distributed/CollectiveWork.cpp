#include "distributed/CollectiveWork.h"

#include "distributed/Settings.h"
#include "runtime/OpenRegCapture.h"
#include "runtime/OpenRegObserver.h"

#include <c10/core/StreamGuard.h>
#include <c10/util/ApproximateClock.h>

#include <thread>

namespace c10::openreg::occl {

// --- Outcome --------------------------------------------------------------------

void Outcome::begin() {
  const std::lock_guard lock(mutex_);
  begun_ = std::chrono::steady_clock::now();
}

void Outcome::end() {
  finish("", c10d::WorkResult::SUCCESS);
}

void Outcome::fail(const std::string& failure, c10d::WorkResult result) {
  finish(failure, result);
}

void Outcome::finish(const std::string& failure, c10d::WorkResult result) {
  {
    const std::lock_guard lock(mutex_);
    over_ = std::chrono::steady_clock::now();
    failure_ = failure;
    result_ = result;
    ended_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

bool Outcome::wait(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  const auto isOver = [this] { return ended_.load(); };
  if (timeout == kNoTimeout) {
    changed_.wait(lock, isOver);
    return true;
  }
  return changed_.wait_for(lock, timeout, isOver);
}

std::string Outcome::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

c10d::WorkResult Outcome::result() const {
  const std::lock_guard lock(mutex_);
  return result_;
}

Outcome::Progress Outcome::progress() const {
  const int64_t now = c10::getTime();
  const auto ticks = std::chrono::steady_clock::now();
  const auto since1970 = [&](std::chrono::steady_clock::time_point time) {
    return now - std::chrono::nanoseconds(ticks - time).count();
  };
  const std::lock_guard lock(mutex_);
  Progress progress{{}, {}, ended_.load()};
  if (begun_.time_since_epoch().count() != 0) {
    progress.begun = since1970(begun_);
  }
  if (progress.over && failure_.empty()) {
    progress.ended = since1970(over_);
  }
  return progress;
}

float Outcome::duration() const {
  const std::lock_guard lock(mutex_);
  return std::chrono::duration<float, std::milli>(over_ - begun_).count();
}

// --- CollectiveWork ---------------------------------------------------------------

CollectiveWork::CollectiveWork(
    c10d::OpType type,
    const char* title,
    const std::optional<std::vector<at::Tensor>>& inputs,
    Parts parts)
    : Work(parts.group->rank, type, title, inputs), parts_(std::move(parts)) {}

void CollectiveWork::endRecord() {
  if (recordFunctionEndCallback_) {
    recordFunctionEndCallback_();
    recordFunctionEndCallback_ = nullptr;
  }
}

bool CollectiveWork::isCompleted() {
  return parts_.outcome->ended() ||
      (parts_.end->isCreated() && parts_.end->query());
}

bool CollectiveWork::isSuccess() const {
  return parts_.outcome->failure().empty();
}

std::exception_ptr CollectiveWork::exception() const {
  try {
    throwFailure();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

int CollectiveWork::sourceRank() const {
  TORCH_CHECK(
      parts_.source, "only a message that was received has a source rank");
  parts_.outcome->wait(parts_.timeout);
  return *parts_.source;
}

void CollectiveWork::throwFailure() const {
  if (!parts_.outcome->ended()) {
    return;
  }
  const std::string failure = parts_.outcome->failure();
  if (!failure.empty()) {
    parts_.group->settle(); // told here, so not once more by the device
  }
  TORCH_CHECK_WITH(DistBackendError, failure.empty(), failure);
}

void CollectiveWork::synchronize() {
  throwFailure();
  if (parts_.end->isCreated()) {
    const auto stream = getCurrentOpenRegStream(parts_.stream.device_index());
    if (parts_.outcome->ended()) { // no need to wait, but an order all the same
      observe(
          &RuntimeObserver::onStreamWait, stream.stream(), parts_.end->event());
    } else {
      parts_.end->block(stream);
    }
  }
  parts_.held.clear();
}

bool CollectiveWork::waitOnHost(std::chrono::milliseconds timeout) {
  (void)(parts_.end->isCreated() &&
         parts_.end->query()); // a late schedule runs it when asked
  const bool ended = parts_.outcome->wait(timeout);
  TORCH_CHECK_WITH(
      DistBackendError,
      ended,
      "a collective of group '",
      parts_.group->name(),
      "' did not end within the ",
      timeout.count(),
      " ms that wait() was given");
  throwFailure();
  if (parts_.end->isCreated()) {
    observe(&RuntimeObserver::onHostWaitForEvent, parts_.end->event());
  }
  return true;
}

bool CollectiveWork::wait(std::chrono::milliseconds timeout) {
  const bool captured = isCapturing(parts_.stream);
  if (!captured &&
      (timeout != kNoTimeout || parts_.hostWaits || blockingWait())) {
    waitOnHost(timeout);
  }
  synchronize();
  return true;
}

void CollectiveWork::abort() {
  parts_.group->fail("a collective of it was aborted by its own rank");
}

// As NCCL's: complete as soon as it is queued, with the stream it is queued in as the
// place to wait for.
c10::intrusive_ptr<c10::ivalue::Future> CollectiveWork::getFuture() {
  const std::lock_guard lock(futureMutex_);
  if (!future_) {
    future_ = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()),
        std::vector<c10::Device>{parts_.stream.device()});
    const c10::StreamGuard guard(parts_.stream.unwrap());
    future_->markCompleted(at::IValue(parts_.outputs));
  }
  return future_;
}

// Not completed by the stream's thread: what is chained to it may need Python's lock,
// while the host has it and waits for that stream.
c10::intrusive_ptr<c10::ivalue::Future> CollectiveWork::getFutureResult() {
  const std::lock_guard lock(futureMutex_);
  if (!futureResult_) {
    futureResult_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
    std::thread([future = futureResult_, outcome = parts_.outcome] {
      outcome->wait(kNoTimeout);
      future->markCompleted(static_cast<int64_t>(outcome->result()));
    }).detach();
  }
  return futureResult_;
}

float CollectiveWork::getDuration() const {
  TORCH_CHECK(
      parts_.outcome->ended(),
      "the duration of a collective is known only after it has ended; "
      "synchronize the device first");
  return parts_.outcome->duration();
}

} // namespace c10::openreg::occl
