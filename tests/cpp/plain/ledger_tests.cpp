#include "runtime/ipc/Ledger.h"
#include "runtime/ipc/ReceivedRanges.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using c10::openreg::IpcLedger;
using c10::openreg::IpcReference;
using c10::openreg::ipc::ReceivedRanges;

/// Runs `body` in a forked child, which tells through a pipe when it has begun.
template <class Body>
class Child {
 public:
  explicit Child(Body body) {
    EXPECT_EQ(pipe(begun_), 0);
    EXPECT_EQ(pipe(end_), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(end_[1]);
      body(*this);
      _exit(0);
    }
    close(end_[0]);
    char letter = 0;
    EXPECT_EQ(read(begun_[0], &letter, 1), 1);
  }
  ~Child() {
    finish();
  }
  /// To be called in the child.
  void begin() {
    EXPECT_EQ(write(begun_[1], "x", 1), 1);
  }
  void awaitEnd() {
    char letter = 0;
    EXPECT_EQ(read(end_[0], &letter, 1), 0); // when the parent closes it
  }
  /// Lets the child end, and waits for it.
  void finish() {
    if (pid_ > 0) {
      close(end_[1]);
      int status = 0;
      EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
      EXPECT_EQ(status, 0);
      pid_ = -1;
    }
  }

 private:
  int begun_[2], end_[2];
  pid_t pid_ = -1;
};

TEST(LedgerTest, ABlockIsInUseWhileItIsOnItsWay) {
  IpcLedger ledger;
  EXPECT_FALSE(ledger.inUse(3));
  ledger.send(3);
  EXPECT_TRUE(ledger.inUse(3));
  EXPECT_FALSE(ledger.inUse(2));
  ledger.arrive(3);
  EXPECT_FALSE(ledger.inUse(3));
  ledger.arrive(3); // received twice
  ledger.send(3);
  EXPECT_TRUE(ledger.inUse(3));
}

TEST(LedgerTest, ABlockIsInUseWhileAReferenceIsHeld) {
  IpcLedger ledger;
  ledger.send(3);
  ledger.send(3);
  {
    std::optional<IpcReference> first(std::in_place, ledger.address(), 3);
    const IpcReference second(ledger.address(), 3);
    first.reset();
    EXPECT_TRUE(ledger.inUse(3));
  }
  EXPECT_FALSE(ledger.inUse(3));
}

TEST(LedgerTest, ABlockIsInUseWhileAnotherProcessHoldsIt) {
  IpcLedger ledger;
  ledger.send(7);
  Child child([&](auto& self) {
    const IpcReference reference(ledger.address(), 7);
    self.begin();
    self.awaitEnd();
  });
  EXPECT_TRUE(ledger.inUse(7));
  child.finish();
  EXPECT_FALSE(ledger.inUse(7));
}

TEST(LedgerTest, AProcessThatDiesHoldsNothing) {
  IpcLedger ledger;
  ledger.send(7);
  Child child([&](auto& self) {
    new IpcReference(ledger.address(), 7); // never given back
    self.begin();
    self.awaitEnd();
  });
  EXPECT_TRUE(ledger.inUse(7));
  child.finish();
  EXPECT_FALSE(ledger.inUse(7));
}

TEST(LedgerTest, AForkedChildLeavesItsParentsReferencesAlone) {
  IpcLedger ledger;
  ledger.send(7);
  std::optional<IpcReference> reference(std::in_place, ledger.address(), 7);
  Child child([&](auto& self) {
    reference.reset();
    self.begin();
  });
  child.finish();
  EXPECT_TRUE(ledger.inUse(7));
  reference.reset();
  EXPECT_FALSE(ledger.inUse(7));
}

TEST(LedgerTest, ThreadsShareTheReferencesOfAProcess) {
  IpcLedger ledger;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 4; ++i) {
    threads.emplace_back([&ledger, i] {
      for (int round = 0; round < 300; ++round) {
        const uint32_t block = (i + static_cast<uint32_t>(round)) % 3;
        ledger.send(block);
        const IpcReference reference(ledger.address(), block);
        EXPECT_TRUE(ledger.inUse(block));
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const uint32_t block : {0, 1, 2}) {
    EXPECT_FALSE(ledger.inUse(block));
  }
}

TEST(LedgerTest, ALedgerThatIsNotThereIsRefused) {
  const auto messageFor = [](const IpcLedger::Address& address) {
    try {
      const IpcReference reference(address, 0);
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  IpcLedger::Address address;
  {
    const IpcLedger ledger;
    address = ledger.address();
    auto other = address;
    other.mark ^= 1; // another file by now
    EXPECT_NE(messageFor(other).find("has ended"), std::string::npos);
  }
  EXPECT_NE(messageFor(address).find("It must live until"), std::string::npos);
}

TEST(LedgerTest, BlocksAreBounded) {
  const IpcLedger ledger;
  EXPECT_THROW(
      IpcReference(ledger.address(), IpcLedger::kMostBlocks), std::exception);
}

TEST(ReceivedRangesTest, AddressesAreFoundInTheRangesThatAreThere) {
  ReceivedRanges ranges;
  char memory[100];
  EXPECT_FALSE(ranges.contain(memory));
  ranges.add(memory + 10, 20);
  ranges.add(memory + 10, 20); // received twice
  ranges.add(memory + 50, 10);
  EXPECT_FALSE(ranges.contain(memory + 9));
  EXPECT_TRUE(ranges.contain(memory + 10));
  EXPECT_TRUE(ranges.contain(memory + 29));
  EXPECT_FALSE(ranges.contain(memory + 30));
  ranges.remove(memory + 10);
  EXPECT_TRUE(ranges.contain(memory + 10));
  ranges.remove(memory + 10);
  EXPECT_FALSE(ranges.contain(memory + 10));
  EXPECT_TRUE(ranges.contain(memory + 55));
}

TEST(ReceivedRangesTest, ThreadsAddAndRemoveWhileOthersLook) {
  ReceivedRanges ranges;
  std::vector<char> memory(1000);
  std::atomic<bool> done{false};
  ranges.add(memory.data(), 10);
  std::thread looker([&] {
    while (!done) {
      EXPECT_TRUE(ranges.contain(memory.data() + 5));
    }
  });
  std::vector<std::thread> threads;
  for (size_t i = 1; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 1000; ++round) {
        char* mine = memory.data() + i * 100;
        ranges.add(mine, 50);
        EXPECT_TRUE(ranges.contain(mine + 49));
        ranges.remove(mine);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  done = true;
  looker.join();
}

} // namespace
