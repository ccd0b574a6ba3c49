#include "wire_samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace {

using namespace wire_samples;

void expectRefused(const std::vector<char>& message, const char* sentence) {
  WireCall parsed;
  try {
    parseCall(message, kMemoryBytes, parsed);
    FAIL() << "accepted, but expected: " << sentence;
  } catch (const WireError& error) {
    EXPECT_NE(std::string(error.what()).find(sentence), std::string::npos)
        << error.what();
  }
}

TEST(WireTest, ACallIsReadAsItWasWritten) {
  const auto message = call();
  WireCall parsed;
  parseCall(message, kMemoryBytes, parsed);

  EXPECT_EQ(parsed.name, "aten::add");
  EXPECT_EQ(parsed.overload, "Tensor");
  EXPECT_EQ(parsed.settings.threads, 2);
  EXPECT_EQ(parsed.settings.hostBytes, 16u);
  ASSERT_EQ(parsed.planned.size(), 1u);
  EXPECT_EQ(parsed.planned[0].offset, 8192u);
  EXPECT_EQ(parsed.planned[0].bytes, 512u);
  ASSERT_EQ(parsed.storages.size(), 2u);
  EXPECT_EQ(parsed.storages[0].offset, 4096u);
  EXPECT_STREQ(parsed.storages[1].content.data(), "bytes of the host");
  ASSERT_EQ(parsed.tensors.size(), 2u);
  EXPECT_EQ(parsed.tensors[1].storage, 1u);
  EXPECT_EQ(parsed.tensors[0].sizes[1], 3);
  EXPECT_EQ(parsed.tensors[0].flags, uint32_t{kNeg});

  const auto values = allValues();
  ASSERT_EQ(parsed.values.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const WireValue &read = parsed.values[i], &written = values[i];
    EXPECT_EQ(read.kind, written.kind);
    EXPECT_EQ(read.number, written.number);
    EXPECT_EQ(read.real, written.real);
    EXPECT_EQ(read.imaginary, written.imaginary);
    EXPECT_EQ(read.text, written.text);
    EXPECT_TRUE(std::ranges::equal(read.ints, written.ints));
    EXPECT_TRUE(std::ranges::equal(read.doubles, written.doubles));
    EXPECT_TRUE(std::ranges::equal(read.bools, written.bools));
    EXPECT_TRUE(std::ranges::equal(read.tensors, written.tensors));
  }
}

TEST(WireTest, AResultIsReadAsItWasWritten) {
  constexpr uint64_t kStorageBytes[] = {28};
  const auto message = result();
  WireResult parsed;
  parseResult(message, kMemoryBytes, kStorageBytes, 1, parsed);

  EXPECT_EQ(parsed.freed, (std::vector<uint64_t>{512, 1024}));
  EXPECT_EQ(parsed.warnings.at(0), "a warning");
  EXPECT_EQ(parsed.resizes.at(0).now.bytes, 64u);
  EXPECT_EQ(parsed.storages.at(0).offset, 512u);
  EXPECT_EQ(parsed.tensors.at(0).storage, 1u);
  EXPECT_EQ(parsed.changes.at(0).tensor, 0u);
  EXPECT_EQ(parsed.values.size(), allValues().size());
}

TEST(WireTest, AMessageThatEndsTooEarlyIsRefusedWhereverItEnds) {
  const auto message = call();
  for (size_t bytes = 0; bytes < message.size(); ++bytes) {
    WireCall parsed;
    EXPECT_THROW(
        parseCall(std::span(message).first(bytes), kMemoryBytes, parsed),
        WireError)
        << bytes << " of " << message.size();
  }
}

TEST(WireTest, AMessageThatGoesOnIsRefused) {
  auto message = call();
  message.resize(message.size() + 8);
  expectRefused(message, "8 bytes follow the end");
}

TEST(WireTest, PlannedMemoryLiesWithinTheMemory) {
  for (const WireSlot slot :
       {WireSlot{kMemoryBytes, 1}, {UINT64_MAX, 512}, {0, UINT64_MAX}}) {
    expectRefused(
        call({StorageKind::Device, 4096, 28, {}}, matrix(0), slot),
        "is not within the 1048576 bytes of the device");
  }
}

TEST(WireTest, AStorageLiesWithinTheMemory) {
  expectRefused(
      call({StorageKind::Device, kMemoryBytes - 16, 28, {}}),
      "is not within the 1048576 bytes of the device");
  expectRefused(
      call({StorageKind::Device, UINT64_MAX - 8, 28, {}}),
      "is not within the 1048576 bytes of the device");
  expectRefused(
      call({StorageKind::Device, 0, UINT64_MAX, {}}),
      "is not within the 1048576 bytes of the device");
}

TEST(WireTest, ATensorLiesWithinItsStorage) {
  WireTensor tensor = matrix(0);
  tensor.offset = 2;
  expectRefused(call({}, tensor), "beyond the 0 bytes");
  expectRefused(
      call({StorageKind::Device, 0, 28, {}}, tensor), "beyond the 28 bytes");

  constexpr int64_t kHuge[] = {INT64_MAX / 32, 1};
  constexpr int64_t kSizes[] = {2, 1};
  tensor.offset = 0;
  tensor.sizes = kSizes;
  tensor.strides = kHuge;
  expectRefused(
      call({StorageKind::Device, 0, 28, {}}, tensor), "beyond the 28 bytes");
}

TEST(WireTest, ATensorHasSizesThatCanBe) {
  const WireStorage storage{StorageKind::Device, 0, 28, {}};
  WireTensor tensor = matrix(0);
  constexpr int64_t kNegative[] = {2, -3}, kLarge[] = {INT64_MAX, INT64_MAX};
  tensor.sizes = kNegative;
  expectRefused(call(storage, tensor), "negative");
  tensor.sizes = kLarge;
  expectRefused(call(storage, tensor), "more elements than can be counted");
  tensor.sizes = tensor.sizes.first(1);
  expectRefused(call(storage, tensor), "1 sizes and 2 strides");

  tensor = matrix(0);
  tensor.itemBytes = 0;
  expectRefused(call(storage, tensor), "1 to 16 bytes, not 0");
  tensor = matrix(7);
  expectRefused(call(storage, tensor), "storage 7 is not in [0, 2)");
}

TEST(WireTest, AnIndexNamesATensorOfTheMessage) {
  Message message;
  Writer& writer = message.writer();
  writer.put(MessageKind::Call);
  writer.putText("aten::abs");
  writer.putText("");
  for (int i = 0; i < 7;
       ++i) { // settings, nothing planned, no storage, no tensor
    writer.put<uint64_t>(0);
  }
  writer.put<uint64_t>(1);
  WireValue value;
  value.kind = ValueKind::Tensor;
  putValue(writer, value);
  expectRefused(message.bytes(), "tensor 0 is not in [0, 0)");
}

TEST(WireTest, AKernelIsReadAsItWasWritten) {
  const auto message = kernel();
  EXPECT_EQ(kindOf(message), MessageKind::Kernel);
  const WireKernel parsed = parseKernel(message, kMemoryBytes);
  EXPECT_EQ(parsed.library, "/a/kernel.so");
  EXPECT_EQ(parsed.name, "add");
  EXPECT_EQ(parsed.threads, 2);
  ASSERT_EQ(parsed.words.size(), 3u);
  EXPECT_EQ(parsed.words[0], 4096u);
  EXPECT_EQ(parsed.words[1], 7u);
  EXPECT_EQ(parsed.kinds[2], WordKind::Content);
  EXPECT_EQ(parsed.contents.size(), 8u);
}

TEST(WireTest, AnArgumentOfAKernelLiesWithinTheMemory) {
  EXPECT_THROW(parseKernel(kernel(kMemoryBytes + 1), kMemoryBytes), WireError);
  EXPECT_THROW(parseKernel(kernel(0, 9), kMemoryBytes), WireError);
  auto message = kernel();
  for (size_t bytes = 0; bytes < message.size(); ++bytes) {
    EXPECT_THROW(
        parseKernel(std::span(message).first(bytes), kMemoryBytes), WireError);
  }
}

TEST(WireTest, AMessageLongerThanItsRoomIsNotWritten) {
  Message message(32);
  message.writer().put<uint64_t>(1);
  EXPECT_THROW(message.writer().putText("twenty-one characters"), WireError);
  EXPECT_EQ(message.writer().size(), 16u);
}

// What the fuzzer does for hours, for a second: no mutation may crash, or throw
// anything else.
TEST(WireTest, BytesThatAreNoMessageAreRefusedAndNothingElse) {
  std::mt19937 random(7);
  for (const auto& sample : {call(), result(), kernel()}) {
    for (int round = 0; round < 20'000; ++round) {
      auto bytes = sample;
      for (unsigned left = 1 + random() % 4; left > 0; --left) {
        char* at = bytes.data() + random() % (bytes.size() / 8) * 8;
        constexpr uint64_t kWords[] = {
            0, 1, 7, 64, UINT64_MAX, INT64_MAX, uint64_t{1} << 32};
        const uint64_t word = random() % 2 ? random() : kWords[random() % 7];
        std::memcpy(at, &word, random() % 2 ? 8 : 1);
      }
      bytes.resize(random() % 4 ? bytes.size() : random() % bytes.size());
      ASSERT_NO_THROW(parseAsAnything(bytes));
    }
  }
}

} // namespace
