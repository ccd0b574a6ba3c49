#include "transfer_threads.h"

#include "openreg/transfer.h"
#include "config.h"
#include "os.h"
#include "runtime.h"

#include <algorithm>

namespace openreg {
namespace {

// memcpy() copies blocks of a mebibyte in a better way than smaller ones: on the
// machine this was measured on, those take up to twice the time. And waking a
// thread costs as much as copying half of one.
constexpr size_t kSmallestPart = kMiB;

// One thread may come late or lose its processor; then the others do its part.
constexpr size_t kPartsPerThread = 4;

// The last parts take less time than falling asleep and being woken.
constexpr uint64_t kPatience = 100'000; // nanoseconds

size_t unitsOfPart(size_t bytes, size_t bytesPerUnit, size_t threads) {
  const size_t page = os::pageSize(); // so that parts are aligned alike
  const size_t part =
      std::max(bytes / (kPartsPerThread * threads), kSmallestPart);
  return std::max<size_t>((part + page - 1) / page * page / bytesPerUnit, 1);
}

} // namespace

bool TransferThreads::tryRun(
    size_t units,
    size_t bytesPerUnit,
    Part part,
    const void* context,
    uintptr_t* fault) {
  const size_t bytes = units * bytesPerUnit;
  const size_t threads =
      std::min(bytes / kSmallestPart, static_cast<size_t>(count()));
  if (threads < 2) {
    return false;
  }
  std::unique_lock lock(busy_, std::try_to_lock);
  if (!lock) {
    return false;
  }
  part_ = part;
  context_ = context;
  units_ = units;
  grain_ = unitsOfPart(bytes, bytesPerUnit, threads);
  next_.store(0, std::memory_order_relaxed);
  fault_.store(kNoFault, std::memory_order_relaxed);
  const size_t invited = invite(threads - 1);
  runParts();
  dismiss(invited);
  *fault = fault_.load(std::memory_order_relaxed);
  return true;
}

size_t TransferThreads::invite(size_t wanted) {
  while (helpers_.size() < wanted && startHelper()) {
  }
  const size_t invited = std::min(wanted, helpers_.size());
  helping_.store(static_cast<uint32_t>(invited), std::memory_order_relaxed);
  for (size_t i = 0; i < invited; ++i) {
    helpers_[i]->invited.store(1, std::memory_order_release);
    os::unparkAll(helpers_[i]->invited);
  }
  return invited;
}

void TransferThreads::dismiss(size_t invited) {
  // A helper that has not come yet need not come any more.
  for (size_t i = 0; i < invited; ++i) {
    if (helpers_[i]->invited.exchange(0, std::memory_order_relaxed) == 1) {
      helping_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  const uint64_t deadline = os::now() + kPatience;
  while (const uint32_t left = helping_.load(std::memory_order_acquire)) {
    if (os::now() < deadline) {
      os::yield();
    } else {
      os::parkWhile(helping_, left);
    }
  }
}

bool TransferThreads::startHelper() {
  process::markUsed();
  helpers_.emplace_back(new Helper{*this});
  const auto entry = [](void* raw) {
    auto& self = *static_cast<Helper*>(raw);
    self.owner.serve(self);
  };
  if (os::startThread("openreg copy", entry, helpers_.back().get())) {
    return true;
  }
  helpers_.pop_back(); // fewer will do
  return false;
}

void TransferThreads::serve(Helper& helper) {
  const auto invited = [&] {
    return helper.invited.load(std::memory_order_relaxed) == 1;
  };
  for (;;) {
    while (!os::spinUntil(invited)) {
      os::parkWhile(helper.invited, 0);
    }
    if (helper.invited.exchange(0, std::memory_order_acquire) == 0) {
      continue; // the transfer has ended
    }
    runParts();
    if (helping_.fetch_sub(1, std::memory_order_release) == 1) {
      os::unparkAll(helping_);
    }
  }
}

void TransferThreads::runParts() {
  uintptr_t fault = 0;
  const bool finished = os::runGuarded(
      [](void* raw) {
        auto& self = *static_cast<TransferThreads*>(raw);
        for (;;) {
          const size_t begin =
              self.next_.fetch_add(self.grain_, std::memory_order_relaxed);
          if (begin >= self.units_) {
            return;
          }
          const size_t end = begin + std::min(self.grain_, self.units_ - begin);
          self.part_(self.context_, begin, end);
        }
      },
      [](void*, uintptr_t) { return true; },
      this,
      &fault);
  if (finished) {
    return;
  }
  next_.store(units_, std::memory_order_relaxed);
  uintptr_t lowest = fault_.load(std::memory_order_relaxed);
  while (
      fault < lowest &&
      !fault_.compare_exchange_weak(lowest, fault, std::memory_order_relaxed)) {
  }
}

} // namespace openreg

using namespace openreg;

orError_t orSetTransferThreads(int count) {
  return api("orSetTransferThreads", [&](Runtime& runtime) {
    if (count < 1) {
      return fail(
          orErrorInvalidValue, "count must be at least 1, but is %d", count);
    }
    runtime.transferThreads.setCount(count);
    return orSuccess;
  });
}

orError_t orGetTransferThreads(int* count) {
  return api("orGetTransferThreads", [&](Runtime& runtime) {
    if (!count) {
      return fail(orErrorInvalidValue, "count must not be NULL");
    }
    *count = runtime.transferThreads.count();
    return orSuccess;
  });
}
