#include "distributed/Collective.h"

#include <array>

namespace c10::openreg::occl {
namespace {

constexpr std::array kKinds{
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "gather",
    "scatter",
    "reduce_scatter",
    "all_to_all",
    "barrier",
    "send",
    "recv"};
constexpr std::array kTypes{
    "bytes",
    "bool",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "uint64",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64"};
constexpr std::array<size_t, kTypes.size()>
    kSizes{1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
constexpr std::array kOperations{
    "",
    "SUM",
    "AVG",
    "PRODUCT",
    "MIN",
    "MAX",
    "BAND",
    "BOR",
    "BXOR",
    "PREMUL_SUM"};

template <class Names>
const char* pick(const Names& names, size_t index) {
  return index < names.size() ? names[index] : "?";
}

const Span* spanFor(const std::vector<Span>& spans, int peer) {
  if (spans.empty()) {
    return nullptr;
  }
  return spans.size() == 1 ? spans.data() : &spans[static_cast<size_t>(peer)];
}

} // namespace

const char* nameOf(Kind kind) {
  return pick(kKinds, static_cast<size_t>(kind));
}

const char* nameOf(DataType type) {
  return pick(kTypes, static_cast<size_t>(type));
}

const char* nameOf(Operation operation) {
  return pick(kOperations, static_cast<size_t>(operation));
}

size_t sizeOf(DataType type) {
  return kSizes[static_cast<size_t>(type)];
}

Span sliceOf(const Span& memory, int rank, int size, size_t element) {
  const size_t elements = memory.bytes / element;
  const auto place = [&](int r) {
    return elements * static_cast<size_t>(r) / static_cast<size_t>(size) *
        element;
  };
  return {memory.data + place(rank), place(rank + 1) - place(rank)};
}

const Span* Collective::given(int peer) const {
  // To the root only, or by it.
  const bool toRoot = kind == Kind::Reduce || kind == Kind::Gather;
  return toRoot && peer != root ? nullptr : spanFor(inputs, peer);
}

const Span* Collective::taken(int peer) const {
  const bool fromRoot = kind == Kind::Broadcast || kind == Kind::Scatter;
  return fromRoot && peer != root ? nullptr : spanFor(outputs, peer);
}

size_t Collective::gives(int peer) const {
  const Span* span = given(peer);
  return span ? span->bytes : 0;
}

size_t Collective::takes(int peer) const {
  const Span* span = taken(peer);
  return span ? span->bytes : 0;
}

Header headerFor(const Collective& call, int peer, uint64_t sequence) {
  return {
      sequence,
      call.gives(peer),
      call.takes(peer),
      call.factor,
      call.root,
      static_cast<uint8_t>(call.kind),
      static_cast<uint8_t>(call.type),
      static_cast<uint8_t>(call.operation),
      static_cast<uint8_t>(call.dtype)};
}

std::string describe(const Header& header) {
  std::string text = pick(kKinds, header.kind);
  text += "(";
  if (header.operation != 0) {
    text += std::string(pick(kOperations, header.operation)) + ", ";
  }
  text += pick(kTypes, header.type);
  if (header.root >= 0) {
    text += ", root " + std::to_string(header.root);
  }
  return text + ", gives " + std::to_string(header.gives) + " and takes " +
      std::to_string(header.takes) + " bytes)";
}

void checkMatches(
    const Header& ours,
    int rank,
    const Header& theirs,
    int peer,
    const std::string& group) {
  if (ours.sequence == theirs.sequence && ours.kind == theirs.kind &&
      ours.type == theirs.type && ours.operation == theirs.operation &&
      ours.dtype == theirs.dtype && ours.root == theirs.root &&
      ours.gives == theirs.takes && ours.takes == theirs.gives) {
    return;
  }
  const auto tell = [](int who, const Header& header) {
    return "rank " + std::to_string(who) + " called " + describe(header) +
        " as number " + std::to_string(header.sequence);
  };
  throw Failure(
      "the ranks of group '" + group + "' call different collectives: " +
      tell(rank, ours) + ", but " + tell(peer, theirs) +
      "; nothing was sent. All ranks must make the same calls in the same "
      "order, with sizes and types that fit");
}

} // namespace c10::openreg::occl
