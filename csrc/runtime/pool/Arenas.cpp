#include "runtime/pool/Arenas.h"

#include <algorithm>

namespace c10::openreg {

bool Arenas::addRoute(PoolId id, Filter filter) {
  PoolArena* arena = &at(id);
  const bool routed =
      std::any_of(routes_.begin(), routes_.end(), [&](const auto& route) {
        return route.first == arena;
      });
  if (routed) {
    return false;
  }
  ++arena->users;
  routes_.emplace_back(arena, std::move(filter));
  return true;
}

bool Arenas::removeRoute(PoolId id) {
  return std::erase_if(routes_, [&](const auto& route) {
           return route.first->id == id;
         }) > 0;
}

PoolArena* Arenas::findRoute(void* stream) {
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (route->second(stream)) {
      return route->first;
    }
  }
  return nullptr;
}

PoolArena::Cache* Arenas::findCache(void* stream) {
  if (PoolArena* arena = routeOf(stream)) {
    return &arena->cacheOf(stream);
  }
  return lastCache_ = &default_.cacheOf(stream);
}

PoolArena* Arenas::find(PoolId id) {
  const auto found = private_.find(id);
  return found == private_.end() ? nullptr : &found->second;
}

bool Arenas::release(PoolId id) {
  PoolArena* arena = find(id);
  if (!arena || arena->users == 0) {
    return false;
  }
  --arena->users;
  return true;
}

void Arenas::forgetEmpty() {
  lastCache_ = nullptr;
  std::erase_if(default_.caches, [](const auto& item) {
    return item.second.small.segments + item.second.large.segments == 0;
  });
  std::erase_if(private_, [](const auto& item) {
    return item.second.users == 0 && item.second.segments == 0;
  });
}

} // namespace c10::openreg
