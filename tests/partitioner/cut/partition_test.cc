#include "partitioner/cut/partition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>

#include "partitioner/cut/bottleneck.h"
#include "partitioner/cut/flow_partition.h"
#include "partitioner/cut/lower_bound.h"
#include "partitioner/cut/order_dp.h"
#include "partitioner/cut/part_plan.h"
#include "partitioner/cut/units.h"
#include "partitioner/cut/worker_plan.h"
#include "partitioner/front_end.h"
#include "tests/partitioner/cut/random_dags.h"

namespace weir::partitioner {
namespace {

// Every assignment to k non-empty parts with data running upwards.
void ForEachPartition(const OperatorGraph& graph, int k, const std::function<void(const std::vector<int>&)>& visit) {
  const int n = static_cast<int>(graph.operators.size());
  std::vector<int> part(n, 0), size(k, 0);
  std::function<void(int)> place = [&](int i) {
    if (i == n) {
      if (std::find(size.begin(), size.end(), 0) == size.end()) visit(part);
      return;
    }
    int low = 0;
    for (int t : graph.operators[i].inputs) low = std::max(low, part[graph.tensors[t].producer]);
    for (int p = low; p < k; ++p) {
      part[i] = p;
      ++size[p];
      place(i + 1);
      --size[p];
    }
  };
  place(0);
}

std::int64_t Work(const OperatorGraph& graph) {
  return graph.TotalForwardFlop() + graph.TotalBackwardFlop();
}

// Least cut over all assignments to k non-empty parts, data running upwards, work <= cap; max() where there is none.
std::int64_t BruteForce(const OperatorGraph& graph, int k, std::int64_t cap, CutObjective objective) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  ForEachPartition(graph, k, [&](const std::vector<int>& part) {
    std::vector<std::int64_t> work(k, 0);
    for (std::size_t i = 0; i < part.size(); ++i)
      work[part[i]] += graph.operators[i].forward_flop + graph.operators[i].backward_flop;
    if (*std::max_element(work.begin(), work.end()) <= cap) best = std::min(best, CutBytes(graph, part, objective));
  });
  return best;
}

// The bound that CutIntoParts starts from.
std::int64_t Window(const OperatorGraph& graph, int k, double slack) {
  std::int64_t largest = 0;
  for (const auto& op : graph.operators) largest = std::max(largest, op.forward_flop + op.backward_flop);
  return std::max<std::int64_t>(largest, static_cast<std::int64_t>(static_cast<double>(Work(graph)) / k * (1 + slack)));
}

TEST(PartitionTest, EqualsBruteForceOnSmallGraphs) {
  std::mt19937_64 rng(7);
  int cases = 0;
  for (int g = 0; g < 400; ++g) {
    const OperatorGraph graph = RandomGraph(rng, 6, 9);
    CutOptions options;
    options.num_parts = 2 + g % 2;
    options.balance_slack = 0.4;
    options.objective = g % 4 < 2 ? CutObjective::kVolume : CutObjective::kHops;
    const Partition partition = CutIntoParts(graph, options);
    ASSERT_EQ(partition.status, Partition::Status::kOk) << partition.reason;
    ASSERT_EQ(CheckPartition(graph, partition.part_of, options.num_parts), "");
    const std::int64_t best = BruteForce(graph, options.num_parts, Window(graph, options.num_parts, 0.4), options.objective);
    if (best == std::numeric_limits<std::int64_t>::max()) {
      EXPECT_TRUE(partition.widened);
      continue;
    }
    ASSERT_TRUE(partition.optimal);
    ASSERT_EQ(partition.cut_bytes, best) << g;
    ++cases;
  }
  EXPECT_GT(cases, 300);
}

// The members of the portfolio for graphs too branchy for the exact one.
TEST(PartitionTest, FlowAndOrderDpAreNeverBelowBruteForceAndOftenMeetIt) {
  std::mt19937_64 rng(7);
  int cases = 0, optimal = 0, order_only = 0;
  for (int g = 0; g < 400; ++g) {
    const OperatorGraph graph = RandomGraph(rng, 6, 9);
    const UnitGraph units = Contract(graph, {});
    const Limits limits = Limits::Equal(2 + g % 2, Window(graph, 2 + g % 2, 0.4));
    const CutObjective objective = g % 4 < 2 ? CutObjective::kVolume : CutObjective::kHops;
    const std::int64_t best = BruteForce(graph, limits.num_parts, limits.max_work[0], objective);
    std::int64_t found = std::numeric_limits<std::int64_t>::max();
    for (const auto& order : TopologicalOrders(units)) {
      if (auto parts = CutOrder(units, order, limits, objective)) found = std::min(found, UnitCutBytes(units, *parts, objective));
    }
    order_only += found == best;
    if (auto parts = BisectByFlow(units, TopologicalOrders(units)[0], limits, objective)) {
      RefineByFlow(units, TopologicalOrders(units)[0], limits, objective, &*parts);
      found = std::min(found, UnitCutBytes(units, *parts, objective));
    }
    ASSERT_GE(found, best) << g;
    ++cases;
    optimal += found == best;
  }
  std::printf("%d of %d optimal, %d by order DP alone\n", optimal, cases, order_only);
  EXPECT_GT(optimal, cases * 3 / 4);
}

TEST(PartitionTest, UnequalWorkersEqualBruteForce) {
  std::mt19937_64 rng(23);
  int cases = 0;
  for (int g = 0; g < 200; ++g) {
    const OperatorGraph graph = RandomGraph(rng, 6, 9);
    CutOptions options;
    options.num_parts = 2 + g % 2;
    options.balance_slack = 0.3;
    options.objective = g % 4 < 2 ? CutObjective::kVolume : CutObjective::kHops;
    double flops = 0;
    for (int p = 0; p < options.num_parts; ++p) {
      options.workers.push_back({static_cast<double>(Draw(rng, 1, 5)), 0, 1});
      flops += options.workers.back().flops;
    }
    const Partition partition = CutIntoParts(graph, options);
    ASSERT_EQ(partition.status, Partition::Status::kOk) << partition.reason;
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    ForEachPartition(graph, options.num_parts, [&](const std::vector<int>& part) {
      std::vector<double> work(options.num_parts, 0);
      for (std::size_t i = 0; i < part.size(); ++i)
        work[part[i]] += static_cast<double>(graph.operators[i].forward_flop + graph.operators[i].backward_flop);
      for (int p = 0; p < options.num_parts; ++p) {
        if (work[p] > std::floor(static_cast<double>(Work(graph)) * options.workers[p].flops / flops * 1.3)) return;
      }
      best = std::min(best, CutBytes(graph, part, options.objective));
    });
    if (best == std::numeric_limits<std::int64_t>::max()) {
      EXPECT_TRUE(partition.widened);
      continue;
    }
    if (partition.widened) continue;  // the largest operator is beyond every share: the window grew before the search
    ASSERT_TRUE(partition.optimal);
    ASSERT_EQ(partition.cut_bytes, best) << g;
    ++cases;
  }
  EXPECT_GT(cases, 60);
}

TEST(PartitionTest, BottleneckTimeEqualsBruteForce) {
  std::mt19937_64 rng(29);
  for (int g = 0; g < 200; ++g) {
    const OperatorGraph graph = RandomGraph(rng, 6, 9);
    CutOptions options;
    options.num_parts = 1 + g % 3;
    options.objective = CutObjective::kTime;
    PartSpeeds speeds;
    for (int p = 0; p < options.num_parts; ++p) {
      options.workers.push_back(
          {static_cast<double>(Draw(rng, 1, 5)), 0, static_cast<double>(Draw(rng, 1, 40)), 0.5 * Draw(rng, 0, 4)});
      speeds.flops.push_back(options.workers.back().flops);
      speeds.bandwidth.push_back(options.workers.back().bandwidth);
    }
    const Partition partition = CutIntoParts(graph, options);
    ASSERT_EQ(partition.status, Partition::Status::kOk) << partition.reason;
    double best = std::numeric_limits<double>::infinity();
    const UnitGraph units = Contract(graph, {});
    ForEachPartition(graph, options.num_parts, [&](const std::vector<int>& part) {
      // Independent of BottleneckSeconds: every tensor is charged to the parts on either side of each boundary it passes.
      std::vector<double> seconds(options.num_parts, 0);
      for (std::size_t i = 0; i < part.size(); ++i)
        seconds[part[i]] +=
            static_cast<double>(graph.operators[i].forward_flop + graph.operators[i].backward_flop) / speeds.flops[part[i]];
      // A message each way over each boundary.
      for (int p = 0; p < options.num_parts; ++p) {
        seconds[p] += 2 * options.workers[p].latency * ((p > 0) + (p + 1 < options.num_parts));
      }
      for (const Tensor& tensor : graph.tensors) {
        if (tensor.producer < 0) continue;
        for (int b = 1; b < options.num_parts; ++b) {
          const bool passes = part[tensor.producer] < b &&
                              std::any_of(tensor.readers.begin(), tensor.readers.end(), [&](int r) { return part[r] >= b; });
          if (!passes) continue;
          const double bytes = static_cast<double>(tensor.bytes) * (tensor.has_gradient ? 2 : 1);
          seconds[b - 1] += bytes / speeds.bandwidth[b - 1];
          seconds[b] += bytes / speeds.bandwidth[b];
        }
      }
      best = std::min(best, *std::max_element(seconds.begin(), seconds.end()));
    });
    ASSERT_TRUE(partition.optimal);
    ASSERT_NEAR(partition.seconds, best, 1e-9 * best) << g;
  }
}

TEST(LowerBoundTest, NeverExceedsTheOptimumAndOftenMeetsIt) {
  std::mt19937_64 rng(31);
  int met = 0, positive = 0;
  for (int g = 0; g < 300; ++g) {
    const OperatorGraph graph = RandomGraph(rng, 6, 9);
    const UnitGraph units = Contract(graph, {});
    const int k = 2 + g % 2;
    const Limits limits = Limits::Equal(k, Window(graph, k, 0.2));
    const CutObjective objective = g % 4 < 2 ? CutObjective::kVolume : CutObjective::kHops;
    const std::int64_t best = BruteForce(graph, k, limits.max_work[0], objective);
    const std::int64_t bound = CutLowerBound(units, limits, objective);
    ASSERT_LE(bound, best) << g;
    met += bound == best;
    positive += bound > 0;
  }
  std::printf("bound positive on %d of 300, met on %d\n", positive, met);
  EXPECT_GT(positive, 150);
  EXPECT_GT(met, 50);
}

TEST(PlanForWorkersTest, PicksTheBestOrderOfTheWorkers) {
  std::mt19937_64 rng(37);
  for (int g = 0; g < 40; ++g) {
    const OperatorGraph graph = RandomGraph(rng, 6, 8);
    std::vector<PartWorker> workers;
    for (int w = 0; w < 3; ++w)
      workers.push_back({static_cast<double>(Draw(rng, 1, 6)), 0, static_cast<double>(Draw(rng, 1, 40))});
    CutOptions options;
    options.objective = CutObjective::kTime;
    const WorkerPlan plan = PlanForWorkers(graph, options, 3, 8, workers);
    ASSERT_EQ(plan.plan.partition.status, Partition::Status::kOk);
    double best = std::numeric_limits<double>::infinity();
    std::vector<int> order = {0, 1, 2};
    options.num_parts = 3;
    do {
      options.workers = {workers[order[0]], workers[order[1]], workers[order[2]]};
      best = std::min(best, CutIntoParts(graph, options).seconds);
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_DOUBLE_EQ(plan.plan.partition.seconds, best);
    std::vector<int> used = plan.worker_of;
    std::sort(used.begin(), used.end());
    EXPECT_EQ(used, (std::vector<int>{0, 1, 2}));
    // Free to choose the number of parts, it is at least as quick.
    EXPECT_LE(PlanForWorkers(graph, options, 0, 8, workers).plan.partition.seconds, best);
  }
}

TEST(PlanForWorkersTest, AWorkerTooSmallForItsPartIsNamed) {
  std::mt19937_64 rng(41);
  const OperatorGraph graph = RandomGraph(rng, 8, 12);
  const WorkerPlan plan = PlanForWorkers(graph, {}, 2, 8, {{1, 10, 1}, {1, 10, 1}});
  EXPECT_EQ(plan.plan.partition.status, Partition::Status::kInfeasible);
  EXPECT_NE(plan.plan.partition.reason.find("needs"), std::string::npos) << plan.plan.partition.reason;
  EXPECT_NE(PlanForWorkers(graph, {}, 3, 8, {{1, 0, 1}, {1, 0, 1}}).plan.partition.reason.find("3 parts asked of 2 workers"),
            std::string::npos);
}

TEST(OrderDpTest, IsOptimalForItsOrder) {
  std::mt19937_64 rng(11);
  for (int g = 0; g < 300; ++g) {
    const OperatorGraph graph = RandomGraph(rng, 5, 10);
    const UnitGraph units = Contract(graph, {});
    const int n = units.size(), k = 3;
    const Limits limits = Limits::Equal(k, units.total_work * 6 / 10);
    const CutObjective objective = g % 2 ? CutObjective::kVolume : CutObjective::kHops;
    for (const auto& order : TopologicalOrders(units)) {
      std::int64_t best = std::numeric_limits<std::int64_t>::max();
      for (int a = 1; a < n; ++a) {
        for (int b = a + 1; b < n; ++b) {
          std::vector<int> part(n);
          std::int64_t work[3] = {};
          for (int p = 0; p < n; ++p) work[part[order[p]] = (p >= a) + (p >= b)] += units.units[order[p]].work;
          if (*std::max_element(work, work + 3) <= limits.max_work[0])
            best = std::min(best, UnitCutBytes(units, part, objective));
        }
      }
      const auto parts = CutOrder(units, order, limits, objective);
      ASSERT_EQ(parts.has_value(), best != std::numeric_limits<std::int64_t>::max()) << g;
      if (parts) {
        ASSERT_EQ(UnitCutBytes(units, *parts, objective), best) << g;
      }
    }
  }
}

TEST(FlowPartitionTest, RefinementNeverLosesAndStaysWithinTheLimits) {
  std::mt19937_64 rng(13);
  int gained = 0;
  for (int g = 0; g < 200; ++g) {
    const OperatorGraph graph = RandomGraph(rng, 10, 40);
    const UnitGraph units = Contract(graph, {});
    const Limits limits = Limits::Equal(4, std::max(units.max_work, units.total_work * 3 / 8));
    auto parts = CutOrder(units, TopologicalOrders(units)[0], limits, CutObjective::kVolume);
    if (!parts) continue;
    const std::int64_t before = UnitCutBytes(units, *parts, CutObjective::kVolume);
    const bool changed = RefineByFlow(units, TopologicalOrders(units)[0], limits, CutObjective::kVolume, &*parts);
    const std::int64_t after = UnitCutBytes(units, *parts, CutObjective::kVolume);
    ASSERT_TRUE(changed ? after < before : after == before);
    gained += changed;
    std::vector<Load> loads(4);
    for (int u = 0; u < units.size(); ++u) {
      loads[(*parts)[u]].Add(units.units[u]);
      for (int v : units.units[u].successors) ASSERT_LE((*parts)[u], (*parts)[v]);
    }
    for (int p = 0; p < 4; ++p) ASSERT_TRUE(limits.Fits(loads[p], p));
  }
  EXPECT_GT(gained, 20);
}

TEST(PartitionTest, KeepsGroupsTogetherWithWhatLiesBetween) {
  // a -> b -> c -> d -> e with b and d tied: c must join them.
  OperatorGraph graph;
  graph.name = "tied";
  for (int i = 0; i < 5; ++i) {
    Operator op;
    op.name = "op" + std::to_string(i);
    op.kind = "Gemm";
    op.forward_flop = 10;
    if (i > 0) op.inputs = {i - 1};
    op.outputs = {i};
    if (i == 1 || i == 3) op.parameters = {0};
    graph.operators.push_back(op);
    Tensor tensor;
    tensor.name = "t" + std::to_string(i);
    tensor.bytes = 4;
    graph.tensors.push_back(tensor);
  }
  Parameter parameter;
  parameter.name = "w";
  parameter.shape = {3};
  parameter.elements = 3;
  graph.parameters.push_back(parameter);
  graph.Finalize();
  CutOptions options;
  options.num_parts = 3;
  Partition partition = CutIntoParts(graph, options);
  ASSERT_EQ(partition.status, Partition::Status::kOk) << partition.reason;
  EXPECT_EQ(partition.part_of, (std::vector<int>{0, 1, 1, 1, 2}));
  options.num_parts = 4;
  partition = CutIntoParts(graph, options);
  EXPECT_EQ(partition.status, Partition::Status::kInfeasible);
  EXPECT_NE(partition.reason.find("3 separable"), std::string::npos) << partition.reason;
}

TEST(PartitionTest, RespectsMemoryOrNamesTheOperator) {
  std::mt19937_64 rng(17);
  int feasible = 0;
  for (int g = 0; g < 200; ++g) {
    const OperatorGraph graph = RandomGraph(rng, 8, 30);
    CutOptions options;
    options.num_parts = 3;
    options.memory = {4, 2};
    options.max_part_memory_bytes = Draw(rng, 300, 1500);
    const Partition partition = CutIntoParts(graph, options);
    if (partition.status == Partition::Status::kInfeasible) {
      EXPECT_FALSE(partition.reason.empty());
      continue;
    }
    ++feasible;
    const PartPlan plan = Describe(graph, partition, options.memory);
    for (const PartSummary& part : plan.parts) ASSERT_LE(part.memory_bytes, options.max_part_memory_bytes) << g;
  }
  EXPECT_GT(feasible, 50);
}

TEST(PartPlanTest, EveryByteAndOperatorIsAccountedFor) {
  std::mt19937_64 rng(19);
  for (int g = 0; g < 200; ++g) {
    const OperatorGraph graph = RandomGraph(rng, 8, 30);
    CutOptions options;
    options.num_parts = 1 + g % 5;
    const Partition partition = CutIntoParts(graph, options);
    ASSERT_EQ(partition.status, Partition::Status::kOk);
    const PartPlan plan = Describe(graph, partition, options.memory);
    int operators = 0;
    std::int64_t flop = 0, bytes = 0, parameters = 0;
    for (const PartSummary& part : plan.parts) {
      operators += part.num_operators;
      flop += part.forward_flop + part.backward_flop;
      parameters += part.parameter_bytes;
    }
    for (const PartArc& arc : PartArcs(plan)) {
      ASSERT_LT(arc.from, arc.to);
      bytes += arc.forward_bytes + arc.backward_bytes;
    }
    EXPECT_EQ(operators, static_cast<int>(graph.operators.size()));
    EXPECT_EQ(flop, Work(graph));
    EXPECT_EQ(parameters, graph.TrainableElements() * 4);
    EXPECT_EQ(bytes, partition.cut_bytes);
  }
}

TEST(PlanPartsTest, PicksTheLeastNumberOfPartsThatFits) {
  const OperatorGraph graph = LoadModel(WEIR_SOURCE_DIR "/models/wide_mlp.onnx", {});
  CutOptions options;
  options.max_part_memory_bytes = 1 << 30;
  EXPECT_EQ(PlanParts(graph, options).partition.num_parts, 1);
  options.max_part_memory_bytes = 12'500'000;
  const PartPlan plan = PlanParts(graph, options);
  ASSERT_EQ(plan.partition.status, Partition::Status::kOk) << plan.partition.reason;
  EXPECT_EQ(plan.partition.num_parts, 2);
  options.max_part_memory_bytes = 1'000'000;
  const PartPlan none = PlanParts(graph, options);
  EXPECT_EQ(none.partition.status, Partition::Status::kInfeasible);
  EXPECT_NE(none.partition.reason.find("Gemm"), std::string::npos) << none.partition.reason;
}

TEST(PartitionTest, IsDeterministicAndValidOnTheDemoModels) {
  for (const char* name : {"mlp.onnx", "cnn.onnx", "resnet_tiny.onnx", "attention.onnx", "wide_mlp.onnx"}) {
    const OperatorGraph graph = LoadModel(std::string(WEIR_SOURCE_DIR "/models/") + name, {});
    for (int k = 1; k <= 4; ++k) {
      CutOptions options;
      options.num_parts = k;
      const Partition a = CutIntoParts(graph, options), b = CutIntoParts(graph, options);
      if (a.status == Partition::Status::kInfeasible) continue;
      EXPECT_EQ(a.part_of, b.part_of) << name;
      EXPECT_EQ(CheckPartition(graph, a.part_of, k), "") << name;
    }
  }
}

TEST(PartitionTest, IsNeverDearerThanTheOrderDpOnRealModels) {
  const std::string folder = WEIR_SOURCE_DIR "/../shared/data/models/onnx/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no model set at " << folder;
  int by_flow = 0;
  for (const char* name :
       {"light_resnet50.onnx", "light_inception_v1.onnx", "googlenet_train_op17.onnx", "light_densenet121.onnx"}) {
    const OperatorGraph graph = LoadModel(folder + name, {});
    const UnitGraph units = Contract(graph, {});
    for (int k : {2, 4, 8}) {
      CutOptions options;
      options.num_parts = k;
      const Partition partition = CutIntoParts(graph, options);
      ASSERT_EQ(partition.status, Partition::Status::kOk);
      ASSERT_EQ(CheckPartition(graph, partition.part_of, k), "");
      by_flow += partition.method != "order-dp";
      const Limits limits = Limits::Equal(k, static_cast<std::int64_t>(1.1 * static_cast<double>(units.total_work) / k));
      for (const auto& order : TopologicalOrders(units)) {
        if (auto parts = CutOrder(units, order, limits, CutObjective::kVolume)) {
          EXPECT_LE(partition.cut_bytes, UnitCutBytes(units, *parts, CutObjective::kVolume)) << name << " k=" << k;
        }
      }
    }
  }
  EXPECT_GE(by_flow, 3);
}

}  // namespace
}  // namespace weir::partitioner
