// Random numbers.
#include "support.h"

#include "runtime/OpenRegGenerator.h"

#include <ATen/ops/bernoulli.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>

namespace c10::openreg::testing {
namespace {

using GeneratorTest = DeviceTest;

at::Generator seeded(uint64_t seed, DeviceIndex index = 0) {
  at::Generator generator = createOpenRegGenerator(index);
  generator.set_current_seed(seed);
  return generator;
}

at::TensorOptions on(DeviceIndex index) {
  return at::device(device(index));
}

TEST_F(GeneratorTest, EqualSeedsGiveTheNumbersOfTheCpu) {
  const at::Generator cpu = at::detail::createCPUGenerator(42);
  const at::Generator ours = seeded(42, 1);
  const auto compare = [](const at::Tensor& expected, const at::Tensor& got) {
    EXPECT_EQ(got.device(), device(1));
    EXPECT_TRUE(at::equal(expected, got.cpu()));
  };
  // An odd number of normal values leaves one for the next call.
  for (const int64_t size : {1, 7, 16, 1000}) {
    compare(at::rand({size}, cpu), at::rand({size}, ours, on(1)));
    compare(at::randn({size}, cpu), at::randn({size}, ours, on(1)));
    compare(
        at::randperm(size, cpu, at::kLong),
        at::randperm(size, ours, on(1).dtype(at::kLong)));
    compare(
        at::empty({size}).bernoulli_(0.3, cpu),
        at::empty({size}, on(1)).bernoulli_(0.3, ours));
  }
  EXPECT_TRUE(at::equal(cpu.get_state(), ours.get_state()));
}

TEST_F(GeneratorTest, ANewGeneratorHasTheDefaultSeedAndTheDeviceAskedFor) {
  EXPECT_EQ(createOpenRegGenerator(1).current_seed(), default_rng_seed_val);
  EXPECT_EQ(createOpenRegGenerator(1).device(), device(1));
  set_device(1);
  EXPECT_FALSE(createOpenRegGenerator().device().has_index()); // as on CUDA
  EXPECT_THROW(createOpenRegGenerator(2), Error);
}

TEST_F(GeneratorTest, EachDeviceHasOneDefaultGenerator) {
  EXPECT_EQ(getDefaultOpenRegGenerator(1), getDefaultOpenRegGenerator(1));
  EXPECT_FALSE(getDefaultOpenRegGenerator(0) == getDefaultOpenRegGenerator(1));
  EXPECT_EQ(getDefaultOpenRegGenerator(1).device(), device(1));
  set_device(1);
  EXPECT_EQ(getDefaultOpenRegGenerator(), getDefaultOpenRegGenerator(1));
  EXPECT_THROW(getDefaultOpenRegGenerator(2), Error);
}

TEST_F(GeneratorTest, WithoutAGeneratorTheDefaultOneOfTheTensorsDeviceIsUsed) {
  at::Generator first = getDefaultOpenRegGenerator(0);
  at::Generator second = getDefaultOpenRegGenerator(1);
  first.set_current_seed(1);
  second.set_current_seed(2);
  const at::Tensor state = first.get_state();
  const at::Tensor drawn = at::rand({5}, on(1));
  EXPECT_TRUE(at::equal(drawn.cpu(), at::rand({5}, seeded(2), on(0)).cpu()));
  EXPECT_TRUE(at::equal(first.get_state(), state));
}

TEST_F(GeneratorTest, TheStateCanBeReadAndSet) {
  at::Generator generator = seeded(5);
  at::randn({3}, generator, on(0));
  const at::Tensor state = generator.get_state();
  const auto expected = elements<float>(at::randn({5}, generator, on(0)));
  generator.set_state(state);
  EXPECT_EQ(elements<float>(at::randn({5}, generator, on(0))), expected);
  at::Generator cpu = at::detail::createCPUGenerator();
  cpu.set_state(state);
  EXPECT_EQ(elements<float>(at::randn({5}, cpu)), expected);
}

TEST_F(GeneratorTest, ACloneGoesOnFromTheSameStateOnItsOwn) {
  const at::Generator generator = seeded(5, 1);
  at::randn({3}, generator, on(1));
  const at::Generator clone = generator.clone();
  EXPECT_EQ(clone.device(), device(1));
  EXPECT_EQ(clone.current_seed(), 5u);
  const auto drawn = elements<float>(at::randn({5}, generator, on(1)));
  EXPECT_EQ(elements<float>(at::randn({5}, clone, on(1))), drawn);
  EXPECT_TRUE(at::equal(clone.get_state(), generator.get_state()));
}

TEST_F(GeneratorTest, ANewSeedIsOneNobodyCanForesee) {
  at::Generator generator = seeded(5);
  EXPECT_NE(generator.seed(), generator.seed());
}

// --- states that are shared ---------------------------------------------------

TEST_F(GeneratorTest, GeneratorsWithOneStateDrawTheNumbersInTurn) {
  const at::Generator first = seeded(5, 1);
  const at::Generator second = first.graphsafe_get_state();
  EXPECT_FALSE(first == second);
  EXPECT_EQ(second.device(), device(1));
  const at::Generator reference = at::detail::createCPUGenerator(5);
  for (const at::Generator& drawer : {first, second, first}) {
    EXPECT_TRUE(at::equal(
        at::rand({3}, drawer, on(1)).cpu(), at::rand({3}, reference)));
  }
}

TEST_F(GeneratorTest, AGeneratorCanBeGivenTheStateOfAnother) {
  at::Generator first = seeded(5);
  const at::Generator second = seeded(6);
  const at::Generator old = first.graphsafe_get_state();
  first.graphsafe_set_state(second);
  EXPECT_EQ(first.current_seed(), 6u);
  EXPECT_EQ(old.current_seed(), 5u);
  first.set_current_seed(7);
  EXPECT_EQ(second.current_seed(), 7u);
  EXPECT_EQ(first.clone().current_seed(), 7u);
  EXPECT_TRUE(
      has(messageOf([&] {
            first.graphsafe_set_state(at::detail::createCPUGenerator());
          }),
          "cpu"));
  EXPECT_EQ(first.current_seed(), 7u);
}

// --- lending to CPU kernels ---------------------------------------------------

at::Generator drawFrom(const at::Generator& generator) {
  return generatorFor(generator, getDefaultOpenRegStream(0));
}

TEST_F(GeneratorTest, AKernelDrawsFromAGeneratorOfTheCpuWithOurState) {
  const at::Generator generator = seeded(9);
  const at::Generator reference = at::detail::createCPUGenerator(9);
  {
    const CpuDraw draw(drawFrom(generator));
    EXPECT_TRUE(draw.generator().device().is_cpu());
    EXPECT_TRUE(
        at::equal(at::randn({3}, draw.generator()), at::randn({3}, reference)));
  }
  EXPECT_TRUE(at::equal(generator.get_state(), reference.get_state()));
}

TEST_F(GeneratorTest, ADrawEndsWhenItsBodyThrows) {
  const at::Generator generator = seeded(9);
  EXPECT_THROW(
      {
        const CpuDraw draw(drawFrom(generator));
        TORCH_CHECK(false, "on purpose");
      },
      Error);
  const CpuDraw again(drawFrom(generator)); // it is not locked any more
}

TEST_F(GeneratorTest, OnlyStatesOfOurGeneratorsCanBeLent) {
  const at::Generator cpu = at::detail::createCPUGenerator();
  EXPECT_TRUE(has(messageOf([&] { drawFrom(cpu); }), "cpu"));
  EXPECT_THROW(CpuDraw{cpu}, Error);
  EXPECT_THROW(CpuDraw{seeded(1)}, Error);
}

TEST_F(GeneratorTest, ThreadsDrawOneAfterTheOther) {
  constexpr int kThreads = 4, kDraws = 50;
  const at::Generator generator = seeded(3);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int draw = 0; draw < kDraws; ++draw) {
        at::rand({10}, generator, on(0));
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  const at::Generator reference = at::detail::createCPUGenerator(3);
  at::rand({10 * kThreads * kDraws}, reference);
  EXPECT_TRUE(at::equal(generator.get_state(), reference.get_state()));
}

} // namespace
} // namespace c10::openreg::testing
