// The one way into the device for operators.
#include "support.h"

#include "aten/native/Executor.h"
#include "runtime/OpenRegAddress.h"
#include "runtime/OpenRegDeviceAllocator.h"

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>

namespace c10::openreg::testing {
namespace {

using at::Tensor;
using at::native::openreg::aliasForLaunch;
using at::native::openreg::launch;
using at::native::openreg::outputAllocator;
using at::native::openreg::OutputScope;
using at::native::openreg::runHere;
using at::native::openreg::takeDeviceMemory;

class ExecutorTest : public DeviceTest {
 protected:
  at::TensorOptions onDevice = at::dtype(at::kFloat).device(device(0));
  const OpenRegStream stream = getStreamFromPool(0, 0);
};

bool isDeviceMemory(const void* kernelPointer) {
  orPointerAttributes attributes;
  const orError_t status =
      orPointerGetAttributes(&attributes, deviceAddress(kernelPointer));
  orGetLastError();
  return status == orSuccess && attributes.type == orMemoryTypeDevice;
}

// --- runHere ------------------------------------------------------------------

TEST_F(ExecutorTest, RunHereRunsOnTheCallingThread) {
  std::thread::id ran;
  runHere("test", stream, [&] { ran = std::this_thread::get_id(); });
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST_F(ExecutorTest, RunHereWaitsForTheWorkBefore) {
  Gate gate(stream);
  bool done = false;
  ASSERT_EQ(orLaunchKernel(stream, [&] { done = true; }), orSuccess);
  bool seen = false;
  EXPECT_TRUE(waitsForGate(
      gate, [&] { runHere("test", stream, [&] { seen = done; }); }));
  EXPECT_TRUE(seen);
}

TEST_F(ExecutorTest, RunHerePassesExceptionsOnAndTheDeviceStaysUsable) {
  const auto fail = [&] {
    runHere("test", stream, [] { TORCH_CHECK_INDEX(false, "on purpose"); });
  };
  EXPECT_THROW(fail(), IndexError);
  EXPECT_TRUE(has(messageOf(fail), "on purpose"));
  EXPECT_THROW(
      runHere("test", stream, [] { throw std::runtime_error("other"); }),
      std::runtime_error);
  EXPECT_NO_THROW(device_synchronize());
  bool ran = false;
  runHere("test", stream, [&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST_F(ExecutorTest, RunHereRefusesAStreamThatNamesNothing) {
  const OpenRegStream wrong(Stream(
      Stream::UNSAFE, device(0), reinterpret_cast<StreamId>(madeUp<void*>())));
  bool ran = false;
  EXPECT_EQ(
      codeOf([&] { runHere("test", wrong, [&] { ran = true; }); }),
      orErrorInvalidHandle);
  EXPECT_FALSE(ran);
}

// Below, what needs a device of its own runs in a child: without a fixture, which
// would use the device before the child has set its variables.

// The kernel is abandoned where it stands, so the caller learns of it from the
// device.
TEST(ExecutorChildTest, AKernelThatIsAbandonedIsAnErrorOfTheDevice) {
  EXPECT_CHILD_SUCCEEDS([] {
    const Tensor tensor = at::zeros({4}, at::device(device(0)));
    auto* address = static_cast<volatile char*>(tensor.data_ptr());
    const int code = codeOf([&] {
      runHere("test", getDefaultOpenRegStream(0), [&] { *address = 1; });
    });
    CHILD_REQUIRE(code == orErrorIllegalAddress);
    return true;
  });
}

// --- launch -------------------------------------------------------------------

TEST_F(ExecutorTest, ALaunchIsQueuedBehindTheWorkBefore) {
  const Tensor tensor = at::zeros({4}, onDevice);
  device_synchronize();
  Gate gate(stream);
  launch(
      "test", stream, 16, [alias = aliasForLaunch(tensor)] { alias.fill_(3); });
  EXPECT_FALSE(stream.query());
  gate.open();
  stream.synchronize();
  EXPECT_EQ(elements<float>(tensor), std::vector<float>(4, 3));
}

TEST_F(ExecutorTest, SmallWorkOnAnIdleStreamRunsAtOnceOnTheCallingThread) {
  if (!::openreg::testing::scheduleIs("auto")) {
    GTEST_SKIP() << "the other schedules queue all work";
  }
  std::thread::id ran;
  launch("test", stream, 16, [&ran] { ran = std::this_thread::get_id(); });
  stream.synchronize();
  EXPECT_EQ(ran, std::this_thread::get_id());
  launch("test", stream, 1 << 20, [&ran] { ran = std::this_thread::get_id(); });
  stream.synchronize();
  EXPECT_NE(ran, std::this_thread::get_id());
}

TEST_F(ExecutorTest, TemporariesOfALaunchAreHostMemory) {
  bool onDevice = true;
  launch("test", stream, 1 << 20, [&onDevice] {
    onDevice = isDeviceMemory(at::empty({100}).data_ptr());
  });
  stream.synchronize();
  EXPECT_FALSE(onDevice);
}

TEST(ExecutorChildTest, ALaunchThatThrowsBreaksTheDevice) {
  EXPECT_CHILD_SUCCEEDS([] {
    const OpenRegStream stream = getDefaultOpenRegStream(0);
    launch(
        "my kernel", stream, 1 << 20, [] { TORCH_CHECK(false, "on purpose"); });
    const std::string message = messageOf([&] { stream.synchronize(); });
    CHILD_REQUIRE(has(message, "my kernel") && has(message, "on purpose"));
    CHILD_REQUIRE(
        codeOf([] { at::zeros({1}, at::device(device(0))); }) == orErrorAssert);
    const Tensor other = at::zeros({1}, at::device(device(1))); // is well
    CHILD_REQUIRE(other.item<float>() == 0);
    return true;
  });
}

// --- OutputScope --------------------------------------------------------------

TEST_F(ExecutorTest, InsideAScopeCpuTensorsLieInDeviceMemory) {
  EXPECT_FALSE(isDeviceMemory(at::empty({100}).data_ptr()));
  {
    const OutputScope scope(stream);
    EXPECT_TRUE(isDeviceMemory(at::empty({100}).data_ptr()));
    EXPECT_EQ(at::empty({0}).data_ptr(), nullptr);
    std::thread([] {
      EXPECT_FALSE(isDeviceMemory(at::empty({100}).data_ptr()));
    }).join();
  }
  EXPECT_FALSE(isDeviceMemory(at::empty({100}).data_ptr()));
}

TEST_F(ExecutorTest, ScopesNest) {
  const OpenRegStream other = getStreamFromPool(0, 1);
  const auto deviceOf = [] {
    const Tensor tensor = at::empty({100});
    orPointerAttributes attributes;
    EXPECT_EQ(
        orPointerGetAttributes(&attributes, deviceAddress(tensor.data_ptr())),
        orSuccess);
    return attributes.device;
  };
  const OutputScope outer(stream);
  {
    const OutputScope inner(other);
    EXPECT_EQ(deviceOf(), 1);
  }
  EXPECT_EQ(deviceOf(), 0);
}

TEST_F(ExecutorTest, MemoryOfAScopeMayBeFreedOutsideIt) {
  auto& allocator = getOpenRegDeviceAllocator();
  const auto allocated = [&] {
    return allocator.getDeviceStats(0).allocated_bytes[0].current;
  };
  const int64_t before = allocated();
  Tensor made;
  void* raw = nullptr;
  {
    const OutputScope scope(stream);
    made = at::empty({100});
    raw = GetCPUAllocator()->raw_allocate(1000);
  }
  EXPECT_TRUE(isDeviceMemory(raw));
  EXPECT_EQ(allocated(), before + 512 + 1024);
  made.reset();
  GetCPUAllocator()->raw_deallocate(raw);
  EXPECT_EQ(allocated(), before);

  void* host = GetCPUAllocator()->raw_allocate(1000);
  const OutputScope scope(stream);
  GetCPUAllocator()->raw_deallocate(host); // and the other way round
}

TEST_F(ExecutorTest, OnlyMemoryOfAScopeCanBeTaken) {
  DataPtr host = outputAllocator()->allocate(100);
  void* address = host.get();
  EXPECT_FALSE(takeDeviceMemory(host, 0));
  EXPECT_EQ(host.get(), address);

  const OutputScope scope(stream);
  DataPtr memory = outputAllocator()->allocate(100);
  address = memory.get();
  const DataPtr taken = takeDeviceMemory(memory, 0);
  EXPECT_EQ(taken.get(), deviceAddress(address));
  EXPECT_EQ(taken.device(), device(0));
}

// A full device has 2 MiB left, of which the result needs all: the kernel finds
// no memory, and only after it parked memory can be waited for.
TEST(ExecutorChildTest, AFullDeviceIsNoReasonForAKernelToFail) {
  EXPECT_CHILD_SUCCEEDS([] {
    setenv("OPENREG_DEVICE_MEMORY", "64MiB", 1);
    const auto options = at::dtype(at::kFloat).device(device(0));
    const int64_t mebi = 1 << 18; // floats of a MiB
    const Tensor a = at::full({20 * mebi}, 1, options);
    Tensor parked = at::empty({24 * mebi}, options);
    const OpenRegStream side = getStreamFromPool(0, 0);
    parked.record_stream(side);
    Gate gate(side);
    parked.reset();

    // at::add() is not handed the 24 MiB while the side stream holds them.
    std::thread opener([&] { gate.open(); });
    const Tensor sum = at::add(a, a);
    opener.join();
    CHILD_REQUIRE(sum.is_privateuseone());
    CHILD_REQUIRE(elements<float>(sum) == std::vector<float>(20 * mebi, 2));
    return true;
  });
}

TEST(ExecutorChildTest, AResultThatDoesNotFitIsOutOfMemoryAndNothingIsLost) {
  EXPECT_CHILD_SUCCEEDS([] {
    setenv("OPENREG_DEVICE_MEMORY", "64MiB", 1);
    const auto options = at::dtype(at::kFloat).device(device(0));
    const Tensor a = at::full({10 << 20}, 1, options); // 40 MiB
    bool full = false;
    try {
      at::add(a, a);
    } catch (const OutOfMemoryError&) {
      full = true;
    }
    CHILD_REQUIRE(full);
    CHILD_REQUIRE(elements<float>(a) == std::vector<float>(10 << 20, 1));
    CHILD_REQUIRE(elements<float>(at::full({3}, 2, options))[2] == 2);
    return true;
  });
}

// --- operators ----------------------------------------------------------------

TEST_F(ExecutorTest, AnOperatorRunsInTheCurrentStreamOfItsTensors) {
  const Tensor tensor = at::zeros({4}, at::device(device(1)));
  const OpenRegStream other = getStreamFromPool(0, 1);
  setCurrentOpenRegStream(other); // of device 1, while device 0 is current
  Gate gate(other);
  launch(
      "test", other, 16, [alias = aliasForLaunch(tensor)] { alias.fill_(5); });
  Tensor sum;
  waitsForGate(gate, [&] { sum = tensor.add(1); }); // or is queued
  EXPECT_EQ(elements<float>(sum), std::vector<float>(4, 6));
  EXPECT_EQ(sum.device(), device(1));
  EXPECT_EQ(current_device(), 0);
}

TEST_F(ExecutorTest, OperatorsOfTwoThreadsOnOneStreamDoNotMix) {
  constexpr int kRounds = 500;
  const Tensor total = at::zeros({100}, onDevice);
  const auto work = [&] {
    setCurrentOpenRegStream(stream);
    for (int i = 0; i < kRounds; ++i) {
      total.add_(1); // reads and writes: two at once would lose one
    }
  };
  device_synchronize();
  std::thread first(work), second(work);
  first.join();
  second.join();
  stream.synchronize();
  EXPECT_EQ(elements<float>(total), std::vector<float>(100, 2 * kRounds));
}

TEST_F(ExecutorTest, AnOperatorThatFailsLeavesItsOutputAsItWas) {
  Tensor output = at::full({2}, 5, onDevice);
  const Tensor three = at::full({3}, 1, onDevice);
  const Tensor four = at::full({4}, 1, onDevice);
  EXPECT_THROW(at::add_out(output, three, four), Error);
  EXPECT_EQ(elements<float>(output), std::vector<float>(2, 5));
  EXPECT_NO_THROW(device_synchronize());
}

// What only the numbers tell is found on the device, as on a GPU.
TEST(ExecutorChildTest, AnIndexOutOfRangeIsAnAssertOfTheDevice) {
  EXPECT_CHILD_SUCCEEDS([] {
    const Tensor numbers = at::zeros({3}, at::device(device(0)));
    const Tensor indices =
        at::full({5}, 7, at::dtype(at::kLong).device(device(0)));
    const Tensor result = at::gather(numbers, 0, indices);
    CHILD_REQUIRE(result.numel() == 5);
    const std::string message = messageOf([] { device_synchronize(); });
    CHILD_REQUIRE(has(message, "device-side assert triggered"));
    CHILD_REQUIRE(has(message, "index 7 is out of bounds"));
    CHILD_REQUIRE(codeOf([&] { numbers.add(1).cpu(); }) == orErrorAssert);
    return true;
  });
}

} // namespace
} // namespace c10::openreg::testing
