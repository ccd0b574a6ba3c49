#include "remote/ControlSocket.h"

#include <cerrno>
#include <cstring>
#include <system_error>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace c10::openreg::remote {
namespace {

constexpr size_t kMostDescriptors = 4;

} // namespace

std::pair<ControlSocket, ControlSocket> ControlSocket::makePair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::system_error(errno, std::generic_category(), "socketpair");
  }
  return {
      ControlSocket(Descriptor(ends[0])), ControlSocket(Descriptor(ends[1]))};
}

bool ControlSocket::send(
    const ControlMessage& message,
    std::initializer_list<int> descriptors) {
  iovec content{const_cast<ControlMessage*>(&message), sizeof(message)};
  msghdr header{};
  header.msg_iov = &content;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int) * kMostDescriptors)] = {};
  if (descriptors.size() != 0) {
    const size_t bytes = sizeof(int) * descriptors.size();
    header.msg_control = room;
    header.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(part), descriptors.begin(), bytes);
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket_.get(), &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof(message));
}

std::optional<ControlSocket::ReceivedMessage> ControlSocket::receive(
    int milliseconds) {
  pollfd waiting{socket_.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&waiting, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) {
    return std::nullopt;
  }
  ReceivedMessage received;
  iovec content{&received.message, sizeof(received.message)};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int) * kMostDescriptors)];
  msghdr header{};
  header.msg_iov = &content;
  header.msg_iovlen = 1;
  header.msg_control = room;
  header.msg_controllen = sizeof(room);
  ssize_t count = 0;
  do {
    count = recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  for (cmsghdr* part = count < 0 ? nullptr : CMSG_FIRSTHDR(&header); part;
       part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t descriptors = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < descriptors; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      received.descriptors.emplace_back(number);
    }
  }
  if (count != static_cast<ssize_t>(sizeof(received.message))) {
    return std::nullopt;
  }
  return received;
}

bool ControlSocket::peerIsSameUser() const {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  return getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) ==
      0 &&
      peer.uid == geteuid();
}

} // namespace c10::openreg::remote
