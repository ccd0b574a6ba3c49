// Memory of other processes of this user, without names that anybody could open. Free
// of torch.
#pragma once

#include "remote/Descriptor.h"

#include <cstdint>

namespace c10::openreg::occl {

/// Where another process finds a file that this one has open. Plain bytes: it travels
/// through a store.
struct FileAddress {
  int32_t process;
  int32_t descriptor;
  uint64_t device; ///< of the file
  uint64_t inode;
  uint64_t bytes;
};

FileAddress addressOf(int descriptor, uint64_t bytes);

/// Opens it. Throws std::runtime_error if the process has ended or cannot be seen from
/// here, or if the file is another one, another user's, or smaller.
remote::Descriptor openPeerFile(const FileAddress& address);

/// Names the running kernel and this process's view of the others: processes for which
/// it is the same can open each other's files.
uint64_t hostMark();

/// Watches for the end of a process.
class PeerProcess {
 public:
  /// Throws std::runtime_error if there is none.
  explicit PeerProcess(int process);
  bool ended() const;

 private:
  remote::Descriptor handle_;
};

} // namespace c10::openreg::occl
