#include "distributed/Rendezvous.h"

#include "distributed/AloneTransport.h"
#include "distributed/GlooTransport.h"
#include "distributed/SharedTransport.h"
#include "runtime/OpenRegException.h"
#include "runtime/OpenRegFunctions.h"

#include <c10/util/env.h>

#include <cstring>

#include <sys/stat.h>
#include <unistd.h>

namespace c10::openreg::occl {
namespace {

bool mayShare() {
  // OPENREG_OCCL_TRANSPORT: `auto`: ranks of one host share memory, others use Gloo;
  // `gloo`: all use Gloo. Default: `auto`.
  const auto value = c10::utils::get_env("OPENREG_OCCL_TRANSPORT");
  TORCH_CHECK_VALUE(
      !value || *value == "auto" || *value == "gloo",
      "OPENREG_OCCL_TRANSPORT must be auto or gloo, but is ",
      *value);
  return !value || *value == "auto";
}

/// What a rank sends about itself: this, then the addresses of its devices' memories.
struct Hello {
  uint64_t host; ///< 0: it does not share
  int64_t process;
  FileAddress board; ///< of rank 0
};

using Bytes = std::vector<uint8_t>;

template <class T>
void append(Bytes& bytes, const T& value) {
  const size_t place = bytes.size();
  bytes.resize(place + sizeof(T));
  std::memcpy(bytes.data() + place, &value, sizeof(T));
}

template <class T>
T at(const Bytes& bytes, size_t place) {
  TORCH_CHECK(
      place + sizeof(T) <= bytes.size(),
      "a rank sent only ",
      bytes.size(),
      " bytes about itself; do all ranks run the same version of "
      "torch_openreg?");
  T value;
  std::memcpy(&value, bytes.data() + place, sizeof(T));
  return value;
}

std::string keyOf(const char* what, int rank) {
  return std::string(what) + "/" + std::to_string(rank);
}

std::vector<SharedTransport::Memory> ownMemories() {
  std::vector<SharedTransport::Memory> memories;
  for (int device = 0; device < device_count(); ++device) {
    orDeviceMemory memory{};
    OPENREG_CHECK(orDeviceGetMemory(&memory, device));
    memories.push_back(
        {static_cast<char*>(memory.base),
         addressOf(memory.descriptor, memory.bytes)});
  }
  return memories;
}

remote::Descriptor makeBoard(int size) {
  auto board =
      remote::makeSharedMemory("openreg occl", SharedBoard::bytesFor(size));
  // Readable by its user alone.
  TORCH_CHECK(fchmod(board.get(), S_IRUSR | S_IWUSR) == 0);
  return board;
}

} // namespace

std::unique_ptr<Transport> connect(
    c10d::Store& store,
    c10::intrusive_ptr<c10d::Backend> engine,
    const std::string& group) {
  const int rank = engine->getRank(), size = engine->getSize();
  if (engine->getBackendName() == "fake") {
    return std::make_unique<AloneTransport>(
        rank); // nobody else is there to agree
  }
  auto gloo = std::make_unique<GlooTransport>(std::move(engine), group);

  Hello own{};
  remote::Descriptor board; // until all have opened it
  std::vector<SharedTransport::Memory> memories;
  if (mayShare() && size <= kMostRanks) {
    own.host = hostMark();
    own.process = getpid();
    memories = ownMemories();
    if (rank == 0) {
      board = makeBoard(size);
      own.board = addressOf(board.get(), SharedBoard::bytesFor(size));
    }
  }
  Bytes hello;
  append(hello, own);
  for (const auto& memory : memories) {
    append(hello, memory.address);
  }
  store.set(keyOf("hello", rank), hello);

  std::vector<SharedTransport::Rank> ranks(static_cast<size_t>(size));
  bool together = own.host != 0;
  FileAddress boardAddress{};
  for (int peer = 0; peer < size; ++peer) {
    const Bytes theirs = store.get(keyOf("hello", peer));
    const auto head = at<Hello>(theirs, 0);
    together = together && head.host == own.host;
    boardAddress = peer == 0 ? head.board : boardAddress;
    auto& entry = ranks[static_cast<size_t>(peer)];
    entry.process = static_cast<int>(head.process);
    if (peer == rank) {
      entry.memories = memories;
      continue;
    }
    for (size_t place = sizeof(Hello); place < theirs.size();
         place += sizeof(FileAddress)) {
      entry.memories.push_back({nullptr, at<FileAddress>(theirs, place)});
    }
  }
  if (!together) {
    return gloo; // all see the same
  }

  std::unique_ptr<SharedTransport> shared;
  try {
    const size_t bytes = SharedBoard::bytesFor(size);
    TORCH_CHECK(boardAddress.bytes == bytes);
    shared = std::make_unique<SharedTransport>(
        remote::Mapping(openPeerFile(boardAddress), bytes), rank, ranks, group);
    for (int peer = 0; peer < size; ++peer) {
      shared->tryMemories(peer);
    }
  } catch (const std::exception&) {
    // A container that hides processes, for instance: the others are told.
  }
  store.set(keyOf("shares", rank), Bytes(1, shared ? 1 : 0));
  bool all = true;
  for (int peer = 0; peer < size; ++peer) {
    all = at<uint8_t>(store.get(keyOf("shares", peer)), 0) == 1 && all;
  }
  if (!all) {
    return gloo;
  }
  shared->setMessages(std::move(gloo));
  return shared;
}

} // namespace c10::openreg::occl
