// weir compare: several schedulers on the same generated episodes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "agent/baselines/baselines.h"
#include "cli/schedulers.h"
#include "cli/verbs.h"
#include "env/metrics/jct.h"
#include "env/sim/simulator.h"
#include "env/workload/cluster_file.h"
#include "env/workload/generator.h"

namespace weir::cli {
namespace {

struct CompareFlags {
  std::string cluster, workload;
  std::string schedulers = "fifo,sjf,greedy";
  std::string reference = "greedy";
  double load = 0.7;
  std::uint64_t seed = 1;
  int seeds = 8;
  int jobs = 150;
  int threads = 0;
  bool json = false;
};

struct Line {
  std::string name;
  std::vector<JctSummary> episodes;
};

void RunCompare(const CompareFlags& flags) {
  const Cluster cluster = ReadCluster(flags.cluster);
  const ModelMix mix = ReadModelMix(flags.workload);
  if (flags.seeds < 1) throw Invalid("compare: --seeds must be >= 1, got {}", flags.seeds);
  if (flags.threads < 0) throw Invalid("compare: --threads must be >= 0, got {}", flags.threads);
  std::vector<Line> lines;
  for (const std::string& name : SplitNames(flags.schedulers, "--schedulers")) lines.push_back({name, {}});
  auto is_reference = [&](const Line& line) { return line.name == flags.reference; };
  if (std::none_of(lines.begin(), lines.end(), is_reference)) lines.push_back({flags.reference, {}});
  for (Line& line : lines) {
    MakeScheduler(line.name);  // an unknown name fails before anything runs
    line.episodes.resize(flags.seeds);
  }
  // Episodes are independent and land at their own index, so the table doesn't depend on the number of threads.
  std::atomic<int> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  auto work = [&] {
    try {
      for (int i = next++; i < flags.seeds; i = next++) {
        const std::uint64_t seed = flags.seed + static_cast<std::uint64_t>(i);
        const Workload jobs = GenerateWorkload(mix, cluster.workers, {flags.load, flags.jobs, seed});
        for (Line& line : lines) {
          Simulator simulator(cluster.workers, jobs, cluster.model);
          simulator.set_keep_actions(false);
          auto scheduler = MakeScheduler(line.name, {seed});
          const std::vector<JobId> left = RunEpisode(&simulator, scheduler.get());
          if (!left.empty()) {
            throw Failure(ExitCode::kNotPlaceable, "compare: seed {}: {} left {} jobs waiting for ever (first: {})", seed,
                          line.name, left.size(), left.front());
          }
          line.episodes[i] = Summarize(simulator.records());
        }
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!failure) failure = std::current_exception();
      next = flags.seeds;
    }
  };
  const int wanted = flags.threads > 0 ? flags.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (int i = 1; i < std::min(wanted, flags.seeds); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);

  const Line& reference = *std::find_if(lines.begin(), lines.end(), is_reference);
  nlohmann::ordered_json out = {{"schema_version", 1}, {"cluster", cluster.name},     {"workload", mix.name},
                                {"load", flags.load},  {"jobs", flags.jobs},          {"seeds", flags.seeds},
                                {"seed", flags.seed},  {"reference", flags.reference}};
  auto& rows = out["schedulers"] = nlohmann::ordered_json::array();
  std::size_t width = 9;
  for (const Line& line : lines) width = std::max(width, line.name.size());
  if (!flags.json) {
    std::printf("%s, %s, load %g, %d jobs, %d paired episodes; +- is one standard error\n", cluster.name.c_str(),
                mix.name.c_str(), flags.load, flags.jobs, flags.seeds);
    std::printf("%-*s  %18s  %18s  %18s  %18s\n", static_cast<int>(width), "scheduler", "mean JCT (s)", "p95 JCT (s)",
                ("mean / " + flags.reference).c_str(), ("p95 / " + flags.reference).c_str());
  }
  for (const Line& line : lines) {
    std::vector<double> mean, p95, mean_ratio, p95_ratio;
    int won = 0;
    for (int i = 0; i < flags.seeds; ++i) {
      const JctSummary &own = line.episodes[i], &base = reference.episodes[i];
      mean.push_back(own.mean_jct);
      p95.push_back(own.p95_jct);
      mean_ratio.push_back(own.mean_jct / base.mean_jct);
      p95_ratio.push_back(own.p95_jct / base.p95_jct);
      won += own.mean_jct < base.mean_jct;
    }
    const MeanAndError m = MeanOf(mean), p = MeanOf(p95), mr = MeanOf(mean_ratio), pr = MeanOf(p95_ratio);
    if (flags.json) {
      rows.push_back({{"name", line.name},
                      {"mean_jct", m.mean},
                      {"mean_jct_se", m.standard_error},
                      {"p95_jct", p.mean},
                      {"p95_jct_se", p.standard_error},
                      {"ratio", mr.mean},
                      {"ratio_se", mr.standard_error},
                      {"p95_ratio", pr.mean},
                      {"p95_ratio_se", pr.standard_error},
                      {"won", won},
                      {"episodes", mean}});
    } else {
      std::printf("%-*s  %10.1f +-%6.1f  %10.1f +-%6.1f  %10.3f +-%6.3f  %10.3f +-%6.3f\n", static_cast<int>(width),
                  line.name.c_str(), m.mean, m.standard_error, p.mean, p.standard_error, mr.mean, mr.standard_error, pr.mean,
                  pr.standard_error);
    }
  }
  if (flags.json) std::printf("%s\n", out.dump().c_str());
}

}  // namespace

void AddCompare(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("compare", "Compare schedulers on the same episodes: mean and p95 JCT, ratio to a reference");
  auto flags = std::make_shared<CompareFlags>();
  verb->add_option("--cluster", flags->cluster, "Cluster file (configs/clusters/*.yaml)")->required();
  verb->add_option("--workload", flags->workload, "Job mix (configs/workloads/*.yaml)")->required();
  verb->add_option("--schedulers", flags->schedulers,
                   fmt::format("Names, separated by commas, of {}, policy, policy:FILE", fmt::join(BaselineNames(), ", ")))
      ->capture_default_str();
  verb->add_option("--reference", flags->reference, "The scheduler that ratios refer to")->capture_default_str();
  verb->add_option("--load", flags->load, "Offered work / total FLOP/s of the cluster")->capture_default_str();
  verb->add_option("--jobs", flags->jobs, "Jobs an episode")->capture_default_str();
  verb->add_option("--seeds", flags->seeds, "Number of episodes: seeds --seed, --seed + 1, ...")->capture_default_str();
  verb->add_option("--seed", flags->seed, "First seed")->capture_default_str();
  verb->add_option("--threads", flags->threads, "0: one per core; the result doesn't depend on it")->capture_default_str();
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->callback([flags] { RunCompare(*flags); });
}

}  // namespace weir::cli
