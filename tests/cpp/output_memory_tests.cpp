// Where the tensors that CPU kernels make come to lie.
#include "kernels.h"

#include "runtime/OpenRegDeviceAllocator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

namespace c10::openreg::testing {
namespace {

using at::Tensor;
using at::native::openreg::allocateFrom;
using at::native::openreg::DeviceMemorySource;
using at::native::openreg::HostAllocation;
using at::native::openreg::isPlannedMemory;
using at::native::openreg::isPlannedMemoryKept;
using at::native::openreg::isSourceMemory;
using at::native::openreg::outputAllocator;
using at::native::openreg::PlannedMemory;

int64_t allocated() {
  return getOpenRegDeviceAllocator()
      .getDeviceStats(0)
      .allocated_bytes[0]
      .current;
}

class OutputMemoryTest : public DeviceTest {
 protected:
  const OpenRegStream stream = getStreamFromPool(0, 0);
  StreamMemory memory{stream};
};

// --- memory of a source ---------------------------------------------------------

TEST_F(OutputMemoryTest, InsideAScopeCpuTensorsLieInDeviceMemory) {
  EXPECT_FALSE(isDeviceMemory(at::empty({100}).data_ptr()));
  {
    const OutputScope scope(&memory);
    EXPECT_TRUE(isDeviceMemory(at::empty({100}).data_ptr()));
    EXPECT_EQ(at::empty({0}).data_ptr(), nullptr);
    std::thread([] {
      EXPECT_FALSE(isDeviceMemory(at::empty({100}).data_ptr()));
    }).join();
  }
  EXPECT_FALSE(isDeviceMemory(at::empty({100}).data_ptr()));
}

TEST_F(OutputMemoryTest, ScopesNest) {
  const OpenRegStream other = getStreamFromPool(0, 1);
  StreamMemory memoryOfOther(other);
  const auto deviceOf = [] {
    const Tensor tensor = at::empty({100});
    orPointerAttributes attributes;
    EXPECT_EQ(
        orPointerGetAttributes(&attributes, deviceAddress(tensor.data_ptr())),
        orSuccess);
    return attributes.device;
  };
  const OutputScope outer(&memory);
  {
    const OutputScope inner(&memoryOfOther);
    EXPECT_EQ(OutputScope::current(), &inner);
    EXPECT_EQ(deviceOf(), 1);
    const OutputScope none(nullptr);
    EXPECT_FALSE(isDeviceMemory(at::empty({100}).data_ptr()));
  }
  EXPECT_EQ(OutputScope::current(), &outer);
  EXPECT_EQ(deviceOf(), 0);
}

TEST_F(OutputMemoryTest, MemoryOfAScopeMayBeFreedOutsideIt) {
  const int64_t before = allocated();
  Tensor made;
  void* raw = nullptr;
  {
    const OutputScope scope(&memory);
    made = at::empty({100});
    raw = GetCPUAllocator()->raw_allocate(1000);
  }
  EXPECT_TRUE(isDeviceMemory(raw));
  EXPECT_EQ(allocated(), before + 512 + 1024);
  made.reset();
  GetCPUAllocator()->raw_deallocate(raw);
  EXPECT_EQ(allocated(), before);

  void* host = GetCPUAllocator()->raw_allocate(1000);
  const OutputScope scope(&memory);
  GetCPUAllocator()->raw_deallocate(host); // and the other way round
}

TEST_F(OutputMemoryTest, MemoryOfASourceIsKnownAsSuch) {
  EXPECT_FALSE(isSourceMemory(outputAllocator()->allocate(100)));
  const OutputScope scope(&memory);
  const DataPtr made = outputAllocator()->allocate(100);
  EXPECT_TRUE(isSourceMemory(made));
  EXPECT_FALSE(isPlannedMemory(made));
  EXPECT_TRUE(isSourceMemory(allocateFrom(memory, 100)));
}

TEST_F(OutputMemoryTest, ASourceWithoutMemoryLeavesItToTheHost) {
  struct : DeviceMemorySource {
    void* tryAllocate(size_t bytes) override {
      asked = bytes;
      return nullptr;
    }
    size_t asked = 0;
  } empty;
  const OutputScope scope(&empty);
  const Tensor made = at::full({100}, 3.f);
  EXPECT_EQ(empty.asked, 400u);
  EXPECT_FALSE(isDeviceMemory(made.data_ptr()));
  EXPECT_EQ(elements<float>(made), std::vector<float>(100, 3));
  EXPECT_FALSE(allocateFrom(empty, 100));
}

TEST_F(OutputMemoryTest, AFewBytesMayBeTheHosts) {
  const OutputScope scope(&memory, /*hostBytes=*/16);
  EXPECT_EQ(scope.hostBytes(), 16u);
  EXPECT_FALSE(isDeviceMemory(at::empty({4}).data_ptr()));
  EXPECT_TRUE(isDeviceMemory(at::empty({5}).data_ptr()));
  const OutputScope inner(nullptr, 16);
  EXPECT_EQ(inner.hostBytes(), SIZE_MAX);
}

TEST_F(OutputMemoryTest, AnExceptionOutOfAScopeLeavesTheThreadAsItWas) {
  const auto fail = [&] {
    const OutputScope scope(&memory);
    TORCH_CHECK(false, "on purpose");
  };
  EXPECT_THROW(fail(), Error);
  EXPECT_EQ(OutputScope::current(), nullptr);
  EXPECT_FALSE(isDeviceMemory(at::empty({100}).data_ptr()));
  const OutputScope outer(nullptr);
  EXPECT_THROW(fail(), Error);
  EXPECT_EQ(OutputScope::current(), &outer);
}

// --- planned memory -------------------------------------------------------------

/// An output of 400 bytes, and the memory that it is for a kernel.
class PlannedMemoryTest : public OutputMemoryTest {
 protected:
  static PlannedMemory memoryOf(const Tensor& tensor) {
    return {kernelAddress(tensor.data_ptr()), tensor.nbytes()};
  }
  /// That the output is there as it was, whatever was freed.
  void expectOutputIsThere() {
    EXPECT_EQ(allocated(), before);
    EXPECT_EQ(elements<float>(output), std::vector<float>(100, 5));
    const Tensor next = at::empty({100}, output.options());
    EXPECT_NE(next.data_ptr(), output.data_ptr());
  }

  const Tensor output =
      at::full({100}, 5, at::dtype(at::kFloat).device(device(0)));
  const int64_t before = allocated();
  const std::vector<PlannedMemory> planned{memoryOf(output)};
};

TEST_F(PlannedMemoryTest, IsTakenOnce) {
  const OutputScope scope(nullptr, 0, planned);
  const Tensor first = at::empty({100}), second = at::empty({100});
  EXPECT_EQ(first.data_ptr(), planned[0].pointer);
  EXPECT_TRUE(isPlannedMemory(first.storage().data_ptr()));
  EXPECT_FALSE(isSourceMemory(first.storage().data_ptr()));
  EXPECT_FALSE(isDeviceMemory(second.data_ptr()));
}

TEST_F(PlannedMemoryTest, IsForAllocationsOfItsSize) {
  const OutputScope scope(nullptr, 0, planned);
  EXPECT_FALSE(isDeviceMemory(at::empty({99}).data_ptr()));
  EXPECT_FALSE(isDeviceMemory(at::empty({101}).data_ptr()));
  EXPECT_EQ(at::empty({50}, at::kDouble).data_ptr(), planned[0].pointer);
}

TEST_F(PlannedMemoryTest, OfOneSizeIsTakenInItsOrder) {
  const Tensor other = at::full({100}, 6, output.options());
  const Tensor third = at::full({10}, 7, output.options());
  const std::vector<PlannedMemory> all{
      memoryOf(output), memoryOf(third), memoryOf(other)};
  const OutputScope scope(&memory, 0, all);
  const Tensor first = at::empty({100}), second = at::empty({100});
  const Tensor more = at::empty({100});
  EXPECT_EQ(first.data_ptr(), all[0].pointer);
  EXPECT_EQ(second.data_ptr(), all[2].pointer);
  EXPECT_TRUE(isSourceMemory(more.storage().data_ptr()));
  EXPECT_EQ(at::empty({10}).data_ptr(), all[1].pointer);
}

TEST_F(PlannedMemoryTest, IsForTheAllocationWhoseTurnItIs) {
  const Tensor other = at::full({100}, 6, output.options());
  std::vector<PlannedMemory> all{memoryOf(other), memoryOf(output)};
  all[0].earlier = 3;
  all[1].earlier = 1;
  const OutputScope scope(nullptr, 0, all);
  std::vector<Tensor> made;
  std::generate_n(std::back_inserter(made), 4, [] { return at::empty({100}); });
  EXPECT_FALSE(isDeviceMemory(made[0].data_ptr()));
  EXPECT_EQ(made[1].data_ptr(), all[1].pointer);
  EXPECT_FALSE(isDeviceMemory(made[2].data_ptr()));
  EXPECT_EQ(made[3].data_ptr(), all[0].pointer);
}

TEST_F(OutputMemoryTest, AScopeLogsWhatIsAllocatedOnTheHost) {
  std::vector<HostAllocation> log;
  OutputScope scope(nullptr);
  const Tensor before = at::empty({7});
  scope.logTo(log);
  const Tensor first = at::empty({100}), second = at::empty({3});
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[0].pointer, first.data_ptr());
  EXPECT_EQ(log[0].bytes, 400u);
  EXPECT_EQ(log[1].pointer, second.data_ptr());
}

TEST_F(PlannedMemoryTest, ComesBeforeTheHosts) {
  const Tensor number = at::full({1}, 5, output.options());
  const std::vector<PlannedMemory> small{memoryOf(number)};
  const OutputScope scope(&memory, /*hostBytes=*/16, small);
  EXPECT_EQ(at::empty({1}).data_ptr(), small[0].pointer);
  EXPECT_FALSE(isDeviceMemory(at::empty({1}).data_ptr()));
}

TEST_F(PlannedMemoryTest, IsThatOfTheInnermostScope) {
  const OutputScope outer(nullptr, 0, planned);
  {
    const OutputScope inner(nullptr);
    EXPECT_FALSE(isDeviceMemory(at::empty({100}).data_ptr()));
  }
  EXPECT_EQ(at::empty({100}).data_ptr(), planned[0].pointer);
}

TEST_F(PlannedMemoryTest, CanBeTakenForAKernelElsewhere) {
  const Tensor other = at::full({10}, 6, output.options());
  const std::vector<PlannedMemory> all{memoryOf(output), memoryOf(other)};
  OutputScope scope(nullptr, 0, all);
  const Tensor taken = at::empty({100});
  const auto rest = scope.takeAllPlanned();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].pointer, all[1].pointer);
  EXPECT_EQ(rest[0].bytes, all[1].bytes);
  EXPECT_FALSE(isDeviceMemory(at::empty({10}).data_ptr()));
  EXPECT_TRUE(scope.takeAllPlanned().empty());
}

TEST_F(PlannedMemoryTest, StaysTheOutputsWhenATensorIsFreed) {
  {
    const OutputScope scope(&memory, 0, planned);
    at::empty({100}).fill_(5);
  }
  expectOutputIsThere();
  Tensor kept;
  {
    const OutputScope scope(&memory, 0, planned);
    kept = at::empty({100});
  }
  std::thread([&] { kept.reset(); }).join();
  expectOutputIsThere();
}

TEST_F(PlannedMemoryTest, StaysTheOutputsWhenItIsFreedRaw) {
  c10::Allocator* cpu = GetCPUAllocator();
  const auto take = [&] {
    const OutputScope scope(&memory, 0, planned);
    void* raw = cpu->raw_allocate(400);
    EXPECT_EQ(raw, planned[0].pointer);
    return raw;
  };
  {
    const OutputScope scope(&memory, 0, planned);
    void* raw = cpu->raw_allocate(400);
    EXPECT_EQ(raw, planned[0].pointer);
    cpu->raw_deallocate(raw);
  }
  expectOutputIsThere();
  cpu->raw_deallocate(take());
  expectOutputIsThere();
  std::thread([&, raw = take()] { cpu->raw_deallocate(raw); }).join();
  expectOutputIsThere();
  EXPECT_FALSE(isPlannedMemoryKept(planned));
}

TEST_F(PlannedMemoryTest, IsKeptAsLongAsATensorHasIt) {
  EXPECT_FALSE(isPlannedMemoryKept(planned));
  Tensor kept, view;
  {
    const OutputScope scope(nullptr, 0, planned);
    kept = at::empty({100});
    EXPECT_TRUE(isPlannedMemoryKept(planned));
  }
  view = kept.slice(0, 1, 2);
  kept.reset();
  EXPECT_TRUE(isPlannedMemoryKept(planned));
  EXPECT_FALSE(isPlannedMemoryKept({}));
  std::thread([&] { view.reset(); }).join();
  EXPECT_FALSE(isPlannedMemoryKept(planned));
}

TEST_F(PlannedMemoryTest, CanBePlannedAgain) {
  for (int i = 0; i < 3; ++i) {
    const OutputScope scope(nullptr, 0, planned);
    EXPECT_EQ(at::empty({100}).data_ptr(), planned[0].pointer);
  }
  EXPECT_FALSE(isPlannedMemoryKept(planned));
}

// --- numbers --------------------------------------------------------------------

struct {
  bool number, output;
} seenOnDevice;

Tensor addNumber(const Tensor& self, const Scalar& number) {
  const Tensor cast = at::scalar_tensor(number, at::kDouble);
  Tensor output = at::empty(self.sizes(), self.options());
  seenOnDevice = {
      isDeviceMemory(cast.data_ptr()), isDeviceMemory(output.data_ptr())};
  return output.copy_(self).add_(cast);
}

TORCH_LIBRARY(openreg_output_memory_tests, m) {
  m.def("add_number(Tensor self, Scalar number) -> Tensor");
}
TORCH_LIBRARY_IMPL(openreg_output_memory_tests, CPU, m) {
  m.impl("add_number", &addNumber);
}

// A kernel that gets a number may cast it, and the copy is no output.
TEST_F(OutputMemoryTest, NumbersOfABoxedCallLieOnTheHost) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      "openreg_output_memory_tests::add_number", "");
  seenOnDevice = {true, false};
  torch::jit::Stack stack{
      at::full({100}, 5, at::dtype(at::kFloat).device(device(0))), 2};
  op.callBoxed(&stack);
  EXPECT_EQ(elements<float>(stack[0].toTensor()), std::vector<float>(100, 7));
  EXPECT_FALSE(seenOnDevice.number);
  EXPECT_TRUE(seenOnDevice.output);
}

} // namespace
} // namespace c10::openreg::testing
