// The default pool of a device and its private pools.
#pragma once

#include "runtime/pool/FreeBlocks.h"

#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace c10::openreg {

/// Gives memory for work of a stream, as BlockDevice::mapSegment() does.
using SegmentSource = std::function<void*(size_t bytes, void* stream)>;

/// The memory behind a PoolId: its free blocks, for each stream. The pool's lock
/// guards it.
struct PoolArena {
  struct Cache {
    Cache(PoolArena& arena, void* stream)
        : small(arena, stream, PoolCounter::Small),
          large(arena, stream, PoolCounter::Large) {}

    FreeBlocks& of(PoolCounter::Kind kind) {
      return kind == PoolCounter::Small ? small : large;
    }

    FreeBlocks small, large;
  };

  explicit PoolArena(PoolId name) : id(name) {}
  PoolArena(const PoolArena&) = delete;
  PoolArena& operator=(const PoolArena&) = delete;

  Cache& cacheOf(void* stream) {
    return caches.try_emplace(stream, *this, stream).first->second;
  }

  const PoolId id;
  int users = 0; // with none its unused segments may be given back
  bool splits = true;
  bool lastResort = false; // others may use it before they fail
  SegmentSource source; // empty: the device
  size_t segments = 0;
  // For small and for large blocks, counted while garbage is collected.
  uint64_t searches[2] = {};
  std::unordered_map<void*, Cache> caches;
};

/// All arenas of a device, and which of them an allocation goes to. The pool's lock
/// guards it.
class Arenas {
 public:
  using Filter = std::function<bool(void* stream)>;

  Arenas() = default;
  Arenas(const Arenas&) = delete;
  Arenas& operator=(const Arenas&) = delete;

  // --- where allocations go ---

  /// The free blocks for an allocation.
  FreeBlocks& freeBlocks(PoolCounter::Kind kind, void* stream) {
    PoolArena::Cache* cache = lastCache_;
    if (hasRoutes() || !cache || cache->small.stream != stream) [[unlikely]] {
      cache = findCache(stream);
    }
    return cache->of(kind);
  }
  /// Whether some allocations go to a private pool.
  bool hasRoutes() const {
    return !routes_.empty();
  }
  /// The private pool that takes the allocations of a stream, or nullptr.
  PoolArena* routeOf(void* stream) {
    return hasRoutes() ? findRoute(stream) : nullptr;
  }
  /// Returns false if the arena has a route already.
  bool addRoute(PoolId id, Filter filter);
  /// Returns false if it has none.
  bool removeRoute(PoolId id);

  // --- the arenas ---

  const PoolArena& defaultArena() const {
    return default_;
  }
  /// A private pool, made if need be.
  PoolArena& at(PoolId id) {
    return private_.try_emplace(id, id).first->second;
  }
  /// A private pool, or nullptr.
  PoolArena* find(PoolId id);
  /// One user less. Returns false if the pool had none.
  bool release(PoolId id);

  /// Calls `visit(arena)` for the private pools that others may use before they
  /// fail, until it returns true.
  template <class Visit>
  void forEachLastResort(Visit visit) {
    for (auto& [id, arena] : private_) {
      if (arena.lastResort && visit(arena)) {
        return;
      }
    }
  }

  /// Forgets caches and pools in which there is nothing any more.
  void forgetEmpty();

 private:
  PoolArena* findRoute(void* stream);
  PoolArena::Cache* findCache(void* stream);

  PoolArena::Cache* lastCache_ = nullptr; // of the default pool
  std::vector<std::pair<PoolArena*, Filter>> routes_;
  PoolArena default_{PoolId{}};
  std::map<PoolId, PoolArena> private_;
};

} // namespace c10::openreg
