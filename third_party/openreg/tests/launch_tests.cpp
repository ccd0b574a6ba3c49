#include "support.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>

// Lets an allocation that cannot succeed fail under a sanitizer, as it does
// without one.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}

namespace openreg::testing {
namespace {

class LaunchTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(orDeviceSynchronize(), orSuccess);
  }

  Stream stream_;
};

orStream_t staleStream() {
  orStream_t stream = nullptr;
  EXPECT_EQ(orStreamCreate(&stream), orSuccess);
  EXPECT_EQ(orStreamDestroy(stream), orSuccess);
  return stream;
}

orStream_t madeUpStream() {
  return reinterpret_cast<orStream_t>(0x1234);
}

struct Counts {
  std::atomic<int> made = 0, ended = 0, ran = 0;
};

// A callable of a given size that counts its lives and deaths.
template <size_t kBytes>
class Counted {
 public:
  explicit Counted(Counts& counts) : counts_(&counts) {
    ++counts_->made;
  }
  Counted(Counted&& other) noexcept : counts_(other.counts_) {
    ++counts_->made;
  }
  ~Counted() {
    ++counts_->ended;
  }
  void operator()() {
    ++counts_->ran;
  }

 private:
  Counts* counts_;
  char padding_[kBytes - sizeof(Counts*)] = {};
};

using Inline = Counted<OPENREG_CALLABLE_BYTES>;
using Boxed = Counted<OPENREG_CALLABLE_BYTES + 8>;
static_assert(detail::kFitsInSlot<Inline>);
static_assert(!detail::kFitsInSlot<Boxed>);

template <class Callable>
class CallableTest : public LaunchTest {};
using CallableTypes = ::testing::Types<Inline, Boxed>;
TYPED_TEST_SUITE(CallableTest, CallableTypes);

TYPED_TEST(CallableTest, RunsOnceAndIsDestroyedBeforeTheStreamIsIdle) {
  Counts counts;
  ASSERT_EQ(orLaunchKernel(this->stream_, TypeParam(counts)), orSuccess);
  ASSERT_EQ(orStreamSynchronize(this->stream_), orSuccess);
  EXPECT_EQ(counts.ran, 1);
  EXPECT_EQ(counts.made, counts.ended);
}

TYPED_TEST(CallableTest, IsDestroyedUnrunIfTheLaunchFails) {
  Counts counts;
  for (orStream_t bad : {orStream_t{}, staleStream(), madeUpStream()}) {
    EXPECT_EQ(orLaunchKernel(bad, TypeParam(counts)), orErrorInvalidHandle);
    EXPECT_NE(lastDetail(), "");
  }
  EXPECT_EQ(counts.ran, 0);
  EXPECT_GT(counts.made, 0);
  EXPECT_EQ(counts.made, counts.ended);
}

TYPED_TEST(CallableTest, IsDestroyedUnrunIfTheDeviceBreaksBeforeItsTurn) {
  Counts counts;
  {
    Gate gate(this->stream_);
    ASSERT_EQ(
        orLaunchKernel(this->stream_, [] { orKernelFail(orErrorAssert, ""); }),
        orSuccess);
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(orLaunchKernel(this->stream_, TypeParam(counts)), orSuccess);
    }
  }
  EXPECT_EQ(orStreamSynchronize(this->stream_), orErrorAssert);
  EXPECT_EQ(orLaunchKernel(this->stream_, TypeParam(counts)), orErrorAssert);
  EXPECT_EQ(orDeviceReset(), orSuccess);
  EXPECT_EQ(counts.ran, 0);
  EXPECT_GT(counts.made, 0);
  EXPECT_EQ(counts.made, counts.ended);
}

TYPED_TEST(CallableTest, IsDestroyedOnceIfTheDeviceIsResetMeanwhile) {
  Counts counts;
  Gate gate(this->stream_);
  ASSERT_EQ(orLaunchKernel(this->stream_, TypeParam(counts)), orSuccess);
  gate.open();
  EXPECT_EQ(orDeviceReset(), orSuccess);
  EXPECT_EQ(counts.made, counts.ended);
}

TEST_F(LaunchTest, TakesLambdasFunctionsAndArguments) {
  static int sum = 0;
  sum = 0;
  struct Functions {
    static void add(int a, const int& b) {
      sum += a + b;
    }
  };
  int local = 0;
  auto assign = [](int& to, std::string text) { to = std::stoi(text); };
  ASSERT_EQ(orLaunchKernel(stream_, Functions::add, 1, 2), orSuccess);
  ASSERT_EQ(orLaunchKernel(stream_, &Functions::add, 3, 4), orSuccess);
  ASSERT_EQ(orLaunchKernel(stream_, assign, std::ref(local), "42"), orSuccess);
  ASSERT_EQ(orLaunchKernel(stream_, [n = 0]() mutable { ++n; }), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(sum, 10);
  EXPECT_EQ(local, 42);
}

TEST_F(LaunchTest, CopiesArgumentsDuringTheCall) {
  std::vector<int> values{1, 2, 3};
  int sum = 0;
  Gate gate(stream_);
  auto add = [&sum](const std::vector<int>& from) {
    for (int value : from) {
      sum += value;
    }
  };
  ASSERT_EQ(orLaunchKernel(stream_, add, values), orSuccess);
  values.assign(3, 100);
  gate.open();
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(sum, 6);
}

TEST_F(LaunchTest, MovesWhatCanOnlyBeMoved) {
  int fromCapture = 0, fromArgument = 0;
  auto capture = [&, p = std::make_unique<int>(7)] { fromCapture = *p; };
  ASSERT_EQ(orLaunchKernel(stream_, std::move(capture)), orSuccess);
  auto argument = [&](std::unique_ptr<int> p) { fromArgument = *p; };
  ASSERT_EQ(
      orLaunchKernel(stream_, argument, std::make_unique<int>(8)), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(fromCapture, 7);
  EXPECT_EQ(fromArgument, 8);
}

TEST_F(LaunchTest, KeepsTheAlignmentOfOverAlignedCallables) {
  struct alignas(128) Aligned {
    std::atomic<uintptr_t>* address;
    void operator()() {
      *address = reinterpret_cast<uintptr_t>(this);
    }
  };
  std::atomic<uintptr_t> address = 1;
  ASSERT_EQ(orLaunchKernel(stream_, Aligned{&address}), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(address % 128, 0u);
}

TEST_F(LaunchTest, AKernelMayLaunchMoreWork) {
  std::string order;
  auto inner = [&order] { order += 'i'; };
  auto outer = [&] {
    order += 'o';
    EXPECT_EQ(orLaunchKernel(stream_, inner), orSuccess);
    order += 'O';
  };
  ASSERT_EQ(orLaunchKernel(stream_, outer), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(order, "oOi");
}

struct FullQueue {
  orStream_t stream;
  orError_t raw, c, host;

  // To be called from a kernel or a host function of the stream.
  static void fill(void* raw) {
    auto* self = static_cast<FullQueue*>(raw);
    const auto nothing = [](void*) {};
    self->raw = fillQueue(self->stream);
    self->c = orLaunchKernelC(self->stream, nothing, nullptr, 0);
    self->host = orLaunchHostFunc(self->stream, nothing, nullptr);
  }
};

TEST_F(LaunchTest, IsNotPermittedInsideAStreamWhoseQueueIsFull) {
  FullQueue inKernel{stream_, {}, {}, {}}, inHostFunction = inKernel;
  ASSERT_EQ(orLaunchKernel(stream_, FullQueue::fill, &inKernel), orSuccess);
  ASSERT_EQ(orDeviceSynchronize(), orSuccess);
  ASSERT_EQ(orDeviceSynchronize(), orSuccess) << "of what the kernel queued";
  ASSERT_EQ(
      orLaunchHostFunc(stream_, FullQueue::fill, &inHostFunction), orSuccess);
  ASSERT_EQ(orDeviceSynchronize(), orSuccess);
  for (const FullQueue& full : {inKernel, inHostFunction}) {
    EXPECT_EQ(full.raw, orErrorNotPermitted);
    EXPECT_EQ(full.c, orErrorNotPermitted);
    EXPECT_EQ(full.host, orErrorNotPermitted);
  }
}

TEST_F(LaunchTest, RawCallablesNeedNeitherMoveNorDestroy) {
  static std::atomic<int> seen = 0;
  int value = 5;
  const orCallableType type{
      sizeof(int), [](void* p) { seen = *static_cast<int*>(p); }, {}, {}};
  ASSERT_EQ(orLaunchCallable(stream_, &type, &value, nullptr), orSuccess);
  value = 6;
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(seen, 5);
}

TEST_F(LaunchTest, RefusesRawCallablesThatCannotBeRun) {
  int callable = 0;
  const auto run = [](void*) {};
  const orCallableType good{sizeof(int), run, nullptr, nullptr};
  const orCallableType noRun{sizeof(int), nullptr, nullptr, nullptr};
  const orCallableType large{65, run, nullptr, nullptr};
  const orLaunchConfig flags{"kernel", 42};
  const auto launch = [&](const orCallableType* type,
                          void* what,
                          const orLaunchConfig* config) {
    return orLaunchCallable(stream_, type, what, config);
  };
  EXPECT_EQ(launch(nullptr, &callable, nullptr), orErrorInvalidValue);
  EXPECT_EQ(launch(&noRun, &callable, nullptr), orErrorInvalidValue);
  EXPECT_EQ(launch(&good, nullptr, nullptr), orErrorInvalidValue);
  EXPECT_EQ(launch(&large, &callable, nullptr), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("65"));
  EXPECT_TRUE(detailHas("64"));
  EXPECT_EQ(launch(&good, &callable, &flags), orErrorInvalidValue);
  EXPECT_TRUE(detailHas("42"));
  EXPECT_EQ(orStreamQuery(stream_), orSuccess) << "something was queued";
}

TEST_F(LaunchTest, KernelCGetsAnAlignedCopyOfItsArguments) {
  struct Small {
    int* result;
    int value;
  };
  int result = 0;
  Small small{&result, 7};
  auto store = [](void* raw) {
    auto* args = static_cast<Small*>(raw);
    const auto address = reinterpret_cast<uintptr_t>(raw);
    const bool aligned = address % alignof(std::max_align_t) == 0;
    *args->result = aligned ? args->value : -1;
  };
  Gate gate(stream_);
  ASSERT_EQ(orLaunchKernelC(stream_, store, &small, sizeof(small)), orSuccess);
  small.value = 8;
  gate.open();
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(result, 7);
}

TEST_F(LaunchTest, KernelCTakesLargeAndEmptyArguments) {
  static std::atomic<long> sum = 0;
  static std::atomic<int> calls = 0;
  sum = calls = 0;
  constexpr size_t kCount = 100'000;
  std::vector<int> large(kCount, 3);
  auto add = [](void* raw) {
    const int* values = static_cast<int*>(raw);
    sum = std::accumulate(values, values + kCount, 0L);
  };
  Gate gate(stream_);
  ASSERT_EQ(
      orLaunchKernelC(stream_, add, large.data(), kCount * sizeof(int)),
      orSuccess);
  large.assign(kCount, 0);
  ASSERT_EQ(
      orLaunchKernelC(stream_, [](void*) { ++calls; }, nullptr, 0), orSuccess);
  gate.open();
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(sum, 3 * static_cast<long>(kCount));
  EXPECT_EQ(calls, 1);
}

TEST_F(LaunchTest, KernelCAndHostFuncRefuseWhatTheyCannotCall) {
  auto nothing = [](void*) {};
  int value = 0;
  for (orStream_t bad : {orStream_t{}, staleStream(), madeUpStream()}) {
    EXPECT_EQ(orLaunchKernelC(bad, nothing, &value, 4), orErrorInvalidHandle);
    EXPECT_EQ(orLaunchHostFunc(bad, nothing, &value), orErrorInvalidHandle);
  }
  EXPECT_TRUE(detailHas("0x1234"));
  EXPECT_EQ(orLaunchKernelC(stream_, nullptr, &value, 4), orErrorInvalidValue);
  EXPECT_EQ(orLaunchKernelC(stream_, nothing, nullptr, 4), orErrorInvalidValue);
  EXPECT_EQ(orLaunchHostFunc(stream_, nullptr, nullptr), orErrorInvalidValue);
  EXPECT_EQ(
      orLaunchKernelC(stream_, nothing, &value, SIZE_MAX / 2),
      orErrorMemoryAllocation);
  EXPECT_EQ(orStreamQuery(stream_), orSuccess) << "something was queued";
}

TEST_F(LaunchTest, HostFuncIsCalledOnceInOrder) {
  std::string order;
  auto add = [](void* raw) { *static_cast<std::string*>(raw) += 'h'; };
  ASSERT_EQ(orLaunchKernel(stream_, [&] { order += 'a'; }), orSuccess);
  ASSERT_EQ(orLaunchHostFunc(stream_, add, &order), orSuccess);
  ASSERT_EQ(orLaunchKernel(stream_, [&] { order += 'b'; }), orSuccess);
  ASSERT_EQ(orStreamSynchronize(stream_), orSuccess);
  EXPECT_EQ(order, "ahb");
}

} // namespace
} // namespace openreg::testing
