// The last error of each thread, and the texts of the codes.
#include "support.h"

#include <set>
#include <string>
#include <thread>

namespace openreg::testing {
namespace {

struct Code {
  orError_t code;
  int number;
  const char* name;
};

#define CODE(code, number) {code, number, #code}
const Code kCodes[] = {
    CODE(orSuccess, 0),
    CODE(orErrorInvalidValue, 1),
    CODE(orErrorMemoryAllocation, 2),
    CODE(orErrorInitializationError, 3),
    CODE(orErrorRuntimeUnloading, 4),
    CODE(orErrorInvalidConfiguration, 9),
    CODE(orErrorInvalidPitchValue, 12),
    CODE(orErrorInvalidDevicePointer, 17),
    CODE(orErrorInvalidMemcpyDirection, 21),
    CODE(orErrorDeviceLost, 46),
    CODE(orErrorNoDevice, 100),
    CODE(orErrorInvalidDevice, 101),
    CODE(orErrorDeviceUninitialized, 201),
    CODE(orErrorMapBufferObjectFailed, 205),
    CODE(orErrorPeerAccessUnsupported, 217),
    CODE(orErrorOperatingSystem, 304),
    CODE(orErrorInvalidHandle, 400),
    CODE(orErrorIllegalState, 401),
    CODE(orErrorNotReady, 600),
    CODE(orErrorIllegalAddress, 700),
    CODE(orErrorPeerAccessAlreadyEnabled, 704),
    CODE(orErrorPeerAccessNotEnabled, 705),
    CODE(orErrorAssert, 710),
    CODE(orErrorHostMemoryAlreadyRegistered, 712),
    CODE(orErrorHostMemoryNotRegistered, 713),
    CODE(orErrorLaunchFailure, 719),
    CODE(orErrorNotPermitted, 800),
    CODE(orErrorCommunication, 805),
    CODE(orErrorStreamCaptureUnsupported, 900),
    CODE(orErrorStreamCaptureInvalidated, 901),
    CODE(orErrorStreamCaptureMerge, 902),
    CODE(orErrorStreamCaptureUnmatched, 903),
    CODE(orErrorStreamCaptureUnjoined, 904),
    CODE(orErrorStreamCaptureIsolation, 905),
    CODE(orErrorStreamCaptureImplicit, 906),
    CODE(orErrorCapturedEvent, 907),
    CODE(orErrorStreamCaptureWrongThread, 908),
    CODE(orErrorTimeout, 909),
    CODE(orErrorGraphExecUpdateFailure, 910),
};
#undef CODE

constexpr const char* kUnrecognized = "unrecognized error code";

TEST(ErrorTextTest, EveryCodeHasTheNumberOfItsCudaTwin) {
  for (const Code& code : kCodes) {
    EXPECT_EQ(static_cast<int>(code.code), code.number) << code.name;
  }
}

TEST(ErrorTextTest, EveryCodeIsNamedAsInTheHeader) {
  for (const Code& code : kCodes) {
    EXPECT_STREQ(orGetErrorName(code.code), code.name);
  }
}

TEST(ErrorTextTest, EveryCodeIsDescribedInItsOwnWords) {
  std::set<std::string> seen{"", kUnrecognized};
  for (const Code& code : kCodes) {
    EXPECT_TRUE(seen.insert(orGetErrorString(code.code)).second) << code.name;
  }
  EXPECT_STREQ(orGetErrorString(orErrorInvalidValue), "invalid argument");
}

// 1023 is the largest value that the enumeration's type can hold in C++.
TEST(ErrorTextTest, EveryOtherNumberIsUnrecognized) {
  std::set<int> known;
  for (const Code& code : kCodes) {
    known.insert(code.number);
  }
  for (int number = 0; number <= 1023; ++number) {
    const auto code = static_cast<orError_t>(number);
    if (!known.contains(number)) {
      EXPECT_STREQ(orGetErrorName(code), kUnrecognized) << number;
      EXPECT_STREQ(orGetErrorString(code), kUnrecognized) << number;
    }
  }
}

class LastErrorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    orGetLastError();
  }
  void TearDown() override {
    orGetLastError();
  }

  int device_ = -1;
};

TEST_F(LastErrorTest, AFreshThreadHasNone) {
  ASSERT_EQ(orGetDevice(nullptr), orErrorInvalidValue);
  std::thread([] {
    ASSERT_NE(orGetLastErrorDetail(), nullptr);
    EXPECT_STREQ(orGetLastErrorDetail(), "");
    EXPECT_EQ(orPeekAtLastError(), orSuccess);
    EXPECT_EQ(orGetLastError(), orSuccess);
  }).join();
}

TEST_F(LastErrorTest, GettingItClearsItAndItsSentence) {
  ASSERT_EQ(orSetDevice(1234), orErrorInvalidDevice);
  EXPECT_TRUE(detailHas("1234"));
  EXPECT_EQ(orGetLastError(), orErrorInvalidDevice);

  EXPECT_STREQ(orGetLastErrorDetail(), "");
  EXPECT_EQ(orGetLastError(), orSuccess);
}

TEST_F(LastErrorTest, PeekingKeepsItAndItsSentence) {
  ASSERT_EQ(orSetDevice(1234), orErrorInvalidDevice);
  EXPECT_EQ(orPeekAtLastError(), orErrorInvalidDevice);
  EXPECT_EQ(orPeekAtLastError(), orErrorInvalidDevice);
  EXPECT_TRUE(detailHas("1234"));
  EXPECT_EQ(orGetLastError(), orErrorInvalidDevice);
}

TEST_F(LastErrorTest, SuccessDoesNotOverwriteIt) {
  ASSERT_EQ(orSetDevice(1234), orErrorInvalidDevice);
  const char* sentence = orGetLastErrorDetail();
  const std::string before = sentence;
  ASSERT_EQ(orGetDevice(&device_), orSuccess);
  ASSERT_EQ(orDeviceSynchronize(), orSuccess);

  EXPECT_STREQ(sentence, before.c_str());
  EXPECT_EQ(lastDetail(), before);
  EXPECT_EQ(orGetLastError(), orErrorInvalidDevice);
}

TEST_F(LastErrorTest, TheLatestFailureReplacesAnEarlierOne) {
  ASSERT_EQ(orSetDevice(1234), orErrorInvalidDevice);
  ASSERT_EQ(orGetDevice(nullptr), orErrorInvalidValue);
  EXPECT_FALSE(detailHas("1234"));
  EXPECT_NE(lastDetail(), "");
  EXPECT_EQ(orGetLastError(), orErrorInvalidValue);
  EXPECT_EQ(orGetLastError(), orSuccess);
}

// Its sentence is written when it is read.
TEST_F(LastErrorTest, AnAnswerThatSomethingIsNotReadyHasASentenceLikeAnyOther) {
  Stream stream;
  unsigned long long id = 0;
  ASSERT_EQ(orStreamGetId(stream, &id), orSuccess);
  Gate gate(stream);
  ASSERT_EQ(orStreamQuery(stream), orErrorNotReady);
  EXPECT_TRUE(detailHas("stream " + std::to_string(id) + " has unfinished"));
  EXPECT_TRUE(detailHas(std::to_string(id))) << "also when asked again";
  EXPECT_EQ(orGetLastError(), orErrorNotReady);
  EXPECT_EQ(lastDetail(), "");

  ASSERT_EQ(orStreamQuery(stream), orErrorNotReady);
  EXPECT_EQ(orGetLastError(), orErrorNotReady);
  EXPECT_EQ(lastDetail(), "") << "cleared before it was read";

  ASSERT_EQ(orStreamQuery(stream), orErrorNotReady);
  ASSERT_EQ(orSetDevice(1234), orErrorInvalidDevice);
  EXPECT_TRUE(detailHas("1234")) << "the latest failure counts";
}

TEST_F(LastErrorTest, EachThreadHasItsOwn) {
  ASSERT_EQ(orSetDevice(1234), orErrorInvalidDevice);
  std::thread([] {
    EXPECT_EQ(orGetDevice(nullptr), orErrorInvalidValue);
    EXPECT_EQ(orGetLastError(), orErrorInvalidValue);
  }).join();
  EXPECT_EQ(orPeekAtLastError(), orErrorInvalidDevice);
  EXPECT_TRUE(detailHas("1234"));
}

// A worker's failing call must not end up with the thread that launched.
TEST_F(LastErrorTest, AFailureInsideAKernelStaysWithItsThread) {
  orError_t inside = orSuccess;
  auto kernel = [&inside] {
    orSetDevice(1234);
    inside = orGetLastError();
  };
  ASSERT_EQ(orLaunchKernel(defaultStream(), kernel), orSuccess);
  ASSERT_EQ(orDeviceSynchronize(), orSuccess);
  EXPECT_EQ(inside, orErrorInvalidDevice);
  EXPECT_EQ(orGetLastError(), orSuccess);
}

TEST_F(LastErrorTest, AskingForTextsDoesNotChangeIt) {
  ASSERT_EQ(orSetDevice(1234), orErrorInvalidDevice);
  orGetErrorName(static_cast<orError_t>(998));
  orGetErrorString(static_cast<orError_t>(998));
  EXPECT_EQ(orPeekAtLastError(), orErrorInvalidDevice);
  EXPECT_TRUE(detailHas("1234"));
}

TEST_F(LastErrorTest, ABrokenDeviceFailsAgainAfterTheErrorWasCleared) {
  BrokenDevice broken;
  EXPECT_TRUE(detailHas(BrokenDevice::kMessage));
  EXPECT_EQ(orGetLastError(), orErrorAssert);
  EXPECT_EQ(orGetLastError(), orSuccess);

  EXPECT_EQ(orDeviceSynchronize(), orErrorAssert);
  EXPECT_TRUE(detailHas(BrokenDevice::kMessage));
  EXPECT_EQ(orGetLastError(), orErrorAssert);
}

TEST_F(LastErrorTest, ABrokenDeviceFailsForEveryThread) {
  BrokenDevice broken;
  std::thread([] {
    EXPECT_EQ(orPeekAtLastError(), orSuccess);
    EXPECT_EQ(orDeviceSynchronize(), orErrorAssert);
    EXPECT_TRUE(detailHas(BrokenDevice::kMessage));
  }).join();
}

TEST_F(LastErrorTest, ResettingTheDeviceKeepsTheThreadsLastError) {
  { BrokenDevice broken; }
  EXPECT_EQ(orDeviceSynchronize(), orSuccess);
  EXPECT_EQ(orGetLastError(), orErrorAssert);
}

} // namespace
} // namespace openreg::testing
