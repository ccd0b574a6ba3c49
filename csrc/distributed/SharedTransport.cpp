#include "distributed/SharedTransport.h"

#include "distributed/LargeCopy.h"
#include "distributed/Reduction.h"

#include <algorithm>
#include <cstring>

namespace c10::openreg::occl {
namespace {

constexpr size_t kSmall =
    16 * 1024; // bytes for which copies beat a second meeting

constexpr size_t kPart =
    256 * 1024; // bytes of a broadcast that stay in the cache

/// Whether a rank gives the same to all.
bool givesOne(Kind kind) {
  return kind != Kind::AllToAll && kind != Kind::ReduceScatter &&
      kind != Kind::Scatter;
}

bool reduces(Kind kind) {
  return kind == Kind::AllReduce || kind == Kind::Reduce ||
      kind == Kind::ReduceScatter;
}

/// What is left of a span from a place on, up to so many bytes.
size_t leftOf(size_t bytes, size_t from, size_t most) {
  return from >= bytes ? 0 : std::min(bytes - from, most);
}

void copy(char* to, const char* from, size_t bytes) {
  constexpr size_t kLarge = 2 << 20;
  if (bytes < kLarge) {
    std::memmove(to, from, bytes);
  } else if (from != to) {
    copyLarge(to, from, bytes);
  }
}

} // namespace

SharedTransport::SharedTransport(
    remote::Mapping board,
    int rank,
    std::vector<Rank> ranks,
    std::string group)
    : memory_(std::move(board)),
      board_(memory_.data(), rank, static_cast<int>(ranks.size()), group),
      rank_(rank),
      size_(static_cast<int>(ranks.size())),
      group_(std::move(group)),
      ranks_(std::move(ranks)),
      offers_(ranks_.size()) {
  std::vector<std::unique_ptr<PeerProcess>> peers(ranks_.size());
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (static_cast<int>(i) != rank_) {
      peers[i] = std::make_unique<PeerProcess>(ranks_[i].process);
    }
  }
  board_.watch(std::move(peers));
}

void SharedTransport::abort(const std::string& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.empty()) {
      aborted_ = why;
    }
  }
  board_.fail(why);
  if (messages_) {
    messages_->abort(why);
  }
}

// --- what ranks say of their memory -------------------------------------------------

bool SharedTransport::find(const Span* span, Place* place) const {
  *place = {};
  if (!span || span->bytes == 0) {
    return true;
  }
  const auto& memories = ranks_[static_cast<size_t>(rank_)].memories;
  for (size_t i = 0; i < memories.size(); ++i) {
    const char* base = memories[i].base;
    if (span->data >= base &&
        span->data + span->bytes <= base + memories[i].address.bytes) {
      *place = {i, static_cast<uint64_t>(span->data - base), span->bytes};
      return true;
    }
  }
  return false;
}

// Another rank's memory; nothing that it says is taken for granted.
char* SharedTransport::reach(
    int peer,
    const Place& place,
    uint64_t bytes,
    DataType type) {
  if (bytes == 0) {
    return nullptr;
  }
  auto& memories = ranks_[static_cast<size_t>(peer)].memories;
  if (place.memory >= memories.size() || place.bytes != bytes ||
      place.offset % sizeOf(type) != 0 ||
      place.offset > memories[place.memory].address.bytes ||
      bytes > memories[place.memory].address.bytes - place.offset) {
    throw Failure(
        "rank " + std::to_string(peer) + " of group '" + group_ +
        "' offers memory that it does not have");
  }
  Memory& memory = memories[place.memory];
  if (!memory.base) {
    mapped_.emplace_back(openPeerFile(memory.address), memory.address.bytes);
    memory.base = mapped_.back().data();
  }
  return memory.base + place.offset;
}

void SharedTransport::tryMemories(int peer) const {
  for (const Memory& memory : ranks_[static_cast<size_t>(peer)].memories) {
    openPeerFile(memory.address);
  }
}

void SharedTransport::checkOffers(const Collective& call) {
  for (int peer = 0; peer < size_; ++peer) {
    const Offer theirs = board_.offerOf(peer);
    offers_[static_cast<size_t>(peer)] = theirs;
    if (peer != rank_) {
      checkMatches(
          headerFor(call, peer, sequence_), rank_, theirs.header, peer, group_);
    }
  }
}

// --- calls ----------------------------------------------------------------------

Moment SharedTransport::run(const Collective& call, Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_.empty()) {
      throw Failure(aborted_);
    }
  }
  try {
    uint64_t longest = 0;
    bool direct = true;
    for (int peer = 0; peer < size_; ++peer) {
      longest = std::max<uint64_t>(longest, call.gives(peer));
    }
    const bool small = longest <= kSmall;
    for (int peer = 0; peer < size_; ++peer) {
      Offer& offer = board_.offerTo(peer);
      offer.header = headerFor(call, peer, sequence_);
      offer.longest = longest;
      direct = find(call.given(peer), &offer.given) && direct;
      // Of a broadcast all ranks write to all.
      direct = find(
                   call.kind == Kind::Broadcast ? call.outputs.data()
                                                : call.taken(peer),
                   &offer.taken) &&
          direct;
    }
    if (small) {
      stage(call, 0);
    }
    board_.setWays(
        (small ? SharedBoard::Staged : 0u) |
        (direct ? SharedBoard::Direct : 0u));
    board_.meet(deadline);
    const Moment met = std::chrono::steady_clock::now();
    checkOffers(call);
    ++sequence_;
    uint32_t ways = SharedBoard::Staged | SharedBoard::Direct;
    for (int peer = 0; peer < size_; ++peer) {
      ways &= board_.waysOf(peer);
    }
    if ((ways & SharedBoard::Staged) != 0) {
      Sources sources(static_cast<size_t>(size_));
      for (int peer = 0; peer < size_; ++peer) {
        sources[static_cast<size_t>(peer)] = stagingOf(call, peer);
      }
      take(call, sources, 0, kSmall);
    } else if ((ways & SharedBoard::Direct) != 0) {
      runDirect(call, deadline);
    } else {
      runInParts(call, deadline);
    }
    return met;
  } catch (const std::exception& error) {
    board_.fail(error.what());
    throw;
  }
}

// Called before a meeting for its turn, and after it to read.
const char* SharedTransport::stagingOf(const Collective& call, int owner)
    const {
  return board_.staging(
      owner, givesOne(call.kind) ? owner : rank_, board_.turns());
}

void SharedTransport::stage(const Collective& call, size_t from) {
  const uint64_t turn = board_.turns() + 1; // that of the next meeting
  for (int peer = 0; peer < size_; ++peer) {
    const bool one = givesOne(call.kind);
    const int reader = one ? rank_ : peer;
    const Span* span = call.given(one && call.root >= 0 ? call.root : peer);
    const size_t bytes =
        span ? leftOf(span->bytes, from, SharedBoard::kStaging) : 0;
    if (bytes > 0) {
      std::memcpy(
          board_.staging(rank_, reader, turn), span->data + from, bytes);
    }
    if (one) {
      return;
    }
  }
}

// Takes a part of what others give: bytes from `from` on, which begin at `sources`.
void SharedTransport::take(
    const Collective& call,
    const Sources& sources,
    size_t from,
    size_t most) const {
  if (reduces(call.kind)) {
    if (call.outputs.empty()) {
      return; // not the root
    }
    const Span& result = call.outputs[0];
    const size_t bytes = leftOf(result.bytes, from, most);
    std::vector<Operand> operands(static_cast<size_t>(size_));
    for (int peer = 0; peer < size_; ++peer) {
      const auto i = static_cast<size_t>(peer);
      operands[i] = {
          peer == rank_ ? call.given(rank_)->data + from : sources[i],
          peer == rank_ ? call.factor : offers_[i].header.factor};
    }
    void* const to = result.data + from;
    reduce(
        call.type,
        call.operation,
        operands,
        {&to, 1},
        bytes / sizeOf(call.type));
    return;
  }
  for (int step = 0; step < size_; ++step) {
    const int peer = (rank_ + step) % size_; // not all from the same one
    const Span* to = call.taken(peer);
    const size_t bytes = to ? leftOf(to->bytes, from, most) : 0;
    if (bytes == 0) {
      continue;
    }
    const char* source = peer == rank_ ? call.given(rank_)->data + from
                                       : sources[static_cast<size_t>(peer)];
    copy(to->data + from, source, bytes);
  }
}

void SharedTransport::runDirect(const Collective& call, Deadline deadline) {
  const auto size = static_cast<size_t>(size_);
  Sources sources(size);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) {
      const auto i = static_cast<size_t>(peer);
      sources[i] = reach(peer, offers_[i].given, call.takes(peer), call.type);
    }
  }
  if (call.kind == Kind::Broadcast) {
    broadcastDirect(call);
    board_.meet(deadline);
    return;
  }
  if (call.kind != Kind::AllReduce) {
    take(call, sources, 0, SIZE_MAX);
    board_.meet(deadline);
    return;
  }
  // Each rank has a part that it alone reads and writes, in the memory of all.
  const Span own = sliceOf(call.outputs[0], rank_, size_, sizeOf(call.type));
  const size_t begin = static_cast<size_t>(own.data - call.outputs[0].data);
  std::vector<Operand> operands(size);
  std::vector<void*> results(size);
  for (int peer = 0; peer < size_; ++peer) {
    const auto i = static_cast<size_t>(peer);
    const char* data = peer == rank_ ? call.outputs[0].data : sources[i];
    operands[i] = {
        data + begin, peer == rank_ ? call.factor : offers_[i].header.factor};
    results[i] = const_cast<char*>(data) + begin;
  }
  reduce(
      call.type,
      call.operation,
      operands,
      results,
      own.bytes / sizeOf(call.type));
  board_.meet(deadline);
}

// Each rank has a part that it reads from the root and writes to all others.
void SharedTransport::broadcastDirect(const Collective& call) {
  const Span& memory = call.outputs[0];
  std::vector<char*> places;
  char* root = memory.data;
  for (int peer = 0; peer < size_; ++peer) {
    char* const place = peer == rank_
        ? memory.data
        : reach(
              peer,
              offers_[static_cast<size_t>(peer)].taken,
              memory.bytes,
              call.type);
    if (peer == call.root) {
      root = place;
    } else {
      places.push_back(place);
    }
  }
  const Span own = sliceOf(memory, rank_, size_, 1);
  const auto begin = static_cast<size_t>(own.data - memory.data);
  const auto copyPast = own.bytes < kPart ? copy : copyLarge;
  for (size_t from = begin; from < begin + own.bytes; from += kPart) {
    const size_t bytes = std::min(kPart, begin + own.bytes - from);
    for (char* place : places) {
      copyPast(place + from, root + from, bytes);
    }
  }
}

void SharedTransport::runInParts(const Collective& call, Deadline deadline) {
  // As many parts for all, whatever passes between two of them.
  uint64_t longest = 0;
  for (const Offer& offer : offers_) {
    longest = std::max(longest, offer.longest);
  }
  Sources sources(static_cast<size_t>(size_));
  for (size_t from = 0; from < longest; from += SharedBoard::kStaging) {
    stage(call, from);
    board_.meet(deadline);
    for (int peer = 0; peer < size_; ++peer) {
      sources[static_cast<size_t>(peer)] = stagingOf(call, peer);
    }
    take(call, sources, from, SharedBoard::kStaging);
  }
}

} // namespace c10::openreg::occl
