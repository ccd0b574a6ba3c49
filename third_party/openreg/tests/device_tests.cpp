// Devices: which are there, which is current, what they are like, peer access.
#include "support.h"

#include <climits>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <thread>

namespace openreg::testing {
namespace {

/// Leaves device 0 current and no peer access enabled.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(orGetDeviceCount(&count_), orSuccess);
    ASSERT_GE(count_, 2) << "these tests need two devices";
    ASSERT_EQ(orSetDevice(0), orSuccess);
  }
  void TearDown() override {
    orSetDevice(1);
    orDeviceDisablePeerAccess(0);
    orSetDevice(0);
    orDeviceDisablePeerAccess(1);
  }

  int current() {
    int device = -1;
    EXPECT_EQ(orGetDevice(&device), orSuccess);
    return device;
  }
  /// Indices that no device has.
  std::vector<int> badIndices() const {
    return {-1, count_, count_ + 1, INT_MIN, INT_MAX};
  }

  int count_ = 0;
};

TEST_F(DeviceTest, CountingNeedsAPlaceForTheAnswer) {
  EXPECT_EQ(orGetDeviceCount(nullptr), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("count"));
}

size_t threadCount() {
  namespace fs = std::filesystem;
  return std::distance(fs::directory_iterator("/proc/self/task"), {});
}

size_t mappedPages() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

TEST(DeviceChildTest, CountingReservesNoMemoryAndStartsNoThread) {
  auto body = [] {
    const size_t threads = threadCount();
    const size_t pages = mappedPages();
    int count = 0;
    CHILD_REQUIRE(orGetDeviceCount(&count) == orSuccess);
    CHILD_REQUIRE(threadCount() == threads);
    constexpr size_t kReservation = (size_t{1} << 30) / 4096;
    CHILD_REQUIRE(mappedPages() < pages + kReservation);

    void* memory = nullptr;
    CHILD_REQUIRE(orMalloc(&memory, 1) == orSuccess);
    CHILD_REQUIRE(mappedPages() >= pages + kReservation);
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST(DeviceChildTest, IsActiveFromTheFirstAllocationOrTaskOn) {
  auto body = [] {
    const auto activity = [](int device) {
      int active = -1;
      return orDeviceIsActive(&active, device) == orSuccess ? active : -1;
    };
    CHILD_REQUIRE(activity(0) == 0 && activity(1) == 0);
    void* memory = nullptr;
    CHILD_REQUIRE(orMalloc(&memory, 1) == orSuccess);
    CHILD_REQUIRE(activity(0) == 1 && activity(1) == 0);
    CHILD_REQUIRE(orLaunchKernel(defaultStream(1), [] {}) == orSuccess);
    CHILD_REQUIRE(activity(1) == 1);
    return true;
  };
  EXPECT_CHILD_SUCCEEDS(body);
}

TEST_F(DeviceTest, AskingWhetherADeviceIsActiveChecksItsArguments) {
  int active = -1;
  EXPECT_EQ(orDeviceIsActive(nullptr, 0), orErrorInvalidValue);
  EXPECT_EQ(orDeviceIsActive(&active, 2), orErrorInvalidDevice);
  EXPECT_EQ(active, -1);
}

TEST_F(DeviceTest, SettingADeviceMakesItCurrent) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  EXPECT_EQ(current(), 1);
  ASSERT_EQ(orSetDevice(0), orSuccess);
  EXPECT_EQ(current(), 0);
}

TEST_F(DeviceTest, SettingADeviceThatIsNotThereKeepsTheCurrentOne) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  for (int device : badIndices()) {
    EXPECT_EQ(orSetDevice(device), orErrorInvalidDevice);
    EXPECT_TRUE(detailHas(std::to_string(device)));
    EXPECT_TRUE(detailHas(std::to_string(count_)));
  }
  EXPECT_EQ(current(), 1);
}

TEST_F(DeviceTest, GettingTheDeviceNeedsAPlaceForTheAnswer) {
  EXPECT_EQ(orGetDevice(nullptr), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("device"));
}

TEST_F(DeviceTest, EachThreadHasItsOwnCurrentDeviceStartingWithTheFirst) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  std::thread([this] {
    EXPECT_EQ(current(), 0);
    EXPECT_EQ(orSetDevice(0), orSuccess);
  }).join();
  EXPECT_EQ(current(), 1);
  ASSERT_EQ(orSetDevice(0), orSuccess);
  std::thread([] { EXPECT_EQ(orSetDevice(1), orSuccess); }).join();
  EXPECT_EQ(current(), 0);
}

TEST_F(DeviceTest, AllocationsAndStreamsBelongToTheCurrentDevice) {
  ASSERT_EQ(orSetDevice(1), orSuccess);
  Stream stream;
  DeviceArray<char> memory(1);
  int device = -1;
  ASSERT_EQ(orStreamGetDevice(stream, &device), orSuccess);
  EXPECT_EQ(device, 1);
  orPointerAttributes attributes{};
  ASSERT_EQ(orPointerGetAttributes(&attributes, memory.data()), orSuccess);
  EXPECT_EQ(attributes.device, 1);
}

TEST_F(DeviceTest, SynchronizingWaitsForEveryStreamOfTheDevice) {
  Stream blocking(orStreamDefault);
  Stream independent(orStreamNonBlocking);
  for (orStream_t stream :
       {orStream_t(blocking), orStream_t(independent), defaultStream()}) {
    bool ran = false;
    Gate gate(stream);
    ASSERT_EQ(orLaunchKernel(stream, [&ran] { ran = true; }), orSuccess);
    orError_t status = orErrorNotReady;
    EXPECT_TRUE(
        waitsForGate(gate, [&status] { status = orDeviceSynchronize(); }));
    EXPECT_EQ(status, orSuccess);
    EXPECT_TRUE(ran);
  }
}

TEST_F(DeviceTest, SynchronizingDoesNotWaitForAnotherDevice) {
  Gate gate(defaultStream(1));
  EXPECT_EQ(orDeviceSynchronize(), orSuccess);
  EXPECT_EQ(orStreamQuery(defaultStream(1)), orErrorNotReady);
  gate.open();
  ASSERT_EQ(orSetDevice(1), orSuccess);
  EXPECT_EQ(orDeviceSynchronize(), orSuccess);
}

TEST_F(DeviceTest, SynchronizingABrokenDeviceGivesItsErrorUntilReset) {
  {
    BrokenDevice broken;
    EXPECT_EQ(orDeviceSynchronize(), orErrorAssert);
    EXPECT_TRUE(detailHas(BrokenDevice::kMessage));
    ASSERT_EQ(orSetDevice(1), orSuccess);
    EXPECT_EQ(orDeviceSynchronize(), orSuccess) << "the other device works";
    ASSERT_EQ(orSetDevice(0), orSuccess);
  }
  EXPECT_EQ(orDeviceSynchronize(), orSuccess);
}

struct Inside {
  orError_t synchronize = orSuccess;
  orError_t reset = orSuccess;
};

void waitInside(void* result) {
  auto* inside = static_cast<Inside*>(result);
  int before = 0;
  orGetDevice(&before);
  orSetDevice(0);
  inside->synchronize = orDeviceSynchronize();
  inside->reset = orDeviceReset();
  orSetDevice(before);
}

// Also in a stream of the other device, when there is nothing to wait for.
TEST_F(DeviceTest, WaitingInsideAKernelOrAHostFunctionIsNotPermitted) {
  for (int device : {0, 1}) {
    const orStream_t stream = defaultStream(device);
    Inside kernel;
    Inside function;
    DeviceArray<char> array(1);
    ASSERT_EQ(orLaunchKernel(stream, waitInside, &kernel), orSuccess);
    ASSERT_EQ(orLaunchHostFunc(stream, waitInside, &function), orSuccess);
    ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
    for (const Inside& inside : {kernel, function}) {
      EXPECT_EQ(inside.synchronize, orErrorNotPermitted) << device;
      EXPECT_EQ(inside.reset, orErrorNotPermitted) << device;
    }
    EXPECT_EQ(orMemset(array.data(), 1, 1), orSuccess) << "nothing was reset";
  }
}

TEST_F(DeviceTest, LowerStreamPrioritiesThanZeroExist) {
  int least = 1;
  int greatest = 1;
  ASSERT_EQ(orDeviceGetStreamPriorityRange(&least, &greatest), orSuccess);
  EXPECT_EQ(least, 0);
  EXPECT_LT(greatest, 0);

  int again = 1;
  EXPECT_EQ(orDeviceGetStreamPriorityRange(nullptr, &again), orSuccess);
  EXPECT_EQ(again, greatest);
  again = 1;
  EXPECT_EQ(orDeviceGetStreamPriorityRange(&again, nullptr), orSuccess);
  EXPECT_EQ(again, 0);
  EXPECT_EQ(orDeviceGetStreamPriorityRange(nullptr, nullptr), orSuccess);
}

TEST_F(DeviceTest, PropertiesDescribeADevice) {
  orDeviceProp properties;
  std::memset(&properties, 0xff, sizeof(properties));
  ASSERT_EQ(orGetDeviceProperties(&properties, 0), orSuccess);
  const size_t length = strnlen(properties.name, sizeof(properties.name));
  EXPECT_GT(length, 0u);
  EXPECT_LT(length, sizeof(properties.name)) << "the name must end";
  EXPECT_GT(properties.major, 0);
  EXPECT_GE(properties.minor, 0);
  EXPECT_GT(properties.multiProcessorCount, 0);
  EXPECT_GT(properties.warpSize, 0);
  EXPECT_GE(properties.maxThreadsPerBlock, properties.warpSize);
  EXPECT_GE(properties.maxThreadsPerMultiProcessor, properties.warpSize);
  EXPECT_GT(properties.regsPerMultiprocessor, 0);
  EXPECT_GT(properties.sharedMemPerBlock, 0u);
  EXPECT_GE(properties.sharedMemPerBlockOptin, properties.sharedMemPerBlock);
  EXPECT_GE(
      properties.sharedMemPerMultiprocessor, properties.sharedMemPerBlockOptin);
  EXPECT_NE(properties.sharedMemPerMultiprocessor, SIZE_MAX);
  EXPECT_GT(properties.clockRate, 0);
  EXPECT_GT(properties.memoryClockRate, 0);
  EXPECT_GT(properties.memoryBusWidth, 0);
  EXPECT_EQ(properties.integrated, 0);
  EXPECT_EQ(properties.isMultiGpuBoard, 0);
  EXPECT_GT(properties.l2CacheSize, 0u);
  EXPECT_NE(properties.l2CacheSize, SIZE_MAX);
}

TEST_F(DeviceTest, TotalMemoryIsWhatMemoryInfoReports) {
  for (int device = 0; device < count_; ++device) {
    ASSERT_EQ(orSetDevice(device), orSuccess);
    orDeviceProp properties;
    size_t total = 0;
    ASSERT_EQ(orGetDeviceProperties(&properties, device), orSuccess);
    ASSERT_EQ(orMemGetInfo(nullptr, &total), orSuccess);
    EXPECT_EQ(properties.totalGlobalMem, total);
  }
}

TEST_F(DeviceTest, PropertiesNeedADeviceAndAPlace) {
  EXPECT_EQ(orGetDeviceProperties(nullptr, 0), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("properties"));
  orDeviceProp properties;
  for (int device : badIndices()) {
    EXPECT_EQ(orGetDeviceProperties(&properties, device), orErrorInvalidDevice);
    EXPECT_TRUE(detailHas(std::to_string(device)));
  }
}

std::string uuidOf(int device) {
  orDeviceProp properties{};
  EXPECT_EQ(orGetDeviceProperties(&properties, device), orSuccess);
  std::string digits;
  for (unsigned char byte : properties.uuid) {
    char pair[3];
    std::snprintf(pair, sizeof(pair), "%02x", byte);
    digits += pair;
  }
  return digits;
}

TEST_F(DeviceTest, EachDeviceHasItsOwnUuidWhichAnotherProcessSeesToo) {
  const std::string first = uuidOf(0);
  const std::string second = uuidOf(1);
  EXPECT_NE(first, second);
  EXPECT_EXIT(
      {
        std::cerr << "seen: " << uuidOf(0) << ' ' << uuidOf(1) << std::endl;
        std::exit(0);
      },
      ::testing::ExitedWithCode(0),
      "seen: " + first + ' ' + second);
}

TEST_F(DeviceTest, EachDeviceHasItsOwnPlaceOnTheBus) {
  orDeviceProp first{}, second{};
  ASSERT_EQ(orGetDeviceProperties(&first, 0), orSuccess);
  ASSERT_EQ(orGetDeviceProperties(&second, 1), orSuccess);
  EXPECT_NE(first.pciBusID, second.pciBusID);
  EXPECT_EQ(first.pciDomainID, second.pciDomainID);
}

TEST_F(DeviceTest, AttributesAgreeWithTheProperties) {
  for (int device = 0; device < count_; ++device) {
    orDeviceProp p{};
    ASSERT_EQ(orGetDeviceProperties(&p, device), orSuccess);
    const std::pair<orDeviceAttr, size_t> expected[] = {
        {orDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock},
        {orDevAttrMaxSharedMemoryPerBlock, p.sharedMemPerBlock},
        {orDevAttrWarpSize, p.warpSize},
        {orDevAttrMultiProcessorCount, p.multiProcessorCount},
        {orDevAttrL2CacheSize, p.l2CacheSize},
        {orDevAttrMaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor},
        {orDevAttrComputeCapabilityMajor, p.major},
        {orDevAttrComputeCapabilityMinor, p.minor},
        {orDevAttrMaxRegistersPerMultiprocessor, p.regsPerMultiprocessor},
    };
    for (const auto& [attribute, property] : expected) {
      int value = -1;
      ASSERT_EQ(orDeviceGetAttribute(&value, attribute, device), orSuccess);
      EXPECT_EQ(static_cast<size_t>(value), property) << attribute;
    }
  }
}

TEST_F(DeviceTest, AttributesMustBeKnownAndNeedADeviceAndAPlace) {
  int value = -1;
  EXPECT_EQ(
      orDeviceGetAttribute(nullptr, orDevAttrWarpSize, 0), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("value"));
  const auto unknown = static_cast<orDeviceAttr>(77);
  EXPECT_EQ(orDeviceGetAttribute(&value, unknown, 0), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("77"));
  for (int device : badIndices()) {
    EXPECT_EQ(
        orDeviceGetAttribute(&value, orDevAttrWarpSize, device),
        orErrorInvalidDevice);
    EXPECT_TRUE(detailHas(std::to_string(device)));
  }
  EXPECT_EQ(value, -1) << "a failing call changes nothing";
}

} // namespace
} // namespace openreg::testing
