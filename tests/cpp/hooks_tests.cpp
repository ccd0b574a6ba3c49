// What PyTorch asks a backend outside of operators.
#include "support.h"

#include "runtime/OpenRegDeviceAllocator.h"
#include "runtime/OpenRegGenerator.h"
#include "runtime/OpenRegHooks.h"
#include "runtime/OpenRegHostAllocator.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/arange.h>

#include <numeric>

namespace c10::openreg::testing {
namespace {

class HooksTest : public DeviceTest {
 protected:
  const at::PrivateUse1HooksInterface& hooks =
      at::detail::getPrivateUse1Hooks();
};

TEST_F(HooksTest, PyTorchHasOurHooks) {
  EXPECT_TRUE(at::isPrivateUse1HooksRegistered());
  EXPECT_NE(dynamic_cast<const OpenRegHooksInterface*>(&hooks), nullptr);
  EXPECT_EQ(
      &at::globalContext().getAcceleratorHooksInterface(at::kPrivateUse1),
      &hooks);
}

TEST_F(HooksTest, OpenRegIsTheAccelerator) {
  EXPECT_TRUE(hooks.isBuilt());
  EXPECT_TRUE(hooks.isAvailable());
  EXPECT_EQ(at::getAccelerator(), at::kPrivateUse1);
  EXPECT_EQ(at::accelerator::deviceCount(), 2);
}

TEST_F(HooksTest, InitThrowsNothingWhereThereIsADevice) {
  EXPECT_NO_THROW(hooks.init());
  EXPECT_NO_THROW(at::globalContext().lazyInitDevice(at::kPrivateUse1));
}

TEST_F(HooksTest, AskingStartsNothing) {
  EXPECT_CHILD_SUCCEEDS([] {
    const auto& hooks = at::detail::getPrivateUse1Hooks();
    CHILD_REQUIRE(hooks.isAvailable() && hooks.deviceCount() == 2);
    hooks.init();
    CHILD_REQUIRE(!hooks.hasPrimaryContext(0) && !hooks.hasPrimaryContext(1));
    const DataPtr data = getOpenRegDeviceAllocator().allocate(512);
    CHILD_REQUIRE(hooks.hasPrimaryContext(0) && !hooks.hasPrimaryContext(1));
    return true;
  });
}

TEST_F(HooksTest, WithoutADeviceTheReasonIsToldByInit) {
  EXPECT_CHILD_SUCCEEDS([] {
    setenv("OPENREG_VISIBLE_DEVICES", "", 1);
    const auto& hooks = at::detail::getPrivateUse1Hooks();
    CHILD_REQUIRE(!hooks.isAvailable() && hooks.deviceCount() == 0);
    CHILD_REQUIRE(!hooks.hasPrimaryContext(0));
    CHILD_REQUIRE(codeOf([&] { hooks.init(); }) == orErrorNoDevice);
    return true;
  });
}

TEST_F(HooksTest, ADeviceThatDoesNotExistHasNoContext) {
  for (const DeviceIndex index : {-1, 2, 127}) {
    EXPECT_FALSE(hooks.hasPrimaryContext(index));
  }
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
}

// --- devices ------------------------------------------------------------------

TEST_F(HooksTest, TheCurrentDeviceCanBeSetAndExchanged) {
  EXPECT_EQ(hooks.deviceCount(), 2);
  hooks.setCurrentDevice(1);
  EXPECT_EQ(hooks.getCurrentDevice(), 1);
  EXPECT_EQ(hooks.exchangeDevice(0), 1);
  EXPECT_EQ(hooks.maybeExchangeDevice(-1), -1);
  EXPECT_EQ(hooks.getCurrentDevice(), 0);
  EXPECT_EQ(hooks.maybeExchangeDevice(1), 0);
  EXPECT_EQ(hooks.getCurrentDevice(), 1);
}

TEST_F(HooksTest, DevicesThatDoNotExistAreRefused) {
  EXPECT_THROW(hooks.setCurrentDevice(2), Error);
  EXPECT_THROW(hooks.setCurrentDevice(-1), Error);
  EXPECT_THROW(hooks.exchangeDevice(2), Error);
  EXPECT_THROW(hooks.maybeExchangeDevice(2), Error);
  EXPECT_EQ(hooks.getCurrentDevice(), 0);
}

// --- memory -------------------------------------------------------------------

TEST_F(HooksTest, PinnedMemoryIsRecognised) {
  // Before that PyTorch answers without asking.
  at::globalContext().lazyInitDevice(at::kPrivateUse1);
  Allocator* pinned = hooks.getPinnedMemoryAllocator();
  EXPECT_EQ(pinned, getOpenRegHostAllocator());
  const DataPtr data = pinned->allocate(100);
  EXPECT_TRUE(hooks.isPinnedPtr(data.get()));
  EXPECT_TRUE(at::globalContext().isPinnedPtr(data.get(), at::kPrivateUse1));
  int here = 0;
  EXPECT_FALSE(hooks.isPinnedPtr(&here));
}

TEST_F(HooksTest, ThePointerTellsTheDevice) {
  const DataPtr data =
      getOpenRegDeviceAllocator().allocate(512, getDefaultOpenRegStream(1));
  EXPECT_EQ(
      hooks.getDeviceFromPtr(static_cast<char*>(data.get()) + 100), device(1));
  EXPECT_EQ(
      at::globalContext().getDeviceFromPtr(data.get(), at::kPrivateUse1),
      device(1));
  int here = 0;
  for (void* wrong : {static_cast<void*>(&here), static_cast<void*>(nullptr)}) {
    EXPECT_TRUE(
        has(messageOf([&] { hooks.getDeviceFromPtr(wrong); }),
            "is not memory of an openreg device"));
  }
}

class ResizeTest : public HooksTest {
 protected:
  // Checks that the first `kept` elements of a resized storage are unchanged.
  void resizeTo(size_t nbytes, size_t kept) {
    hooks.resizePrivateUse1Bytes(storage, nbytes);
    EXPECT_EQ(storage.nbytes(), nbytes);
    EXPECT_EQ(storage.device(), device(1));
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(
        {static_cast<int64_t>(kept)});
    std::vector<int64_t> expected(kept);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(elements<int64_t>(tensor), expected);
  }

  at::Tensor tensor = at::arange(100, at::dtype(at::kLong).device(device(1)));
  const Storage storage = tensor.storage();
};

TEST_F(ResizeTest, AStorageThatGrowsKeepsItsBytes) {
  resizeTo(80'000, 100);
}

TEST_F(ResizeTest, AStorageThatShrinksKeepsTheBytesLeft) {
  resizeTo(80, 10);
}

TEST_F(ResizeTest, AStorageMayHaveNoBytes) {
  resizeTo(0, 0);
  EXPECT_EQ(storage.data(), nullptr);
  hooks.resizePrivateUse1Bytes(storage, 80);
  EXPECT_NE(storage.data(), nullptr);
}

TEST_F(ResizeTest, BytesMoveInStreamOrder) {
  const OpenRegStream stream = getStreamFromPool(0, 1);
  OpenRegStreamGuard scope{Stream(stream)};
  {
    Gate gate(stream);
    tensor.fill_(7);
    hooks.resizePrivateUse1Bytes(storage, 1600);
  }
  EXPECT_EQ(elements<int64_t>(tensor), std::vector<int64_t>(100, 7));
}

// --- random numbers -----------------------------------------------------------

TEST_F(HooksTest, GeneratorsAreThoseOfTheDevice) {
  EXPECT_EQ(hooks.getDefaultGenerator(1), getDefaultOpenRegGenerator(1));
  EXPECT_EQ(
      at::globalContext().defaultGenerator(device(1)),
      getDefaultOpenRegGenerator(1));
  const at::Generator made = hooks.getNewGenerator(1);
  EXPECT_EQ(made.device(), device(1));
  EXPECT_FALSE(made == hooks.getNewGenerator(1));
  EXPECT_THROW(hooks.getNewGenerator(2), Error);
  EXPECT_THROW(hooks.getDefaultGenerator(2), Error);
}

} // namespace
} // namespace c10::openreg::testing
