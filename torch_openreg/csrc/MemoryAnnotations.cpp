// What record_function() names while the history of memory is recorded, so that
// a viewer can show which part of a program allocated.
#include "Module.h"

#include "runtime/OpenRegFunctions.h"

#include <ATen/record_function.h>

#include <chrono>
#include <deque>
#include <mutex>
#include <thread>

namespace torch::openreg {
namespace {

struct Annotation {
  std::string name;
  const char* stage;
  c10::DeviceIndex device;
  int64_t time; // microseconds since 1970, as in the history
};

/// The last annotations. Threads: any may call anything.
class Annotations {
 public:
  void turn(bool on, size_t capacity, bool clear, bool everywhere) {
    const std::lock_guard<std::mutex> lock(mutex_);
    remove();
    capacity_ = on ? capacity : 0;
    if (!on || clear) {
      entries_.clear();
    }
    shrink();
    if (on) {
      auto callback = at::RecordFunctionCallback(begin, end)
                          .scopes({at::RecordScope::USER_SCOPE});
      handle_ = everywhere ? at::addGlobalCallback(callback)
                           : at::addThreadLocalCallback(callback);
      thread_ = everywhere ? std::thread::id() : std::this_thread::get_id();
    }
  }

  std::deque<Annotation> read() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return entries_;
  }

 private:
  static std::unique_ptr<at::ObserverContext> begin(
      const at::RecordFunction& function);
  static void end(const at::RecordFunction& function, at::ObserverContext*);

  void add(const char* name, const char* stage) {
    const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    const auto device = c10::openreg::current_device();
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.push_back({name, stage, device, now.count()});
    shrink();
  }

  // A callback of another thread can be removed only there; while nothing is
  // recorded, nothing is kept of it.
  void remove() {
    const bool isGlobal = thread_ == std::thread::id();
    if (handle_ != at::INVALID_CALLBACK_HANDLE &&
        (isGlobal || thread_ == std::this_thread::get_id())) {
      at::removeCallback(handle_);
    }
    handle_ = at::INVALID_CALLBACK_HANDLE;
  }

  void shrink() {
    while (entries_.size() > capacity_) {
      entries_.pop_front();
    }
  }

  std::mutex mutex_;
  std::deque<Annotation> entries_;
  size_t capacity_ = 0;
  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
  std::thread::id thread_; // whose callback it is; none for all threads'
};

Annotations& annotations() {
  // Never destroyed: threads may end ranges while the process exits.
  static auto* const kept = new Annotations();
  return *kept;
}

std::unique_ptr<at::ObserverContext> Annotations::begin(
    const at::RecordFunction& function) {
  annotations().add(function.name(), "START");
  return nullptr;
}

void Annotations::end(
    const at::RecordFunction& function,
    at::ObserverContext*) {
  annotations().add(function.name(), "END");
}

// Of this thread, or everywhere.
void recordAnnotations(bool on, size_t entries, bool clear, bool everywhere) {
  annotations().turn(on, entries, clear, everywhere);
}

py::list memoryAnnotations() {
  py::list list;
  for (const Annotation& annotation : annotations().read()) {
    py::dict dict;
    dict["name"] = annotation.name;
    dict["stage"] = annotation.stage;
    dict["device"] = static_cast<int>(annotation.device);
    dict["time_us"] = annotation.time;
    list.append(dict);
  }
  return list;
}

} // namespace

void addMemoryAnnotations(py::module_& module) {
  module.def(
      "_recordAnnotations", torch::wrap_pybind_function(recordAnnotations));
  module.def(
      "_memoryAnnotations", torch::wrap_pybind_function(memoryAnnotations));
}

} // namespace torch::openreg
