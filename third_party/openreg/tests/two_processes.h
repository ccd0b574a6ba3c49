// Tests with two processes that both use the library.
#pragma once

#include "support.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <sys/socket.h>
#include <sys/wait.h>

namespace openreg::testing {

/// Plain values between the two.
class Channel {
 public:
  explicit Channel(int socket) : socket_(socket) {}

  template <class T>
  void send(const T& value) {
    CHILD_REQUIRE(::write(socket_, &value, sizeof(T)) == sizeof(T));
  }
  template <class T>
  T receive() {
    T value{};
    CHILD_REQUIRE(::read(socket_, &value, sizeof(T)) == sizeof(T));
    return value;
  }
  /// A word without meaning: "I am there".
  void signal() {
    send('!');
  }
  void await() {
    receive<char>();
  }

 private:
  const int socket_;
};

/// A second process, forked before either has used the library. For use inside a
/// child of EXPECT_CHILD_SUCCEEDS().
class Peer {
 public:
  template <class Body>
  explicit Peer(Body body) {
    int sockets[2];
    CHILD_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    alarm(60); // a child that hangs is killed, and its test fails
    process_ = fork();
    if (process_ == 0) {
      close(sockets[0]);
      alarm(60);
      Channel channel(sockets[1]);
      body(channel);
      std::_Exit(childWentWell() ? 0 : 1);
    }
    close(sockets[1]);
    channel_ = sockets[0];
  }

  Channel channel() const {
    return Channel(channel_);
  }
  pid_t process() const {
    return process_;
  }
  /// Whether it ended well.
  bool join() const {
    int status = -1;
    return waitpid(process_, &status, 0) == process_ && WIFEXITED(status) &&
        WEXITSTATUS(status) == 0;
  }
  /// Ends it without a chance to clean up; nobody has to notice yet.
  void kill() const {
    CHILD_REQUIRE(::kill(process_, SIGKILL) == 0);
    siginfo_t end;
    CHILD_REQUIRE(
        waitid(P_PID, static_cast<id_t>(process_), &end, WEXITED | WNOWAIT) ==
        0);
  }

 private:
  pid_t process_ = -1;
  int channel_ = -1;
};

inline size_t openFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

/// How many separate ranges of the library's files the process has mapped.
inline size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:openreg") != std::string::npos;
  }
  return count;
}

} // namespace openreg::testing
