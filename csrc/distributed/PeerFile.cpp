#include "distributed/PeerFile.h"

#include <cerrno>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace c10::openreg::occl {
namespace {

[[noreturn]] void throwUnseen(int process, const char* why) {
  throw std::runtime_error(
      "memory of process " + std::to_string(process) +
      " cannot be shared: " + why);
}

} // namespace

FileAddress addressOf(int descriptor, uint64_t bytes) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) {
    throwUnseen(getpid(), "it has no such file");
  }
  return {getpid(), descriptor, status.st_dev, status.st_ino, bytes};
}

remote::Descriptor openPeerFile(const FileAddress& address) {
  const std::string path = "/proc/" + std::to_string(address.process) + "/fd/" +
      std::to_string(address.descriptor);
  remote::Descriptor file(
      ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0) {
    throwUnseen(
        address.process, "it has ended, or is not to be seen from here");
  }
  if (status.st_dev != address.device || status.st_ino != address.inode ||
      status.st_uid != geteuid() || !S_ISREG(status.st_mode)) {
    throwUnseen(address.process, "another file is in its place");
  }
  if (status.st_size < 0 ||
      static_cast<uint64_t>(status.st_size) < address.bytes) {
    throwUnseen(address.process, "the file is smaller than it says");
  }
  return file;
}

uint64_t hostMark() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  struct stat space {};
  if (text.empty() || stat("/proc/self/ns/pid", &space) != 0) {
    return 0; // nothing is the same as nothing
  }
  return std::hash<std::string>()(
      text + std::to_string(space.st_ino) + std::to_string(geteuid()));
}

PeerProcess::PeerProcess(int process)
    : handle_(static_cast<int>(syscall(SYS_pidfd_open, process, 0))) {
  if (!handle_) {
    throwUnseen(process, "it has ended");
  }
}

bool PeerProcess::ended() const {
  pollfd entry{handle_.get(), POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

} // namespace c10::openreg::occl
