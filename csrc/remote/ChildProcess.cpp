#include "remote/ChildProcess.h"

#include "remote/StatusPage.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <vector>

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace c10::openreg::remote {
namespace {

#ifndef P_PIDFD
constexpr auto P_PIDFD = static_cast<idtype_t>(3);
#endif

std::string folder(const std::string& file) {
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}

// Where torch's libraries are; "" in a process without torch.
std::string torchFolder() {
  std::string found;
  const auto visit = [](dl_phdr_info* info, size_t /*size*/, void* result) {
    const std::string file = info->dlpi_name;
    if (file.ends_with("/libc10.so")) {
      *static_cast<std::string*>(result) = folder(file);
    }
    return 0;
  };
  dl_iterate_phdr(visit, &found);
  return found;
}

// The environment of this process, with torch's libraries where the loader finds
// them: import has loaded them here, by a path that nobody else knows.
std::vector<std::string> environment() {
  const std::string prefix = "LD_LIBRARY_PATH=";
  std::string path = torchFolder();
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable) {
    const std::string text = *variable;
    if (text.starts_with(prefix)) {
      path.append(path.empty() ? 0 : 1, ':').append(text, prefix.size());
    } else {
      variables.push_back(text);
    }
  }
  if (!path.empty()) {
    variables.push_back(prefix + path);
  }
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
  if (error != 0) {
    throw std::runtime_error(
        "the device process " + program +
        " cannot be started: " + std::strerror(error));
  }
  return pid;
}

std::string nameOf(int signal) {
  return std::to_string(signal) + " (" + strsignal(signal) + ")";
}

} // namespace

std::string folderOf(const void* symbol) {
  Dl_info info{};
  if (dladdr(symbol, &info) == 0 || !info.dli_fname) {
    throw std::runtime_error("the library of openreg cannot be found on disk");
  }
  return folder(info.dli_fname);
}

ChildProcess::ChildProcess(const std::string& program, int control)
    : number_(spawn(program, control)),
      handle_(static_cast<int>(syscall(SYS_pidfd_open, number_, 0))) {}

ChildProcess::~ChildProcess() {
  kill();
}

void ChildProcess::kill() const {
  if (handle_) {
    syscall(SYS_pidfd_send_signal, handle_.get(), SIGKILL, nullptr, 0);
  }
}

std::optional<std::string> ChildProcess::awaitEnd(int milliseconds) const {
  pollfd end{handle_.get(), POLLIN, 0};
  if (poll(&end, 1, milliseconds) <= 0) {
    return std::nullopt;
  }
  siginfo_t info{};
  int status = 0;
  do {
    status = waitid(P_PIDFD, static_cast<id_t>(handle_.get()), &info, WEXITED);
  } while (status != 0 && errno == EINTR);
  if (status != 0) {
    return "is gone";
  }
  return info.si_code == CLD_EXITED
      ? "ended with status " + std::to_string(info.si_status)
      : "was killed by signal " + nameOf(info.si_status);
}

std::optional<std::string> ChildProcess::whatStoppedIt() const {
  siginfo_t info{};
  constexpr int kLook = WSTOPPED | WEXITED | WNOHANG | WNOWAIT;
  const int looked =
      waitid(P_PIDFD, static_cast<id_t>(handle_.get()), &info, kLook);
  if (looked != 0 || info.si_pid == 0 || info.si_code != CLD_STOPPED) {
    return std::nullopt;
  }
  return "signal " + nameOf(info.si_status);
}

} // namespace c10::openreg::remote
