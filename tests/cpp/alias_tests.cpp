// Openreg tensors as CPU tensors, and back.
#include "kernels.h"

#include "executor/Alias.h"
#include "runtime/OpenRegDeviceAllocator.h"

#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/zeros.h>

namespace c10::openreg::testing {
namespace {

using at::Tensor;
using at::native::openreg::AliasFrame;

class AliasTest : public DeviceTest {
 protected:
  Tensor arange(int64_t size) {
    return at::arange(size, at::dtype(at::kFloat).device(device(1)));
  }
  int64_t allocated() {
    device_synchronize();
    return getOpenRegDeviceAllocator()
        .getDeviceStats(1)
        .allocated_bytes[0]
        .current;
  }
  /// Runs a kernel as operators do: what it makes comes to lie on the device.
  template <class Kernel>
  void run(Kernel kernel) {
    at::native::openreg::runHere(smallKernel(stream), [&] {
      StreamMemory memory(stream);
      const OutputScope scope(&memory);
      kernel();
    });
  }
  /// Runs a kernel and wraps what it returns.
  template <class Kernel>
  Tensor run(AliasFrame& frame, Kernel kernel) {
    Tensor result;
    run([&] { result = kernel(); });
    return frame.wrap(std::move(result));
  }

  const OpenRegStream stream = getDefaultOpenRegStream(1);
};

// --- alias --------------------------------------------------------------------

TEST_F(AliasTest, AnAliasIsACpuTensorOverTheSameMemory) {
  const Tensor tensor = arange(12).view({3, 4});
  AliasFrame frame(stream);
  const Tensor alias = frame.alias(tensor);
  EXPECT_TRUE(alias.is_cpu());
  EXPECT_EQ(alias.data_ptr(), kernelAddress(tensor.data_ptr()));
  EXPECT_EQ(alias.sizes(), tensor.sizes());
  EXPECT_EQ(alias.dtype(), tensor.dtype());
  stream.synchronize();
  EXPECT_EQ(alias[1][2].item<float>(), 6);
}

TEST_F(AliasTest, SizesStridesAndOffsetAreThoseOfTheTensor) {
  const Tensor tensor = arange(24).view({4, 6}).t().slice(0, 1, 5, 2);
  AliasFrame frame(stream);
  const Tensor alias = frame.alias(tensor);
  EXPECT_EQ(alias.sizes(), tensor.sizes());
  EXPECT_EQ(alias.strides(), tensor.strides());
  EXPECT_EQ(alias.storage_offset(), tensor.storage_offset());
  stream.synchronize();
  EXPECT_TRUE(at::equal(alias, tensor.cpu()));
}

TEST_F(AliasTest, TheSameTensorTwiceGivesTheSameAlias) {
  const Tensor tensor = arange(3);
  AliasFrame frame(stream);
  EXPECT_TRUE(frame.alias(tensor).is_same(frame.alias(tensor)));
}

TEST_F(AliasTest, AliasesOfViewsShareAStorage) {
  const Tensor tensor = arange(10), view = tensor.slice(0, 5);
  const Tensor other = arange(10);
  AliasFrame frame(stream);
  const Tensor whole = frame.alias(tensor), part = frame.alias(view);
  EXPECT_FALSE(part.is_same(whole));
  EXPECT_TRUE(part.is_alias_of(whole));
  EXPECT_FALSE(frame.alias(other).is_alias_of(whole));
}

TEST_F(AliasTest, OtherTensorsAreTheirOwnAliases) {
  const Tensor host = at::arange(3);
  AliasFrame frame(stream);
  EXPECT_TRUE(frame.alias(host).is_same(host));
  EXPECT_FALSE(frame.alias(Tensor()).defined());
  EXPECT_FALSE(frame.aliasForLater(Tensor()).defined());
}

TEST_F(AliasTest, LazyBitsAreCarriedAlong) {
  const Tensor complex = arange(4).to(at::kComplexFloat);
  const Tensor conjugate = complex.conj();
  const Tensor negative = at::imag(conjugate);
  const Tensor zeros =
      at::_efficientzerotensor({3}, at::dtype(at::kFloat).device(device(1)));
  ASSERT_TRUE(conjugate.is_conj() && negative.is_neg());
  AliasFrame frame(stream);
  EXPECT_TRUE(frame.alias(conjugate).is_conj());
  EXPECT_FALSE(frame.alias(complex).is_conj());
  EXPECT_TRUE(frame.alias(negative).is_neg());
  EXPECT_TRUE(frame.alias(zeros)._is_zerotensor());
  EXPECT_TRUE(frame.aliasForLater(conjugate).is_conj());
  EXPECT_TRUE(frame.aliasForLater(negative).is_neg());
}

TEST_F(AliasTest, WrappedNumbersStaySuch) {
  const Tensor number = arange(1)[0];
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  AliasFrame frame(stream);
  EXPECT_TRUE(frame.alias(number).unsafeGetTensorImpl()->is_wrapped_number());
}

TEST_F(AliasTest, AnAliasHasNothingToDoWithAutograd) {
  const Tensor tensor = arange(3).requires_grad_();
  AliasFrame frame(stream);
  EXPECT_FALSE(frame.alias(tensor).requires_grad());
}

// A pooled alias must show nothing of the tensor that it stood for before.
TEST_F(AliasTest, AliasesThatAreUsedAgainForgetWhatTheyWere) {
  const Tensor first = arange(6).to(at::kComplexFloat).conj();
  {
    AliasFrame frame(stream);
    frame.alias(first);
  }
  const Tensor second = arange(2);
  AliasFrame frame(stream);
  const Tensor alias = frame.alias(second);
  EXPECT_FALSE(alias.is_conj());
  EXPECT_EQ(alias.scalar_type(), at::kFloat);
  EXPECT_EQ(alias.sizes(), second.sizes());
  EXPECT_EQ(alias.storage().nbytes(), second.storage().nbytes());
  EXPECT_EQ(alias.data_ptr(), kernelAddress(second.data_ptr()));
}

TEST_F(AliasTest, AnAliasThatSomeoneKeepsIsNotUsedAgain) {
  const Tensor first = arange(3), second = arange(5);
  Tensor kept;
  {
    AliasFrame frame(stream);
    kept = frame.alias(first);
  }
  AliasFrame frame(stream);
  const Tensor alias = frame.alias(second);
  EXPECT_FALSE(kept.is_same(alias));
  EXPECT_EQ(kept.numel(), 3);
  EXPECT_EQ(kept.data_ptr(), kernelAddress(first.data_ptr()));
}

// --- wrap ---------------------------------------------------------------------

TEST_F(AliasTest, AnAliasIsWrappedToTheTensorBehindIt) {
  const Tensor tensor = arange(3);
  AliasFrame frame(stream);
  EXPECT_TRUE(frame.wrap(frame.alias(tensor)).is_same(tensor));
}

TEST_F(AliasTest, AViewOfAnAliasIsWrappedToAViewOfTheTensor) {
  const Tensor tensor = arange(12);
  AliasFrame frame(stream);
  const Tensor view = run(
      frame, [&] { return frame.alias(tensor).view({3, 4}).t().slice(0, 1); });
  EXPECT_EQ(view.device(), device(1));
  EXPECT_TRUE(view.is_alias_of(tensor));
  EXPECT_EQ(view.storage_offset(), 1);
  EXPECT_EQ(view.strides(), at::IntArrayRef({1, 4}));
  EXPECT_EQ(elements<float>(view[0]), (std::vector<float>{1, 5, 9}));
}

TEST_F(AliasTest, AViewKeepsItsLazyBits) {
  const Tensor tensor = arange(4).to(at::kComplexFloat);
  AliasFrame frame(stream);
  const Tensor view = run(frame, [&] { return frame.alias(tensor).conj(); });
  EXPECT_TRUE(view.is_conj());
  EXPECT_TRUE(view.is_alias_of(tensor));
}

TEST_F(AliasTest, ANewTensorIsMovedToTheDeviceInPlace) {
  const int64_t before = allocated();
  AliasFrame frame(stream);
  void* made = nullptr;
  Tensor result = run(frame, [&] {
    Tensor output = at::full({1000}, 7, at::dtype(at::kFloat));
    made = output.data_ptr();
    return output;
  });
  EXPECT_EQ(result.device(), device(1));
  EXPECT_TRUE(result.is_privateuseone());
  EXPECT_EQ(kernelAddress(result.data_ptr()), made);
  EXPECT_EQ(result.storage().allocator(), &getOpenRegDeviceAllocator());
  EXPECT_EQ(allocated(), before + 4096);
  EXPECT_EQ(elements<float>(result), std::vector<float>(1000, 7));
  result.reset();
  EXPECT_EQ(allocated(), before);
}

TEST_F(AliasTest, ATensorInHostMemoryIsCopiedToTheDevice) {
  std::vector<float> host{1, 2, 3};
  AliasFrame frame(stream);
  const Tensor result = run(frame, [&] {
    return at::from_blob(host.data(), {3}, at::dtype(at::kFloat));
  });
  EXPECT_EQ(result.device(), device(1));
  EXPECT_EQ(elements<float>(result), (std::vector<float>{1, 2, 3}));
  host[0] = 9;
  EXPECT_EQ(elements<float>(result)[0], 1);
}

TEST_F(AliasTest, TwoNewTensorsOfOneStorageShareItAfterwards) {
  AliasFrame frame(stream);
  Tensor whole, part;
  run([&] {
    whole = at::arange(10);
    part = whole.slice(0, 5);
  });
  whole = frame.wrap(std::move(whole));
  part = frame.wrap(std::move(part));
  EXPECT_EQ(part.device(), device(1));
  EXPECT_TRUE(part.is_alias_of(whole));
  EXPECT_EQ(elements<int64_t>(part)[0], 5);
}

TEST_F(AliasTest, ATensorThatTheKernelKeepsStaysOneOfTheCpu) {
  AliasFrame frame(stream);
  Tensor kept;
  const Tensor result = run(frame, [&] {
    kept = at::arange(3);
    return kept;
  });
  EXPECT_EQ(result.device(), device(1));
  EXPECT_TRUE(kept.is_cpu());
  EXPECT_EQ(elements<int64_t>(result), (std::vector<int64_t>{0, 1, 2}));
}

TEST_F(AliasTest, EmptyAndUndefinedResultsAreWrappedToo) {
  AliasFrame frame(stream);
  const Tensor empty = run(frame, [] { return at::empty({0, 3}); });
  EXPECT_EQ(empty.device(), device(1));
  EXPECT_EQ(empty.sizes(), at::IntArrayRef({0, 3}));
  EXPECT_FALSE(run(frame, [] { return Tensor(); }).defined());
}

TEST_F(AliasTest, AWrappedTensorTakesPartInAutograd) {
  AliasFrame frame(stream);
  Tensor result = run(frame, [] { return at::arange(3, at::kFloat); });
  result.requires_grad_();
  result.mul(2).sum().backward();
  EXPECT_EQ(elements<float>(result.grad()), std::vector<float>(3, 2));
}

// --- finish -------------------------------------------------------------------

TEST_F(AliasTest, AResizeByTheKernelReachesTheTensor) {
  const Tensor tensor = arange(3);
  const int64_t before = allocated();
  {
    AliasFrame frame(stream);
    const Tensor alias = frame.alias(tensor);
    run([&] { alias.resize_({40, 50}).fill_(7); });
    frame.finish(tensor);
  }
  EXPECT_EQ(tensor.sizes(), at::IntArrayRef({40, 50}));
  EXPECT_EQ(tensor.device(), device(1));
  EXPECT_EQ(tensor.storage().nbytes(), 8000u);
  EXPECT_EQ(elements<float>(tensor), std::vector<float>(2000, 7));
  EXPECT_EQ(allocated(), before - 512 + 8192);
}

TEST_F(AliasTest, AResizeKeepsTheElements) {
  const Tensor tensor = arange(3);
  AliasFrame frame(stream);
  const Tensor alias = frame.alias(tensor);
  run([&] { alias.resize_({1000}); });
  frame.finish(tensor);
  EXPECT_EQ(
      elements<float>(tensor.slice(0, 0, 3)), (std::vector<float>{0, 1, 2}));
}

TEST_F(AliasTest, ATensorThatShrinksKeepsItsMemory) {
  const Tensor tensor = arange(100);
  void* address = tensor.data_ptr();
  AliasFrame frame(stream);
  const Tensor alias = frame.alias(tensor);
  run([&] { alias.resize_({2, 2}); });
  frame.finish(tensor);
  EXPECT_EQ(tensor.sizes(), at::IntArrayRef({2, 2}));
  EXPECT_EQ(tensor.data_ptr(), address);
  EXPECT_EQ(tensor.storage().nbytes(), 400u);
}

TEST_F(AliasTest, ViewsOfAResizedStorageSeeItsNewMemory) {
  const Tensor tensor = arange(4);
  const Tensor view = tensor.slice(0, 1, 3);
  AliasFrame frame(stream);
  const Tensor alias = frame.alias(tensor);
  run([&] { alias.resize_({1000}).fill_(5); });
  frame.finish(tensor);
  EXPECT_TRUE(view.is_alias_of(tensor));
  EXPECT_EQ(elements<float>(view), (std::vector<float>{5, 5}));
}

TEST_F(AliasTest, AStorageThatTheKernelSetReachesTheTensor) {
  const Tensor tensor = arange(3), other = arange(10);
  AliasFrame frame(stream);
  const Tensor alias = frame.alias(tensor), source = frame.alias(other);
  run([&] { alias.set_(source); });
  frame.finish(tensor);
  EXPECT_TRUE(tensor.is_alias_of(other));
  EXPECT_EQ(tensor.numel(), 10);

  const Tensor second = arange(3);
  const Tensor secondAlias = frame.alias(second);
  run([&] { secondAlias.set_(at::full({5}, 4.f)); });
  frame.finish(second);
  EXPECT_EQ(second.device(), device(1));
  EXPECT_EQ(elements<float>(second), std::vector<float>(5, 4));
}

TEST_F(AliasTest, LazyBitsThatTheKernelChangedReachTheTensor) {
  const Tensor tensor = arange(2).to(at::kComplexFloat);
  AliasFrame frame(stream);
  frame.alias(tensor)._set_conj(true);
  frame.finish(tensor);
  EXPECT_TRUE(tensor.is_conj());
}

TEST_F(AliasTest, WithoutFinishNothingReachesTheTensor) {
  const Tensor tensor = arange(3);
  const int64_t before = allocated();
  {
    AliasFrame frame(stream);
    const Tensor alias = frame.alias(tensor);
    run([&] { alias.resize_({40, 50}); });
  }
  EXPECT_EQ(tensor.sizes(), at::IntArrayRef({3}));
  EXPECT_EQ(elements<float>(tensor), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(allocated(), before);
}

// --- later --------------------------------------------------------------------

TEST_F(AliasTest, AnAliasForLaterKeepsNoMemory) {
  Tensor tensor = arange(1000);
  const int64_t before = allocated();
  AliasFrame frame(stream);
  const Tensor alias = frame.aliasForLater(tensor);
  EXPECT_EQ(alias.data_ptr(), kernelAddress(tensor.data_ptr()));
  tensor.reset();
  EXPECT_EQ(allocated(), before - 4096);
}

TEST_F(AliasTest, ATensorOfTheCpuIsCopiedForLater) {
  const Tensor host = at::arange(3);
  AliasFrame frame(stream);
  const Tensor copy = frame.aliasForLater(host);
  EXPECT_TRUE(copy.is_cpu());
  EXPECT_FALSE(copy.is_alias_of(host));
  host.fill_(9);
  EXPECT_EQ(elements<int64_t>(copy), (std::vector<int64_t>{0, 1, 2}));
}

TEST_F(AliasTest, ACopyOfAWrappedNumberIsOne) {
  const Tensor number = at::arange(1)[0];
  AliasFrame frame(stream);
  const auto isWrapped = [&] {
    const Tensor copy = frame.aliasForLater(number);
    return copy.unsafeGetTensorImpl()->is_wrapped_number();
  };
  EXPECT_FALSE(isWrapped());
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  EXPECT_TRUE(isWrapped());
}

} // namespace
} // namespace c10::openreg::testing
