// The part of os.h about other processes.
#include "os.h"

#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace openreg::os {
namespace {

// When a process was started, if it has not ended; 0 if it has.
uint64_t startOf(int32_t process) {
  char path[32], text[1024];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", process);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return 0;
  }
  const ssize_t length = read(file, text, sizeof(text) - 1);
  close(file);
  text[length > 0 ? length : 0] = '\0';
  // Fields are counted from behind the name, which may hold anything.
  const char* const fields = std::strrchr(text, ')');
  char state = 'Z';
  unsigned long long started = 0;
  if (!fields ||
      std::sscanf(
          fields + 1,
          " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
          "%*d %*d %*d %llu",
          &state,
          &started) != 2 ||
      state == 'Z' || state == 'X') {
    return 0;
  }
  return started;
}

} // namespace

Process thisProcess() {
  return {getpid(), startOf(getpid())};
}

bool isAlive(const Process& process) {
  return process.started != 0 && startOf(process.number) == process.started;
}

File identify(int descriptor) {
  struct stat status {};
  fstat(descriptor, &status);
  return {descriptor, status.st_dev, status.st_ino};
}

int openFileOf(const Process& process, const File& file) {
  char path[64];
  std::snprintf(
      path, sizeof(path), "/proc/%d/fd/%d", process.number, file.descriptor);
  const int opened = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (opened < 0) {
    return -1;
  }
  File found = identify(opened);
  found.descriptor = file.descriptor;
  // Asked after the file was opened, so it was that process's.
  if (found == file && isAlive(process)) {
    return opened;
  }
  close(opened);
  return -1;
}

} // namespace openreg::os
