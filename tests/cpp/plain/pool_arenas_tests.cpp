// The parts of the block pool that say where blocks belong: arenas, parked blocks and
// the history.
#include "fake_device.h"

namespace openreg::testing {
namespace {

using namespace c10::openreg;

// --- Arenas --------------------------------------------------------------------

TEST(ArenasTest, EachStreamHasFreeBlocksOfItsOwn) {
  Arenas arenas;
  FakeStream a, b;
  FreeBlocks& small = arenas.freeBlocks(PoolCounter::Small, &a);
  EXPECT_EQ(&arenas.freeBlocks(PoolCounter::Small, &a), &small);
  EXPECT_NE(&arenas.freeBlocks(PoolCounter::Large, &a), &small);
  EXPECT_NE(&arenas.freeBlocks(PoolCounter::Small, &b), &small);
  EXPECT_EQ(&small.arena, &arenas.defaultArena());
}

TEST(ArenasTest, AllocationsGoToTheArenaThatWasNamedLast) {
  Arenas arenas;
  FakeStream a, b;
  const PoolId first{1, 0}, second{2, 0};
  EXPECT_FALSE(arenas.hasRoutes());
  EXPECT_TRUE(arenas.addRoute(first, [](void*) { return true; }));
  EXPECT_FALSE(arenas.addRoute(first, [](void*) { return true; }));
  EXPECT_TRUE(arenas.addRoute(second, [&](void* of) { return of == &b; }));
  EXPECT_EQ(arenas.freeBlocks(PoolCounter::Small, &a).arena.id, first);
  EXPECT_EQ(arenas.freeBlocks(PoolCounter::Small, &b).arena.id, second);
  EXPECT_TRUE(arenas.removeRoute(first));
  EXPECT_FALSE(arenas.removeRoute(first));
  EXPECT_EQ(arenas.freeBlocks(PoolCounter::Small, &a).arena.id, PoolId{});
  EXPECT_EQ(arenas.find(second)->users, 1);
}

TEST(ArenasTest, AnArenaGoesWithItsLastUserAndSegment) {
  Arenas arenas;
  const PoolId id{1, 0};
  ++arenas.at(id).users;
  arenas.at(id).segments = 1;
  EXPECT_TRUE(arenas.release(id));
  EXPECT_FALSE(arenas.release(id));
  arenas.forgetEmpty();
  ASSERT_NE(arenas.find(id), nullptr);
  arenas.at(id).segments = 0;
  arenas.forgetEmpty();
  EXPECT_EQ(arenas.find(id), nullptr);
}

TEST(ArenasTest, LastResortsAreVisitedUntilOneHelps) {
  Arenas arenas;
  arenas.at({1, 0});
  arenas.at({2, 0}).lastResort = true;
  arenas.at({3, 0}).lastResort = true;
  std::vector<PoolId> visited;
  arenas.forEachLastResort([&](PoolArena& arena) {
    visited.push_back(arena.id);
    return true;
  });
  EXPECT_EQ(visited, (std::vector<PoolId>{{2, 0}}));
}

// --- ParkedBlocks ----------------------------------------------------------------

class ParkedBlocksTest : public ::testing::Test {
 protected:
  PoolBlock* block(std::vector<void*> usedBy) {
    PoolBlock& made = blocks_.emplace_back();
    made.usedBy = std::move(usedBy);
    made.home = &arenas.freeBlocks(PoolCounter::Small, &a);
    return &made;
  }
  /// The blocks that are free by now.
  std::vector<PoolBlock*> reclaim() {
    std::vector<PoolBlock*> freed;
    parked.reclaim([&](PoolBlock* block) { freed.push_back(block); });
    return freed;
  }

  using Blocks = std::vector<PoolBlock*>;
  FakeStream a, b;
  Arenas arenas;
  FakeDevice device;
  ParkedBlocks parked{device};

 private:
  std::deque<PoolBlock> blocks_;
};

TEST_F(ParkedBlocksTest, ABlockWaitsForAllStreamsThatUsedIt) {
  PoolBlock* both = block({&a, &b});
  EXPECT_TRUE(parked.park(both));
  EXPECT_FALSE(parked.empty());
  EXPECT_EQ(both->state, PoolBlock::Parked);
  a.runAll();
  EXPECT_EQ(reclaim(), Blocks{});
  b.runAll();
  EXPECT_EQ(reclaim(), Blocks{both});
  EXPECT_TRUE(parked.empty());
}

TEST_F(ParkedBlocksTest, ABlockWithoutEventsIsNotParked) {
  device.failRecord = true; // a broken device
  EXPECT_FALSE(parked.park(block({&a})));
  EXPECT_TRUE(parked.empty());
}

TEST_F(ParkedBlocksTest, DeferredBlocksGetTheirEventsLater) {
  PoolBlock* deferred = block({&a});
  parked.defer(deferred);
  EXPECT_EQ(device.events(), 0u);
  EXPECT_FALSE(parked.empty());
  a.runAll(); // before the event: it stands for what is queued then
  parked.recordDeferred([](PoolBlock*) { FAIL(); });
  EXPECT_EQ(reclaim(), Blocks{});
  a.runAll();
  EXPECT_EQ(reclaim(), Blocks{deferred});
}

TEST_F(ParkedBlocksTest, EventsOfAnArenaCanBeTakenOutToBeWaitedFor) {
  PoolBlock* ours = block({&a, &b});
  PoolBlock* others = block({&a});
  const PoolArena& arena = arenas.at({1, 0});
  others->home = &arenas.at({1, 0}).cacheOf(&a).small;
  parked.park(ours);
  parked.park(others);
  const auto taken = parked.take(&arena);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].block, others);
  device.destroy(taken[0].event);

  Blocks freed;
  for (const auto& [event, block] : parked.take(nullptr)) {
    device.destroy(event);
    ParkedBlocks::release(
        block, [&](PoolBlock* free) { freed.push_back(free); });
  }
  EXPECT_EQ(freed, Blocks{ours});
  EXPECT_TRUE(parked.empty());
}

// --- PoolHistory -----------------------------------------------------------------

class PoolHistoryTest : public ::testing::Test {
 protected:
  void add(uintptr_t address, const PoolContext& context = nullptr) {
    history.note(
        PoolTraceEntry::Alloc,
        reinterpret_cast<void*>(address),
        1,
        arenas.freeBlocks(PoolCounter::Small, nullptr),
        context);
  }
  std::vector<uintptr_t> addresses() const {
    std::vector<uintptr_t> found;
    for (const auto& entry : history.read()) {
      found.push_back(entry.address);
    }
    return found;
  }

  using Addresses = std::vector<uintptr_t>;
  Arenas arenas;
  PoolHistory history;
};

TEST_F(PoolHistoryTest, TheLastEntriesAreKeptWhileItIsOn) {
  add(1);
  EXPECT_EQ(addresses(), Addresses{});
  history.turn(true, PoolRecord::All, 3, /*clear=*/false);
  for (uintptr_t i = 1; i <= 5; ++i) {
    add(i);
  }
  EXPECT_EQ(addresses(), (Addresses{3, 4, 5}));
  history.turn(true, PoolRecord::All, 2, /*clear=*/false);
  EXPECT_EQ(addresses(), (Addresses{4, 5}));
  history.turn(true, PoolRecord::All, 2, /*clear=*/true);
  EXPECT_EQ(addresses(), Addresses{});
}

TEST_F(PoolHistoryTest, ContextsAreKeptIfTheyAreAskedFor) {
  const PoolContext context = std::make_shared<int>(1);
  history.turn(true, PoolRecord::State, 10, false);
  EXPECT_TRUE(history.shouldGather(PoolRecord::State));
  EXPECT_FALSE(history.shouldGather(PoolRecord::All));
  add(1, context);
  EXPECT_EQ(history.read()[0].context, nullptr);
  history.turn(true, PoolRecord::Alloc, 10, false);
  add(2, context);
  EXPECT_EQ(history.read()[1].context, context);
  // What goes is for the caller to destroy.
  EXPECT_EQ(history.turn(false, PoolRecord::All, 10, false).size(), 2u);
  EXPECT_FALSE(history.shouldGather(PoolRecord::State));
}

} // namespace
} // namespace openreg::testing
