#include "runtime/OpenRegStream.h"

#include "runtime/OpenRegObserver.h"
#include "runtime/OpenRegSyncDebug.h"
#include "runtime/OpenRegTrace.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace c10::openreg {
namespace {

// docs:begin stream-pool
constexpr int kStreamsPerPool = 32; // as PyTorch has on CUDA
constexpr int kMaxPriorities = 8;

/// The streams of one device and priority, made when the first is asked for.
struct StreamPool {
  std::once_flag once;
  std::array<orStream_t, kStreamsPerPool> streams{};
  std::atomic<uint32_t> next{0};

  orStream_t take(DeviceIndex device, int priority) {
    std::call_once(once, [&] {
      const DeviceScope scope(device);
      for (orStream_t& stream : streams) {
        // Independent of the default stream, as PyTorch's streams are on CUDA.
        OPENREG_CHECK(
            orStreamCreateWithPriority(&stream, orStreamNonBlocking, priority));
        trace(&Trace::trace_gpu_stream_creation, numberOf(stream));
      }
    });
    return streams[next++ % kStreamsPerPool];
  }
};
// docs:end stream-pool

StreamPool& poolOf(DeviceIndex device, int level) {
  static auto* pools =
      new std::array<std::array<StreamPool, kMaxPriorities>, kMaxDevices>;
  return (*pools)[device][level];
}

// Per thread and device; 0 is the default stream.
thread_local std::array<StreamId, kMaxDevices> currentStreams
    __attribute__((tls_model("initial-exec"))){};

// Asked for with every launch.
std::array<std::atomic<orStream_t>, kMaxDevices> defaultStreams{};

StreamId idOf(orStream_t stream) {
  return reinterpret_cast<StreamId>(stream);
}

OpenRegStream makeStream(DeviceIndex device, StreamId id) {
  return OpenRegStream(Stream(Stream::UNSAFE, Device(kDeviceType, device), id));
}

} // namespace

orStream_t OpenRegStream::stream() const {
  if (id() != 0) {
    return reinterpret_cast<orStream_t>(id());
  }
  if (C10_UNLIKELY(device_index() < 0 || device_index() >= kMaxDevices)) {
    check_device_index(device_index()); // a stream made up in Python
  }
  auto& known = defaultStreams[device_index()];
  orStream_t stream = known.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(!stream)) {
    OPENREG_CHECK(orDeviceGetDefaultStream(&stream, device_index()));
    known.store(stream, std::memory_order_relaxed);
  }
  return stream;
}

uintptr_t numberOf(orStream_t stream) {
  const auto isIt = [&](const auto& known) { return known.load() == stream; };
  return kDeviceType == DeviceType::CUDA &&
          std::any_of(defaultStreams.begin(), defaultStreams.end(), isIt)
      ? 0
      : reinterpret_cast<uintptr_t>(stream);
}

bool OpenRegStream::query() const {
  const bool idle = OPENREG_IS_READY(orStreamQuery(stream()));
  if (idle) {
    observe(&RuntimeObserver::onHostWaitForStream, stream());
  }
  return idle;
}

void OpenRegStream::synchronize() const {
  noteSynchronization(stream());
  OPENREG_CHECK(orStreamSynchronize(stream()));
  observe(&RuntimeObserver::onHostWaitForStream, stream());
}

int OpenRegStream::priority() const {
  int priority = 0;
  OPENREG_CHECK(orStreamGetPriority(stream(), &priority));
  return priority;
}

std::tuple<int, int> OpenRegStream::priority_range() {
  int least = 0, greatest = 0;
  OPENREG_CHECK(orDeviceGetStreamPriorityRange(&least, &greatest));
  return {least, greatest};
}

OpenRegStream getStreamFromPool(int priority, DeviceIndex device) {
  device = device_or_current(device);
  const auto [least, greatest] = OpenRegStream::priority_range();
  const int clamped = std::clamp(priority, greatest, least);
  const orStream_t stream =
      poolOf(device, least - clamped).take(device, clamped);
  return makeStream(device, idOf(stream));
}

OpenRegStream getStreamFromPool(bool isHighPriority, DeviceIndex device) {
  const auto [least, greatest] = OpenRegStream::priority_range();
  return getStreamFromPool(isHighPriority ? greatest : least, device);
}

OpenRegStream getStreamFromExternal(orStream_t stream, DeviceIndex device) {
  int owner = -1;
  OPENREG_CHECK(orStreamGetDevice(stream, &owner));
  TORCH_CHECK(
      owner == device,
      "the stream belongs to ",
      Device(kDeviceType, static_cast<DeviceIndex>(owner)),
      ", not to ",
      Device(kDeviceType, device));
  // The default stream has one id, however it was obtained.
  const OpenRegStream defaultStream = getDefaultOpenRegStream(device);
  return stream == defaultStream.stream() ? defaultStream
                                          : makeStream(device, idOf(stream));
}

OpenRegStream getDefaultOpenRegStream(DeviceIndex device) {
  return makeStream(device_or_current(device), 0);
}

OpenRegStream getCurrentOpenRegStream(DeviceIndex device) {
  device = device_or_current(device);
  return makeStream(device, currentStreams[device]);
}

OpenRegStream currentStreamOf(Device device) noexcept {
  return makeStream(device.index(), currentStreams[device.index()]);
}

void setCurrentOpenRegStream(OpenRegStream stream) {
  check_device_index(stream.device_index());
  currentStreams[stream.device_index()] = stream.id();
}

Stream exchangeCurrentStream(Stream stream) {
  const OpenRegStream before = getCurrentOpenRegStream(stream.device_index());
  setCurrentOpenRegStream(OpenRegStream(stream));
  return before;
}

// The worker sleeps, so that no core is burnt.
void sleep(const OpenRegStream& stream, int64_t cycles) {
  TORCH_CHECK_VALUE(cycles >= 0, "cycles must be at least 0, but got ", cycles);
  const int kilohertz = get_device_properties(stream.device_index()).clockRate;
  const std::chrono::duration<double, std::milli> time(
      static_cast<double>(cycles) / kilohertz);
  const orLaunchConfig config{"sleep", orLaunchDefault};
  OPENREG_CHECK(orLaunchKernelEx(
      &config, stream, [time] { std::this_thread::sleep_for(time); }));
}

} // namespace c10::openreg
