// A device for the block pool that does what a test says.
#pragma once

#include "runtime/pool/BlockPool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <vector>

namespace openreg::testing {

using c10::openreg::BlockDevice;
using c10::openreg::BlockPool;
using c10::openreg::PoolBlockInfo;
using c10::openreg::PoolConfig;
using c10::openreg::PoolContext;
using c10::openreg::PoolId;
using c10::openreg::PoolOutOfMemory;
using c10::openreg::PoolRecord;
using c10::openreg::PoolSegmentInfo;
using c10::openreg::PoolStats;
using c10::openreg::PoolTraceEntry;

inline constexpr size_t kMiB = 1 << 20;

/// A stream of the fake device: a number of tasks, of which some have run.
struct FakeStream {
  int64_t queued = 1;
  int64_t finished = 0;

  void runAll() {
    finished = queued++;
  }
};

/// A device without memory: addresses are handed out and never touched.
class FakeDevice : public BlockDevice {
 public:
  explicit FakeDevice(size_t capacity = size_t{1} << 40)
      : capacity_(capacity) {}
  ~FakeDevice() override {
    for (const auto& [event, what] : events_) {
      ADD_FAILURE() << "an event of stream " << what.stream << " is left";
    }
  }

  void* mapSegment(size_t bytes, Stream /*stream*/) override {
    mapped.push_back(bytes);
    EXPECT_NE(bytes, 0u); // for a real device an error, not a lack of memory
    if (onMap && !onMap(mapped.size() - 1)) {
      return nullptr;
    }
    if (bytes == 0 || bytes > capacity_ - used_) {
      return nullptr;
    }
    used_ += bytes;
    char* segment = next_;
    next_ += bytes + kMiB; // a gap, so that segments never touch
    segments[segment] = bytes;
    return segment;
  }
  void checkUsable() override {
    if (broken) {
      throw std::runtime_error("the device is broken");
    }
  }
  void unmapSegment(void* segment) override {
    callOnWait();
    const auto found = segments.find(static_cast<char*>(segment));
    ASSERT_NE(found, segments.end());
    used_ -= found->second;
    segments.erase(found);
  }

  // Ranges are 64 times as long as asked for, and lie behind each other.
  std::pair<void*, size_t> reserveRange(size_t bytes, size_t /*unit*/)
      override {
    if (!hasRanges) {
      return {nullptr, 0};
    }
    char* const range = next_;
    next_ += 64 * bytes + kMiB;
    ranges[range] = 64 * bytes;
    return {range, 64 * bytes};
  }
  void releaseRange(void* range, size_t bytes) override {
    const auto found = ranges.find(static_cast<char*>(range));
    ASSERT_NE(found, ranges.end());
    EXPECT_EQ(found->second, bytes);
    ranges.erase(found);
  }
  bool mapRange(void* pointer, size_t bytes, size_t unit, Stream /*stream*/)
      override {
    EXPECT_EQ(bytes % unit, 0u);
    if (bytes > capacity_ - used_) {
      return false;
    }
    used_ += bytes;
    for (size_t done = 0; done < bytes; done += unit) {
      EXPECT_TRUE(
          pieces.emplace(static_cast<char*>(pointer) + done, unit).second);
    }
    return true;
  }
  void unmapRange(void* pointer, size_t bytes) override {
    callOnWait();
    used_ -= bytes;
    for (auto* piece = static_cast<char*>(pointer); bytes != 0;) {
      const auto found = pieces.find(piece);
      ASSERT_NE(found, pieces.end());
      piece += found->second;
      bytes -= found->second;
      pieces.erase(found);
    }
  }

  Event record(Stream stream) override {
    if (failRecord) {
      return nullptr;
    }
    auto* event = reinterpret_cast<Event>(++lastEvent_);
    auto* recorded = static_cast<FakeStream*>(stream);
    events_[event] = {recorded, recorded->queued};
    return event;
  }
  bool finished(Event event) override {
    const Recorded& what = events_.at(event);
    return what.stream->finished >= what.position;
  }
  void wait(Event event) override {
    callOnWait();
    const Recorded& what = events_.at(event);
    what.stream->finished = std::max(what.stream->finished, what.position);
  }
  void destroy(Event event) override {
    EXPECT_EQ(events_.erase(event), 1u);
  }

  bool runsElsewhere(Stream stream) override {
    return stream == busyElsewhere;
  }
  std::pair<size_t, size_t> memoryInfo() override {
    return {capacity_ - used_, capacity_};
  }

  size_t events() const {
    return events_.size();
  }

  std::vector<size_t> mapped; // each size asked for
  std::map<char*, size_t> segments;
  bool hasRanges = true;
  std::map<char*, size_t> ranges, pieces;
  std::function<bool(size_t)> onMap; // may the map with this index succeed?
  bool broken = false;
  FakeStream* busyElsewhere = nullptr; // another thread runs a kernel there
  std::function<void()> onWait; // called where a real device waits
  bool failRecord = false;

 private:
  // A copy, because what is called may set another.
  void callOnWait() {
    if (const auto call = onWait) {
      call();
    }
  }

  struct Recorded {
    FakeStream* stream;
    int64_t position;
  };

  size_t capacity_;
  size_t used_ = 0;
  char* next_ = reinterpret_cast<char*>(kMiB);
  uintptr_t lastEvent_ = 0;
  std::map<Event, Recorded> events_;
};

/// A pool that takes everything back before it goes.
class TestPool : public BlockPool {
 public:
  using BlockPool::BlockPool;
  ~TestPool() {
    for (void* pointer : handedOut_) {
      free(pointer); // false if the test did it
    }
    emptyCache();
  }

  void* allocate(size_t bytes, BlockDevice::Stream stream) {
    handedOut_.push_back(BlockPool::allocate(bytes, stream));
    return handedOut_.back();
  }

 private:
  std::vector<void*> handedOut_;
};

/// A pool over a fake device, and streams for it.
class BlockPoolTest : public ::testing::Test {
 protected:
  char* take(size_t bytes, FakeStream& stream) {
    return static_cast<char*>(pool.allocate(bytes, &stream));
  }
  char* take(size_t bytes) {
    return take(bytes, stream);
  }
  int64_t allocatedBytes() {
    return pool.stats().allocatedBytes[PoolStats::All].current;
  }
  int64_t reservedBytes() {
    return pool.stats().reservedBytes[PoolStats::All].current;
  }

  FakeStream stream, other, third;
  FakeDevice device;
  TestPool pool{device};
};

} // namespace openreg::testing
