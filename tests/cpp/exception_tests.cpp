// How failing calls of libopenreg become exceptions and warnings.
#include "support.h"

namespace c10::openreg::testing {
namespace {

void setDeviceSeven() {
  OPENREG_CHECK(orSetDevice(7));
}

TEST(ExceptionTest, ASuccessfulCallThrowsNothing) {
  EXPECT_NO_THROW(OPENREG_CHECK(orSetDevice(0)));
}

TEST(ExceptionTest, AFailingCallThrowsAnAcceleratorErrorWithItsCode) {
  EXPECT_THROW(setDeviceSeven(), AcceleratorError);
  EXPECT_EQ(codeOf(setDeviceSeven), orErrorInvalidDevice);
}

TEST(ExceptionTest, TheMessageHasTheKindTheCodeTheCallAndTheSentence) {
  const std::string message = messageOf(setDeviceSeven);
  EXPECT_TRUE(has(message, "OpenReg error: invalid device ordinal"));
  EXPECT_TRUE(has(message, "101"));
  EXPECT_TRUE(has(message, "orSetDevice(7)"));
  EXPECT_TRUE(has(message, "[0, 2)"));
}

TEST(ExceptionTest, ASentenceOfOurOwnHasTheSameForm) {
  const auto fail = [] { throwError(orErrorDeviceLost, "it fell off"); };
  EXPECT_EQ(codeOf(fail), orErrorDeviceLost);
  const std::string kind = orGetErrorString(orErrorDeviceLost);
  EXPECT_EQ(
      messageOf(fail),
      "OpenReg error: " + kind + "\nit fell off (orErrorDeviceLost, 46)");
}

TEST(ExceptionTest, TheBacktraceStartsAtTheCaller) {
  try {
    setDeviceSeven();
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(has(error.what(), "setDeviceSeven"));
    EXPECT_TRUE(has(error.what(), "exception_tests.cpp"));
  }
}

TEST(ExceptionTest, AReportedErrorIsNotThereAnyMore) {
  EXPECT_THROW(setDeviceSeven(), Error);
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
  EXPECT_STREQ(orGetLastErrorDetail(), "");
}

TEST(ExceptionTest, TheWarnFormWarnsWithTheSameMessage) {
  Warnings warnings;
  OPENREG_CHECK_WARN(orSetDevice(7));
  ASSERT_EQ(warnings.messages.size(), 1u);
  EXPECT_EQ(warnings.messages[0], messageOf(setDeviceSeven));
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
}

TEST(ExceptionTest, TheWarnFormIsMuteOnSuccess) {
  Warnings warnings;
  OPENREG_CHECK_WARN(orSetDevice(0));
  EXPECT_TRUE(warnings.messages.empty());
}

TEST(ExceptionTest, TheCallIsMadeOnce) {
  int calls = 0;
  const auto call = [&] {
    ++calls;
    return orSuccess;
  };
  OPENREG_CHECK(call());
  OPENREG_CHECK_WARN(call());
  EXPECT_EQ(calls, 2);
}

} // namespace
} // namespace c10::openreg::testing
