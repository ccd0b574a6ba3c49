// One collective, as bytes in memory. Free of torch, so that what moves the bytes is
// tested under the sanitizers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace c10::openreg::occl {

enum class Kind : uint8_t {
  AllReduce,
  Broadcast,
  Reduce,
  AllGather,
  Gather,
  Scatter,
  ReduceScatter,
  AllToAll,
  Barrier,
  Send,
  Receive
};

enum class DataType : uint8_t {
  Bytes, ///< can be moved and not reduced
  Bool,
  UInt8,
  Int8,
  UInt16,
  Int16,
  UInt32,
  Int32,
  UInt64,
  Int64,
  Half,
  BFloat16,
  Float,
  Double
};

enum class Operation : uint8_t {
  None,
  Sum,
  Average,
  Product,
  Min,
  Max,
  And,
  Or,
  Xor,
  PremulSum
};

const char* nameOf(Kind kind);
const char* nameOf(DataType type);
const char* nameOf(Operation operation);
size_t sizeOf(DataType type);

/// Memory at an address that this process may read and write.
struct Span {
  char* data = nullptr;
  size_t bytes = 0;
};

/// The part of memory that a rank of `size` works on: whole elements, about as many for
/// each.
Span sliceOf(const Span& memory, int rank, int size, size_t element);

// docs:begin collective
/// A call, as seen by one rank. How many spans it has depends on its kind and root:
///
/// | kind           | inputs                 | outputs               |
/// | -------------- | ---------------------- | --------------------- |
/// | all_reduce     | 1, the output itself   | 1                     |
/// | broadcast      | 1 in the root          | 1                     |
/// | reduce         | 1                      | 1 in the root         |
/// | all_gather     | 1                      | one per rank          |
/// | gather         | 1                      | one per rank, in root |
/// | scatter        | one per rank, in root  | 1                     |
/// | reduce_scatter | one per rank           | 1                     |
/// | all_to_all     | one per rank           | one per rank          |
/// | barrier        |                        |                       |
///
/// Sizes may differ from rank to rank, as long as one rank sends what the other expects.
// docs:end collective
struct Collective {
  Kind kind = Kind::Barrier;
  DataType type = DataType::Bytes;
  Operation operation = Operation::None;
  int root = -1; ///< or none
  double factor = 1; ///< of this rank, for PremulSum
  int dtype = 0; ///< what the caller calls the type, a c10::ScalarType
  std::vector<Span> inputs;
  std::vector<Span> outputs;

  /// The bytes that this rank gives to another one, and takes from it.
  size_t gives(int peer) const;
  size_t takes(int peer) const;
  /// What it gives and takes, for a rank of that many.
  const Span* given(int peer) const;
  const Span* taken(int peer) const;
};

// docs:begin call-header
/// What ranks tell each other about a call before any of them touches another's memory.
/// Another process has written it, so nothing in it is trusted before matches().
struct Header {
  uint64_t sequence;
  uint64_t gives; ///< bytes for the rank that reads this
  uint64_t takes; ///< bytes from that rank
  double factor;
  int32_t root;
  uint8_t kind;
  uint8_t type;
  uint8_t operation;
  uint8_t dtype;
};
// docs:end call-header

/// The header of a call for a peer.
Header headerFor(const Collective& call, int peer, uint64_t sequence);

/// A header in words, whatever is in it: `all_reduce(SUM, float32, 16 bytes)`.
std::string describe(const Header& header);

/// Throws Failure, with both calls, unless a peer's header is of the same call as ours.
void checkMatches(
    const Header& ours,
    int rank,
    const Header& theirs,
    int peer,
    const std::string& group);

/// One message from a rank to another.
struct Transfer {
  Kind kind = Kind::Send; ///< or Receive
  int peer = -1; ///< or any, to receive
  int tag = 0;
  int dtype = 0;
  Span memory = {};
  int* source = nullptr; ///< set to the rank that sent it
};

/// Why a collective will never end. Its group cannot be used any more.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Moment = std::chrono::steady_clock::time_point;
using Deadline = Moment;

/// Moves the bytes of one group's calls.
///
/// Threads: run() is called by one at a time, transfer() and abort() by any.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual const char* name() const = 0;

  /// Returns when this rank's part is done, with the moment at which the last rank
  /// arrived. Throws Failure if a peer calls something else, ends, or does not arrive
  /// before the deadline.
  virtual Moment run(const Collective& call, Deadline deadline) = 0;

  /// Sends and receives messages that may depend on each other.
  virtual void transfer(
      const std::vector<Transfer>& messages,
      Deadline deadline) = 0;

  /// Makes the running call and all later ones fail with a sentence.
  virtual void abort(const std::string& why) noexcept = 0;
};

} // namespace c10::openreg::occl
