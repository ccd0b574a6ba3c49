#include "remote/DeviceProcess.h"

#include "remote/StatusPage.h"
#include "remote/Wire.h"
#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegException.h"
#include "runtime/OpenRegFunctions.h"
#include "runtime/OpenRegGuard.h"
#include "runtime/OpenRegIpc.h"
#include "runtime/OpenRegLostMemory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace c10::openreg::remote {
namespace {

// Milliseconds.
constexpr int kStartPatience = 60'000;
constexpr int kStatusPeriod = 100;

#ifndef P_PIDFD
constexpr auto P_PIDFD = static_cast<idtype_t>(3);
#endif

std::string folderOf(const void* symbol) {
  Dl_info info{};
  TORCH_CHECK(
      dladdr(symbol, &info) != 0 && info.dli_fname,
      "the libraries of openreg and torch cannot be found on disk");
  const std::string file = info.dli_fname;
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}

// The environment of this process, with torch's libraries where the loader finds
// them: import has loaded them here, by a path that nobody else knows.
std::vector<std::string> environment() {
  const std::string prefix = "LD_LIBRARY_PATH=";
  std::string path =
      prefix + folderOf(reinterpret_cast<const void*>(&c10::GetCPUAllocator));
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable) {
    const std::string text = *variable;
    if (text.starts_with(prefix)) {
      path.append(1, ':').append(text, prefix.size());
    } else {
      variables.push_back(text);
    }
  }
  variables.push_back(path);
  return variables;
}

std::vector<char*> pointersTo(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// In a group of its own, so that Ctrl-C reaches the driver alone.
int spawn(const std::string& program, int control) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, control, kControlDescriptor);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(
      &attributes,
      POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  std::vector<std::string> arguments{program};
  auto variables = environment();
  pid_t pid = -1;
  const int error = posix_spawn(
      &pid,
      program.c_str(),
      &actions,
      &attributes,
      pointersTo(arguments).data(),
      pointersTo(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  TORCH_CHECK(
      error == 0,
      "the device process ",
      program,
      " cannot be started: ",
      std::strerror(error));
  return pid;
}

std::string describeEnd(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) {
    return c10::str("ended with status ", info.si_status);
  }
  return c10::str(
      "was killed by signal ",
      info.si_status,
      " (",
      strsignal(info.si_status),
      ")");
}

struct Table {
  std::mutex mutex;
  std::array<std::shared_ptr<DeviceProcess>, kMaxDevices> processes;
};

Table& table() {
  static auto* all = new Table;
  return *all;
}

} // namespace

DeviceIndex deviceOfKernelAddress(const void* pointer) {
  static const auto* const memories = [] {
    auto* found = new std::vector<orDeviceMemory>(
        static_cast<size_t>(device_count_ensure_non_zero()));
    for (size_t i = 0; i < found->size(); ++i) {
      OPENREG_CHECK(orDeviceGetMemory(&(*found)[i], static_cast<int>(i)));
    }
    return found;
  }();
  const auto* byte = static_cast<const char*>(pointer);
  for (size_t i = 0; i < memories->size(); ++i) {
    const auto* base = static_cast<const char*>((*memories)[i].base);
    if (byte >= base && byte < base + (*memories)[i].bytes) {
      return isReceived(deviceAddress(pointer)) ? -1
                                                : static_cast<DeviceIndex>(i);
    }
  }
  return -1;
}

// --- beginning and end ------------------------------------------------------------

DeviceProcess::DeviceProcess(DeviceIndex device) : device_(device) {
  OPENREG_CHECK(orDeviceGetMemory(&memory_, device));
}

DeviceProcess::~DeviceProcess() {
  kill();
}

// By the handle, for the number may be another's by now.
void DeviceProcess::kill() {
  if (handle_) {
    syscall(SYS_pidfd_send_signal, handle_.get(), SIGKILL, nullptr, 0);
  }
}

std::shared_ptr<DeviceProcess> DeviceProcess::of(DeviceIndex device) {
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

void DeviceProcess::end(DeviceIndex device) {
  std::shared_ptr<DeviceProcess> process;
  {
    const std::lock_guard lock(table().mutex);
    std::swap(process, table().processes[static_cast<size_t>(device)]);
  }
  if (process) {
    process->usable_.store(false);
    const std::lock_guard lock(process->mutex_);
    process->ended_ = true;
    process->kill();
  }
}

// docs:begin start-process
void DeviceProcess::start() {
  auto [mine, theirs] = ControlSocket::makePair();
  const std::string program =
      folderOf(reinterpret_cast<const void*>(&deviceOfKernelAddress)) +
      "/openreg-device";
  pid_ = spawn(program, theirs.descriptor());
  handle_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  theirs = {}; // so that its end is an end of the conversation
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
    kill();
    siginfo_t info{};
    const bool known = waitid(P_PID, pid_, &info, WEXITED) == 0;
    TORCH_CHECK(
        false,
        "the device process ",
        program,
        " did not get ready: it ",
        known ? describeEnd(info) : "is gone",
        "; it needs the same version of torch and torch_openreg as this one");
  }
  control_ = std::move(mine);
  usable_.store(true);
}
// docs:end start-process

void DeviceProcess::watch(std::shared_ptr<DeviceProcess> process) {
  pthread_setname_np(pthread_self(), "openreg watch");
  pollfd end{process->handle_.get(), POLLIN, 0};
  while (poll(&end, 1, kStatusPeriod) <= 0) {
    process->publishStatus();
  }
  siginfo_t info{};
  int status = 0;
  do {
    status = waitid(
        P_PIDFD, static_cast<id_t>(process->handle_.get()), &info, WEXITED);
  } while (status != 0 && errno == EINTR);
  process->noteEnd(status == 0 ? describeEnd(info) : "is gone");
}

void DeviceProcess::publishStatus() {
  auto& status = *reinterpret_cast<StatusPage*>(statusMemory_.data());
  size_t tasks = 0, streams = 0;
  if (orDeviceGetQueueDepth(&tasks, &streams, device_) == orSuccess) {
    status.tasks.store(tasks);
    status.streams.store(streams);
  }
  const OpenRegGuard guard(device_);
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
  const int device = device_;
  return c10::str(
      "the device process of device ",
      device,
      " (pid ",
      pid_,
      ") ",
      what_.empty() ? "is gone" : what_,
      "; what its tensors held is lost, torch.openreg.reset_device(",
      device,
      ") starts a new one");
}

bool DeviceProcess::lost() {
  if (!usable()) {
    return true;
  }
  siginfo_t info{};
  constexpr int kLook = WSTOPPED | WEXITED | WNOHANG | WNOWAIT;
  const int looked =
      waitid(P_PIDFD, static_cast<id_t>(handle_.get()), &info, kLook);
  if (looked == 0 && info.si_pid != 0 && info.si_code == CLD_STOPPED) {
    noteEnd(c10::str(
        "was stopped by signal ",
        info.si_status,
        " (",
        strsignal(info.si_status),
        ") and had to be ended"));
    kill();
    return true;
  }
  return false;
}

void DeviceProcess::throwLost() {
  const std::string what = whatHappened();
  orKernelFail(orErrorDeviceLost, what.c_str());
  orGetLastError(); // outside of kernels there is none to fail
  throwDeviceLost(what);
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

// --- memory -----------------------------------------------------------------------

uint64_t DeviceProcess::lend(DataPtr memory, size_t bytes) {
  const auto offset = static_cast<uint64_t>(
      static_cast<char*>(memory.get()) - static_cast<char*>(memory_.base));
  const std::lock_guard lock(mutex_);
  lent_.insert_or_assign(offset, Lent{std::move(memory), bytes});
  return offset;
}

DataPtr DeviceProcess::takeBack(uint64_t offset, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = lent_.find(offset);
  if (found == lent_.end() || found->second.bytes < bytes) {
    return {};
  }
  DataPtr memory = std::move(found->second.memory);
  lent_.erase(found);
  return memory;
}

void DeviceProcess::giveBack(const std::vector<uint64_t>& offsets) {
  for (const uint64_t offset : offsets) {
    takeBack(offset, 0);
  }
}

} // namespace c10::openreg::remote
