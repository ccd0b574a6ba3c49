// What another process may open, and what is refused.
#include "distributed/PeerFile.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace c10::openreg::occl {
namespace {

constexpr uint64_t kBytes = 8192;

std::string refusalOf(const FileAddress& address) {
  try {
    openPeerFile(address);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

class PeerFileTest : public ::testing::Test {
 protected:
  const remote::Descriptor file_ = remote::makeSharedMemory("file", kBytes);
  FileAddress address_ = addressOf(file_.get(), kBytes);
};

TEST_F(PeerFileTest, IsOpenedByItsAddress) {
  EXPECT_EQ(refusalOf(address_), "");
}

TEST_F(PeerFileTest, AnotherFileInItsPlaceIsRefused) {
  const auto other = remote::makeSharedMemory("other", kBytes);
  address_.descriptor = other.get();
  EXPECT_NE(refusalOf(address_).find("another file"), std::string::npos);
}

TEST_F(PeerFileTest, WhatIsNoFileIsRefused) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_NE(
      refusalOf(addressOf(ends[0], kBytes)).find("another file"),
      std::string::npos);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(PeerFileTest, OneThatIsSmallerThanItSaysIsRefused) {
  address_.bytes = kBytes + 1;
  EXPECT_NE(refusalOf(address_).find("smaller"), std::string::npos);
}

TEST_F(PeerFileTest, ThatOfAProcessThatHasEndedIsRefused) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  address_.process = child;
  EXPECT_NE(refusalOf(address_).find("it has ended"), std::string::npos);
}

// Another user sees neither the descriptor nor the file.
TEST_F(PeerFileTest, ThatOfAnotherUserIsRefused) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can be another user";
  }
  const pid_t child = fork();
  if (child == 0) {
    const bool other = setuid(65534) == 0;
    _exit(other && !refusalOf(address_).empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

} // namespace
} // namespace c10::openreg::occl
