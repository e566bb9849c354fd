// weir plan FILE: where a job would run now, how long it would take and why, without submitting it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/remote.h"
#include "cli/schedulers.h"
#include "cli/submit_job.h"
#include "cli/verbs.h"
#include "coordinator/plan_query.h"
#include "env/core/units.h"
#include "env/workload/cluster_file.h"

namespace weir::cli {
namespace {

struct Options {
  std::string file, coordinator, cluster, scheduler = "greedy";
  bool json = false, quiet = false;
};

wire::PlanQueryReply AskCoordinator(const worker::JobFile& job, const std::string& coordinator) {
  wire::PlanQueryRequest request;
  *request.mutable_submit() = UploadJob(job, coordinator, "");
  worker::Client patient(coordinator, worker::Milliseconds(120000));  // the answer comes once the model is read and cut
  auto reply =
      patient.Call<wire::PlanQueryReply>(worker::MessageType::kPlanQueryRequest, request, worker::MessageType::kPlanQueryReply);
  if (!reply.error().empty()) throw Error(static_cast<ExitCode>(reply.exit_code()), reply.error());
  return reply;
}

// On the workers of a cluster file, all of them free.
wire::PlanQueryReply PlanOnFile(const worker::JobFile& job, const std::string& path, const std::string& scheduler) {
  const Cluster cluster = ReadCluster(path);
  const std::unique_ptr<Scheduler> asked = MakeScheduler(scheduler);
  std::vector<double> memory;
  for (const WorkerSpec& w : cluster.workers) memory.push_back(w.memory_bytes);
  std::sort(memory.begin(), memory.end());
  coordinator::PlanQuery query;
  query.plan = PlanLocally(job, {memory[(memory.size() - 1) / 2], memory.back()});
  ModelOptions model = cluster.model;
  model.physical = true;  // as a coordinator predicts
  query.state = ClusterState(cluster.workers, model);
  query.plan.spec.overhead_seconds = query.corrections.Overhead(query.plan.graph_fingerprint);
  bool any = false;
  for (const WorkerSpec& w : cluster.workers) {
    query.workers.push_back(w.name);
    query.why_not.push_back(job.min_link > w.bandwidth ? fmt::format("needs a link of {}bit/s, it has {}bit/s",
                                                                     FormatCount(8 * job.min_link), FormatCount(8 * w.bandwidth))
                                                       : "");
    any |= query.why_not.back().empty();
  }
  if (query.plan.fits() && !query.state.FitsEmptyCluster(query.plan.spec)) {
    query.why_never = "the workers can't hold its parts";
  } else if (!any) {
    query.why_never = fmt::format("no worker suits: {} {}", query.workers.back(), query.why_not.back());
  }
  if (job.gpus > 0 || job.arch != "any")
    query.plan.warnings.push_back("a cluster file tells no GPUs and no processor: resources.gpus and .arch aren't looked at");
  return coordinator::AnswerPlanQuery(query, asked.get());
}

// By part: "a", or "a, b".
std::string Names(const google::protobuf::RepeatedPtrField<std::string>& workers) {
  std::string text;
  for (const std::string& name : workers) text += (text.empty() ? "" : ", ") + name;
  return text;
}

nlohmann::ordered_json OrNull(double seconds) {
  return seconds < 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(seconds);
}

void PrintJson(const worker::JobFile& job, const wire::PlanQueryReply& plan) {
  using Json = nlohmann::ordered_json;
  Json out = {{"schema_version", 1},
              {"name", job.name},
              {"starts_now", plan.why_waits().empty()},
              {"why_waits", plan.why_waits()},
              {"policy_hash", plan.policy_hash()},
              {"iterations", plan.iterations()},
              {"micro_batches", plan.micro_batches()},
              {"overhead_seconds", plan.overhead_seconds()},
              {"evaluation_share", plan.evaluation_share()},
              {"cut_bytes", plan.cut_bytes()},
              {"parts", Json::array()},
              {"arcs", Json::array()},
              {"choices", Json::array()},
              {"workers", Json::array()}};
  for (const auto& p : plan.parts())
    out["parts"].push_back({{"flop", p.flop()}, {"memory_bytes", p.memory_bytes()}, {"param_bytes", p.param_bytes()}});
  for (const auto& a : plan.arcs()) out["arcs"].push_back({{"from", a.from()}, {"to", a.to()}, {"bytes", a.bytes()}});
  for (const auto& c : plan.choices()) {
    const bool starts = c.start_seconds() >= 0;
    out["choices"].push_back({{"scheduler", c.scheduler()},
                              {"workers", std::vector<std::string>(c.workers().begin(), c.workers().end())},
                              {"iteration_seconds", starts ? Json(c.iteration_seconds()) : Json(nullptr)},
                              {"start_seconds", OrNull(c.start_seconds())},
                              {"finish_seconds", OrNull(c.finish_seconds())},
                              {"correction", c.correction()},
                              {"note", c.note()}});
  }
  for (const auto& w : plan.workers()) {
    const bool could = w.why_not().empty();
    out["workers"].push_back({{"name", w.name()},
                              {"why_not", w.why_not()},
                              {"iteration_seconds", could ? Json(w.iteration_seconds()) : Json(nullptr)},
                              {"finish_seconds", could ? Json(w.finish_seconds()) : Json(nullptr)},
                              {"free_memory_bytes", w.free_memory_bytes()}});
  }
  out["warnings"] = std::vector<std::string>(plan.warnings().begin(), plan.warnings().end());
  std::printf("%s\n", out.dump().c_str());
}

std::string Start(double seconds) {
  return seconds < 0 ? "never" : seconds == 0 ? "now" : "in " + FormatSeconds(seconds);
}

std::string Milliseconds(double seconds) {
  return fmt::format("{:.3f} ms", 1e3 * seconds);
}

void PrintText(const worker::JobFile& job, const wire::PlanQueryReply& plan) {
  const auto print = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  if (plan.choices().empty()) return print(fmt::format("{} would wait: {}", job.name, plan.why_waits()));
  const auto& own = plan.choices(0);
  if (plan.why_waits().empty()) {
    print(fmt::format("{} would start now on {}", job.name, Names(own.workers())));
  } else {
    print(fmt::format("{} would wait: {}", job.name, plan.why_waits()));
    if (own.start_seconds() >= 0)
      print(fmt::format("it would start in {} on {}, if nothing else arrives", FormatSeconds(own.start_seconds()),
                        Names(own.workers())));
  }
  if (own.start_seconds() >= 0) {
    print(fmt::format(
        "{:.0f} iterations of {}; {} for start-up and end; evaluations add {:.1f} %{}", plan.iterations(),
        Milliseconds(own.iteration_seconds()), FormatSeconds(plan.overhead_seconds()), 100 * plan.evaluation_share(),
        own.correction() == 1 ? "" : fmt::format("; earlier runs took {:.3f} of what was modelled", own.correction())));
    if (own.finish_seconds() >= 0) print("done in " + FormatSeconds(own.finish_seconds()));
  }
  print("");
  print(fmt::format("{:<6} {:<16} {:>10} {:>12} {:>12}", "PART", "WORKER", "MEMORY", "PARAMETERS", "FLOP"));
  for (int k = 0; k < plan.parts_size(); ++k) {
    const auto& part = plan.parts(k);
    print(fmt::format("{:<6} {:<16} {:>10} {:>12} {:>12}", k, k < own.workers_size() ? own.workers(k) : "-",
                      FormatBytes(part.memory_bytes()), FormatBytes(part.param_bytes()), FormatCount(part.flop())));
  }
  if (plan.parts_size() > 1) print("cut: " + FormatBytes(plan.cut_bytes()) + " an iteration");
  print("");
  print(fmt::format("{:<24} {:>10} {:>12} {:>10}  {}", "SCHEDULER", "START", "ITERATION", "DONE IN", "WORKERS BY PART"));
  for (const auto& c : plan.choices()) {
    const bool starts = c.start_seconds() >= 0;
    print(fmt::format("{:<24} {:>10} {:>12} {:>10}  {}{}", c.scheduler(), Start(c.start_seconds()),
                      starts ? Milliseconds(c.iteration_seconds()) : "-",
                      c.finish_seconds() < 0 ? "-" : FormatSeconds(c.finish_seconds()), Names(c.workers()),
                      c.note().empty() ? "" : "(" + c.note() + ")"));
  }
  print("");
  print(fmt::format("{:<24} {:>10} {:>12} {:>10}  {}", "WHOLE JOB ON", "FREE", "ITERATION", "DONE IN", "WHY NOT"));
  for (const auto& w : plan.workers()) {
    const bool could = w.why_not().empty();
    print(fmt::format("{:<24} {:>10} {:>12} {:>10}  {}", w.name(), FormatBytes(w.free_memory_bytes()),
                      could ? Milliseconds(w.iteration_seconds()) : "-", could ? FormatSeconds(w.finish_seconds()) : "-",
                      w.why_not()));
  }
}

void Run(const Options& o) {
  const worker::JobFile job = worker::ReadJobFile(o.file);
  const wire::PlanQueryReply plan =
      o.cluster.empty() ? AskCoordinator(job, o.coordinator) : PlanOnFile(job, o.cluster, o.scheduler);
  if (!o.quiet) {
    for (const std::string& warning : plan.warnings()) std::fprintf(stderr, "weir: warning: %s\n", warning.c_str());
  }
  if (o.json) {
    PrintJson(job, plan);
  } else {
    PrintText(job, plan);
  }
  if (!plan.why_waits().empty()) throw VerbExit{ExitCode::kNotPlaceable};
}

}  // namespace

void AddPlan(CLI::App& app) {
  static Options o;
  CLI::App* verb = app.add_subcommand("plan", "Where a job would run now, how long it would take and why, without submitting it");
  verb->add_option("FILE", o.file, "Job file")->required();
  AddCoordinatorOption(verb, &o.coordinator);
  CLI::Option* cluster =
      verb->add_option("--cluster", o.cluster, "Plan on the empty cluster of this file, without a coordinator");
  verb->add_option("--scheduler", o.scheduler, "With --cluster: who decides")->capture_default_str()->needs(cluster);
  verb->add_flag("--quiet,-q", o.quiet, "No warnings");
  verb->add_flag("--json", o.json, "Print JSON");
  verb->callback([] { Run(o); });
}

}  // namespace weir::cli
