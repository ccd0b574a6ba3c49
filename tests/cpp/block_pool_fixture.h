// A block pool with three streams, on a device of the test's own.
#pragma once

#include "fake_device.h"

namespace openreg::testing {

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
