// weir replay: plays recorded runs of a coordinator in the simulator; predicted against measured.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/schedulers.h"
#include "cli/verbs.h"
#include "env/core/file.h"
#include "env/core/units.h"
#include "env/mdp/scheduler.h"
#include "env/workload/recorded_run.h"
#include "env/workload/run_replay.h"

namespace weir::cli {
namespace {

struct Options {
  std::vector<std::string> runs;
  std::string scheduler, policy, workload;
  bool json = false;
};

struct Played {
  RecordedRun run;
  std::vector<JobPrediction> predictions;
  std::vector<JobRecord> records;  // of the simulator, by job number
  std::vector<JobId> left;         // the scheduler never placed them to their end
  std::string by;
};

Played Play(const std::string& path, const Options& o) {
  Played played;
  played.run = ReadRun(path);
  played.by = o.scheduler.empty() ? "recorded decisions" : o.scheduler;
  Simulator simulator = SimulatorOf(played.run);
  if (o.scheduler.empty()) {
    ReplayDecisions(played.run, &simulator);
  } else {
    SchedulerOptions options;
    options.policy_path = o.policy;
    played.left = RunEpisode(&simulator, MakeScheduler(o.scheduler, options).get());
  }
  played.records = simulator.records();
  played.predictions = ComparePredictions(played.run, played.records);
  return played;
}

nlohmann::ordered_json ErrorsToJson(const PredictionErrors& e) {
  return {{"jobs", e.jobs},
          {"jobs_with_iteration_time", e.with_iterations},
          {"iteration_error_median", e.median_iteration},
          {"iteration_error_p90", e.p90_iteration},
          {"jct_error_median", e.median_jct},
          {"jct_error_p90", e.p90_jct},
          {"mean_jct_measured", e.mean_measured_jct},
          {"mean_jct_predicted", e.mean_predicted_jct}};
}

void PrintErrors(const std::string& what, const PredictionErrors& e) {
  std::printf(
      "%s: %d jobs; iteration time: median error %.1f %%, p90 %.1f %% (of %d); JCT: median error %.1f %%, p90 %.1f %%, "
      "mean %.2f s measured, %.2f s predicted\n",
      what.c_str(), e.jobs, 100 * e.median_iteration, 100 * e.p90_iteration, e.with_iterations, 100 * e.median_jct,
      100 * e.p90_jct, e.mean_measured_jct, e.mean_predicted_jct);
}

void PrintRun(const Played& played) {
  const RecordedRun& run = played.run;
  std::printf("%s: scheduler %s, %zu workers, played with %s\n", run.source.c_str(), run.scheduler.c_str(), run.workers.size(),
              played.by.c_str());
  std::printf("%5s  %-20s %-20s %-22s %11s %11s %7s %9s %9s %7s\n", "JOB", "NAME", "MODEL", "WORKERS", "ITERATION", "PREDICTED",
              "ERROR", "JCT", "PREDICTED", "ERROR");
  for (const JobPrediction& p : played.predictions) {
    const RecordedJob& job = *run.Find(p.id);
    std::string workers;
    for (std::size_t k = 0; k < job.workers.size(); ++k) {
      if (k == 0 || job.workers[k] != job.workers[k - 1]) workers += (k ? "," : "") + job.workers[k];
    }
    const bool timed = p.measured_iteration > 0;
    const auto ms = [&](double seconds) { return timed ? fmt::format("{:.2f} ms", 1e3 * seconds) : std::string("-"); };
    std::printf("%5d  %-20s %-20s %-22s %11s %11s %7s %8.2fs %8.2fs %6.1f%%\n", p.id, job.name.c_str(), job.model.c_str(),
                workers.c_str(), ms(p.measured_iteration).c_str(), ms(p.predicted_iteration).c_str(),
                timed ? fmt::format("{:.1f}%", 100 * p.iteration_error()).c_str() : "-", p.measured_jct, p.predicted_jct,
                100 * p.jct_error());
  }
  for (JobId id : played.left) std::printf("%5d  never placed to its end by %s\n", id, played.by.c_str());
}

void Replay(const Options& o) {
  if (!o.workload.empty() && o.runs.size() != 1) throw Invalid("replay: --workload writes one run, {} are given", o.runs.size());
  if (!o.scheduler.empty()) MakeScheduler(o.scheduler, {.policy_path = o.policy});  // throws before anything is read
  std::vector<JobPrediction> all;
  std::vector<Played> runs;
  for (const std::string& path : o.runs) {
    runs.push_back(Play(path, o));
    all.insert(all.end(), runs.back().predictions.begin(), runs.back().predictions.end());
  }
  if (!o.workload.empty()) WriteFileAtomically(o.workload, RunAsScenario(runs.front().run));
  if (o.json) {
    nlohmann::ordered_json out = {{"schema_version", 1}, {"played_with", runs.front().by}};
    for (const Played& played : runs) {
      nlohmann::ordered_json row = {{"run", played.run.source},
                                    {"scheduler", played.run.scheduler},
                                    {"errors", ErrorsToJson(ErrorsOf(played.predictions))}};
      row["unplaced"] = played.left;
      row["jobs"] = nlohmann::ordered_json::array();
      for (const JobPrediction& p : played.predictions) {
        const RecordedJob& job = *played.run.Find(p.id);
        const JobRecord& record =
            *std::find_if(played.records.begin(), played.records.end(), [&](const auto& r) { return r.id == p.id; });
        std::vector<std::string> simulated;
        for (WorkerId w : record.workers) simulated.push_back(played.run.workers[w]);
        row["jobs"].push_back({{"job", p.id},
                               {"name", job.name},
                               {"model", job.model},
                               {"workers", job.workers},
                               {"simulated_workers", simulated},
                               {"arrival", job.spec.arrival},
                               {"start", job.start},
                               {"simulated_start", record.start},
                               {"measured_iteration_seconds", p.measured_iteration},
                               {"predicted_iteration_seconds", p.predicted_iteration},
                               {"believed_iteration_seconds", job.believed_iteration},
                               {"measured_jct", p.measured_jct},
                               {"predicted_jct", p.predicted_jct},
                               {"believed_jct", job.believed_finish - job.spec.arrival},
                               {"measured_overhead_seconds", job.overhead_seconds},
                               {"predicted_overhead_seconds", job.spec.overhead_seconds}});
      }
      out["runs"].push_back(row);
    }
    out["errors"] = ErrorsToJson(ErrorsOf(all));
    std::printf("%s\n", out.dump().c_str());
  } else {
    for (const Played& played : runs) {
      PrintRun(played);
      PrintErrors("this run", ErrorsOf(played.predictions));
      std::printf("\n");
    }
    if (runs.size() > 1) PrintErrors("all runs", ErrorsOf(all));
  }
  for (const Played& played : runs) {
    if (!played.left.empty()) throw VerbExit{ExitCode::kNotPlaceable};
  }
}

}  // namespace

void AddReplay(CLI::App& app) {
  static Options o;
  CLI::App* verb = app.add_subcommand("replay", "Play a coordinator's recorded run in the simulator: predicted against measured");
  verb->add_option("RUN", o.runs, "State folder of a coordinator, or its events.jsonl; several are summed up")->required();
  verb->add_option("--scheduler", o.scheduler, "Let this scheduler decide in place of the recorded decisions");
  verb->add_option("--policy", o.policy, "Policy file for --scheduler policy");
  verb->add_option("--workload", o.workload, "Write workers and arrivals as a scenario file (.scn)");
  verb->add_flag("--json", o.json, "Print JSON");
  verb->callback([] { Replay(o); });
}

}  // namespace weir::cli
