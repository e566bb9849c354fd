// weir partition MODEL: cuts a model into parts and prints the scheduler's view of them.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/model_options.h"
#include "cli/partition_picture.h"
#include "cli/verbs.h"
#include "env/core/units.h"
#include "env/workload/cluster_file.h"
#include "partitioner/cut/part_plan.h"
#include "partitioner/cut/worker_plan.h"
#include "partitioner/front_end.h"
#include "partitioner/profile/time_table.h"

namespace weir::cli {
namespace {

using namespace partitioner;  // NOLINT: this verb is about nothing else

struct Options {
  ModelOptions model;
  std::optional<int> parts;
  int max_parts = 8, micro_batches = 1, optimizer_states = 1;
  double slack = 0.1;
  std::string memory, objective = "volume", pass = "training", work = "flop", workers, times;
  bool json = false, dot = false, html = false;
};

// The cluster's workers, and which of them has which part.
struct Assignment {
  std::vector<WorkerSpec> workers;
  std::vector<int> worker_of;  // by part; empty: no cluster was given
};

std::string WorkerName(const Assignment& to, std::size_t part) {
  const WorkerSpec& worker = to.workers[to.worker_of[part]];
  return worker.name.empty() ? fmt::format("worker {}", to.worker_of[part]) : worker.name;
}

void PrintJson(const OperatorGraph& graph, const PartPlan& plan, const Options& options, const Assignment& to) {
  nlohmann::ordered_json out = {{"schema_version", 1},
                                {"model", graph.name},
                                {"fingerprint", graph.Fingerprint()},
                                {"batch", graph.batch},
                                {"num_parts", plan.partition.num_parts},
                                {"objective", options.objective},
                                {"pass", options.pass},
                                {"work", graph.measured ? "time" : options.work},
                                {"cut_bytes", plan.partition.cut_bytes},
                                {"balance", plan.partition.balance},
                                {"balance_widened", plan.partition.widened},
                                {"method", plan.partition.method},
                                {"optimal", plan.partition.optimal}};
  if (plan.partition.lower_bound > 0 || plan.partition.optimal) out["lower_bound_bytes"] = plan.partition.lower_bound;
  if (options.objective == "time") out["bottleneck_seconds"] = plan.partition.seconds;
  for (std::size_t p = 0; p < to.worker_of.size(); ++p) out["workers"].push_back(WorkerName(to, p));
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
  std::printf("%s\n", out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

void PrintDot(const OperatorGraph& graph, const PartPlan& plan) {
  auto quoted = [](const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
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

// "resnet50.onnx, batch 1: 4 parts, 5.6 MB cross (volume, gradients included), balance 1.03, by exact, optimal"
std::string Heading(const OperatorGraph& graph, const PartPlan& plan, const Options& options) {
  const Partition& partition = plan.partition;
  std::string out = fmt::format("{}, batch {}: {} part{}, {} cross ({}, {}), ", graph.name, graph.batch, partition.num_parts,
                                partition.num_parts == 1 ? "" : "s", FormatBytes(static_cast<double>(partition.cut_bytes)),
                                options.objective == "time" ? "hops" : options.objective,
                                options.pass == "forward" ? "forward only" : "gradients included");
  if (options.objective == "time") out += fmt::format("slowest part {:.3f} ms, ", partition.seconds * 1e3);
  out += fmt::format("balance {:.2f}{}, by {}", partition.balance, partition.widened ? " (no cut keeps to the slack)" : "",
                     partition.method);
  if (partition.num_parts == 1) return out;
  if (partition.optimal) return out + ", optimal";
  if (partition.lower_bound == 0) return out;
  return out + fmt::format(", no cut is below {}", FormatBytes(static_cast<double>(partition.lower_bound)));
}

void PrintTable(const OperatorGraph& graph, const PartPlan& plan, const Options& options, const Assignment& to) {
  std::printf("%s\n", Heading(graph, plan, options).c_str());
  const char* unit = graph.measured ? "time" : "FLOP";
  std::printf("%4s %10s %12s %12s %12s %12s%s\n", "part", "operators", fmt::format("{} fwd", unit).c_str(),
              fmt::format("{} bwd", unit).c_str(), "parameters", "memory", to.worker_of.empty() ? "" : "  worker");
  auto work = [&](std::int64_t value) {
    return graph.measured ? fmt::format("{:.3f} ms", static_cast<double>(value) * 1e-6) : FormatCount(static_cast<double>(value));
  };
  for (std::size_t p = 0; p < plan.parts.size(); ++p) {
    const PartSummary& part = plan.parts[p];
    std::printf("%4zu %10d %12s %12s %12s %12s%s\n", p, part.num_operators, work(part.forward_flop).c_str(),
                work(part.backward_flop).c_str(), FormatBytes(static_cast<double>(part.parameter_bytes)).c_str(),
                FormatBytes(static_cast<double>(part.memory_bytes)).c_str(),
                to.worker_of.empty() ? "" : ("  " + WorkerName(to, p)).c_str());
  }
  for (const CutTensor& cut : plan.cut_tensors) {
    std::printf("cut  %d -> %s  %s%s  %s\n", cut.from, fmt::format("{}", fmt::join(cut.to, ",")).c_str(),
                FormatBytes(static_cast<double>(cut.bytes)).c_str(), cut.has_gradient ? " and back" : "",
                graph.tensors[cut.tensor].name.c_str());
  }
  for (const std::string& warning : graph.warnings) std::printf("warning  %s\n", warning.c_str());
}

template <typename T>
T OneOf(const char* option, const std::string& given, const std::vector<std::pair<const char*, T>>& known) {
  std::vector<const char*> names;
  for (const auto& [name, value] : known) {
    if (given == name) return value;
    names.push_back(name);
  }
  throw Invalid("{} must be one of {}, got '{}'", option, fmt::join(names, ", "), given);
}

// Where work is time (a profile, or a table of times), a worker is as many times as fast as the device that was timed as its
// FLOP/s say: `timed_flops`, or those of the fastest worker where they aren't known.
std::vector<PartWorker> PartWorkers(const std::vector<WorkerSpec>& workers, bool measured, double timed_flops) {
  if (timed_flops == 0) {
    for (const WorkerSpec& worker : workers) timed_flops = std::max(timed_flops, worker.flops);
  }
  std::vector<PartWorker> out;
  for (const WorkerSpec& worker : workers) {
    out.push_back({measured ? worker.flops / timed_flops * 1e9 : worker.flops, static_cast<std::int64_t>(worker.memory_bytes),
                   worker.bandwidth, worker.latency});
  }
  return out;
}

void Run(const Options& options) {
  CutOptions cut;
  cut.objective = OneOf<CutObjective>("--objective", options.objective,
                                      {{"volume", CutObjective::kVolume},
                                       {"bytes", CutObjective::kVolume},
                                       {"hops", CutObjective::kHops},
                                       {"time", CutObjective::kTime}});
  cut.measure.pass = OneOf<Pass>("--pass", options.pass, {{"training", Pass::kTraining}, {"forward", Pass::kForward}});
  cut.measure.work =
      OneOf<Work>("--work", options.work, {{"flop", Work::kFlop}, {"macs", Work::kMacs}, {"roofline", Work::kRoofline}});
  if (cut.objective == CutObjective::kTime && options.workers.empty())
    throw Invalid("--objective time needs --workers FILE: speeds and links are never guessed");
  std::int64_t memory = 0;
  if (!options.memory.empty()) {
    const auto bytes = ParseQuantity(options.memory, Unit::kBytes);
    if (!bytes || *bytes < 1 || *bytes > 9e18)
      throw Invalid("--memory must be {}, got '{}'", DescribeUnit(Unit::kBytes), options.memory);
    memory = static_cast<std::int64_t>(*bytes);
  }
  if (options.parts && *options.parts < 1) throw Invalid("-k must be >= 1, got {}", *options.parts);
  if (options.max_parts < 1 || options.max_parts > 4096)
    throw Invalid("--max-parts must lie in 1..4096, got {}", options.max_parts);
  if (options.json + options.dot + options.html > 1) throw Invalid("--json, --dot and --html: give one");
  const int parts = options.parts.value_or(0);
  if (options.micro_batches < 1) throw Invalid("--micro-batches must be >= 1, got {}", options.micro_batches);
  if (options.optimizer_states < 0 || options.optimizer_states > 16)
    throw Invalid("--optimizer-states must lie in 0..16, got {}", options.optimizer_states);
  if (!(options.slack >= 0)) throw Invalid("--slack must be >= 0, got {}", options.slack);
  OperatorGraph graph = LoadModel(options.model.path, options.model.ToLoadOptions());
  double timed_flops = 0;
  if (!options.times.empty()) {
    if (graph.measured) throw Invalid("{}: is a profile and has its own times: leave out --times", options.model.path);
    const TimeTable table = ReadTimeTable(options.times);
    timed_flops = table.peak_flops;
    std::vector<OperatorSeconds> seconds = table.Predict(graph);
    for (OperatorSeconds& t : seconds) t = {t.forward * table.overhead(), t.backward * table.overhead()};
    graph = WithTimes(std::move(graph), seconds);
  }
  cut.memory = {options.micro_batches, options.optimizer_states};
  cut.max_part_memory_bytes = memory;
  cut.balance_slack = options.slack;
  PartPlan plan;
  Assignment to;
  if (!options.workers.empty()) {
    to.workers = ReadCluster(options.workers).workers;
    WorkerPlan planned =
        PlanForWorkers(graph, cut, parts, options.max_parts, PartWorkers(to.workers, graph.measured, timed_flops));
    plan = std::move(planned.plan);
    to.worker_of = std::move(planned.worker_of);
  } else if (parts > 0) {
    cut.num_parts = parts;
    plan.partition = CutIntoParts(graph, cut);
    if (plan.partition.status == Partition::Status::kOk) plan = Describe(graph, std::move(plan.partition), cut.memory);
  } else {
    plan = PlanParts(graph, cut, options.max_parts);
  }
  if (plan.partition.status != Partition::Status::kOk) {
    if (parts > 0) throw Failure(ExitCode::kNotPlaceable, "{}: {}", options.model.path, plan.partition.reason);
    throw Failure(ExitCode::kNotPlaceable, "{}: no plan with at most {} parts: {}", options.model.path, options.max_parts,
                  plan.partition.reason);
  }
  std::vector<std::string> names;
  for (std::size_t p = 0; p < to.worker_of.size(); ++p) names.push_back(WorkerName(to, p));
  if (options.html) {
    std::printf("%s", PartitionPicture(graph, plan, Heading(graph, plan, options), names).c_str());
  } else {
    options.json  ? PrintJson(graph, plan, options, to)
    : options.dot ? PrintDot(graph, plan)
                  : PrintTable(graph, plan, options, to);
  }
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
  verb->add_option("--objective", options.objective,
                   "volume = bytes (a tensor pays once per foreign part), hops (at each boundary), or time (of the slowest part)")
      ->capture_default_str();
  verb->add_option("--micro-batches", options.micro_batches, "Per iteration; --batch is the size of one")->capture_default_str();
  verb->add_option("--optimizer-states", options.optimizer_states, "SGD 0, momentum 1, Adam 2")->capture_default_str();
  verb->add_option(
      "--workers", options.workers,
      "Cluster file: part sizes follow its workers' speed and memory (a text profile's times are taken as the fastest worker's)");
  verb->add_option(
      "--times", options.times,
      "Table of weir profile: parts are balanced by predicted time; with --workers scaled by FLOP/s over the table's");
  verb->add_option("--pass", options.pass, "training or forward: what work and bytes count")->capture_default_str();
  verb->add_option("--work", options.work, "What is balanced: flop, macs, or roofline (FLOP or bytes, whichever limits)")
      ->capture_default_str();
  verb->add_flag("--json", options.json, "Print JSON");
  verb->add_flag("--dot", options.dot, "Print a Graphviz graph");
  verb->add_flag("--html", options.html, "Print a self-contained page with a picture");
  verb->callback([] { Run(options); });
}

}  // namespace weir::cli
