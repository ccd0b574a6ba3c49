// Peer access, and copies from one device's memory to another's.
#include "support.h"

#include <climits>
#include <optional>

namespace openreg::testing {
namespace {

/// Device 0 is current; memory of device 1 is there to be reached.
class PeerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(orGetDeviceCount(&count_), orSuccess);
    ASSERT_GE(count_, 2) << "these tests need two devices";
    ASSERT_EQ(orSetDevice(1), orSuccess);
    far_.emplace(1);
    ASSERT_EQ(orMemset(far_->data(), 0, far_->bytes()), orSuccess);
    ASSERT_EQ(orSetDevice(0), orSuccess);
  }
  void TearDown() override {
    orSetDevice(1);
    orDeviceDisablePeerAccess(0);
    orSetDevice(0);
    orDeviceDisablePeerAccess(1);
  }
  std::vector<int> badIndices() const {
    return {-1, count_, INT_MIN, INT_MAX};
  }

  int count_ = 0;
  std::optional<DeviceArray<int>> far_;
};

TEST_F(PeerTest, AnyTwoDifferentDevicesCanHaveAccess) {
  for (int device = 0; device < count_; ++device) {
    for (int peer = 0; peer < count_; ++peer) {
      int canAccess = -1;
      ASSERT_EQ(orDeviceCanAccessPeer(&canAccess, device, peer), orSuccess);
      EXPECT_EQ(canAccess, device != peer) << device << " and " << peer;
    }
  }
}

TEST_F(PeerTest, AskingNeedsTwoDevicesAndAPlace) {
  EXPECT_EQ(orDeviceCanAccessPeer(nullptr, 0, 1), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("canAccess"));
  int canAccess = -1;
  for (int bad : badIndices()) {
    EXPECT_EQ(orDeviceCanAccessPeer(&canAccess, bad, 1), orErrorInvalidDevice);
    EXPECT_TRUE(detailHas(std::to_string(bad)));
    EXPECT_EQ(orDeviceCanAccessPeer(&canAccess, 0, bad), orErrorInvalidDevice);
    EXPECT_TRUE(detailHas(std::to_string(bad)));
  }
  EXPECT_EQ(canAccess, -1) << "a failing call changes nothing";
}

TEST_F(PeerTest, EnablingNeedsAnotherDeviceThatExists) {
  for (int bad : badIndices()) {
    EXPECT_EQ(orDeviceEnablePeerAccess(bad, 0), orErrorInvalidDevice);
    EXPECT_TRUE(detailHas(std::to_string(bad)));
  }
  EXPECT_EQ(orDeviceEnablePeerAccess(0, 0), orErrorPeerAccessUnsupported);
  EXPECT_TRUE(detailHas("0"));
}

TEST_F(PeerTest, EnablingTakesNoFlags) {
  EXPECT_EQ(orDeviceEnablePeerAccess(1, 6), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("6"));
  EXPECT_EQ(orDeviceDisablePeerAccess(1), orErrorPeerAccessNotEnabled)
      << "the failing call enabled nothing";
}

TEST_F(PeerTest, EnablingTwiceFails) {
  ASSERT_EQ(orDeviceEnablePeerAccess(1, 0), orSuccess);
  EXPECT_EQ(orDeviceEnablePeerAccess(1, 0), orErrorPeerAccessAlreadyEnabled);
  EXPECT_TRUE(detailHas("1"));
  EXPECT_EQ(orDeviceDisablePeerAccess(1), orSuccess);
}

TEST_F(PeerTest, DisablingNeedsWhatWasEnabled) {
  EXPECT_EQ(orDeviceDisablePeerAccess(1), orErrorPeerAccessNotEnabled);
  EXPECT_TRUE(detailHas("1"));
  EXPECT_EQ(orDeviceDisablePeerAccess(0), orErrorPeerAccessNotEnabled);
  for (int bad : badIndices()) {
    EXPECT_EQ(orDeviceDisablePeerAccess(bad), orErrorInvalidDevice);
    EXPECT_TRUE(detailHas(std::to_string(bad)));
  }
  ASSERT_EQ(orDeviceEnablePeerAccess(1, 0), orSuccess);
  EXPECT_EQ(orDeviceDisablePeerAccess(1), orSuccess);
  EXPECT_EQ(orDeviceDisablePeerAccess(1), orErrorPeerAccessNotEnabled);
}

TEST_F(PeerTest, AddressesOfAPeerAreTranslatedWhileAccessIsEnabled) {
  orGetLastError();
  EXPECT_EQ(orKernelPointer(far_->data()), nullptr);
  EXPECT_EQ(orGetLastError(), orErrorPeerAccessNotEnabled);

  ASSERT_EQ(orDeviceEnablePeerAccess(1, 0), orSuccess);
  EXPECT_NE(orKernelPointer(far_->data()), nullptr);

  ASSERT_EQ(orDeviceDisablePeerAccess(1), orSuccess);
  EXPECT_EQ(orKernelPointer(far_->data()), nullptr);
  EXPECT_EQ(orGetLastError(), orErrorPeerAccessNotEnabled);
}

TEST_F(PeerTest, AccessHoldsInOneDirectionOnly) {
  DeviceArray<int> near(1);
  ASSERT_EQ(orDeviceEnablePeerAccess(1, 0), orSuccess);
  ASSERT_EQ(orSetDevice(1), orSuccess);
  EXPECT_EQ(orKernelPointer(near.data()), nullptr);
  EXPECT_EQ(orPeekAtLastError(), orErrorPeerAccessNotEnabled);
  EXPECT_EQ(orDeviceDisablePeerAccess(0), orErrorPeerAccessNotEnabled);
  ASSERT_EQ(orSetDevice(0), orSuccess);
}

TEST_F(PeerTest, AKernelWritesMemoryOfAPeerItHasAccessTo) {
  ASSERT_EQ(orDeviceEnablePeerAccess(1, 0), orSuccess);
  auto kernel = [far = far_->data()] {
    *static_cast<int*>(orKernelPointer(far)) = 42;
  };
  ASSERT_EQ(orLaunchKernel(defaultStream(0), kernel), orSuccess);
  ASSERT_EQ(orDeviceSynchronize(), orSuccess);
  ASSERT_EQ(orSetDevice(1), orSuccess);
  EXPECT_EQ(far_->read().at(0), 42);
}

TEST_F(PeerTest, AKernelGetsNoAddressOfADeviceItHasNoAccessTo) {
  orError_t inside = orSuccess;
  void* pointer = this;
  auto kernel = [&, far = far_->data()] {
    pointer = orKernelPointer(far);
    inside = orGetLastError();
  };
  ASSERT_EQ(orLaunchKernel(defaultStream(0), kernel), orSuccess);
  ASSERT_EQ(orDeviceSynchronize(), orSuccess);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(inside, orErrorPeerAccessNotEnabled);
}

// Inside a kernel the kernel's device counts, not the launching thread's.
TEST_F(PeerTest, AKernelOfTheOwningDeviceNeedsNoAccess) {
  void* pointer = nullptr;
  auto kernel = [&pointer, far = far_->data()] {
    pointer = orKernelPointer(far);
  };
  ASSERT_EQ(orLaunchKernel(defaultStream(1), kernel), orSuccess);
  ASSERT_EQ(orStreamSynchronize(defaultStream(1)), orSuccess);
  EXPECT_NE(pointer, nullptr);
}

/// Two arrays of whole pages, one on each device, and a stream of each.
class PeerCopyTest : public ::testing::Test {
 protected:
  static constexpr size_t kBytes = 8192;
  using Bytes = std::vector<unsigned char>;

  void SetUp() override {
    ASSERT_EQ(orSetDevice(1), orSuccess);
    far_.emplace(kBytes);
    ASSERT_EQ(orMemset(far_->data(), 1, kBytes), orSuccess);
    ASSERT_EQ(orSetDevice(0), orSuccess);
    near_.emplace(kBytes);
    ASSERT_EQ(orMemset(near_->data(), 0, kBytes), orSuccess);
  }

  std::optional<DeviceArray<unsigned char>> far_; // on device 1
  std::optional<DeviceArray<unsigned char>> near_; // on device 0
};

TEST_F(PeerCopyTest, BytesCrossInAStreamOfEitherDeviceWithoutPeerAccess) {
  for (int device : {0, 1}) {
    const auto mark = static_cast<unsigned char>(10 + device);
    const orStream_t stream = defaultStream(device);
    ASSERT_EQ(orMemsetAsync(far_->data(), mark, kBytes, stream), orSuccess);
    ASSERT_EQ(
        orMemcpyPeerAsync(near_->data(), 0, far_->data(), 1, kBytes, stream),
        orSuccess);
    ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
    EXPECT_EQ(near_->read(), Bytes(kBytes, mark));
  }
}

TEST_F(PeerCopyTest, BytesStayOnADeviceThatIsItsOwnPeer) {
  ASSERT_EQ(orMemset(near_->data(), 5, 10), orSuccess);
  ASSERT_EQ(
      orMemcpyPeerAsync(
          near_->data() + 100, 0, near_->data(), 0, 10, defaultStream()),
      orSuccess);
  ASSERT_EQ(orDeviceSynchronize(), orSuccess);
  EXPECT_EQ(near_->read()[109], 5);
  EXPECT_EQ(near_->read()[110], 0);
}

TEST_F(PeerCopyTest, TheCallReturnsBeforeTheCopyHasRun) {
  Stream stream;
  Gate gate(stream);
  ASSERT_EQ(
      orMemcpyPeerAsync(near_->data(), 0, far_->data(), 1, kBytes, stream),
      orSuccess);
  EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  gate.open();
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  EXPECT_EQ(near_->read(), Bytes(kBytes, 1));
}

TEST_F(PeerCopyTest, TheDevicesMustExist) {
  const orStream_t stream = defaultStream();
  for (int bad : {-1, 1234}) {
    EXPECT_EQ(
        orMemcpyPeerAsync(near_->data(), bad, far_->data(), 1, 1, stream),
        orErrorInvalidDevice);
    EXPECT_TRUE(detailHas(std::to_string(bad)));
    EXPECT_EQ(
        orMemcpyPeerAsync(near_->data(), 0, far_->data(), bad, 1, stream),
        orErrorInvalidDevice);
    EXPECT_TRUE(detailHas(std::to_string(bad)));
  }
}

TEST_F(PeerCopyTest, ThePointersMustBeMemoryOfTheDevicesNamed) {
  unsigned char local = 7;
  const struct {
    unsigned char* dst;
    int dstDevice;
    unsigned char* src;
    int srcDevice;
    const unsigned char* wrong;
  } cases[] = {
      {near_->data(), 1, far_->data(), 1, near_->data()},
      {near_->data(), 0, far_->data(), 0, far_->data()},
      {&local, 0, far_->data(), 1, &local},
      {near_->data(), 0, &local, 1, &local},
      {nullptr, 0, far_->data(), 1, nullptr},
      {near_->data(), 0, nullptr, 1, nullptr},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(
        orMemcpyPeerAsync(
            c.dst, c.dstDevice, c.src, c.srcDevice, 1, defaultStream()),
        orErrorInvalidValue);
    EXPECT_TRUE(!c.wrong || detailHas(hex(c.wrong)));
  }
  EXPECT_EQ(local, 7);
}

TEST_F(PeerCopyTest, ARangeThatLeavesItsAllocationFails) {
  const orStream_t stream = defaultStream();
  EXPECT_EQ(
      orMemcpyPeerAsync(near_->data() + 1, 0, far_->data(), 1, kBytes, stream),
      orErrorInvalidValue);
  EXPECT_TRUE(detailHas(hex(near_->data() + 1)));
  EXPECT_EQ(
      orMemcpyPeerAsync(near_->data(), 0, far_->data() + 1, 1, kBytes, stream),
      orErrorInvalidValue);
  EXPECT_TRUE(detailHas(hex(far_->data() + 1)));
}

TEST_F(PeerCopyTest, ZeroBytesAreCopiedFromAndToAnywhere) {
  const orStream_t stream = defaultStream();
  EXPECT_EQ(orMemcpyPeerAsync(nullptr, 0, nullptr, 1, 0, stream), orSuccess);
  EXPECT_EQ(
      orMemcpyPeerAsync(nullptr, 0, nullptr, 1234, 0, stream),
      orErrorInvalidDevice);
}

TEST_F(PeerCopyTest, AStreamThatIsNullOrDestroyedFails) {
  orStream_t destroyed = nullptr;
  ASSERT_EQ(orStreamCreate(&destroyed), orSuccess);
  ASSERT_EQ(orStreamDestroy(destroyed), orSuccess);
  for (orStream_t stream : {orStream_t(nullptr), destroyed}) {
    for (size_t count : {1, 0}) {
      EXPECT_EQ(
          orMemcpyPeerAsync(near_->data(), 0, far_->data(), 1, count, stream),
          orErrorInvalidHandle);
    }
  }
}

TEST_F(PeerCopyTest, OnlyTheStreamsDeviceMustNotBeBroken) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  BrokenDevice broken;
  const auto copyIn = [this](int device) {
    return orMemcpyPeerAsync(
        near_->data(), 0, near_->data() + 8, 0, 8, defaultStream(device));
  };
  EXPECT_EQ(copyIn(1), orErrorAssert);
  EXPECT_TRUE(detailHas(BrokenDevice::kMessage));
  EXPECT_EQ(copyIn(0), orSuccess);
  EXPECT_EQ(orStreamSynchronize(defaultStream(0)), orSuccess);
}

} // namespace
} // namespace openreg::testing
