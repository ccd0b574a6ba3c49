// Teams of OpenMP threads that sleep between kernels.
#include "kernels.h"

#include "runtime/OpenRegTeam.h"
#include "runtime/OpenRegThreads.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <atomic>
#include <thread>

// Of the OpenMP library that PyTorch brings along.
extern "C" [[gnu::weak]] int omp_get_num_threads();
extern "C" [[gnu::weak]] int MKL_Get_Max_Threads();
extern "C" [[gnu::weak]] void GOMP_parallel(
    void (*body)(void*),
    void* data,
    unsigned threads,
    unsigned flags);

namespace c10::openreg::testing {
namespace {

using at::Tensor;
using at::native::openreg::runAndWait;

int membersOfRegion() {
  std::atomic<int> members{0};
  GOMP_parallel(
      [](void* count) { ++*static_cast<std::atomic<int>*>(count); },
      &members,
      /*threads: the caller's=*/0,
      0);
  return members;
}

TEST(TeamTest, ARestingTeamLeavesAllWorkToItsOwner) {
  std::thread([] {
    useThreads(3);
    EXPECT_EQ(membersOfRegion(), 3);
    restTeam(3);
    EXPECT_TRUE(at::in_parallel_region());
    EXPECT_EQ(membersOfRegion(), 1);
    restTeam(3); // rests already
    wakeTeam();
    EXPECT_FALSE(at::in_parallel_region());
    EXPECT_EQ(membersOfRegion(), 3);
    wakeTeam(); // is awake
    restTeam(3);
  }).join(); // a thread that ends wakes its team
}

TEST(TeamTest, WhatRunsWhileATeamRestsIsTheOnlyMemberOfItsTeam) {
  const auto ofMkl = [] {
    return MKL_Get_Max_Threads ? MKL_Get_Max_Threads() : 0;
  };
  std::thread([&] {
    useThreads(3);
    EXPECT_EQ(membersOfRegion(), 3);
    const int all = ofMkl();
    for (int i = 0; i < 2; ++i) {
      restTeam(3);
      // An orphaned loop would leave the parts of others undone.
      EXPECT_EQ(omp_get_num_threads(), 1);
      EXPECT_EQ(at::get_num_threads(), 1);
      EXPECT_LE(ofMkl(), 1);
      wakeTeam();
      EXPECT_EQ(at::get_num_threads(), 3);
      EXPECT_EQ(ofMkl(), all);
    }
  }).join();
}

// A kernel that touches protected memory is left by a jump.
TEST(TeamChildTest, ATeamIsWholeAgainAfterAKernelThatWasAbandoned) {
  EXPECT_CHILD_SUCCEEDS([] {
    const OpenRegStream stream = getDefaultOpenRegStream(0);
    const Tensor tensor = at::zeros({4}, at::device(device(0)));
    auto* address = static_cast<volatile char*>(tensor.data_ptr());
    useThreads(3);
    int members = 0;
    const auto count = [&] {
      runAndWait(largeKernel(stream), [&] { members = membersOfRegion(); });
    };
    count();
    CHILD_REQUIRE(members == 3);
    KernelNow alone = largeKernel(stream);
    alone.microseconds = 1;
    at::native::openreg::queue(alone, [address] { *address = 1; });
    CHILD_REQUIRE(
        codeOf([] { device_synchronize(); }) == orErrorIllegalAddress);
    OPENREG_CHECK(orDeviceReset());
    members = 0;
    count();
    CHILD_REQUIRE(members == 3);
    return true;
  });
}

} // namespace
} // namespace c10::openreg::testing
