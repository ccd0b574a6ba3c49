// Who watches the streams is told of all that enters them.
#include "kernels.h"

#include "runtime/OpenRegSubmit.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/zeros.h>

#include <functional>
#include <mutex>

namespace c10::openreg::testing {
namespace {

using at::Tensor;

struct Seen {
  std::string name;
  OpenRegStream stream;
  std::vector<MemoryAccess> accesses;
  std::thread::id thread;
};

/// Notes all work while it lives.
class Recorder : public SubmissionObserver {
 public:
  Recorder() : before_(exchangeSubmissionObserver(this)) {}
  ~Recorder() override {
    exchangeSubmissionObserver(before_);
  }

  void onSubmit(
      const Submission& work,
      const std::vector<MemoryAccess>& accesses) override {
    const std::lock_guard lock(mutex_);
    seen.push_back(
        {work.name, work.stream, accesses, std::this_thread::get_id()});
    if (then) {
      then();
    }
  }

  /// The only work of that name.
  Seen only(const std::string& name) const {
    std::vector<Seen> found;
    std::string names;
    for (const Seen& work : seen) {
      names += work.name + " ";
      if (work.name == name) {
        found.push_back(work);
      }
    }
    EXPECT_EQ(found.size(), 1u) << name << " among " << names;
    return found.empty() ? Seen{"", getDefaultOpenRegStream(0), {}, {}}
                         : found[0];
  }

  std::vector<Seen> seen;
  std::function<void()> then;

 private:
  SubmissionObserver* const before_;
  std::mutex mutex_;
};

/// Whether exactly these bytes are among what the work reads, or writes.
::testing::AssertionResult touches(
    const Seen& work,
    const void* pointer,
    size_t bytes,
    bool writes) {
  std::string all;
  for (const MemoryAccess& access : work.accesses) {
    if (access.pointer == pointer && access.bytes == bytes &&
        access.writes == writes) {
      return ::testing::AssertionSuccess();
    }
    all +=
        str(access.writes ? " writes " : " reads ",
            access.bytes,
            " at ",
            access.pointer);
  }
  return ::testing::AssertionFailure()
      << work.name << " does not touch " << bytes << " at " << pointer
      << ", but" << all;
}
::testing::AssertionResult reads(const Seen& work, const Tensor& tensor) {
  return touches(work, tensor.data_ptr(), tensor.nbytes(), false);
}
::testing::AssertionResult writes(const Seen& work, const Tensor& tensor) {
  return touches(work, tensor.data_ptr(), tensor.nbytes(), true);
}

class SubmitTest : public DeviceTest {
 protected:
  void SetUp() override {
    setCurrentOpenRegStream(stream);
  }
  Tensor full(at::IntArrayRef sizes, float value = 1) {
    const Tensor tensor = at::full(sizes, value, onDevice);
    device_synchronize();
    return tensor;
  }

  const at::TensorOptions onDevice = at::dtype(at::kFloat).device(device(0));
  const OpenRegStream stream = getStreamFromPool(0, 0);
};

// --- operators ------------------------------------------------------------------

// A second count of a tensor that Python has would cost the GIL.
TEST_F(SubmitTest, WhatAKernelIsGivenHasNoSecondOwner) {
  const Tensor a = full({10}), ints = full({10}).to(at::kInt);
  Tensor out = full({10});
  Recorder recorder;
  size_t owners = 0;
  recorder.then = [&] {
    owners += a.use_count() + ints.use_count() + out.use_count();
  };
  a.add_(out);
  at::add_out(out, a, a);
  out.copy_(ints);
  EXPECT_EQ(owners, 9u); // of three tensors in three kernels
}

TEST_F(SubmitTest, AnElementwiseOperatorIsReported) {
  const Tensor a = full({10}), b = full({10});
  const Recorder recorder;
  const Tensor sum = at::add(a, b);
  const Seen work = recorder.only("aten::add.Tensor");
  EXPECT_EQ(work.stream, stream);
  EXPECT_EQ(work.thread, std::this_thread::get_id());
  EXPECT_TRUE(reads(work, a));
  EXPECT_TRUE(reads(work, b));
  EXPECT_TRUE(writes(work, sum));
}

TEST_F(SubmitTest, AnOperatorThatNeedsAliasesIsReported) {
  const Tensor a = full({3, 4}), b = full({4, 5});
  const Tensor longs = full({10}).to(at::kLong), floats = full({10});
  stream.synchronize();
  const Recorder recorder;
  const Tensor product = at::mm(a, b), sum = at::add(floats, longs);
  const Seen first = recorder.only("aten::mm");
  EXPECT_TRUE(reads(first, a));
  EXPECT_TRUE(reads(first, b));
  EXPECT_TRUE(writes(first, product));
  const Seen second = recorder.only("aten::add.Tensor"); // casts
  EXPECT_TRUE(reads(second, floats));
  EXPECT_TRUE(reads(second, longs));
  EXPECT_TRUE(writes(second, sum));
}

TEST_F(SubmitTest, WhatAnOperatorIsGivenToWriteToIsWritten) {
  const Tensor a = full({10}), b = full({10});
  Tensor out = full({10});
  {
    const Recorder recorder;
    at::add_out(out, a, b);
    const Seen work = recorder.only("aten::add.out");
    EXPECT_TRUE(reads(work, a));
    EXPECT_TRUE(writes(work, out));
    EXPECT_FALSE(reads(work, out));
  }
  const Recorder recorder;
  a.add_(b);
  const Seen work = recorder.only("aten::add_.Tensor");
  EXPECT_TRUE(writes(work, a));
  EXPECT_TRUE(reads(work, b));
  EXPECT_FALSE(writes(work, b));
}

TEST_F(SubmitTest, LargeOperatorsAreReportedOnce) {
  const Tensor a = full({1 << 16});
  at::add(a, a); // queued from the second call on
  for (int i = 0; i < 2; ++i) {
    const Recorder recorder;
    const Tensor sum = at::add(a, a);
    EXPECT_TRUE(writes(recorder.only("aten::add.Tensor"), sum));
  }
}

TEST_F(SubmitTest, AnOperatorWithKnownShapesIsReported) {
  const Tensor small = full({4, 8}), large = full({256, 256});
  const auto norm = [](const Tensor& input) {
    return std::get<0>(
        at::native_layer_norm(input, {input.size(1)}, {}, {}, /*eps=*/1e-5));
  };
  {
    const Recorder recorder;
    norm(small);
    EXPECT_TRUE(reads(recorder.only("aten::native_layer_norm"), small));
  }
  {
    const Recorder recorder;
    norm(large);
    EXPECT_TRUE(reads(recorder.only("aten::native_layer_norm"), large));
  }
  // Once its outputs are known, they are reported too.
  const Recorder recorder;
  const Tensor output = norm(large);
  const Seen work = recorder.only("aten::native_layer_norm");
  EXPECT_EQ(work.stream, stream);
  EXPECT_TRUE(reads(work, large));
  EXPECT_TRUE(writes(work, output));
}

TEST_F(SubmitTest, AnOperatorThatWaitsIsReported) {
  for (const int64_t size : {10, 1 << 16}) {
    const Tensor tensor = full({size});
    const Recorder recorder;
    at::nonzero(tensor);
    const Seen work = recorder.only("aten::nonzero");
    EXPECT_EQ(work.stream, stream);
    EXPECT_EQ(work.thread, std::this_thread::get_id());
    EXPECT_TRUE(reads(work, tensor));
  }
}

// --- fills and copies -----------------------------------------------------------

TEST_F(SubmitTest, FillsAreReported) {
  const Tensor tensor = full({10});
  const Recorder recorder;
  tensor.zero_();
  tensor.fill_(3);
  for (const char* name : {"aten::zero_", "aten::fill_"}) {
    const Seen work = recorder.only(name);
    EXPECT_EQ(work.stream, stream);
    EXPECT_EQ(work.accesses.size(), 1u);
    EXPECT_TRUE(writes(work, tensor));
  }
}

TEST_F(SubmitTest, CopiesBetweenHostAndDeviceAreReported) {
  const Tensor there = full({10}), here = at::zeros({10});
  {
    const Recorder recorder;
    there.copy_(here);
    const Seen work = recorder.only("copy");
    EXPECT_EQ(work.stream, stream);
    EXPECT_EQ(work.accesses.size(), 2u);
    EXPECT_TRUE(reads(work, here));
    EXPECT_TRUE(writes(work, there));
  }
  const Recorder recorder;
  here.copy_(there);
  const Seen work = recorder.only("copy");
  EXPECT_EQ(work.stream, stream);
  EXPECT_TRUE(reads(work, there));
  EXPECT_TRUE(writes(work, here));
}

TEST_F(SubmitTest, CopiesOnADeviceAreReported) {
  const Tensor from = full({4, 5}), to = full({4, 5}), turned = full({5, 4});
  const Recorder recorder;
  to.copy_(from);
  turned.copy_(from.t());
  for (const auto& [name, output] :
       {std::pair("copy", to), std::pair("aten::copy_", turned)}) {
    const Seen work = recorder.only(name);
    EXPECT_EQ(work.stream, stream);
    EXPECT_EQ(work.accesses.size(), 2u);
    EXPECT_TRUE(reads(work, from));
    EXPECT_TRUE(writes(work, output));
  }
}

TEST_F(SubmitTest, CopiesBetweenDevicesAreReportedInTheStreamOfTheSource) {
  const Tensor from = full({10});
  const Tensor to = at::empty({10}, onDevice.device(device(1)));
  const Recorder recorder;
  to.copy_(from);
  const Seen work = recorder.only("peer copy");
  EXPECT_EQ(work.stream, stream);
  EXPECT_EQ(work.accesses.size(), 2u);
  EXPECT_TRUE(reads(work, from));
  EXPECT_TRUE(writes(work, to));
}

// --- what is reported, and when --------------------------------------------------

TEST_F(SubmitTest, OfViewsOnlyTheirOwnBytesAreTouched) {
  const Tensor tensor = full({10, 10});
  auto* first = static_cast<char*>(tensor.data_ptr());
  const Tensor rows = tensor.slice(0, 2, 4), column = tensor.select(1, 3);
  const Recorder recorder;
  rows.zero_();
  column.fill_(3);
  const Tensor sum = at::add(rows[0], column);
  EXPECT_TRUE(touches(recorder.only("aten::zero_"), first + 80, 80, true));
  const Seen fill = recorder.only("aten::fill_");
  const Seen work = recorder.only("aten::add.Tensor");
  for (char* at = first + 12; at < first + 400; at += 40) {
    EXPECT_TRUE(touches(fill, at, 4, true) && touches(work, at, 4, false));
  }
  EXPECT_TRUE(touches(work, first + 80, 40, false));
  EXPECT_TRUE(writes(work, sum));
}

TEST_F(SubmitTest, NumbersOfTheHostAreNoMemoryThatIsTouched) {
  const Tensor tensor = full({10});
  const Recorder recorder;
  const Tensor sum = at::add(tensor, at::full({}, 2.f));
  const Seen work = recorder.only("aten::add.Tensor");
  EXPECT_EQ(work.accesses.size(), 2u);
  EXPECT_TRUE(reads(work, tensor));
  EXPECT_TRUE(writes(work, sum));
}

TEST_F(SubmitTest, WorkIsReportedBeforeItIsLaunched) {
  const Tensor tensor = full({10}, 5), other = full({10}, 1);
  const auto* value =
      static_cast<const float*>(kernelAddress(tensor.data_ptr()));
  Recorder recorder;
  std::vector<float> before;
  recorder.then = [&] { before.push_back(*value); };
  tensor.zero_();
  stream.synchronize();
  tensor.fill_(3);
  stream.synchronize();
  tensor.add_(other);
  stream.synchronize();
  tensor.copy_(other);
  stream.synchronize();
  EXPECT_EQ(before, (std::vector<float>{5, 0, 3, 4}));
}

// It is tried first whether small work can run at once: that is no launch.
TEST_F(SubmitTest, SmallWorkOnABusyStreamIsReportedOnce) {
  const Tensor a = full({10}), b = full({10});
  at::add(a, b); // so that it can be queued
  stream.synchronize();
  Gate gate(stream);
  const Recorder recorder;
  at::add(a, b);
  a.fill_(3);
  recorder.only("aten::add.Tensor");
  recorder.only("aten::fill_");
  gate.open();
}

TEST_F(SubmitTest, WhoeverWasTakenOutIsToldOfNothing) {
  const Tensor tensor = full({10});
  Recorder outer;
  {
    Recorder inner;
    tensor.zero_();
    EXPECT_EQ(inner.seen.size(), 1u);
    EXPECT_EQ(exchangeSubmissionObserver(nullptr), &inner);
    tensor.zero_();
    EXPECT_EQ(inner.seen.size(), 1u);
  }
  EXPECT_TRUE(outer.seen.empty());
  tensor.zero_();
  EXPECT_EQ(outer.seen.size(), 1u);
}

TEST_F(SubmitTest, WorkOfSeveralThreadsIsReportedOnEach) {
  constexpr int kThreads = 4, kRounds = 100;
  std::vector<Tensor> tensors;
  std::vector<OpenRegStream> streams;
  for (int i = 0; i < kThreads; ++i) {
    tensors.push_back(full({10}));
    streams.push_back(getStreamFromPool(0, 0));
  }
  const Recorder recorder;
  std::vector<std::thread::id> ids(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      ids[i] = std::this_thread::get_id();
      setCurrentOpenRegStream(streams[i]);
      for (int round = 0; round < kRounds; ++round) {
        tensors[i].zero_();
      }
      streams[i].synchronize();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::vector<int> counts(kThreads);
  for (const Seen& work : recorder.seen) {
    for (int i = 0; i < kThreads; ++i) {
      counts[i] += work.thread == ids[i] && work.stream == streams[i] &&
          writes(work, tensors[i]);
    }
  }
  EXPECT_EQ(counts, std::vector<int>(kThreads, kRounds));
}

} // namespace
} // namespace c10::openreg::testing
