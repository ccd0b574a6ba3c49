// What PyTorch's older profiler, torch.autograd.profiler without Kineto, asks of a
// device: an event before and after each operator.
#include "runtime/OpenRegEvent.h"
#include "runtime/OpenRegFunctions.h"

#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

namespace c10::openreg::profiler {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

class OpenRegProfilerStubs final : public torch::profiler::impl::ProfilerStubs {
 public:
  void record(DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* time)
      const override {
    const OpenRegStream stream = getCurrentOpenRegStream();
    if (device) {
      *device = stream.device_index();
    }
    const auto made = std::make_shared<OpenRegEvent>(orEventEnableTiming);
    made->record(stream);
    *event = made;
    if (time) {
      *time = c10::getTime();
    }
  }

  /// Microseconds.
  float elapsed(
      const ProfilerVoidEventStub* start,
      const ProfilerVoidEventStub* end) const override {
    const auto& from = *static_cast<const OpenRegEvent*>(start->get());
    const auto& to = *static_cast<const OpenRegEvent*>(end->get());
    from.synchronize();
    to.synchronize();
    return from.elapsed_time(to) * 1000;
  }

  bool enabled() const override {
    return true;
  }
  void onEachDevice(std::function<void(int)> visit) const override {
    const DeviceIndex before = current_device();
    for (DeviceIndex device = 0; device < device_count(); ++device) {
      set_device(device);
      visit(device);
    }
    set_device(before);
  }
  void synchronize() const override {
    device_synchronize();
  }

  // PyTorch's range of an operator is that of emitRanges(); it calls none of these.
  void mark(const char* /*name*/) const override {}
  void rangePush(const char* /*name*/) const override {}
  void rangePop() const override {}
};

struct RegisterStubs {
  RegisterStubs() {
    static OpenRegProfilerStubs stubs;
    if (kDeviceType == DeviceType::CUDA) {
      torch::profiler::impl::registerCUDAMethods(&stubs);
    } else {
      torch::profiler::impl::registerPrivateUse1Methods(&stubs);
    }
  }
} registerStubs;

} // namespace
} // namespace c10::openreg::profiler
