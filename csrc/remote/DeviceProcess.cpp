#include "remote/DeviceProcess.h"

#include "remote/StatusPage.h"
#include "remote/Wire.h"
#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegDeviceScope.h"
#include "runtime/ipc/ReceivedRanges.h"

#include <array>
#include <stdexcept>
#include <thread>

#include <pthread.h>
#include <unistd.h>

namespace c10::openreg::remote {
namespace {

// Milliseconds.
constexpr int kStartPatience = 60'000;
constexpr int kStatusPeriod = 100;

struct Table {
  std::mutex mutex;
  std::array<std::shared_ptr<DeviceProcess>, kMaxDevices> processes;
};

Table& table() {
  static auto* all = new Table;
  return *all;
}

} // namespace

int deviceOfKernelAddress(const void* pointer) {
  const void* address = deviceAddress(pointer);
  return isDevicePointer(address) && !ipc::receivedRanges().contain(address)
      ? deviceOfPointer(address)
      : -1;
}

// --- beginning and end ------------------------------------------------------------

DeviceProcess::DeviceProcess(int device) : device_(device) {
  OPENREG_CHECK(orDeviceGetMemory(&memory_, device));
}

std::shared_ptr<DeviceProcess> DeviceProcess::of(int device) {
  std::shared_ptr<DeviceProcess> process;
  {
    const std::lock_guard lock(table().mutex);
    auto& known = table().processes[static_cast<size_t>(device)];
    if (!known) {
      known.reset(new DeviceProcess(device));
      try {
        known->start();
      } catch (...) {
        known.reset();
        throw;
      }
      std::thread(&DeviceProcess::watch, known).detach();
    }
    process = known;
  }
  if (!process->usable()) {
    process->throwLost();
  }
  return process;
}

void DeviceProcess::end(int device) {
  std::shared_ptr<DeviceProcess> process;
  {
    const std::lock_guard lock(table().mutex);
    std::swap(process, table().processes[static_cast<size_t>(device)]);
  }
  if (process) {
    process->usable_.store(false);
    const std::lock_guard lock(process->mutex_);
    process->ended_ = true;
    process->process_->kill();
  }
}

// docs:begin start-process
void DeviceProcess::start() {
  auto [mine, theirs] = ControlSocket::makePair();
  const std::string program =
      folderOf(reinterpret_cast<const void*>(&deviceOfKernelAddress)) +
      "/openreg-device";
  process_ = std::make_unique<ChildProcess>(program, theirs.descriptor());
  theirs = {}; // so that the socket closes when the process ends
  const Descriptor status =
      makeSharedMemory("openreg status", sizeof(StatusPage));
  statusMemory_ = Mapping(status, sizeof(StatusPage));
  publishStatus();
  const ControlMessage hello{
      ControlKind::Start, kWireVersion, device_, getpid(), memory_.bytes};
  const bool sent = mine.send(hello, {status.get(), memory_.descriptor});
  const auto answer = sent ? mine.receive(kStartPatience) : std::nullopt;
  if (!answer || answer->message.kind != ControlKind::Ready ||
      answer->message.version != kWireVersion) {
    process_->kill();
    throw std::runtime_error(
        "the device process " + program + " did not get ready: it " +
        process_->awaitEnd(-1).value_or("is gone") +
        "; it needs the same version of torch and torch_openreg as this one");
  }
  control_ = std::move(mine);
  usable_.store(true);
}
// docs:end start-process

void DeviceProcess::watch(std::shared_ptr<DeviceProcess> process) {
  pthread_setname_np(pthread_self(), "openreg watch");
  for (;;) {
    if (const auto end = process->process_->awaitEnd(kStatusPeriod)) {
      process->noteEnd(*end);
      return;
    }
    process->publishStatus();
  }
}

void DeviceProcess::publishStatus() {
  auto& status = *reinterpret_cast<StatusPage*>(statusMemory_.data());
  size_t tasks = 0, streams = 0;
  if (orDeviceGetQueueDepth(&tasks, &streams, device_) == orSuccess) {
    status.tasks.store(tasks);
    status.streams.store(streams);
  }
  const DeviceScope scope(device_);
  size_t free = 0, total = 0;
  if (orMemGetInfo(&free, &total) == orSuccess) {
    status.memoryUsed.store(total - free);
    status.memoryTotal.store(total);
  }
  orGetLastError(); // a broken device has no figures
}

void DeviceProcess::noteEnd(const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    if (what_.empty()) {
      what_ = what;
    }
  }
  usable_.store(false);
  const std::string happened = whatHappened();
  const std::lock_guard lock(mutex_);
  if (!ended_) {
    orDeviceFail(device_, orErrorDeviceLost, happened.c_str());
  }
}

std::string DeviceProcess::whatHappened() {
  const std::lock_guard lock(mutex_);
  const std::string device = std::to_string(device_);
  return "the device process of device " + device + " (pid " +
      std::to_string(process_->number()) + ") " +
      (what_.empty() ? "is gone" : what_) +
      "; what its tensors held is lost, torch.openreg.reset_device(" + device +
      ") starts a new one";
}

bool DeviceProcess::lost() {
  if (!usable()) {
    return true;
  }
  if (const auto signal = process_->whatStoppedIt()) {
    noteEnd("was stopped by " + *signal + " and had to be ended");
    process_->kill();
    return true;
  }
  return false;
}

void DeviceProcess::throwLost() {
  const std::string what = whatHappened();
  orKernelFail(orErrorDeviceLost, what.c_str());
  orGetLastError(); // outside of kernels there is none to fail
  throwError(orErrorDeviceLost, what);
}

std::unique_ptr<Channel> DeviceProcess::newChannel() {
  auto channel = std::make_unique<Channel>();
  const std::lock_guard lock(controlMutex_);
  ControlMessage message;
  message.kind = ControlKind::NewChannel;
  if (!control_.send(message, {channel->memory().get()})) {
    throwLost();
  }
  return channel;
}

} // namespace c10::openreg::remote
