// Operators, and kernels written by hand.
#include "kernels.h"

#include "executor/HandKernel.h"

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/zeros.h>

namespace c10::openreg::testing {
namespace {

using at::Tensor;
using at::native::openreg::launch;

class ExecutorTest : public DeviceTest {
 protected:
  at::TensorOptions onDevice = at::dtype(at::kFloat).device(device(0));
  const OpenRegStream stream = getStreamFromPool(0, 0);
};

// What needs a device of its own runs in a child: without a fixture, which would use
// the device before the child has set its variables.

// --- launch -------------------------------------------------------------------

TEST_F(ExecutorTest, ALaunchIsQueuedBehindTheWorkBefore) {
  const Tensor tensor = at::zeros({4}, onDevice);
  device_synchronize();
  Gate gate(stream);
  launch("test", stream, {.writes = {&tensor}}, [](std::span<Tensor> aliases) {
    aliases[0].fill_(3);
  });
  EXPECT_FALSE(stream.query());
  gate.open();
  stream.synchronize();
  EXPECT_EQ(elements<float>(tensor), std::vector<float>(4, 3));
}

TEST_F(ExecutorTest, ALaunchGetsAliasesOfWhatItReadsAndThenOfWhatItWrites) {
  const Tensor small[] = {at::zeros({4}, onDevice), at::zeros({5}, onDevice)};
  const Tensor large[] = {
      at::zeros({1 << 18}, onDevice), at::zeros({1 << 18}, onDevice)};
  for (const auto& tensors : {small, large}) { // run at once, and queued
    std::vector<void*> seen;
    launch(
        "test",
        stream,
        {.reads = {&tensors[0]}, .writes = {&tensors[1]}},
        [&seen](std::span<Tensor> aliases) {
          for (const Tensor& alias : aliases) {
            seen.push_back(alias.data_ptr());
          }
        });
    stream.synchronize();
    EXPECT_EQ(
        seen,
        (std::vector<void*>{
            kernelAddress(tensors[0].data_ptr()),
            kernelAddress(tensors[1].data_ptr())}));
  }
}

TEST_F(ExecutorTest, SmallWorkOnAnIdleStreamRunsAtOnceOnTheCallingThread) {
  if (!::openreg::testing::scheduleIs("auto")) {
    GTEST_SKIP() << "the other schedules queue all work";
  }
  const Tensor small = at::empty({4}, onDevice);
  const Tensor large = at::empty({1 << 18}, onDevice);
  std::thread::id ran;
  const auto note = [&ran](auto&&) { ran = std::this_thread::get_id(); };
  launch("test", stream, {.writes = {&small}}, note);
  stream.synchronize();
  EXPECT_EQ(ran, std::this_thread::get_id());
  launch("test", stream, {.writes = {&large}}, note);
  stream.synchronize();
  EXPECT_NE(ran, std::this_thread::get_id());
}

TEST_F(ExecutorTest, TemporariesOfALaunchAreHostMemory) {
  const Tensor large = at::empty({1 << 18}, onDevice);
  bool onDevice = true;
  launch("test", stream, {.reads = {&large}}, [&onDevice](auto&&) {
    onDevice = isDeviceMemory(at::empty({100}).data_ptr());
  });
  stream.synchronize();
  EXPECT_FALSE(onDevice);
}

TEST(ExecutorChildTest, ALaunchThatThrowsBreaksTheDevice) {
  EXPECT_CHILD_SUCCEEDS([] {
    const OpenRegStream stream = getDefaultOpenRegStream(0);
    const Tensor large = at::empty({1 << 18}, at::device(device(0)));
    launch("my kernel", stream, {.writes = {&large}}, [](auto&&) {
      TORCH_CHECK(false, "on purpose");
    });
    const std::string message = messageOf([&] { stream.synchronize(); });
    CHILD_REQUIRE(has(message, "my kernel") && has(message, "on purpose"));
    CHILD_REQUIRE(
        codeOf([] { at::zeros({1}, at::device(device(0))); }) == orErrorAssert);
    const Tensor other = at::zeros({1}, at::device(device(1))); // is well
    CHILD_REQUIRE(other.item<float>() == 0);
    return true;
  });
}

// --- memory -------------------------------------------------------------------

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
  launch("test", other, {.writes = {&tensor}}, [](std::span<Tensor> aliases) {
    aliases[0].fill_(5);
  });
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
