// The block pool's rules without its data structures: every question is answered
// by looking at all pieces of all segments.
#pragma once

#include "fake_device.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace openreg::testing {

class Model {
 public:
  using Stream = FakeStream*;
  enum State { Free, Allocated, Parked };
  static constexpr int kCommon =
      0; // the default pool; private ones have numbers

  struct Piece {
    char* pointer;
    size_t size;
    State state = Free;
    size_t requested = 0;
    std::vector<Stream> users{}; // noted, but there are no events for them yet
    std::vector<std::pair<Stream, int64_t>> events{}; // while parked
  };
  struct Segment {
    Stream stream;
    bool small;
    int pool;
    std::vector<Piece> pieces; // by address, without gaps
  };
  /// Where allocations of a stream, or of all (nullptr), go.
  struct Route {
    int pool;
    Stream stream;
  };

  std::vector<Route> routes;
  int users[3] = {}; // of each pool

  // --- what the pool does ---

  /// Parked pieces whose events have happened are free again.
  void reclaim() {
    if (routes.empty()) {
      recordDeferred();
      freeParked([](const Segment& /*segment*/, const Piece& piece) {
        return std::all_of(
            piece.events.begin(), piece.events.end(), [](const auto& event) {
              return event.first->finished >= event.second;
            });
      });
    }
  }

  /// All events of one pool have been waited for.
  void reclaimPool(int pool) {
    if (routes.empty()) {
      recordDeferred();
    }
    freeParked([&](const Segment& segment, const Piece& piece) {
      return segment.pool == pool && piece.users.empty();
    });
  }

  /// The address that the smallest free piece has; none: a segment is needed.
  std::optional<char*> bestFit(size_t size, Stream stream) const {
    const Piece* best = nullptr;
    for (const Segment& segment : segments_) {
      if (segment.stream != stream || segment.small != isSmall(size) ||
          segment.pool != poolOf(stream)) {
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
    segments_.push_back({stream, small, poolOf(stream), {{pointer, size}}});
  }

  /// Forgets whole segments that are free, as emptyCache() of a pool does.
  void release(int pool) {
    std::erase_if(segments_, [&](const Segment& segment) {
      const bool wanted = segment.pool == kCommon
          ? pool == kCommon && routes.empty()
          : users[segment.pool] == 0 &&
              (pool == kCommon || pool == segment.pool);
      return wanted && segment.pieces.size() == 1 &&
          segment.pieces[0].state == Free;
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
    auto& noted = segment->pieces[at].users;
    if (stream != segment->stream &&
        std::find(noted.begin(), noted.end(), stream) == noted.end()) {
      noted.push_back(stream);
    }
  }

  void free(char* pointer) {
    auto [segment, at] = find(pointer);
    Piece& piece = segment->pieces[at];
    piece.state = piece.users.empty() ? Free : Parked;
    if (routes.empty()) {
      recordEvents(piece);
    }
    join(segment->pieces);
  }

  // --- what can be seen of it ---

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

  /// By address.
  std::vector<Segment> segments() const {
    auto sorted = segments_;
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return a.pieces[0].pointer < b.pieces[0].pointer;
    });
    return sorted;
  }

  static bool isSmall(size_t size) {
    return size <= kMiB;
  }

 private:
  int poolOf(Stream stream) const {
    for (auto route = routes.rbegin(); route != routes.rend(); ++route) {
      if (!route->stream || route->stream == stream) {
        return route->pool;
      }
    }
    return kCommon;
  }

  static void recordEvents(Piece& piece) {
    for (Stream user : std::exchange(piece.users, {})) {
      piece.events.emplace_back(user, user->queued);
    }
  }

  void recordDeferred() {
    for (Segment& segment : segments_) {
      for (Piece& piece : segment.pieces) {
        if (piece.state == Parked) {
          recordEvents(piece);
        }
      }
    }
  }

  template <class Which>
  void freeParked(Which which) {
    for (Segment& segment : segments_) {
      for (Piece& piece : segment.pieces) {
        if (piece.state == Parked && which(segment, piece)) {
          piece.state = Free;
          piece.events.clear();
        }
      }
      join(segment.pieces);
    }
  }

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

} // namespace openreg::testing
