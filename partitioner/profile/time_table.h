// Measured times of a device: a roofline and a correction for each kind of operator, learned from the models that were profiled
// on it. Predicts the times of a model that never ran there.
//   forward  t = c(kind) * (max(FLOP / peak, bytes / bandwidth) + launch),  bytes = inputs + outputs + weights
//   backward the same with the backward FLOP and twice the bytes
// c(kind) = sum of measured / sum of predicted seconds over all operators of that kind so far; a kind never seen takes the ratio
// over all kinds.
#ifndef WEIR_PARTITIONER_PROFILE_TIME_TABLE_H_
#define WEIR_PARTITIONER_PROFILE_TIME_TABLE_H_

#include <map>
#include <string>
#include <vector>

#include "partitioner/graph/operator_graph.h"

namespace weir::partitioner {

// Of one operator, for the graph's batch.
struct OperatorSeconds {
  double forward = 0;
  double backward = 0;
};

struct TimeTable {
  struct Kind {
    double measured_seconds = 0;   // forward and backward
    double predicted_seconds = 0;  // by the roofline alone
    int operators = 0;
  };
  std::string device;         // "cpu, 2 threads"
  double peak_flops = 0;      // FLOP/s of a large matrix product, > 0
  double bandwidth = 0;       // bytes/s of a large addition, > 0
  double launch_seconds = 0;  // of a tiny operator, >= 0
  std::map<std::string, Kind> kinds;
  double pass_seconds = 0;          // whole passes measured so far
  double operator_seconds = 0;      // their operators alone
  std::vector<std::string> models;  // profiled so far, "resnet18.onnx, batch 8"

  double overhead() const { return operator_seconds > 0 ? pass_seconds / operator_seconds : 1; }  // of a pass over its operators
  // By operator, alone. A pass: TotalSeconds x overhead().
  std::vector<OperatorSeconds> Predict(const OperatorGraph& graph) const;
  // Adds what was measured, parallel to graph.operators, and the whole pass.
  void Learn(const OperatorGraph& graph, const std::vector<OperatorSeconds>& measured, double pass);
};

double TotalSeconds(const std::vector<OperatorSeconds>& times);

// A copy of the graph whose work is nanoseconds (OperatorGraph::measured). REQUIRES: one entry for each operator.
OperatorGraph WithTimes(OperatorGraph graph, const std::vector<OperatorSeconds>& times);

// The file is YAML. Throws Error(kInvalid) with file:line.
TimeTable ReadTimeTable(const std::string& path);
TimeTable ParseTimeTable(const std::string& text, const std::string& source);
std::string ToYaml(const TimeTable& table);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_PROFILE_TIME_TABLE_H_
