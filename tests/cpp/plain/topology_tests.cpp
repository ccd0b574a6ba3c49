// Times that links take, worked out by hand.
#include "distributed/AloneTransport.h"
#include "distributed/TrafficLedger.h"

#include <gtest/gtest.h>

#include <unistd.h>

namespace c10::openreg::occl {
namespace {

// Two hosts of four devices; inside 100 bytes a second and 1 s, between 10 and 2 s.
const Topology kCluster{2, 4, {100, 1}, {10, 2}};

Network network(const std::vector<int>& places, int rank = 0) {
  return {kCluster, places, rank};
}

Collective call(
    Kind kind,
    std::vector<size_t> gives,
    std::vector<size_t> takes) {
  Collective made;
  made.kind = kind;
  for (const size_t bytes : gives) {
    made.inputs.push_back({nullptr, bytes});
  }
  for (const size_t bytes : takes) {
    made.outputs.push_back({nullptr, bytes});
  }
  return made;
}

TEST(TopologyTest, PresetsAreReadWithAnyNumbers) {
  const Topology one = Topology::parse("nvlink8");
  EXPECT_EQ(one.hosts, 1);
  EXPECT_EQ(one.devices, 8);
  EXPECT_GT(one.inside.bandwidth, 1e11);
  const Topology two = Topology::parse("2x8-ib");
  EXPECT_EQ(two.hosts, 2);
  EXPECT_EQ(two.devices, 8);
  EXPECT_LT(two.between.bandwidth, two.inside.bandwidth);
  EXPECT_GT(two.between.latency, two.inside.latency);
  EXPECT_EQ(Topology::parse("16x4-ib").hosts, 16);
}

TEST(TopologyTest, SettingsFollowAPresetOrStandInAFile) {
  const Topology changed = Topology::parse(
      "2x8-ib, host_bandwidth=80Gb/s, latency=500ns, slower=10");
  EXPECT_DOUBLE_EQ(changed.between.bandwidth, 1e9);
  EXPECT_DOUBLE_EQ(changed.inside.latency, 5e-6);

  std::string path = ::testing::TempDir() + "topologyXXXXXX";
  const int file = mkstemp(path.data());
  const std::string text =
      "# a rack\nhosts = 3\n\ndevices = 2\nbandwidth = 1 GB/s\n"
      "latency = 1us\nhost_bandwidth = 2MB/s # slow\nhost_latency = 1ms";
  ASSERT_EQ(
      write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(file);
  const Topology read = Topology::parse(path);
  EXPECT_EQ(read.hosts, 3);
  EXPECT_EQ(read.devices, 2);
  EXPECT_DOUBLE_EQ(read.inside.bandwidth, 1e9);
  EXPECT_DOUBLE_EQ(read.between.bandwidth, 2e6);
  EXPECT_DOUBLE_EQ(read.between.latency, 1e-3);
  unlink(path.c_str());
}

TEST(TopologyTest, ABadValueIsRefusedWithWhatIsAccepted) {
  const auto refuses = [](const char* text, const char* words) {
    try {
      Topology::parse(text);
      FAIL() << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
          << error.what();
    }
  };
  refuses("", "neither a cluster, such as nvlink8");
  refuses("token-ring", "'token-ring' is neither");
  refuses("nvlink0", "in [1, 4096], but is '0'");
  refuses("2x9999-ib", "the devices of 2x9999-ib");
  refuses("nvlink8,latency=5", "5us, 500ns or 1ms");
  refuses("nvlink8,latency=11s", "in [0s, 10s], but is '11s'");
  refuses("nvlink8,bandwidth=0GB/s", "at least 1B/s, but is '0GB/s'");
  refuses("nvlink8,bandwidth=nanGB/s", "but is 'nanGB/s'");
  refuses("nvlink8,bandwidth=1e300TB/s", "but is '1e300TB/s'");
  refuses("nvlink8,devices=2.5", "a whole number in [1, 4096], but is 2.5");
  refuses("nvlink8,slower=0", "in [1, 1e9]");
  refuses(
      "nvlink8,colour=red",
      "'colour=red' is not a setting; the settings are hosts");
  refuses("nvlink8,hosts=2", "host_bandwidth is missing");
}

TEST(TopologyTest, ARankWithoutADeviceIsRefused) {
  try {
    network({0, 8});
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(
        std::string(error.what()).find("2 x 4 devices, but rank 8"),
        std::string::npos)
        << error.what();
  }
}

TEST(TopologyTest, RingsInsideOfAHostUseItsLinks) {
  const Network four = network({0, 1, 2, 3});
  const Traffic sum = four.of(call(Kind::AllReduce, {400}, {400}));
  EXPECT_EQ(sum.steps, 4); // up and down a tree of two levels
  EXPECT_FALSE(sum.crosses);
  EXPECT_DOUBLE_EQ(sum.inside, 600); // 2 * 3/4 of the bytes
  EXPECT_DOUBLE_EQ(sum.between, 0);
  EXPECT_DOUBLE_EQ(four.seconds(sum), 4 * 1 + 600 / 100.0);

  const std::vector<size_t> parts(4, 100);
  const auto gathered = four.of(call(Kind::AllGather, {100}, parts));
  const auto scattered = four.of(call(Kind::ReduceScatter, parts, {100}));
  for (const Traffic& traffic : {gathered, scattered}) {
    EXPECT_EQ(traffic.steps, 2);
    EXPECT_DOUBLE_EQ(traffic.inside, 300);
  }
  EXPECT_DOUBLE_EQ(four.of(call(Kind::Broadcast, {}, {400})).inside, 400);
  EXPECT_DOUBLE_EQ(four.of(call(Kind::Reduce, {400}, {})).inside, 400);
  EXPECT_DOUBLE_EQ(four.seconds(four.of(call(Kind::Barrier, {}, {}))), 4);
}

TEST(TopologyTest, ARingLeavesAHostThroughAllAdaptersThatTheGroupHasThere) {
  const Traffic pairs =
      network({0, 1, 4, 5}).of(call(Kind::AllReduce, {400}, {400}));
  EXPECT_TRUE(pairs.crosses);
  EXPECT_DOUBLE_EQ(pairs.inside, 600);
  EXPECT_DOUBLE_EQ(pairs.between, 300);
  const Network two = network({0, 4}); // nothing is inside
  const Traffic sum = two.of(call(Kind::AllReduce, {400}, {400}));
  EXPECT_DOUBLE_EQ(sum.inside, 0);
  EXPECT_DOUBLE_EQ(sum.between, 400);
  EXPECT_DOUBLE_EQ(two.seconds(sum), 2 * 2 + 400 / 10.0);
}

TEST(TopologyTest, BytesForSingleRanksGoTheirOwnWay) {
  const Network three = network({0, 1, 4});
  const Traffic exchange =
      three.of(call(Kind::AllToAll, {7, 100, 50}, {7, 300, 20}));
  EXPECT_DOUBLE_EQ(exchange.inside, 100);
  EXPECT_DOUBLE_EQ(exchange.between, 50);
  EXPECT_DOUBLE_EQ(three.seconds(exchange), 2 + 50 / 10.0);

  Collective gather = call(Kind::Gather, {100}, {100, 100, 100});
  gather.root = 0;
  EXPECT_DOUBLE_EQ(three.of(gather).between, 100); // the root takes most

  const Span bytes{nullptr, 60};
  const auto sent = three.of(
      {{Kind::Send, 1, 0, 0, bytes},
       {Kind::Send, 2, 0, 0, bytes},
       {Kind::Receive, 1, 0, 0, bytes}});
  EXPECT_DOUBLE_EQ(sent.inside, 60);
  EXPECT_DOUBLE_EQ(sent.between, 60);
  EXPECT_DOUBLE_EQ(three.seconds(sent), 2 + 60 / 10.0);
  const auto received =
      three.of(std::vector<Transfer>{{Kind::Receive, 2, 0, 0, bytes}});
  EXPECT_DOUBLE_EQ(three.seconds(received), 0); // its sender takes the time
}

TEST(TopologyTest, ARankAloneTakesNoTime) {
  const Network one = network({3});
  EXPECT_DOUBLE_EQ(one.seconds(one.of(call(Kind::AllReduce, {9}, {9}))), 0);
}

TEST(TopologyTest, TheLedgerSumsCallsOfOneKindAndGroup) {
  TrafficLedger ledger;
  ledger.add({"a", 4, "send"}, {1, false, 10, 3}, 2);
  const std::string same = "send";
  ledger.add({"a", 4, same.c_str()}, {1, true, 20, 4}, 1);
  ledger.add({"b", 4, "send"}, {}, 0);
  const auto sums = ledger.sums();
  ASSERT_EQ(sums.size(), 2u);
  const TrafficLedger::Sum& first = sums.begin()->second;
  EXPECT_EQ(first.calls, 2u);
  EXPECT_DOUBLE_EQ(first.inside, 30);
  EXPECT_DOUBLE_EQ(first.between, 7);
  EXPECT_DOUBLE_EQ(first.seconds, 3);
}

// --- without the others -------------------------------------------------------------

TEST(AloneTransportTest, OthersGiveWhatTheRankGivesItself) {
  AloneTransport transport(1);
  char own[] = "abc", first[4] = {}, second[4] = {};
  Collective gather = call(Kind::AllGather, {}, {});
  gather.inputs = {{own, 3}};
  gather.outputs = {{first, 3}, {second, 2}};
  EXPECT_EQ(transport.run(gather, {}), Moment());
  EXPECT_STREQ(first, "abc");
  EXPECT_STREQ(second, "ab"); // no more than there is room for

  Collective exchange = call(Kind::AllToAll, {}, {});
  exchange.inputs = {{own, 1}, {own + 1, 1}};
  exchange.outputs = {{first, 1}, {second, 1}};
  transport.run(exchange, {});
  EXPECT_STREQ(first, "abc");
  EXPECT_STREQ(second, "bb");

  int source = -1;
  transport.transfer({{Kind::Receive, -1, 0, 0, {own, 3}, &source}}, {});
  EXPECT_STREQ(own, "");
  EXPECT_EQ(source, 0);
}

} // namespace
} // namespace c10::openreg::occl
