// weir simulate: one episode, from a scenario file or from a generated workload, under a scheduler or a replayed log.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/schedulers.h"
#include "cli/verbs.h"
#include "env/core/file.h"
#include "env/metrics/jct.h"
#include "env/metrics/timeline.h"
#include "env/sim/simulator.h"
#include "env/workload/cluster_file.h"
#include "env/workload/scenario.h"
#include "env/workload/workload_source.h"

namespace weir::cli {
namespace {

struct SimulateFlags {
  std::string scenario, replay, cluster, workload, scheduler, placements, events, save_scenario, trace;
  double load = 0.7;
  std::uint64_t seed = 1;
  int jobs = 150;
  bool json = false;
};

std::string ToJson(const std::vector<JobRecord>& records, const std::string& scheduler, const std::vector<JobId>& unplaceable) {
  const JctSummary s = Summarize(records);
  nlohmann::ordered_json out = {
      {"schema_version", 1},        {"scheduler", scheduler},         {"jobs", s.jobs},         {"unfinished", s.unfinished},
      {"mean_jct", s.mean_jct},     {"p50_jct", s.p50_jct},           {"p95_jct", s.p95_jct},   {"p99_jct", s.p99_jct},
      {"max_jct", s.max_jct},       {"mean_waiting", s.mean_waiting}, {"makespan", s.makespan}, {"preemptions", s.preemptions},
      {"migrations", s.migrations}, {"unplaceable", unplaceable}};
  auto& list = out["records"] = nlohmann::ordered_json::array();
  for (const JobRecord& record : records) {
    nlohmann::ordered_json row = {{"job", record.id}, {"arrival", record.arrival}};
    row["start"] = record.start < 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(record.start);
    row["finish"] = record.finished() ? nlohmann::ordered_json(record.finish) : nlohmann::ordered_json(nullptr);
    row["jct"] = record.finished() ? nlohmann::ordered_json(record.jct()) : nlohmann::ordered_json(nullptr);
    row["workers"] = record.workers;
    list.push_back(std::move(row));
  }
  return out.dump() + "\n";
}

std::string JoinIds(const std::vector<JobId>& ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size() && i < 10; ++i) text += (i ? ", " : "") + std::to_string(ids[i]);
  return ids.size() > 10 ? text + fmt::format(" and {} more", ids.size() - 10) : text;
}

void RunSimulate(const SimulateFlags& flags) {
  if (flags.scenario.empty() == flags.cluster.empty())
    throw Invalid("simulate: give either --scenario, or --cluster and --workload");
  if (!flags.cluster.empty() && flags.workload.empty()) throw Invalid("simulate: --cluster also needs --workload");
  if (flags.cluster.empty() && !flags.workload.empty()) throw Invalid("simulate: --workload also needs --cluster");
  if (flags.scheduler.empty() == flags.replay.empty()) throw Invalid("simulate: give either --scheduler or --replay");
  if (flags.jobs < 1 || flags.jobs > 5'000'000) throw Invalid("simulate: --jobs must lie in 1..5000000, got {}", flags.jobs);
  Scenario scenario;
  ModelOptions model;
  Workload jobs;
  std::vector<WorkerEvent> events;
  if (!flags.scenario.empty()) {
    scenario = ReadScenario(flags.scenario);
    jobs = MakeWorkload(scenario.jobs);
  } else {
    Cluster cluster = ReadCluster(flags.cluster);
    model = cluster.model;
    events = cluster.events;
    scenario.workers = cluster.workers;
    DrawnWorkload drawn = WorkloadSource::Read(flags.workload).Draw(cluster.workers, {flags.load, flags.jobs, flags.seed});
    for (const std::string& notice : drawn.notices) std::fprintf(stderr, "weir: note: %s\n", notice.c_str());
    jobs = std::move(drawn.jobs);
    for (const auto& job : jobs) scenario.jobs.push_back(*job);
  }
  if (!flags.save_scenario.empty() && (!events.empty() || model.links || model.corun || model.physical)) {
    throw Invalid("simulate: --save-scenario: the format knows no {}: the saved episode would be another one",
                  !events.empty() ? "events"
                  : model.links   ? "links between pairs"
                  : model.corun   ? "gains of pairs"
                                  : "physical model");
  }
  if (!flags.save_scenario.empty()) WriteFileAtomically(flags.save_scenario, FormatScenario(scenario));

  // Jobs that no placement can hold, even on the empty cluster, never arrive; they are reported at the end.
  const ClusterState empty(WorkersAtTheirBest(scenario.workers, events), model);
  std::vector<JobId> unplaceable;
  for (const auto& job : jobs) {
    if (!empty.FitsEmptyCluster(*job)) unplaceable.push_back(job->id);
  }
  std::erase_if(jobs, [&](const auto& job) { return std::count(unplaceable.begin(), unplaceable.end(), job->id) > 0; });
  EventLog log;
  if (!flags.events.empty()) {
    WriteFileAtomically(flags.events, "");
    log = EventLog(flags.events);
  }
  Simulator simulator(scenario.workers, jobs, model, events);
  if (log.enabled()) simulator.set_event_log(&log);
  std::vector<JobId> left;
  std::string name = "replay";
  if (!flags.replay.empty()) {
    // The log may name workers that join later.
    const Scenario all{WorkersAtTheirBest(scenario.workers, events), scenario.jobs};
    Replay(&simulator, ReadPlacementLog(flags.replay, all), flags.replay);
    left.assign(simulator.state().waiting().begin(), simulator.state().waiting().end());
  } else {
    auto scheduler = MakeScheduler(flags.scheduler, {flags.seed});
    name = scheduler->name();
    left = RunEpisode(&simulator, scheduler.get());
  }
  if (!flags.placements.empty()) WriteFileAtomically(flags.placements, FormatPlacementLog(simulator.actions()));
  if (!flags.trace.empty()) {
    const std::vector<Segment> segments = SegmentsOf(simulator.records(), simulator.actions(), events);
    WriteFileAtomically(flags.trace,
                        FormatChromeTrace(WorkersAtTheirBest(scenario.workers, events), jobs, simulator.records(), segments));
  }
  if (flags.json) std::fputs(ToJson(simulator.records(), name, unplaceable).c_str(), stdout);
  if (!left.empty()) {
    if (!flags.json) std::fputs(FormatResult(simulator.records()).c_str(), stdout);
    throw Failure(ExitCode::kNotPlaceable,
                  "simulate: {} job{} never placed to their end by {} (the figures are of the others): {}", left.size(),
                  left.size() == 1 ? " is" : "s are", name, JoinIds(left));
  }
  if (!flags.json) std::fputs(FormatResult(simulator.records()).c_str(), stdout);
  if (!unplaceable.empty()) {
    throw Failure(ExitCode::kNotPlaceable, "simulate: {} of {} jobs fit nowhere on this cluster, even when it is empty: {}",
                  unplaceable.size(), scenario.jobs.size(), JoinIds(unplaceable));
  }
}

}  // namespace

void AddSimulate(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("simulate", "Run one episode in the simulator and print each job's start, finish and JCT");
  auto flags = std::make_shared<SimulateFlags>();
  verb->add_option("--scenario", flags->scenario, "Scenario file (.scn): workers and jobs");
  verb->add_option("--cluster", flags->cluster, "Cluster file (configs/clusters/*.yaml), with --workload");
  verb->add_option("--workload", flags->workload, "Job mix to draw jobs from (configs/workloads/*.yaml)");
  verb->add_option("--load", flags->load, "Offered work / total FLOP/s of the cluster")->capture_default_str();
  verb->add_option("--jobs", flags->jobs, "Number of jobs to draw")->capture_default_str();
  verb->add_option("--seed", flags->seed, "Seed of the workload and of the scheduler")->capture_default_str();
  verb->add_option("--scheduler", flags->scheduler, "Who decides: greedy, fifo, rule, ...");
  verb->add_option("--replay", flags->replay, "Placement log (.log) to replay instead of a scheduler");
  verb->add_option("--placements", flags->placements, "Write the decisions as a placement log, which replays to the same result");
  verb->add_option("--events", flags->events, "Write the event log (one JSON object a line)");
  verb->add_option("--trace", flags->trace, "Write the episode for Perfetto (Chrome trace JSON)");
  verb->add_option("--save-scenario", flags->save_scenario, "Write workers and jobs as a scenario file");
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->callback([flags] { RunSimulate(*flags); });
}

}  // namespace weir::cli
