// The block pool: settings and private pools.
#include "runtime/OpenRegBlockPool.h"

#include <algorithm>

namespace c10::openreg {

// --- settings ----------------------------------------------------------------

void BlockPool::setLimit(size_t bytes) {
  const std::lock_guard lock(lock_);
  limit_ = bytes;
}

void BlockPool::setConfig(const PoolConfig& config) {
  const std::lock_guard lock(lock_);
  config_ = config;
  const auto& divisions = config.roundupPower2Divisions;
  roundsToPowers_ = std::any_of(
      divisions.begin(), divisions.end(), [](size_t n) { return n > 1; });
}

PoolConfig BlockPool::config() {
  const std::lock_guard lock(lock_);
  return config_;
}

// --- private pools -----------------------------------------------------------

PoolArena& BlockPool::arena(PoolId id) {
  return private_.try_emplace(id, id).first->second;
}

void BlockPool::retainPool(PoolId id) {
  const std::lock_guard lock(lock_);
  ++arena(id).users;
}

bool BlockPool::releasePool(PoolId id) {
  const std::lock_guard lock(lock_);
  const auto found = private_.find(id);
  if (found == private_.end() || found->second.users == 0) {
    return false;
  }
  --found->second.users;
  return true;
}

int BlockPool::poolUsers(PoolId id) {
  const std::lock_guard lock(lock_);
  const auto found = private_.find(id);
  return found == private_.end() ? 0 : found->second.users;
}

bool BlockPool::beginAllocateToPool(
    PoolId id,
    std::function<bool(Stream)> filter) {
  const std::lock_guard lock(lock_);
  for (const auto& [routed, itsFilter] : routes_) {
    if (routed->id == id) {
      return false;
    }
  }
  ++arena(id).users;
  routes_.emplace_back(&arena(id), std::move(filter));
  return true;
}

bool BlockPool::endAllocateToPool(PoolId id) {
  const std::lock_guard lock(lock_);
  return std::erase_if(routes_, [&](const auto& route) {
           return route.first->id == id;
         }) > 0;
}

void BlockPool::usePoolAsLastResort(PoolId id) {
  const std::lock_guard lock(lock_);
  arena(id).lastResort = true;
}

void BlockPool::doNotSplitInPool(PoolId id) {
  const std::lock_guard lock(lock_);
  arena(id).splits = false;
}

PoolArena* BlockPool::routeOf(Stream stream) {
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (route->second(stream)) {
      return route->first;
    }
  }
  return nullptr;
}

} // namespace c10::openreg
