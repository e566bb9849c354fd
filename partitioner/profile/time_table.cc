#include "partitioner/profile/time_table.h"

#include <algorithm>
#include <cmath>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/file.h"
#include "env/core/yaml.h"

namespace weir::partitioner {
namespace {

constexpr double kMaxSeconds = 1e9;

double Roofline(const TimeTable& table, double flop, double bytes) {
  return std::max(flop / table.peak_flops, bytes / table.bandwidth) + table.launch_seconds;
}

// Convolutions differ by an order of magnitude in FLOP/s: depthwise, pointwise and others are kinds of their own, told by the
// shape of the weight [out, in / groups, height, width].
std::string KindOf(const OperatorGraph& graph, const Operator& op) {
  for (int p : op.parameters) {
    const auto& shape = graph.parameters[p].shape;
    if (shape.size() != 4) continue;
    if (shape[1] == 1 && shape[0] > 1) return op.kind + " depthwise";
    if (shape[2] == 1 && shape[3] == 1) return op.kind + " 1x1";
    break;
  }
  return op.kind;
}

OperatorSeconds Uncorrected(const TimeTable& table, const OperatorGraph& graph, const Operator& op) {
  const auto bytes = static_cast<double>(TouchedBytes(graph, op));
  OperatorSeconds out;
  out.forward = Roofline(table, static_cast<double>(op.forward_flop), bytes);
  const bool goes_back = std::any_of(op.outputs.begin(), op.outputs.end(), [&](int t) { return graph.tensors[t].has_gradient; });
  if (goes_back) out.backward = Roofline(table, static_cast<double>(op.backward_flop), 2 * bytes);
  return out;
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

}  // namespace

std::vector<OperatorSeconds> TimeTable::Predict(const OperatorGraph& graph) const {
  Kind all;
  for (const auto& [name, kind] : kinds) {
    all.measured_seconds += kind.measured_seconds;
    all.predicted_seconds += kind.predicted_seconds;
  }
  auto ratio = [](const Kind& kind) { return kind.predicted_seconds > 0 ? kind.measured_seconds / kind.predicted_seconds : 1; };
  std::vector<OperatorSeconds> out;
  for (const Operator& op : graph.operators) {
    const auto it = kinds.find(KindOf(graph, op));
    const double correction = ratio(it != kinds.end() ? it->second : all);
    OperatorSeconds seconds = Uncorrected(*this, graph, op);
    seconds.forward *= correction;
    seconds.backward *= correction;
    out.push_back(seconds);
  }
  return out;
}

void TimeTable::Learn(const OperatorGraph& graph, const std::vector<OperatorSeconds>& measured, double pass) {
  pass_seconds += pass;
  operator_seconds += TotalSeconds(measured);
  WEIR_CHECK_EQ(measured.size(), graph.operators.size());
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const OperatorSeconds predicted = Uncorrected(*this, graph, graph.operators[i]);
    Kind& kind = kinds[KindOf(graph, graph.operators[i])];
    kind.measured_seconds += measured[i].forward + measured[i].backward;
    kind.predicted_seconds += predicted.forward + predicted.backward;
    ++kind.operators;
  }
  models.push_back(fmt::format("{}, batch {}", graph.name, graph.batch));
}

double TotalSeconds(const std::vector<OperatorSeconds>& times) {
  double total = 0;
  for (const OperatorSeconds& t : times) total += t.forward + t.backward;
  return total;
}

OperatorGraph WithTimes(OperatorGraph graph, const std::vector<OperatorSeconds>& times) {
  WEIR_CHECK_EQ(times.size(), graph.operators.size());
  graph.measured = true;
  for (std::size_t i = 0; i < times.size(); ++i) {
    graph.operators[i].forward_flop = std::llround(times[i].forward * 1e9);
    graph.operators[i].backward_flop = std::llround(times[i].backward * 1e9);
  }
  return graph;
}

TimeTable ParseTimeTable(const std::string& text, const std::string& source) {
  const Yaml root = Yaml::ParseText(text, source);
  TimeTable table;
  const Yaml version = root.Required("schema_version");
  if (version.AsInt(1, 1'000'000) != 1) version.Fail("1 (a table of this version of weir)");
  table.device = root.Required("device").AsString();
  table.peak_flops = root.Required("peak_flops").AsDouble(1, 1e21);
  table.bandwidth = root.Required("bandwidth").AsDouble(1, 1e18);
  table.launch_seconds = root.Required("launch_seconds").AsDouble(0, 10);
  table.pass_seconds = root.Required("pass_seconds").AsDouble(0, kMaxSeconds);
  table.operator_seconds = root.Required("operator_seconds").AsDouble(0, kMaxSeconds);
  for (const Yaml& model : root.Required("models").Items()) table.models.push_back(model.AsString());
  for (const Yaml& entry : root.Required("kinds").Items()) {
    TimeTable::Kind kind;
    kind.measured_seconds = entry.Required("measured_seconds").AsDouble(0, kMaxSeconds);
    kind.predicted_seconds = entry.Required("predicted_seconds").AsDouble(0, kMaxSeconds);
    kind.operators = static_cast<int>(entry.Required("operators").AsInt(0, 1'000'000'000));
    if (!table.kinds.emplace(entry.Required("kind").AsString(), kind).second)
      entry.Required("kind").Fail("a kind not given before");
    entry.Finish();
  }
  root.Finish();
  return table;
}

TimeTable ReadTimeTable(const std::string& path) {
  return ParseTimeTable(ReadFile(path, std::size_t{4} << 20), path);
}

std::string ToYaml(const TimeTable& table) {
  std::string out = "# Times of a device, by weir profile. Seconds, FLOP/s, bytes/s.\nschema_version: 1\n";
  out += fmt::format(
      "device: {}\npeak_flops: {:.9g}\nbandwidth: {:.9g}\nlaunch_seconds: {:.9g}\npass_seconds: {:.9g}\noperator_seconds: "
      "{:.9g}\n",
      Quoted(table.device), table.peak_flops, table.bandwidth, table.launch_seconds, table.pass_seconds, table.operator_seconds);
  out += table.models.empty() ? "models: []\n" : "models:\n";
  for (const std::string& model : table.models) out += fmt::format("  - {}\n", Quoted(model));
  out += table.kinds.empty() ? "kinds: []\n" : "kinds:\n";
  for (const auto& [name, kind] : table.kinds) {
    out += fmt::format("  - {{kind: {}, operators: {}, measured_seconds: {:.9g}, predicted_seconds: {:.9g}}}\n", Quoted(name),
                       kind.operators, kind.measured_seconds, kind.predicted_seconds);
  }
  return out;
}

}  // namespace weir::partitioner
