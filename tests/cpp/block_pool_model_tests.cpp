// The block pool against a model of it. Free of torch, so that it also runs under
// the sanitizers.
#include "fake_device.h"

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <stdexcept>

namespace openreg::testing {
namespace {

// --- a model ------------------------------------------------------------------

/// The pool's rules without its data structures: every question is answered by
/// looking at all pieces of all segments.
class Model {
 public:
  using Stream = FakeStream*;
  enum State { Free, Allocated, Parked };

  struct Piece {
    char* pointer;
    size_t size;
    State state = Free;
    size_t requested = 0;
    std::vector<Stream> users{}; // other streams, noted while allocated
    std::vector<std::pair<Stream, int64_t>> events{}; // while parked
  };
  struct Segment {
    Stream stream;
    bool small;
    std::vector<Piece> pieces; // by address, without gaps
  };

  /// Parked pieces whose events have happened are free again.
  void reclaim() {
    for (Segment& segment : segments_) {
      for (Piece& piece : segment.pieces) {
        const auto happened = [](const auto& event) {
          return event.first->finished >= event.second;
        };
        if (piece.state == Parked &&
            std::all_of(piece.events.begin(), piece.events.end(), happened)) {
          piece.state = Free;
          piece.events.clear();
        }
      }
      join(segment.pieces);
    }
  }

  /// The address that the smallest free piece has; none: a segment is needed.
  std::optional<char*> bestFit(size_t size, Stream stream) const {
    const Piece* best = nullptr;
    for (const Segment& segment : segments_) {
      if (segment.stream != stream || segment.small != isSmall(size)) {
        continue;
      }
      for (const Piece& piece : segment.pieces) {
        if (piece.state == Free && piece.size >= size &&
            (!best ||
             std::pair(piece.size, piece.pointer) <
                 std::pair(best->size, best->pointer))) {
          best = &piece;
        }
      }
    }
    return best ? std::optional(best->pointer) : std::nullopt;
  }

  void addSegment(char* pointer, size_t size, Stream stream, bool small) {
    segments_.push_back({stream, small, {{pointer, size}}});
  }

  /// Forgets whole segments that are free.
  void release() {
    std::erase_if(segments_, [](const Segment& segment) {
      return segment.pieces.size() == 1 && segment.pieces[0].state == Free;
    });
  }

  void allocate(char* pointer, size_t size, size_t requested) {
    auto [segment, at] = find(pointer);
    Piece& piece = segment->pieces[at];
    ASSERT_EQ(piece.state, Free);
    ASSERT_GE(piece.size, size);
    piece.state = Allocated;
    piece.requested = requested;
    const size_t rest = piece.size - size;
    if (segment->small ? rest >= 512 : rest > kMiB) {
      piece.size = size;
      segment->pieces.insert(
          segment->pieces.begin() + static_cast<ptrdiff_t>(at) + 1,
          {pointer + size, rest});
    }
  }

  void recordStream(char* pointer, Stream stream) {
    auto [segment, at] = find(pointer);
    auto& users = segment->pieces[at].users;
    if (stream != segment->stream &&
        std::find(users.begin(), users.end(), stream) == users.end()) {
      users.push_back(stream);
    }
  }

  void free(char* pointer) {
    auto [segment, at] = find(pointer);
    Piece& piece = segment->pieces[at];
    for (Stream user : piece.users) {
      piece.events.emplace_back(user, user->queued);
    }
    piece.users.clear();
    piece.state = piece.events.empty() ? Free : Parked;
    join(segment->pieces);
  }

  /// Current figures, counted anew.
  PoolStats recount() const {
    PoolStats stats;
    for (const Segment& segment : segments_) {
      const auto add = [&](PoolStats::Array& array, size_t amount) {
        array[PoolStats::All].current += static_cast<int64_t>(amount);
        array[segment.small ? PoolStats::Small : PoolStats::Large].current +=
            static_cast<int64_t>(amount);
      };
      add(stats.segment, 1);
      for (const Piece& piece : segment.pieces) {
        add(stats.reservedBytes, piece.size);
        if (piece.state == Allocated) {
          add(stats.allocation, 1);
          add(stats.allocatedBytes, piece.size);
        }
        if (piece.state != Free) {
          add(stats.active, 1);
          add(stats.activeBytes, piece.size);
          add(stats.requestedBytes, piece.requested);
        } else if (segment.pieces.size() > 1) {
          add(stats.inactiveSplit, 1);
          add(stats.inactiveSplitBytes, piece.size);
        }
      }
    }
    return stats;
  }

  static bool isSmall(size_t size) {
    return size <= kMiB;
  }

 private:
  std::pair<Segment*, size_t> find(char* pointer) {
    for (Segment& segment : segments_) {
      for (size_t i = 0; i < segment.pieces.size(); ++i) {
        if (segment.pieces[i].pointer == pointer) {
          return {&segment, i};
        }
      }
    }
    throw std::logic_error("no piece starts at the pointer");
  }

  static void join(std::vector<Piece>& pieces) {
    for (size_t i = 1; i < pieces.size();) {
      if (pieces[i - 1].state == Free && pieces[i].state == Free) {
        pieces[i - 1].size += pieces[i].size;
        pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }

  std::vector<Segment> segments_;
};

// --- random operations --------------------------------------------------------

class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {}

  void step() {
    const size_t choice = below(100);
    if (choice < 45) {
      allocate();
    } else if (choice < 80) {
      freeOne();
    } else if (choice < 90) {
      recordStream();
    } else if (choice < 99) {
      streams_[below(kStreams)].runAll();
    } else if (below(10) == 0) {
      emptyCache();
    }
    compare();
  }

  void finish() {
    while (!live_.empty()) {
      freeOne();
    }
    emptyCache();
    compare();
    EXPECT_TRUE(device_.segments.empty());
    EXPECT_EQ(device_.events(), 0u);
  }

  int64_t outOfMemory() {
    return outOfMemory_;
  }
  int64_t retries() {
    return retries_;
  }

 private:
  static constexpr size_t kStreams = 3;
  static constexpr size_t kCapacity = 200 * kMiB;

  size_t below(size_t bound) {
    return random_() % bound;
  }

  size_t randomSize() {
    const size_t most[] = {2000, 100'000, kMiB, 4 * kMiB, 30 * kMiB};
    return 1 + below(most[below(std::size(most))]);
  }

  static size_t segmentSize(size_t size) {
    return Model::isSmall(size) ? 2 * kMiB
        : size < 10 * kMiB      ? 20 * kMiB
                           : (size + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
  }

  void allocate() {
    const size_t bytes = randomSize();
    const size_t size = (bytes + 511) / 512 * 512;
    FakeStream* stream = &streams_[below(kStreams)];
    const bool mayWait = below(8) != 0;
    device_.mapped.clear();
    model_.reclaim();
    auto expected = model_.bestFit(size, stream);
    const bool retry = mayWait && !expected && !hasRoom(size);

    auto* pointer = static_cast<char*>(
        mayWait ? pool_.allocate(bytes, stream)
                : pool_.tryAllocate(bytes, stream));
    if (retry) { // then the pool has waited for all parked blocks
      ++retries_;
      model_.reclaim();
      model_.release();
      expected = model_.bestFit(size, stream);
    }
    if (!expected && hasRoom(size)) {
      ASSERT_EQ(device_.segments.at(pointer), segmentSize(size));
      model_.addSegment(
          pointer, segmentSize(size), stream, Model::isSmall(size));
      expected = pointer;
    } else if (!retry) {
      EXPECT_EQ(device_.mapped.size(), expected ? 0u : 1u);
    }
    ASSERT_EQ(pointer, expected.value_or(nullptr));
    if (!pointer) {
      outOfMemory_ += mayWait;
      return;
    }
    model_.allocate(pointer, size, bytes);
    live_.push_back(pointer);
  }

  bool hasRoom(size_t size) const {
    const auto reserved =
        model_.recount().reservedBytes[PoolStats::All].current;
    return segmentSize(size) <= kCapacity - static_cast<size_t>(reserved);
  }

  void freeOne() {
    if (live_.empty()) {
      return;
    }
    std::swap(live_[below(live_.size())], live_.back());
    char* pointer = live_.back();
    live_.pop_back();
    model_.free(pointer);
    EXPECT_TRUE(pool_.free(pointer));
    EXPECT_FALSE(pool_.free(pointer));
  }

  void recordStream() {
    if (!live_.empty()) {
      char* pointer = live_[below(live_.size())];
      FakeStream* stream = &streams_[below(kStreams)];
      model_.recordStream(pointer, stream);
      EXPECT_TRUE(pool_.recordStream(pointer, stream));
    }
  }

  void emptyCache() {
    pool_.emptyCache();
    model_.reclaim(); // the events have happened: the device waited for them
    model_.release();
  }

  void compare() {
    PoolStats stats = pool_.stats();
    PoolStats expected = model_.recount();
    std::vector<PoolStats::Array*> counted;
    expected.forEach([&](auto& array) { counted.push_back(&array); });
    size_t i = 0;
    stats.forEach([&](PoolStats::Array& array) {
      for (size_t kind = 0; kind < array.size(); ++kind) {
        const auto& stat = array[kind];
        ASSERT_EQ(stat.current, (*counted[i])[kind].current)
            << "figure " << i << ", kind " << kind;
        ASSERT_EQ(stat.current, stat.allocated - stat.freed);
        peaks_[i][kind] = std::max(peaks_[i][kind], stat.current);
        ASSERT_GE(stat.peak, peaks_[i][kind]);
      }
      ++i;
    });
    ASSERT_EQ(stats.outOfMemory, outOfMemory_);
    ASSERT_EQ(stats.retries, retries_);
    ASSERT_EQ(stats.maps - stats.unmaps, stats.segment[PoolStats::All].current);
    size_t reserved = 0;
    for (const auto& [pointer, size] : device_.segments) {
      reserved += size;
    }
    ASSERT_EQ(
        stats.reservedBytes[PoolStats::All].current,
        static_cast<int64_t>(reserved));
  }

  std::mt19937_64 random_;
  std::array<FakeStream, kStreams> streams_;
  FakeDevice device_{kCapacity};
  BlockPool pool_{device_};
  Model model_;
  std::vector<char*> live_;
  int64_t retries_ = 0;
  int64_t outOfMemory_ = 0;
  std::array<std::array<int64_t, PoolStats::Kinds>, 9> peaks_{};
};

TEST(BlockPoolModelTest, FiguresAndAddressesEqualTheModelsAfterEachOperation) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomProgram program(seed);
    for (int i = 0; i < 25'000; ++i) {
      program.step();
      if (HasFatalFailure() || HasNonfatalFailure()) {
        FAIL() << "in step " << i;
      }
    }
    program.finish();
    // Both must have been met, or the test shows less than it says.
    EXPECT_GT(program.outOfMemory(), 10);
    EXPECT_GT(program.retries(), program.outOfMemory());
  }
}

} // namespace
} // namespace openreg::testing
