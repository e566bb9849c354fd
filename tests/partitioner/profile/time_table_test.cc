#include "partitioner/profile/time_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "env/core/error.h"

namespace weir::partitioner {
namespace {

// Conv -> Relu -> Conv on 1,000-byte tensors; 100 kFLOP forward each.
OperatorGraph Chain() {
  OperatorGraph graph;
  graph.name = "chain";
  for (int i = 0; i < 3; ++i) {
    Operator op;
    op.name = "op" + std::to_string(i);
    op.kind = i == 1 ? "Relu" : "Conv";
    if (i > 0) op.inputs = {i - 1};
    op.outputs = {i};
    op.forward_flop = 100'000;
    op.backward_flop = 200'000;
    Tensor tensor;
    tensor.name = "t" + std::to_string(i);
    tensor.bytes = 1000;
    tensor.has_gradient = true;
    graph.operators.push_back(op);
    graph.tensors.push_back(tensor);
  }
  graph.Finalize();
  return graph;
}

TimeTable Device() {
  TimeTable table;
  table.device = "test \"box\"";
  table.peak_flops = 1e8;  // 1 ms forward by FLOP
  table.bandwidth = 1e6;   // 1 or 2 ms forward by bytes
  table.launch_seconds = 1e-4;
  return table;
}

TEST(TimeTableTest, PredictsByTheRooflineThenByWhatItLearned) {
  const OperatorGraph graph = Chain();
  TimeTable table = Device();
  const auto first = table.Predict(graph);
  EXPECT_NEAR(first[0].forward, 1.1e-3, 1e-12);  // 1,000 bytes: as long as the FLOP
  EXPECT_NEAR(first[1].forward, 2.1e-3, 1e-12);  // 2,000 bytes
  EXPECT_NEAR(first[0].backward, 2.1e-3, 1e-12);
  EXPECT_NEAR(first[1].backward, 4.1e-3, 1e-12);
  // Convolutions take three times as long, Relu half.
  std::vector<OperatorSeconds> measured;
  for (std::size_t i = 0; i < 3; ++i) {
    const double factor = i == 1 ? 0.5 : 3;
    measured.push_back({first[i].forward * factor, first[i].backward * factor});
  }
  table.Learn(graph, measured, 1.25 * TotalSeconds(measured));
  EXPECT_NEAR(table.overhead(), 1.25, 1e-12);
  const auto second = table.Predict(graph);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(second[i].forward, measured[i].forward, 1e-12) << i;
    EXPECT_NEAR(second[i].backward, measured[i].backward, 1e-12) << i;
  }
  // A kind never seen takes the ratio over all.
  OperatorGraph other = graph;
  other.operators[1].kind = "Tanh";
  EXPECT_NEAR(table.Predict(other)[1].forward, first[1].forward * TotalSeconds(measured) / TotalSeconds(first), 1e-12);
  EXPECT_EQ(WithTimes(graph, measured).operators[1].forward_flop, std::llround(measured[1].forward * 1e9));
}

TEST(TimeTableTest, SurvivesItsFile) {
  TimeTable table = Device();
  table.Learn(Chain(), table.Predict(Chain()), 0.5);
  const TimeTable read = ParseTimeTable(ToYaml(table), "t.yaml");
  EXPECT_EQ(ToYaml(read), ToYaml(table));
  EXPECT_EQ(read.device, table.device);
  EXPECT_EQ(read.kinds.at("Conv").operators, 2);
  EXPECT_EQ(ToYaml(ParseTimeTable(ToYaml(Device()), "t.yaml")), ToYaml(Device()));
}

TEST(TimeTableTest, BadFilesAreRefusedWithTheirLine) {
  const std::string good = ToYaml(Device());
  auto error = [](const std::string& text) {
    try {
      ParseTimeTable(text, "t.yaml");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(error(good), "none");
  std::string zero = good;
  zero.replace(zero.find("peak_flops: 100000000"), 21, "peak_flops: 0        ");
  EXPECT_NE(error(zero).find("t.yaml:4: peak_flops"), std::string::npos) << error(zero);
  EXPECT_NE(error(good + "extra: 1\n").find("extra"), std::string::npos);
  EXPECT_NE(error("schema_version: 2\n").find("schema_version"), std::string::npos);
}

}  // namespace
}  // namespace weir::partitioner
