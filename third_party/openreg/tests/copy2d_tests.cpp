// orMemcpy2DAsync(): rows at a distance. What it shares with the other copies
// is in copy_tests.cpp.
#include "support.h"

#include <numeric>

namespace openreg::testing {
namespace {

constexpr size_t kWidth = 30;
constexpr size_t kHeight = 20;
constexpr unsigned char kPadding = 0xcc;

using Bytes = std::vector<unsigned char>;

orError_t copyRows(
    void* dst,
    size_t dpitch,
    const void* src,
    size_t spitch,
    orMemcpyKind kind,
    size_t width = kWidth,
    size_t height = kHeight) {
  const orStream_t stream = defaultStream();
  const orError_t status =
      orMemcpy2DAsync(dst, dpitch, src, spitch, width, height, kind, stream);
  return status == orSuccess ? orStreamSynchronize(stream) : status;
}

/// Rows 1, 2, 3, ... of kWidth bytes, `pitch` apart, with padding between.
Bytes image(size_t pitch) {
  Bytes bytes(pitch * kHeight, kPadding);
  for (size_t row = 0; row < kHeight; ++row) {
    for (size_t i = 0; i < kWidth; ++i) {
      bytes[row * pitch + i] = static_cast<unsigned char>(row * kWidth + i);
    }
  }
  return bytes;
}

struct Pitches {
  size_t from;
  size_t to;
};

class Copy2DTest : public ::testing::TestWithParam<Pitches> {
 protected:
  const size_t from_ = GetParam().from;
  const size_t to_ = GetParam().to;
  Bytes source_ = image(from_);
  Bytes target_ = Bytes(to_ * kHeight, kPadding);
  DeviceArray<unsigned char> deviceSource_{from_ * kHeight};
  DeviceArray<unsigned char> deviceTarget_{to_ * kHeight};

  void SetUp() override {
    ASSERT_EQ(
        orMemcpy(
            deviceSource_.data(),
            source_.data(),
            source_.size(),
            orMemcpyHostToDevice),
        orSuccess);
    ASSERT_EQ(
        orMemset(deviceTarget_.data(), kPadding, deviceTarget_.bytes()),
        orSuccess);
  }
};

TEST_P(Copy2DTest, RowsArriveAndWhatIsBetweenThemStays) {
  const Bytes expected = image(to_);
  for (orMemcpyKind inferred : {orMemcpyHostToHost, orMemcpyDefault}) {
    std::fill(target_.begin(), target_.end(), kPadding);
    ASSERT_EQ(
        copyRows(target_.data(), to_, source_.data(), from_, inferred),
        orSuccess);
    EXPECT_EQ(target_, expected);
  }

  std::fill(target_.begin(), target_.end(), kPadding);
  ASSERT_EQ(
      copyRows(
          target_.data(),
          to_,
          deviceSource_.data(),
          from_,
          orMemcpyDeviceToHost),
      orSuccess);
  EXPECT_EQ(target_, expected);

  ASSERT_EQ(
      copyRows(
          deviceTarget_.data(),
          to_,
          source_.data(),
          from_,
          orMemcpyHostToDevice),
      orSuccess);
  EXPECT_EQ(deviceTarget_.read(), expected);

  SetUp();
  ASSERT_EQ(
      copyRows(
          deviceTarget_.data(),
          to_,
          deviceSource_.data(),
          from_,
          orMemcpyDeviceToDevice),
      orSuccess);
  EXPECT_EQ(deviceTarget_.read(), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Pitches,
    Copy2DTest,
    ::testing::Values(
        Pitches{kWidth, kWidth},
        Pitches{kWidth, 64},
        Pitches{37, kWidth},
        Pitches{33, 64}),
    [](const auto& pitches) {
      return "From" + std::to_string(pitches.param.from) + "To" +
          std::to_string(pitches.param.to);
    });

TEST(Copy2DArgumentTest, APitchSmallerThanTheWidthFails) {
  Bytes host(4096);
  DeviceArray<unsigned char> device(4096);
  EXPECT_EQ(
      copyRows(
          device.data(), kWidth - 1, host.data(), 64, orMemcpyHostToDevice),
      orErrorInvalidPitchValue);
  EXPECT_TRUE(detailHas(std::to_string(kWidth - 1)));
  EXPECT_TRUE(detailHas(std::to_string(kWidth)));
  EXPECT_EQ(
      copyRows(
          device.data(), 64, host.data(), kWidth - 1, orMemcpyHostToDevice),
      orErrorInvalidPitchValue);
  EXPECT_TRUE(detailHas(std::to_string(kWidth - 1)));
}

TEST(Copy2DArgumentTest, APitchTimesTheHeightMustNotOverflow) {
  Bytes host(4096);
  DeviceArray<unsigned char> device(4096);
  constexpr size_t kHuge = SIZE_MAX / 2;
  for (const auto& [dpitch, spitch] :
       {std::pair{kHuge, size_t{64}}, std::pair{size_t{64}, kHuge}}) {
    EXPECT_EQ(
        copyRows(
            device.data(),
            dpitch,
            host.data(),
            spitch,
            orMemcpyHostToDevice,
            kWidth,
            5),
        orErrorInvalidValue);
    EXPECT_TRUE(detailHas(std::to_string(kHuge)));
  }
  EXPECT_EQ(
      copyRows(
          host.data(),
          64,
          host.data() + 2048,
          64,
          orMemcpyHostToHost,
          kWidth,
          SIZE_MAX),
      orErrorInvalidValue);
}

// The last row need not be followed by padding.
TEST(Copy2DArgumentTest, TheLastRowMayEndWithTheAllocationButNotLeaveIt) {
  DeviceArray<unsigned char> device(8192);
  Bytes host(3 * 6144, 1);
  auto write = [&](size_t width, size_t height) {
    return copyRows(
        device.data(),
        6144,
        host.data(),
        6144,
        orMemcpyHostToDevice,
        width,
        height);
  };
  auto read = [&](size_t width, size_t height) {
    return copyRows(
        host.data(),
        6144,
        device.data(),
        6144,
        orMemcpyDeviceToHost,
        width,
        height);
  };
  EXPECT_EQ(write(2048, 2), orSuccess);
  EXPECT_EQ(read(2048, 2), orSuccess);
  EXPECT_EQ(write(2049, 2), orErrorInvalidValue);
  EXPECT_TRUE(detailHas(hex(device.data())));
  EXPECT_EQ(read(2049, 2), orErrorInvalidValue);
  EXPECT_EQ(write(1, 3), orErrorInvalidValue);
  EXPECT_EQ(read(1, 3), orErrorInvalidValue);
}

TEST(Copy2DArgumentTest, NoWidthOrNoHeightCopiesNothing) {
  Bytes host(4096, 1);
  DeviceArray<unsigned char> device(4096);
  ASSERT_EQ(orMemset(device.data(), 9, 4096), orSuccess);
  EXPECT_EQ(
      copyRows(device.data(), 64, host.data(), 64, orMemcpyHostToDevice, 0, 9),
      orSuccess);
  EXPECT_EQ(
      copyRows(device.data(), 64, host.data(), 64, orMemcpyHostToDevice, 9, 0),
      orSuccess);
  EXPECT_EQ(copyRows(nullptr, 0, nullptr, 0, orMemcpyDefault, 0, 0), orSuccess);
  EXPECT_EQ(device.read(), Bytes(4096, 9));
}

} // namespace
} // namespace openreg::testing
