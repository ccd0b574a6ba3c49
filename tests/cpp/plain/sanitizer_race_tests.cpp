// Clocks, shadow memory and captures, as the sanitizer's races are found with them.
#include "sanitizer/RaceDetector.h"

#include <gtest/gtest.h>

#include <random>

namespace {

using namespace c10::openreg::sanitizer;

const void* key(uintptr_t number) {
  return reinterpret_cast<const void*>(number);
}
const void* const kMain = key(1);
const void* const kSide = key(2);
const void* const kEvent = key(100);
const void* const kGraph = key(200);

/// A detector and the names of what it found: "earlier/later".
class Program {
 public:
  void launch(const void* stream, const char* name, Range range, bool writes) {
    const Access access{range, writes};
    Conflicts conflicts;
    races.launch(work(stream, name), {&access, 1}, conflicts);
    add(conflicts);
  }
  void write(const void* stream, const char* name, Range range = {0, 8}) {
    launch(stream, name, range, true);
  }
  void read(const void* stream, const char* name, Range range = {0, 8}) {
    launch(stream, name, range, false);
  }
  void onHost(const char* name, bool writes, Range range = {0, 8}) {
    const Access access{range, writes};
    Conflicts conflicts;
    races.actOnHost(work(nullptr, name), {&access, 1}, conflicts);
    add(conflicts);
  }
  void replay(const void* stream, const char* name) {
    Conflicts conflicts;
    races.launchGraph(kGraph, work(stream, name), conflicts);
    add(conflicts);
  }
  void order(const void* before, const void* after) {
    races.record(kEvent, before);
    races.wait(after, kEvent);
  }

  RaceDetector races;
  std::vector<std::string> found;
  std::vector<Range> ranges;

 private:
  WorkPtr work(const void* stream, const char* name) {
    return std::make_shared<const Work>(
        name, stream, stream ? 0 : -1, ++calls_, nullptr, nullptr);
  }
  void add(const Conflicts& conflicts) {
    for (const auto& [earlier, later, range] : conflicts) {
      found.push_back(earlier.work->name + "/" + later.work->name);
      ranges.push_back(range);
    }
  }
  uint64_t calls_ = 0;
};

using Found = std::vector<std::string>;

TEST(RaceDetectorTest, UsesOfTwoStreamsConflictIfOneWrites) {
  Program readAfterWrite;
  readAfterWrite.write(kMain, "a");
  readAfterWrite.read(kSide, "b");
  EXPECT_EQ(readAfterWrite.found, Found{"a/b"});

  Program writeAfterRead;
  writeAfterRead.read(kMain, "a");
  writeAfterRead.write(kSide, "b");
  EXPECT_EQ(writeAfterRead.found, Found{"a/b"});

  Program reads;
  reads.read(kMain, "a");
  reads.read(kSide, "b");
  EXPECT_EQ(reads.found, Found{});
}

TEST(RaceDetectorTest, AnEventOrdersWhatCameBeforeItAndNothingElse) {
  Program program;
  program.write(kMain, "a");
  program.order(kMain, kSide);
  program.read(kSide, "b");
  EXPECT_EQ(program.found, Found{});
  program.write(kMain, "c");
  EXPECT_EQ(program.found, Found{"b/c"});
}

TEST(RaceDetectorTest, AnEventStandsForItsLastRecord) {
  Program program;
  program.write(kMain, "a");
  program.races.record(kEvent, kMain);
  program.races.record(kEvent, kSide);
  program.races.wait(kSide, kEvent);
  program.read(kSide, "b");
  EXPECT_EQ(program.found, Found{"a/b"});
}

TEST(RaceDetectorTest, OrderIsTransitive) {
  Program program;
  program.write(kMain, "a");
  program.order(kMain, kSide);
  program.order(kSide, key(3));
  program.write(key(3), "b");
  EXPECT_EQ(program.found, Found{});
}

TEST(RaceDetectorTest, OnlyBytesThatBothTouchCount) {
  Program program;
  program.write(kMain, "a", {0, 8});
  program.write(kMain, "b", {16, 24});
  program.write(kSide, "c", {8, 16});
  EXPECT_EQ(program.found, Found{});
  program.write(kSide, "d", {20, 30});
  ASSERT_EQ(program.found, Found{"b/d"});
  EXPECT_EQ(program.ranges[0].begin, 20u);
  EXPECT_EQ(program.ranges[0].end, 24u);
}

TEST(RaceDetectorTest, AMissingOrderIsFoundOnce) {
  Program program;
  program.write(kMain, "a", {0, 8});
  program.write(kMain, "b", {8, 16});
  program.read(kSide, "c", {0, 8});
  program.read(kSide, "d", {8, 16});
  EXPECT_EQ(program.found, Found{"a/c"});
}

TEST(RaceDetectorTest, AllReadersSinceTheLastWriteCount) {
  Program program;
  program.read(kSide, "a");
  program.read(key(3), "b");
  program.order(kSide, kMain);
  program.write(kMain, "c");
  EXPECT_EQ(program.found, Found{"b/c"});
}

TEST(RaceDetectorTest, TheHostIsAnActor) {
  Program program;
  program.read(kMain, "copy");
  program.onHost("refill", true);
  EXPECT_EQ(program.found, Found{"copy/refill"});

  Program waits;
  waits.read(kMain, "copy");
  waits.races.hostWaitsForStream(kMain);
  waits.onHost("refill", true);
  waits.read(kSide, "next copy");
  EXPECT_EQ(waits.found, Found{});
}

TEST(RaceDetectorTest, WhatTheHostHasWaitedForComesBeforeAllLaunches) {
  Program program;
  program.write(kMain, "a");
  program.races.hostWaitsForDevice(0);
  program.write(kSide, "b");
  EXPECT_EQ(program.found, Found{});
  program.races.hostWaitsForDevice(1); // another one
  program.write(kMain, "c");
  EXPECT_EQ(program.found, Found{"b/c"});
}

TEST(RaceDetectorTest, MemoryIsForgottenForOneStreamOrForAll) {
  Program program;
  program.read(kSide, "a");
  program.races.forget({0, 8}, key(3));
  program.races.forget({0, 4}, kSide);
  program.write(kMain, "b", {0, 4});
  EXPECT_EQ(program.found, Found{});
  program.races.forget({4, 6});
  program.write(kMain, "c", {4, 6});
  EXPECT_EQ(program.found, Found{});
  program.write(kMain, "d", {6, 8});
  EXPECT_EQ(program.found, Found{"a/d"});
}

TEST(RaceDetectorTest, ACaptureIsComparedWithItselfAndItsReplaysWithTheRest) {
  Program program;
  program.write(kSide, "before");
  program.races.beginCapture(kGraph, kMain);
  program.write(kMain, "node"); // it does not run
  program.races.record(kEvent, kMain);
  program.races.wait(key(3), kEvent); // joins
  program.read(key(3), "branch");
  program.races.endCapture(kGraph);
  EXPECT_EQ(program.found, Found{});

  program.replay(kMain, "replay");
  EXPECT_EQ(program.found, Found{"before/node"});
  program.write(kMain, "after");
  program.order(kMain, kSide);
  program.write(kSide, "later");
  EXPECT_EQ(program.found.size(), 1u);
}

TEST(RaceDetectorTest, BranchesOfACaptureCanRace) {
  Program program;
  program.races.beginCapture(kGraph, kMain);
  program.order(kMain, kSide);
  program.write(kSide, "branch");
  program.write(kMain, "trunk");
  EXPECT_EQ(program.found, Found{"branch/trunk"});
}

TEST(RaceDetectorTest, AGraphThatNobodySawIsIgnored) {
  Program program;
  program.replay(kMain, "replay");
  program.races.endCapture(kGraph);
  program.races.resetGraph(kGraph);
  EXPECT_EQ(program.found, Found{});
}

// A byte at a time, each with all its uses: what the shadow memory stands for.
TEST(ShadowMemoryTest, ItFindsWhatAListOfAllUsesFinds) {
  constexpr uintptr_t kBytes = 24;
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Order order;
    ShadowMemory memory;
    std::vector<std::vector<Use>> model(kBytes);
    for (int step = 0; step < 40; ++step) {
      const void* stream = key(1 + random() % 3);
      if (random() % 4 == 0) {
        order.record(kEvent, stream);
        order.wait(key(1 + random() % 3), kEvent);
        continue;
      }
      const uintptr_t begin = random() % (kBytes - 1);
      const Range range{begin, begin + 1 + random() % (kBytes - begin)};
      const auto [actor, tick, before] = order.launch(stream, 0);
      const Use use{actor, tick, random() % 2 == 0, nullptr};
      bool expected = false;
      for (uintptr_t i = range.begin; i < range.end; ++i) {
        for (const Use& other : model[i]) {
          expected |= (use.writes || other.writes) && !other.isBefore(before);
        }
        if (use.writes) {
          model[i]
              .clear(); // who is behind it is behind those before it, or told
        }
        model[i].push_back(use);
      }
      Conflicts conflicts;
      memory.use(range, use, before, conflicts);
      EXPECT_EQ(!conflicts.empty(), expected);
      EXPECT_LE(memory.size(), kBytes);
    }
  }
}

} // namespace
