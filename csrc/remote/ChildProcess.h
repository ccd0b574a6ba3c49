// A program that this process has started.
#pragma once

#include "remote/Descriptor.h"

#include <optional>
#include <string>

namespace c10::openreg::remote {

/// The constructor starts it, and the destructor kills it. It is identified by a
/// handle, because its number may go to another process once it has ended.
///
/// Threads: any may call anything, but only one calls awaitEnd().
class ChildProcess {
 public:
  /// Starts `program`, in which `control` is the descriptor kControlDescriptor. Throws
  /// std::runtime_error.
  ChildProcess(const std::string& program, int control);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int number() const {
    return number_;
  }

  void kill() const;

  /// Waits for its end, at most that long; -1: for ever. Returns how it ended, such as
  /// "was killed by signal 9 (Killed)", or nothing if it still runs.
  std::optional<std::string> awaitEnd(int milliseconds) const;

  /// The signal that has stopped it, if it is stopped.
  std::optional<std::string> whatStoppedIt() const;

 private:
  int number_ = -1;
  Descriptor handle_;
};

/// The folder that a library or program lies in, by something that it has.
std::string folderOf(const void* symbol);

} // namespace c10::openreg::remote
