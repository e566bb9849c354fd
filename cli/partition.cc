// weir partition MODEL: cuts a model into parts and prints the scheduler's view of them.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/model_options.h"
#include "cli/verbs.h"
#include "env/core/units.h"
#include "partitioner/cut/part_plan.h"
#include "partitioner/front_end.h"

namespace weir::cli {
namespace {

using namespace partitioner;  // NOLINT: this verb is about nothing else

struct Options {
  ModelOptions model;
  int parts = 0;
  int max_parts = 8, micro_batches = 1, optimizer_states = 1;
  double slack = 0.1;
  std::string memory, objective = "volume";
  bool json = false, dot = false;
};

void PrintJson(const OperatorGraph& graph, const PartPlan& plan, const std::string& objective) {
  nlohmann::ordered_json out = {{"schema_version", 1},
                                {"model", graph.name},
                                {"fingerprint", graph.Fingerprint()},
                                {"batch", graph.batch},
                                {"num_parts", plan.partition.num_parts},
                                {"objective", objective},
                                {"cut_bytes", plan.partition.cut_bytes},
                                {"balance", plan.partition.balance},
                                {"balance_widened", plan.partition.widened},
                                {"method", plan.partition.method},
                                {"optimal", plan.partition.optimal}};
  for (const PartSummary& part : plan.parts) {
    out["parts"].push_back({{"operators", part.num_operators},
                            {"forward_flop", part.forward_flop},
                            {"backward_flop", part.backward_flop},
                            {"optimizer_flop", part.optimizer_flop},
                            {"parameter_bytes", part.parameter_bytes},
                            {"buffer_bytes", part.buffer_bytes},
                            {"saved_bytes", part.saved_bytes},
                            {"workspace_bytes", part.workspace_bytes},
                            {"memory_bytes", part.memory_bytes}});
  }
  out["cut_tensors"] = out["arcs"] = nlohmann::ordered_json::array();
  for (const CutTensor& cut : plan.cut_tensors) {
    out["cut_tensors"].push_back({{"name", graph.tensors[cut.tensor].name},
                                  {"from", cut.from},
                                  {"to", cut.to},
                                  {"bytes", cut.bytes},
                                  {"has_gradient", cut.has_gradient}});
  }
  for (const PartArc& arc : PartArcs(plan)) {
    out["arcs"].push_back(
        {{"from", arc.from}, {"to", arc.to}, {"forward_bytes", arc.forward_bytes}, {"backward_bytes", arc.backward_bytes}});
  }
  out["part_of"] = plan.partition.part_of;
  out["warnings"] = graph.warnings;
  std::printf("%s\n", out.dump(2).c_str());
}

void PrintDot(const OperatorGraph& graph, const PartPlan& plan) {
  auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::printf("digraph weir {\n  rankdir=LR; node [shape=box];\n");
  for (int p = 0; p < plan.partition.num_parts; ++p) {
    std::printf("  subgraph cluster_%d {\n    label=\"part %d\";\n", p, p);
    for (std::size_t i = 0; i < graph.operators.size(); ++i) {
      if (plan.partition.part_of[i] == p) std::printf("    n%zu [label=%s];\n", i, quoted(graph.operators[i].kind).c_str());
    }
    std::printf("  }\n");
  }
  for (const Tensor& tensor : graph.tensors) {
    for (int reader : tensor.readers) {
      if (tensor.producer < 0) continue;
      const bool cut = plan.partition.part_of[tensor.producer] != plan.partition.part_of[reader];
      std::printf("  n%d -> n%d", tensor.producer, reader);
      if (cut) std::printf(" [color=red, label=%s]", quoted(FormatBytes(static_cast<double>(tensor.bytes))).c_str());
      std::printf(";\n");
    }
  }
  std::printf("}\n");
}

void PrintTable(const OperatorGraph& graph, const PartPlan& plan, const std::string& objective) {
  const Partition& partition = plan.partition;
  std::printf("%s, batch %lld: %d part%s, %s cross (%s, gradients included), balance %.2f%s, by %s%s\n", graph.name.c_str(),
              static_cast<long long>(graph.batch), partition.num_parts, partition.num_parts == 1 ? "" : "s",
              FormatBytes(static_cast<double>(partition.cut_bytes)).c_str(), objective.c_str(), partition.balance,
              partition.widened ? " (beyond the slack)" : "", partition.method.c_str(),
              partition.optimal && partition.num_parts > 1 ? ", optimal" : "");
  std::printf("%4s %10s %12s %12s %12s %12s\n", "part", "operators", "FLOP fwd", "FLOP bwd", "parameters", "memory");
  for (std::size_t p = 0; p < plan.parts.size(); ++p) {
    const PartSummary& part = plan.parts[p];
    std::printf("%4zu %10d %12s %12s %12s %12s\n", p, part.num_operators,
                FormatCount(static_cast<double>(part.forward_flop)).c_str(),
                FormatCount(static_cast<double>(part.backward_flop)).c_str(),
                FormatBytes(static_cast<double>(part.parameter_bytes)).c_str(),
                FormatBytes(static_cast<double>(part.memory_bytes)).c_str());
  }
  for (const CutTensor& cut : plan.cut_tensors) {
    std::printf("cut  %d -> %s  %s%s  %s\n", cut.from, fmt::format("{}", fmt::join(cut.to, ",")).c_str(),
                FormatBytes(static_cast<double>(cut.bytes)).c_str(), cut.has_gradient ? " and back" : "",
                graph.tensors[cut.tensor].name.c_str());
  }
  for (const std::string& warning : graph.warnings) std::printf("warning  %s\n", warning.c_str());
}

void Run(const Options& options) {
  CutObjective objective = CutObjective::kVolume;
  if (options.objective == "hops") {
    objective = CutObjective::kHops;
  } else if (options.objective != "volume") {
    throw Invalid("--objective must be volume or hops, got '{}'", options.objective);
  }
  std::int64_t memory = 0;
  if (!options.memory.empty()) {
    const auto bytes = ParseQuantity(options.memory, Unit::kBytes);
    if (!bytes || *bytes < 1 || *bytes > 9e18)
      throw Invalid("--memory must be {}, got '{}'", DescribeUnit(Unit::kBytes), options.memory);
    memory = static_cast<std::int64_t>(*bytes);
  }
  if (options.parts < 0 || options.max_parts < 1) throw Invalid("the number of parts must be >= 1");
  if (options.micro_batches < 1) throw Invalid("--micro-batches must be >= 1, got {}", options.micro_batches);
  if (options.optimizer_states < 0) throw Invalid("--optimizer-states must be >= 0, got {}", options.optimizer_states);
  if (!(options.slack >= 0)) throw Invalid("--slack must be >= 0, got {}", options.slack);
  const OperatorGraph graph = LoadModel(options.model.path, options.model.ToLoadOptions());
  const MemoryModel model{options.micro_batches, options.optimizer_states};
  PartPlan plan;
  if (options.parts > 0) {
    Partition partition = CutIntoParts(graph, {options.parts, memory, options.slack, objective, model});
    if (partition.status != Partition::Status::kOk)
      throw Failure(ExitCode::kNotPlaceable, "{}: {}", options.model.path, partition.reason);
    plan = Describe(graph, std::move(partition), model);
  } else {
    plan = PlanParts(graph, {options.max_parts, memory, options.slack, objective, model});
    if (plan.partition.status != Partition::Status::kOk) {
      throw Failure(ExitCode::kNotPlaceable, "{}: no plan with at most {} parts: {}", options.model.path, options.max_parts,
                    plan.partition.reason);
    }
  }
  options.json  ? PrintJson(graph, plan, options.objective)
  : options.dot ? PrintDot(graph, plan)
                : PrintTable(graph, plan, options.objective);
}

}  // namespace

void AddPartition(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("partition", "Cut a model into parts at least traffic");
  static Options options;
  options.model.AddTo(verb);
  verb->add_option("-k,--parts", options.parts, "Number of parts (default: the least that fits --memory)");
  verb->add_option("--max-parts", options.max_parts, "Most parts to try without -k")->capture_default_str();
  verb->add_option("--memory", options.memory, "Memory of a part, e.g. 4GiB (default: no limit)");
  verb->add_option("--slack", options.slack, "How far a part's FLOP may exceed an even share")->capture_default_str();
  verb->add_option("--objective", options.objective, "volume (a tensor pays once per foreign part) or hops (at each boundary)")
      ->capture_default_str();
  verb->add_option("--micro-batches", options.micro_batches, "Per iteration; --batch is the size of one")->capture_default_str();
  verb->add_option("--optimizer-states", options.optimizer_states, "SGD 0, momentum 1, Adam 2")->capture_default_str();
  verb->add_flag("--json", options.json, "Print JSON");
  verb->add_flag("--dot", options.dot, "Print a Graphviz graph");
  verb->callback([] { Run(options); });
}

}  // namespace weir::cli
