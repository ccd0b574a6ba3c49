// What copies move and which arguments they refuse: the same for orMemcpy(),
// for orMemcpyAsync(), and for orMemcpy2DAsync() with a single row.
#include "support.h"

#include <numeric>

namespace openreg::testing {
namespace {

constexpr size_t kBytes =
    8192; // whole pages, so that one byte more leaves them

using Bytes = std::vector<unsigned char>;

enum class Way { Sync, Async, Row };

orError_t copy(
    Way way,
    void* dst,
    const void* src,
    size_t count,
    orMemcpyKind kind) {
  const orStream_t stream = defaultStream();
  orError_t status = orSuccess;
  switch (way) {
    case Way::Sync:
      return orMemcpy(dst, src, count, kind);
    case Way::Async:
      status = orMemcpyAsync(dst, src, count, kind, stream);
      break;
    case Way::Row:
      status = orMemcpy2DAsync(dst, count, src, count, count, 1, kind, stream);
      break;
  }
  return status == orSuccess ? orStreamSynchronize(stream) : status;
}

class CopyTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    std::iota(pattern_.begin(), pattern_.end(), 1);
    std::copy(pattern_.begin(), pattern_.end(), pinned_.data());
    ASSERT_EQ(orMemset(device_.data(), 0xee, kBytes), orSuccess);
    ASSERT_EQ(orMemset(other_.data(), 0xdd, kBytes), orSuccess);
  }

  orError_t copy(void* dst, const void* src, size_t count, orMemcpyKind kind) {
    return testing::copy(GetParam(), dst, src, count, kind);
  }

  Bytes pattern_ = Bytes(kBytes);
  Bytes host_ = Bytes(kBytes);
  PinnedArray<unsigned char> pinned_{kBytes, 0};
  DeviceArray<unsigned char> device_{kBytes};
  DeviceArray<unsigned char> other_{kBytes};
};

// Pageable memory to the device, on to other memory of it, and back; the kinds
// given first and inferred then.
TEST_P(CopyTest, BytesArriveInEveryDirection) {
  for (bool given : {true, false}) {
    const auto kind = [given](orMemcpyKind real) {
      return given ? real : orMemcpyDefault;
    };
    host_.assign(kBytes, 0);
    ASSERT_EQ(
        copy(
            device_.data(),
            pattern_.data(),
            kBytes,
            kind(orMemcpyHostToDevice)),
        orSuccess);
    ASSERT_EQ(
        copy(
            other_.data(),
            device_.data(),
            kBytes,
            kind(orMemcpyDeviceToDevice)),
        orSuccess);
    ASSERT_EQ(
        copy(host_.data(), other_.data(), kBytes, kind(orMemcpyDeviceToHost)),
        orSuccess);
    EXPECT_EQ(host_, pattern_);

    Bytes again(kBytes);
    ASSERT_EQ(
        copy(again.data(), host_.data(), kBytes, kind(orMemcpyHostToHost)),
        orSuccess);
    EXPECT_EQ(again, pattern_);
    ASSERT_EQ(orMemset(device_.data(), 0, kBytes), orSuccess);
    ASSERT_EQ(orMemset(other_.data(), 0, kBytes), orSuccess);
  }
}

TEST_P(CopyTest, PinnedMemoryIsHostMemory) {
  PinnedArray<unsigned char> back(kBytes, 0);
  for (orMemcpyKind kind : {orMemcpyHostToDevice, orMemcpyDefault}) {
    ASSERT_EQ(copy(device_.data(), pinned_.data(), kBytes, kind), orSuccess);
    EXPECT_EQ(device_.read(), pattern_);
    ASSERT_EQ(orMemset(device_.data(), 0, kBytes), orSuccess);
  }
  ASSERT_EQ(
      copy(back.data(), pinned_.data(), kBytes, orMemcpyHostToHost), orSuccess);
  EXPECT_EQ(Bytes(back.data(), back.data() + kBytes), pattern_);
  ASSERT_EQ(
      copy(back.data(), device_.data(), kBytes, orMemcpyDeviceToHost),
      orSuccess);
  EXPECT_EQ(Bytes(back.data(), back.data() + kBytes), Bytes(kBytes, 0));
}

TEST_P(CopyTest, MoreThanOneStepOfBytesArrives) {
  constexpr size_t kLarge = (size_t{3} << 20) + 5;
  Bytes large(kLarge);
  std::iota(large.begin(), large.end(), 3);
  DeviceArray<unsigned char> device(kLarge);
  Bytes back(kLarge);
  ASSERT_EQ(
      copy(device.data(), large.data(), kLarge, orMemcpyHostToDevice),
      orSuccess);
  ASSERT_EQ(
      copy(back.data(), device.data(), kLarge, orMemcpyDeviceToHost),
      orSuccess);
  EXPECT_TRUE(back == large);
}

TEST_P(CopyTest, NothingAroundTheRangeChanges) {
  ASSERT_EQ(
      copy(device_.data() + 100, pattern_.data(), 50, orMemcpyHostToDevice),
      orSuccess);
  Bytes expected(kBytes, 0xee);
  std::copy_n(pattern_.begin(), 50, expected.begin() + 100);
  EXPECT_EQ(device_.read(), expected);

  host_.assign(kBytes, 0xaa);
  ASSERT_EQ(
      copy(host_.data() + 7, device_.data() + 99, 3, orMemcpyDeviceToHost),
      orSuccess);
  Bytes read(kBytes, 0xaa);
  std::copy_n(expected.begin() + 99, 3, read.begin() + 7);
  EXPECT_EQ(host_, read);
}

TEST_P(CopyTest, BytesArriveOnAnotherDevice) {
  ASSERT_EQ(
      copy(device_.data(), pattern_.data(), kBytes, orMemcpyHostToDevice),
      orSuccess);
  ASSERT_EQ(orSetDevice(1), orSuccess);
  {
    DeviceArray<unsigned char> far(kBytes);
    for (orMemcpyKind kind : {orMemcpyDeviceToDevice, orMemcpyDefault}) {
      ASSERT_EQ(orMemset(far.data(), 0, kBytes), orSuccess);
      EXPECT_EQ(copy(far.data(), device_.data(), kBytes, kind), orSuccess);
      EXPECT_EQ(far.read(), pattern_);
    }
  }
  ASSERT_EQ(orSetDevice(0), orSuccess);
}

TEST_P(CopyTest, AKindThatContradictsAPointerFails) {
  const struct {
    void* dst;
    const void* src;
    orMemcpyKind kind; // the right one
  } pairs[] = {
      {host_.data(), pattern_.data(), orMemcpyHostToHost},
      {pinned_.data(), pattern_.data(), orMemcpyHostToHost},
      {device_.data(), pattern_.data(), orMemcpyHostToDevice},
      {device_.data(), pinned_.data(), orMemcpyHostToDevice},
      {host_.data(), device_.data(), orMemcpyDeviceToHost},
      {pinned_.data(), device_.data(), orMemcpyDeviceToHost},
      {device_.data(), other_.data(), orMemcpyDeviceToDevice},
  };
  for (const auto& pair : pairs) {
    for (orMemcpyKind kind :
         {orMemcpyHostToHost,
          orMemcpyHostToDevice,
          orMemcpyDeviceToHost,
          orMemcpyDeviceToDevice}) {
      if (kind == pair.kind) {
        continue;
      }
      EXPECT_EQ(copy(pair.dst, pair.src, kBytes, kind), orErrorInvalidValue)
          << "kind " << kind << " where " << pair.kind << " is right";
      EXPECT_TRUE(detailHas(hex(pair.dst)) || detailHas(hex(pair.src)));
    }
  }
  EXPECT_EQ(device_.read(), Bytes(kBytes, 0xee)) << "nothing was copied";
}

TEST_P(CopyTest, AKindOutsideTheEnumerationFails) {
  for (int value : {5, 7}) {
    const auto kind = static_cast<orMemcpyKind>(value);
    for (size_t count : {kBytes, size_t{0}}) {
      EXPECT_EQ(
          copy(device_.data(), pattern_.data(), count, kind),
          orErrorInvalidMemcpyDirection);
      EXPECT_TRUE(detailHas(std::to_string(value)));
    }
  }
}

TEST_P(CopyTest, ARangeThatLeavesItsAllocationFails) {
  Bytes host(2 * kBytes);
  DeviceArray<unsigned char> large(4 * kBytes);
  const std::pair<size_t, size_t> ranges[] = {
      {0, kBytes + 1}, {1, kBytes}, {kBytes - 1, 2}};
  for (const auto& [offset, count] : ranges) {
    unsigned char* start = device_.data() + offset;
    const struct {
      void* dst;
      const void* src;
    } pairs[] = {
        {start, host.data()},
        {host.data(), start},
        {start, large.data()},
        {large.data(), start},
    };
    for (const auto& pair : pairs) {
      EXPECT_EQ(
          copy(pair.dst, pair.src, count, orMemcpyDefault),
          orErrorInvalidValue);
      EXPECT_TRUE(detailHas(std::to_string(count)));
      EXPECT_TRUE(detailHas(hex(start)));
    }
  }
}

TEST_P(CopyTest, ACountThatWrapsAroundFails) {
  for (size_t count : {SIZE_MAX, SIZE_MAX - kBytes}) {
    EXPECT_EQ(
        copy(device_.data(), pattern_.data(), count, orMemcpyHostToDevice),
        orErrorInvalidValue);
    EXPECT_EQ(
        copy(host_.data(), device_.data(), count, orMemcpyDeviceToHost),
        orErrorInvalidValue);
  }
}

TEST_P(CopyTest, NullPointersFail) {
  EXPECT_EQ(
      copy(nullptr, pattern_.data(), 1, orMemcpyDefault), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("dst"));
  EXPECT_EQ(
      copy(device_.data(), nullptr, 1, orMemcpyDefault), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("src"));
  EXPECT_EQ(
      copy(nullptr, pattern_.data(), 1, orMemcpyHostToHost),
      orErrorInvalidValue);
}

TEST_P(CopyTest, FreedMemoryFails) {
  void* freed = nullptr;
  ASSERT_EQ(orMalloc(&freed, kBytes), orSuccess);
  ASSERT_EQ(orFree(freed), orSuccess);
  for (orMemcpyKind kind : {orMemcpyHostToDevice, orMemcpyDefault}) {
    EXPECT_EQ(copy(freed, pattern_.data(), 1, kind), orErrorInvalidValue);
    EXPECT_TRUE(detailHas(hex(freed)));
  }
  EXPECT_EQ(
      copy(host_.data(), freed, 1, orMemcpyDeviceToHost), orErrorInvalidValue);
  EXPECT_TRUE(detailHas(hex(freed)));
}

TEST_P(CopyTest, ZeroBytesAreCopiedFromAndToAnywhere) {
  for (orMemcpyKind kind :
       {orMemcpyHostToHost, orMemcpyDeviceToDevice, orMemcpyDefault}) {
    EXPECT_EQ(copy(nullptr, nullptr, 0, kind), orSuccess);
    EXPECT_EQ(copy(device_.data(), host_.data(), 0, kind), orSuccess);
  }
  EXPECT_EQ(device_.read(), Bytes(kBytes, 0xee));
}

TEST_P(CopyTest, ABrokenDeviceGivesItsError) {
  BrokenDevice broken;
  EXPECT_EQ(
      copy(device_.data(), pattern_.data(), kBytes, orMemcpyHostToDevice),
      orErrorAssert);
  EXPECT_TRUE(detailHas(BrokenDevice::kMessage));
}

std::string nameOf(const ::testing::TestParamInfo<Way>& way) {
  constexpr const char* kNames[] = {"Sync", "Async", "Row"};
  return kNames[static_cast<int>(way.param)];
}

INSTANTIATE_TEST_SUITE_P(
    Ways,
    CopyTest,
    ::testing::Values(Way::Sync, Way::Async, Way::Row),
    nameOf);

TEST(CopyStreamTest, AStreamThatIsNullOrDestroyedFails) {
  char from = 1;
  char to = 0;
  orStream_t destroyed = nullptr;
  ASSERT_EQ(orStreamCreate(&destroyed), orSuccess);
  ASSERT_EQ(orStreamDestroy(destroyed), orSuccess);
  const auto kind = orMemcpyHostToHost;
  for (orStream_t stream : {orStream_t(nullptr), destroyed}) {
    for (size_t count : {1, 0}) {
      EXPECT_EQ(
          orMemcpyAsync(&to, &from, count, kind, stream), orErrorInvalidHandle);
      EXPECT_EQ(
          orMemcpy2DAsync(&to, 1, &from, 1, count, 1, kind, stream),
          orErrorInvalidHandle);
    }
  }
  EXPECT_EQ(to, 0);
}

} // namespace
} // namespace openreg::testing
