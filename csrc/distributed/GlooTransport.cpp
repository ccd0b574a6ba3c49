#include "distributed/GlooTransport.h"

#include "distributed/Reduction.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

namespace c10::openreg::occl {
namespace {

// Messages of collectives come in order, so all have one tag; those of the user get
// two, the first for the header.
constexpr int kCollective = 0;
int headerTag(int tag) {
  return 1 + 2 * tag;
}
int bodyTag(int tag) {
  return 2 + 2 * tag;
}

constexpr size_t kDirect = 64 * 1024; // bytes that are sent whole
constexpr size_t kPiece = 4 << 20; // bytes of a rank that are reduced at a time

template <class T>
Span spanOf(T& value) {
  return {reinterpret_cast<char*>(&value), sizeof(T)};
}

} // namespace

/// A message on its way. abort() finds it until it is destroyed.
struct GlooTransport::Message {
  Message(
      GlooTransport& transport,
      c10::intrusive_ptr<c10d::Work> begun,
      int other)
      : owner(transport), work(std::move(begun)), peer(other) {
    const std::lock_guard lock(owner.mutex_);
    owner.works_.insert(work.get());
  }
  ~Message() {
    const std::lock_guard lock(owner.mutex_);
    owner.works_.erase(work.get());
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  GlooTransport& owner;
  const c10::intrusive_ptr<c10d::Work> work;
  const int peer;
};

GlooTransport::GlooTransport(
    c10::intrusive_ptr<c10d::Backend> engine,
    std::string group)
    : engine_(std::move(engine)),
      group_(std::move(group)),
      rank_(engine_->getRank()),
      size_(engine_->getSize()),
      factors_(static_cast<size_t>(size_), 1) {}

// --- messages -------------------------------------------------------------------

std::unique_ptr<GlooTransport::Message> GlooTransport::begin(
    Kind kind,
    int peer,
    int tag,
    Span memory) {
  std::vector<at::Tensor> tensors{at::from_blob(
      memory.data, static_cast<int64_t>(memory.bytes), at::kByte)};
  try {
    auto work = kind == Kind::Send ? engine_->send(tensors, peer, tag)
        : peer < 0                 ? engine_->recvAnysource(tensors, tag)
                                   : engine_->recv(tensors, peer, tag);
    return std::make_unique<Message>(*this, std::move(work), peer);
  } catch (const std::exception& error) {
    throwUnreachable(peer, std::string(": ") + error.what()); // it has ended
  }
}

void GlooTransport::throwUnreachable(int peer, const std::string& why) const {
  const std::string who =
      peer < 0 ? "any rank" : "rank " + std::to_string(peer);
  throw Failure(
      "rank " + std::to_string(rank_) + " waited in vain for " + who +
      " of group '" + group_ + "'" + why);
}

void GlooTransport::finish(Message& message, Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  std::string error;
  bool done = false;
  try {
    done = message.work->wait(std::max(left, std::chrono::milliseconds(1)));
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  checkUsable();
  if (!done) {
    const bool late = std::chrono::steady_clock::now() >= deadline;
    throwUnreachable(
        message.peer, late ? ", until the timeout was over" : ": " + error);
  }
}

void GlooTransport::finishAll(Works& works, Deadline deadline) {
  for (const auto& message : works) {
    finish(*message, deadline);
  }
  works.clear();
}

void GlooTransport::checkUsable() {
  const std::lock_guard lock(mutex_);
  if (!aborted_.empty()) {
    throw Failure(aborted_);
  }
}

void GlooTransport::abort(const std::string& why) noexcept {
  const std::lock_guard lock(mutex_);
  if (aborted_.empty()) {
    aborted_ = why;
  }
  for (c10d::Work* work : works_) {
    try {
      work->abort();
    } catch (const std::exception&) {
      // It is over already.
    }
  }
}

void GlooTransport::exchange(
    const std::vector<Span>& give,
    const std::vector<Span>& take,
    Deadline deadline) {
  Works works;
  for (int peer = 0; peer < size_; ++peer) {
    const Span& memory = take[static_cast<size_t>(peer)];
    if (peer != rank_ && memory.bytes > 0) {
      works.push_back(begin(Kind::Receive, peer, kCollective, memory));
    }
  }
  for (int peer = 0; peer < size_; ++peer) {
    const Span& memory = give[static_cast<size_t>(peer)];
    if (peer != rank_ && memory.bytes > 0) {
      works.push_back(begin(Kind::Send, peer, kCollective, memory));
    }
  }
  const Span& from = give[static_cast<size_t>(rank_)];
  const Span& to = take[static_cast<size_t>(rank_)];
  if (from.bytes > 0 && from.data != to.data && to.bytes > 0) {
    std::memmove(to.data, from.data, to.bytes);
  }
  finishAll(works, deadline);
}

void GlooTransport::checkHeaders(const Collective& call, Deadline deadline) {
  const auto size = static_cast<size_t>(size_);
  std::vector<Header> ours(size), theirs(size);
  std::vector<Span> give(size), take(size);
  for (int peer = 0; peer < size_; ++peer) {
    const auto i = static_cast<size_t>(peer);
    ours[i] = headerFor(call, peer, sequence_);
    if (peer != rank_) {
      give[i] = spanOf(ours[i]);
      take[i] = spanOf(theirs[i]);
    }
  }
  const auto check = [&](int peer) {
    const auto i = static_cast<size_t>(peer);
    factors_[i] = peer == rank_ ? call.factor : theirs[i].factor;
    if (peer != rank_) {
      checkMatches(ours[i], rank_, theirs[i], peer, group_);
    }
  };
  constexpr uint64_t kNone = UINT64_MAX;
  for (Header& header : theirs) {
    header.sequence = kNone;
  }
  try {
    exchange(give, take, deadline);
  } catch (const Failure&) {
    // A rank that found a mismatch may have hung up already; its own message says why.
    for (int peer = 0; peer < size_; ++peer) {
      if (theirs[static_cast<size_t>(peer)].sequence != kNone) {
        check(peer);
      }
    }
    throw;
  }
  for (int peer = 0; peer < size_; ++peer) {
    check(peer);
  }
}

// --- collectives ----------------------------------------------------------------

Moment GlooTransport::run(const Collective& call, Deadline deadline) {
  checkUsable();
  checkHeaders(call, deadline);
  const Moment met = std::chrono::steady_clock::now();
  ++sequence_;
  const auto size = static_cast<size_t>(size_);
  switch (call.kind) {
    case Kind::Barrier:
      break; // the headers were one
    case Kind::AllReduce:
      allReduce(call, deadline);
      break;
    case Kind::Broadcast:
      broadcast(call.outputs[0], call.root, deadline);
      break;
    case Kind::Reduce: {
      std::vector<Span> give(size);
      give[static_cast<size_t>(call.root)] = call.inputs[0];
      reduceTo(
          call,
          give,
          call.inputs[0],
          rank_ == call.root ? call.outputs[0] : Span{},
          deadline);
      break;
    }
    case Kind::ReduceScatter:
      reduceTo(
          call,
          call.inputs,
          call.inputs[static_cast<size_t>(rank_)],
          call.outputs[0],
          deadline);
      break;
    default: {
      std::vector<Span> give(size), take(size);
      for (int peer = 0; peer < size_; ++peer) {
        const auto i = static_cast<size_t>(peer);
        give[i] = call.given(peer) ? *call.given(peer) : Span{};
        take[i] = call.taken(peer) ? *call.taken(peer) : Span{};
      }
      exchange(give, take, deadline);
    }
  }
  return met;
}

void GlooTransport::broadcast(const Span& memory, int root, Deadline deadline) {
  const auto size = static_cast<size_t>(size_);
  std::vector<Span> give(size), take(size);
  if (memory.bytes <= kDirect || size_ == 2) {
    if (rank_ == root) {
      std::fill(give.begin(), give.end(), memory);
    } else {
      take[static_cast<size_t>(root)] = memory;
    }
    exchange(give, take, deadline);
    return;
  }
  // The root sends each rank a part, and they send it to each other.
  const Span own = sliceOf(memory, rank_, size_, 1);
  if (rank_ == root) {
    for (int peer = 0; peer < size_; ++peer) {
      give[static_cast<size_t>(peer)] = sliceOf(memory, peer, size_, 1);
    }
  } else {
    take[static_cast<size_t>(root)] = own;
  }
  exchange(give, take, deadline);
  for (int peer = 0; peer < size_; ++peer) {
    const auto i = static_cast<size_t>(peer);
    give[i] = peer == root ? Span{} : own;
    take[i] = rank_ == root ? Span{} : sliceOf(memory, peer, size_, 1);
  }
  if (rank_ == root) {
    std::fill(give.begin(), give.end(), own); // others lack the part it kept
  }
  exchange(give, take, deadline);
}

void GlooTransport::allReduce(const Collective& call, Deadline deadline) {
  const Span& memory = call.outputs[0];
  const auto size = static_cast<size_t>(size_);
  if (memory.bytes <= kDirect / 4) {
    const std::vector<Span> give(size, memory);
    reduceTo(call, give, memory, memory, deadline);
    return;
  }
  std::vector<Span> slices(size);
  for (int peer = 0; peer < size_; ++peer) {
    slices[static_cast<size_t>(peer)] =
        sliceOf(memory, peer, size_, sizeOf(call.type));
  }
  const Span own = slices[static_cast<size_t>(rank_)];
  reduceTo(call, slices, own, own, deadline);
  exchange(std::vector<Span>(size, own), slices, deadline);
}

// Gives parts of memory away, and reduces what the others give for `result`.
void GlooTransport::reduceTo(
    const Collective& call,
    const std::vector<Span>& give,
    Span own,
    Span result,
    Deadline deadline) {
  const auto size = static_cast<size_t>(size_);
  const auto self = static_cast<size_t>(rank_);
  const size_t element = sizeOf(call.type);
  size_t longest = result.bytes;
  for (const Span& span : give) {
    longest = std::max(longest, span.bytes);
  }
  std::vector<std::vector<char>> staging(size);
  std::vector<Operand> operands(size);
  for (size_t from = 0; from < longest; from += kPiece) {
    const auto piece = [&](const Span& span) {
      const size_t begin = std::min(from, span.bytes);
      return Span{span.data + begin, std::min(kPiece, span.bytes - begin)};
    };
    const Span target = piece(result);
    std::vector<Span> gives(size), takes(size);
    for (size_t i = 0; i < size; ++i) {
      if (i == self) {
        operands[i] = {own.data + from, factors_[i]};
        continue;
      }
      gives[i] = piece(give[i]);
      staging[i].resize(target.bytes);
      takes[i] = {staging[i].data(), target.bytes};
      operands[i] = {staging[i].data(), factors_[i]};
    }
    exchange(gives, takes, deadline);
    if (target.bytes > 0) {
      void* const to = target.data;
      reduce(
          call.type,
          call.operation,
          operands,
          {&to, 1},
          target.bytes / element);
    }
  }
}

// --- single messages --------------------------------------------------------------

void GlooTransport::transfer(
    const std::vector<Transfer>& messages,
    Deadline deadline) {
  checkUsable();
  std::vector<Header> data(messages.size()); // outlives the messages
  Works works;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Transfer& message = messages[i];
    data[i] = {};
    if (message.kind == Kind::Send) {
      data[i].kind = static_cast<uint8_t>(Kind::Send);
      data[i].dtype = static_cast<uint8_t>(message.dtype);
      data[i].gives = message.memory.bytes;
      data[i].root = -1;
      works.push_back(begin(
          Kind::Send, message.peer, headerTag(message.tag), spanOf(data[i])));
      if (message.memory.bytes > 0) {
        works.push_back(begin(
            Kind::Send, message.peer, bodyTag(message.tag), message.memory));
      }
    }
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const Transfer& message = messages[i];
    if (message.kind == Kind::Send) {
      continue;
    }
    const auto header = begin(
        Kind::Receive, message.peer, headerTag(message.tag), spanOf(data[i]));
    finish(*header, deadline);
    const int source =
        message.peer < 0 ? header->work->sourceRank() : message.peer;
    if (message.source) {
      *message.source = source;
    }
    if (data[i].gives != message.memory.bytes) {
      throw Failure(
          "rank " + std::to_string(source) + " of group '" + group_ +
          "' sent " + std::to_string(data[i].gives) + " bytes with tag " +
          std::to_string(message.tag) + ", but rank " + std::to_string(rank_) +
          " receives " + std::to_string(message.memory.bytes));
    }
    if (message.memory.bytes > 0) {
      works.push_back(
          begin(Kind::Receive, source, bodyTag(message.tag), message.memory));
    }
  }
  finishAll(works, deadline);
}

} // namespace c10::openreg::occl
