// Schedules that change while the process runs, and the delays of the adversarial one.
#include "support.h"

namespace openreg::testing {
namespace {

class ScheduleSetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(orScheduleGet(&schedule_, &seed_), orSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(orScheduleSet(schedule_, seed_, nullptr, 0), orSuccess);
  }

  void launch(orStream_t stream, const char* name) {
    const orLaunchConfig config{name, orLaunchSmall};
    ASSERT_EQ(
        orLaunchKernelEx(
            &config,
            stream,
            [this, name] {
              const std::lock_guard lock(mutex_);
              ran_ += name;
            }),
        orSuccess);
  }
  std::string ran() {
    const std::lock_guard lock(mutex_);
    return ran_;
  }
  static std::vector<orScheduledTask> tasks() {
    size_t count = 0;
    EXPECT_EQ(orScheduleGetTasks(nullptr, &count), orSuccess);
    std::vector<orScheduledTask> tasks(count);
    EXPECT_EQ(orScheduleGetTasks(tasks.data(), &count), orSuccess);
    return tasks;
  }

 private:
  orSchedule schedule_ = orScheduleAuto;
  unsigned long long seed_ = 0;
  std::mutex mutex_;
  std::string ran_;
};

TEST_F(ScheduleSetTest, BadArgumentsAreRefused) {
  const unsigned long long delays[] = {0};
  orSchedule schedule = orScheduleAuto;
  unsigned long long seed = 0;
  size_t one = 1;
  EXPECT_EQ(
      orScheduleSet(static_cast<orSchedule>(3), 0, nullptr, 0),
      orErrorInvalidValue);
  EXPECT_TRUE(detailHas("but is 3"));
  EXPECT_EQ(orScheduleSet(orScheduleAsync, 0, delays, 1), orErrorInvalidValue);
  EXPECT_EQ(orScheduleGet(nullptr, &seed), orErrorInvalidValue);
  EXPECT_EQ(orScheduleGet(&schedule, nullptr), orErrorInvalidValue);
  EXPECT_EQ(orScheduleGetTasks(nullptr, nullptr), orErrorInvalidValue);
  EXPECT_EQ(orScheduleGetTasks(nullptr, &one), orErrorInvalidValue);
}

TEST_F(ScheduleSetTest, AKernelMayNotChangeIt) {
  orError_t status = orSuccess;
  ASSERT_EQ(
      orLaunchKernel(
          defaultStream(),
          [&status] { status = orScheduleSet(orScheduleAuto, 0, nullptr, 0); }),
      orSuccess);
  ASSERT_EQ(orDeviceSynchronize(), orSuccess);
  EXPECT_EQ(status, orErrorNotPermitted);
}

TEST_F(ScheduleSetTest, ACaptureForbidsIt) {
  Stream stream;
  ASSERT_EQ(orStreamBeginCapture(stream, orStreamCaptureModeGlobal), orSuccess);
  EXPECT_EQ(
      orScheduleSet(orScheduleAuto, 0, nullptr, 0),
      orErrorStreamCaptureUnsupported);
  orGraph_t graph = nullptr;
  orStreamEndCapture(stream, &graph);
}

TEST_F(ScheduleSetTest, ItIsTold) {
  ASSERT_EQ(orScheduleSet(orScheduleAdversarial, 5, nullptr, 0), orSuccess);
  orSchedule schedule = orScheduleAuto;
  unsigned long long seed = 0;
  ASSERT_EQ(orScheduleGet(&schedule, &seed), orSuccess);
  EXPECT_EQ(schedule, orScheduleAdversarial);
  EXPECT_EQ(seed, 5u);
}

TEST_F(ScheduleSetTest, WorkIsFinishedBefore) {
  Stream stream;
  launch(stream, "a");
  ASSERT_EQ(orScheduleSet(orScheduleAsync, 0, nullptr, 0), orSuccess);
  EXPECT_EQ(ran(), "a");
}

TEST_F(ScheduleSetTest, AutoRunsSmallWorkOnTheCallerAgain) {
  Stream stream;
  ASSERT_EQ(orScheduleSet(orScheduleAdversarial, 0, nullptr, 0), orSuccess);
  launch(stream, "a");
  EXPECT_EQ(ran(), ""); // held back
  ASSERT_EQ(orScheduleSet(orScheduleAuto, 0, nullptr, 0), orSuccess);
  EXPECT_EQ(ran(), "a");
  launch(stream, "b");
  EXPECT_EQ(ran(), "ab");
}

TEST_F(ScheduleSetTest, OnlyTheListedTasksAreHeldBack) {
  for (const unsigned long long held : {0, 1}) {
    Stream first, second;
    ASSERT_EQ(orScheduleSet(orScheduleAdversarial, 0, &held, 1), orSuccess);
    launch(first, "a");
    launch(second, "b");
    // Waiting for one stream does not let the other go on.
    ASSERT_EQ(orStreamSynchronize(held == 0 ? second : first), orSuccess);
    EXPECT_EQ(ran(), held == 0 ? "b" : "baa");
    ASSERT_EQ(orDeviceSynchronize(), orSuccess);
    EXPECT_EQ(ran(), held == 0 ? "ba" : "baab");
  }
}

TEST_F(ScheduleSetTest, WithoutDelaysNothingWaitsToBeAskedFor) {
  const unsigned long long none = 0;
  ASSERT_EQ(orScheduleSet(orScheduleAdversarial, 0, &none, 0), orSuccess);
  Stream stream;
  std::promise<void> began;
  ASSERT_EQ(orLaunchKernel(stream, [&began] { began.set_value(); }), orSuccess);
  // Held work would begin after a second.
  EXPECT_EQ(
      began.get_future().wait_for(std::chrono::milliseconds(900)),
      std::future_status::ready);
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
}

TEST_F(ScheduleSetTest, WithoutDelaysTasksRunInTheOrderOfTheirNumbers) {
  const unsigned long long none = 0;
  const std::string names[] = {"a", "b", "c", "d"};
  std::string expected;
  Stream streams[4];
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(orScheduleSet(orScheduleAdversarial, 0, &none, 0), orSuccess);
    for (int i = 3; i >= 0; --i) {
      launch(streams[i], names[i].c_str());
      expected += names[i];
    }
    ASSERT_EQ(orDeviceSynchronize(), orSuccess);
    ASSERT_EQ(ran(), expected);
  }
}

TEST_F(ScheduleSetTest, TasksWithADelayComeAfterTheOthers) {
  const unsigned long long first = 0;
  std::string expected;
  Stream streams[3];
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(orScheduleSet(orScheduleAdversarial, 0, &first, 1), orSuccess);
    launch(streams[0], "a");
    launch(streams[1], "b");
    launch(streams[2], "c");
    ASSERT_EQ(orDeviceSynchronize(), orSuccess); // asks for all at once
    expected += "bca";
    ASSERT_EQ(ran(), expected);
  }
}

TEST_F(ScheduleSetTest, AWaitThatIsOverTakesItsNumber) {
  const unsigned long long none = 0;
  Stream first, second;
  Event event;
  ASSERT_EQ(orScheduleSet(orScheduleAdversarial, 0, &none, 0), orSuccess);
  launch(first, "a");
  ASSERT_EQ(orEventRecord(event, first), orSuccess);
  ASSERT_EQ(orStreamSynchronize(first), orSuccess);
  ASSERT_EQ(orStreamWaitEvent(second, event, 0), orSuccess);
  launch(second, "b");
  ASSERT_EQ(orStreamSynchronize(second), orSuccess);
  const auto found = tasks();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_STREQ(found[1].name, "wait for an event");
  EXPECT_STREQ(found[2].name, "b");
}

TEST_F(ScheduleSetTest, TheTasksAreTold) {
  ASSERT_EQ(orScheduleSet(orScheduleAdversarial, 0, nullptr, 0), orSuccess);
  Stream stream;
  unsigned long long id = 0;
  ASSERT_EQ(orStreamGetId(stream, &id), orSuccess);
  launch(stream, "a");
  launch(stream, "b");
  ASSERT_EQ(orStreamSynchronize(stream), orSuccess);
  const auto found = tasks();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_STREQ(found[1].name, "b");
  EXPECT_EQ(found[1].stream, id);
  EXPECT_EQ(found[1].device, 0);
  ASSERT_EQ(orScheduleSet(orScheduleAdversarial, 0, nullptr, 0), orSuccess);
  EXPECT_TRUE(tasks().empty());
}

} // namespace
} // namespace openreg::testing
