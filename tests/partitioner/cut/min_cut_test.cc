#include "partitioner/cut/min_cut.h"

#include "partitioner/cut/flow_network.h"

#include <gtest/gtest.h>

#include "tests/partitioner/cut/random_dags.h"

namespace weir::partitioner {
namespace {

constexpr int kGraphs = 3000;

TEST(MinCutTest, MatchesBruteForceOnRandomGraphs) {
  std::mt19937_64 rng(1);
  for (int g = 0; g < kGraphs; ++g) {
    CutNetwork network = RandomNetwork(rng, g % 2 == 1);
    if (g % 5 == 0) {  // and some with tied operators and spreads
      network.together.push_back({Draw(rng, 1, 2), Draw(rng, 3, 4)});
      network.spreads.push_back({{Draw(rng, 0, 2), 4, 5}, Draw(rng, 1, 30)});
    }
    const std::int64_t expected = BruteForceMinCut(network);
    for (Nearest nearest : {Nearest::kSource, Nearest::kSink}) {
      const MinCut cut = FindMinCut(network, nearest);
      ASSERT_EQ(cut.status, MinCut::Status::kOptimal) << g;
      ASSERT_EQ(cut.value, expected) << g;
      ASSERT_EQ(CostOf(network, cut.on_source_side), expected) << g;
      ASSERT_TRUE(IsConvex(network, cut.on_source_side)) << g;
    }
  }
}

// Pins are added one by one to a network that keeps its flow; each solution must equal that of a network built anew.
TEST(FlowNetworkTest, GoingOnFromAFlowEqualsStartingAnew) {
  std::mt19937_64 rng(3);
  int solved = 0;
  for (int g = 0; g < 500; ++g) {
    CutNetwork network = RandomNetwork(rng, g % 2 == 1);
    if (network.pins.empty()) network.pins.assign(network.num_operators, Pin::kFree);
    FlowNetwork flow(network);
    ASSERT_EQ(flow.Solve(), MinCut::Status::kOptimal);
    for (int round = 0; round < 6; ++round) {
      const int op = Draw(rng, 0, network.num_operators - 1);
      if (network.pins[op] != Pin::kFree) continue;
      network.pins[op] = Draw(rng, 0, 1) ? Pin::kSource : Pin::kSink;
      flow.AddPin(op, network.pins[op]);
      const MinCut anew = FindMinCut(network);
      ASSERT_EQ(flow.Solve(), anew.status) << g;
      if (anew.status != MinCut::Status::kOptimal) break;
      ++solved;
      ASSERT_EQ(flow.value(), anew.value) << g;
      for (Nearest nearest : {Nearest::kSource, Nearest::kSink}) {
        ASSERT_EQ(flow.OnSourceSide(nearest), FindMinCut(network, nearest).on_source_side) << g;
      }
    }
  }
  EXPECT_GT(solved, 500);
}

// Negative control: without the infinite reverse arcs many cuts run backwards.
TEST(MinCutTest, WithoutReverseArcsManyCutsAreCyclic) {
  std::mt19937_64 rng(1);
  int cyclic = 0, too_low = 0;
  for (int g = 0; g < kGraphs; ++g) {
    CutNetwork network = RandomNetwork(rng, g % 2 == 1);
    const std::int64_t expected = BruteForceMinCut(network);
    network.reverse_arcs = false;
    const MinCut cut = FindMinCut(network);
    cyclic += !IsConvex(network, cut.on_source_side);
    too_low += cut.value < expected;
  }
  EXPECT_GT(cyclic, kGraphs / 10);
  EXPECT_GT(too_low, kGraphs / 10);
}

// Negative control: without tensor nodes a tensor is paid once a reader.
TEST(MinCutTest, WithoutTensorNodesManyOptimaAreWrong) {
  std::mt19937_64 rng(1);
  int wrong = 0;
  for (int g = 0; g < kGraphs; ++g) {
    CutNetwork network = RandomNetwork(rng, g % 2 == 1);
    const std::int64_t expected = BruteForceMinCut(network);
    network.tensor_nodes = false;
    wrong += FindMinCut(network).value != expected;
  }
  EXPECT_GT(wrong, kGraphs / 4);
}

TEST(MinCutTest, ContradictoryPinsAreInfeasible) {
  CutNetwork network;  // 0 -> 1, with 0 on the sink side and 1 on the source side
  network.num_operators = 2;
  network.tensors.push_back({0, {1}, 5});
  network.pins = {Pin::kSink, Pin::kSource};
  EXPECT_EQ(FindMinCut(network).status, MinCut::Status::kInfeasible);
}

TEST(MinCutTest, ReportsOverflowOfTheCapacities) {
  CutNetwork network;
  network.num_operators = 3;
  network.tensors.push_back({0, {1}, std::int64_t{1} << 62});
  network.tensors.push_back({1, {2}, std::int64_t{1} << 62});
  EXPECT_EQ(FindMinCut(network).status, MinCut::Status::kOverflow);
}

// 0 -> 1 -> 2 -> 3 with equal tensors: the nearest cuts are the first and the last arc.
TEST(MinCutTest, NearestPicksTheEndOfTheRangeOfOptima) {
  CutNetwork network;
  network.num_operators = 4;
  for (int i = 0; i < 3; ++i) network.tensors.push_back({i, {i + 1}, 7});
  network.pins = {Pin::kSource, Pin::kFree, Pin::kFree, Pin::kSink};
  EXPECT_EQ(FindMinCut(network, Nearest::kSource).on_source_side, (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(FindMinCut(network, Nearest::kSink).on_source_side, (std::vector<bool>{true, true, true, false}));
}

}  // namespace
}  // namespace weir::partitioner
