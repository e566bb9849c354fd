// weir compare: schedulers on the same episodes, from a comparison file or from options.
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/baselines/baselines.h"
#include "cli/compare/compare_config.h"
#include "cli/compare/comparison.h"
#include "cli/compare/output.h"
#include "cli/schedulers.h"
#include "cli/verbs.h"
#include "env/core/file.h"
#include "env/core/units.h"

namespace weir::cli {
namespace {

struct CompareFlags {
  std::string config, cluster, workload;
  std::optional<std::string> schedulers, reference;
  std::optional<double> load, estimate_error;
  std::optional<std::uint64_t> seed, episode;
  std::optional<int> seeds, jobs, resamples;
  int cell = 0, threads = 0;
  bool json = false, csv = false, markdown = false, quiet = false;
  std::string out, report, trace, trace_scheduler, timings;
  std::vector<std::string> fail_if;
};

CompareSpec SpecOf(const CompareFlags& flags) {
  if (flags.config.empty() == flags.cluster.empty() || flags.cluster.empty() != flags.workload.empty())
    throw Invalid("compare: give either a comparison file, or --cluster and --workload");
  CompareSpec spec;
  if (!flags.config.empty()) {
    spec = ReadCompareConfig(flags.config);
  } else {
    CompareSpec::ClusterEntry entry;
    entry.cluster = ReadCluster(flags.cluster);
    spec.clusters.push_back(std::move(entry));
    spec.workloads.push_back(WorkloadSource::Read(flags.workload));
    spec.files = spec.workloads.back().files();
    spec.files.insert(spec.files.begin(), flags.cluster);
    spec.schedulers = {"fifo", "sjf", "greedy"};
    spec.name = spec.clusters[0].cluster.name;
  }
  if (flags.load) {
    spec.loads = {*flags.load};
    for (auto& entry : spec.clusters) entry.loads.clear();
  }
  if (flags.jobs) {
    if (*flags.jobs < 1 || *flags.jobs > 5'000'000) throw Invalid("compare: --jobs must lie in 1..5000000, got {}", *flags.jobs);
    spec.jobs = *flags.jobs;
    for (auto& entry : spec.clusters) entry.jobs = 0;
  }
  if (flags.seed) spec.seed = *flags.seed;
  if (flags.seeds) {
    if (*flags.seeds < 1) throw Invalid("compare: --seeds must be >= 1, got {}", *flags.seeds);
    spec.seeds = *flags.seeds;
  }
  if (spec.seeds > 0 && spec.seed > std::numeric_limits<std::uint64_t>::max() - static_cast<std::uint64_t>(spec.seeds))
    throw Invalid("compare: seeds {} and {} more don't fit 64 bits", spec.seed, spec.seeds - 1);
  if (flags.resamples) spec.resamples = *flags.resamples;
  if (flags.estimate_error) {
    if (!(*flags.estimate_error >= 0 && *flags.estimate_error <= 10))
      throw Invalid("compare: --estimate-error must be from 0 to 10, got {}", *flags.estimate_error);
    for (WorkloadSource& workload : spec.workloads) workload.set_estimate_error(*flags.estimate_error);
  }
  if (flags.schedulers) spec.schedulers = SplitNames(*flags.schedulers, "--schedulers");
  if (flags.reference) spec.reference = *flags.reference;
  if (std::count(spec.schedulers.begin(), spec.schedulers.end(), spec.reference) == 0) spec.schedulers.push_back(spec.reference);
  for (const std::string& name : spec.schedulers) {
    if (name == "policy" || name.starts_with("policy:")) spec.files.push_back(name == "policy" ? PolicyPath({}) : name.substr(7));
  }
  spec.chosen_cell = flags.cell;
  spec.chosen_seed = flags.episode.value_or(spec.seed);
  CheckSpec(spec);
  for (const std::string& name : spec.schedulers) MakeScheduler(name);  // an unknown name fails before files are hashed
  spec.hash = HashOf(spec);
  return spec;
}

// One line on stderr, redrawn at most ten times a second; nothing where stderr is no terminal.
class ProgressBar {
 public:
  explicit ProgressBar(bool enabled) : enabled_(enabled && ::isatty(STDERR_FILENO) == 1) {}
  ~ProgressBar() {
    if (drawn_) std::fputs("\r\x1b[K", stderr);
  }
  void Show(long done, long all) {
    const auto now = std::chrono::steady_clock::now();
    if (!enabled_ || (done < all && now - last_ < std::chrono::milliseconds(100))) return;
    last_ = now;
    drawn_ = true;
    constexpr int kWidth = 30;
    const int filled = static_cast<int>(kWidth * done / all);
    const double seconds = std::chrono::duration<double>(now - start_).count();
    std::fprintf(stderr, "\r[%s%s] %ld/%ld episodes, %s, %s left\x1b[K", std::string(filled, '#').c_str(),
                 std::string(kWidth - filled, '-').c_str(), done, all, FormatSeconds(seconds).c_str(),
                 FormatSeconds(seconds * static_cast<double>(all - done) / static_cast<double>(done)).c_str());
    std::fflush(stderr);
  }

 private:
  bool enabled_, drawn_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), last_{};
};

void RunCompare(CompareFlags flags) {
  if (flags.threads < 0) throw Invalid("compare: --threads must be >= 0, got {}", flags.threads);
  if (flags.json + flags.csv + flags.markdown > 1) throw Invalid("compare: give either --json, --csv or --markdown");
  const CompareSpec spec = SpecOf(flags);
  std::vector<Condition> conditions;
  for (const std::string& text : flags.fail_if) conditions.push_back(ParseFailIf(text, spec));
  const std::string traced = flags.trace_scheduler.empty() ? spec.reference : flags.trace_scheduler;
  if (std::count(spec.schedulers.begin(), spec.schedulers.end(), traced) == 0)
    throw Invalid("compare: --trace-scheduler must be one of {}, got '{}'", fmt::join(spec.schedulers, ", "), traced);
  if (!flags.out.empty()) {
    std::error_code error;
    std::filesystem::create_directories(flags.out, error);
    if (error) throw Failure(ExitCode::kInfrastructure, "{}: can't be made: {}", flags.out, error.message());
    auto name = [&](std::string* path, const char* file) {
      if (path->empty()) *path = (std::filesystem::path(flags.out) / file).string();
    };
    name(&flags.report, "report.html");
    name(&flags.trace, "episode.trace.json");
    name(&flags.timings, "timings.json");
  }

  CompareOptions options;
  options.threads = flags.threads > 0 ? flags.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  options.measure_decisions = !flags.timings.empty();
  options.make_scheduler = [](const std::string& name, std::uint64_t seed) { return MakeScheduler(name, {seed}); };
  Comparison comparison;
  {
    ProgressBar bar(!flags.quiet);
    options.progress = [&](long done, long all) { bar.Show(done, all); };
    comparison = RunComparison(spec, options);
  }
  const std::string json = flags.json || !flags.out.empty() ? FormatJson(comparison) : "";
  const std::string csv = flags.csv || !flags.out.empty() ? FormatCsv(comparison) : "";
  if (!flags.out.empty()) {
    const std::filesystem::path folder = flags.out;
    WriteFileAtomically((folder / "result.json").string(), json);
    WriteFileAtomically((folder / "episodes.csv").string(), csv);
  }
  if (!flags.report.empty()) WriteFileAtomically(flags.report, FormatReport(comparison));
  if (!flags.trace.empty()) WriteFileAtomically(flags.trace, FormatEpisodeTrace(comparison, traced));
  if (!flags.timings.empty()) WriteFileAtomically(flags.timings, FormatTimes(comparison));
  std::fputs(flags.json       ? json.c_str()
             : flags.csv      ? csv.c_str()
             : flags.markdown ? FormatMarkdown(comparison).c_str()
                              : FormatTable(comparison).c_str(),
             stdout);
  for (const Condition& condition : conditions) {
    const std::vector<int> cells = CellsWhere(condition, comparison);
    if (cells.empty()) continue;
    throw Failure(ExitCode::kJobFailed, "compare: --fail-if '{}' holds in {} of {} cells, first: {}", condition.text(),
                  cells.size(), comparison.cells.size(), NameOf(comparison.cells[cells[0]]));
  }
}

}  // namespace

void AddCompare(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("compare", "Compare schedulers on the same episodes, with intervals, bounds and a report");
  auto flags = std::make_shared<CompareFlags>();
  verb->add_option("config", flags->config, "Comparison file (configs/compare/*.yaml)");
  verb->add_option("--cluster", flags->cluster, "Cluster file (configs/clusters/*.yaml), in place of a comparison file");
  verb->add_option("--workload", flags->workload, "Workload file (configs/workloads/*.yaml), with --cluster");
  verb->add_option("--schedulers", flags->schedulers,
                   fmt::format("Names, separated by commas, of {}, policy, policy:FILE (default fifo,sjf,greedy)",
                               fmt::join(BaselineNames(), ", ")));
  verb->add_option("--reference", flags->reference, "The scheduler that ratios refer to (default greedy)");
  verb->add_option("--load", flags->load, "Offered work / total FLOP/s of the cluster (default 0.7)");
  verb->add_option("--jobs", flags->jobs, "Jobs an episode (default 150)");
  verb->add_option("--seeds", flags->seeds, "Number of episodes: seeds --seed, --seed + 1, ... (default 8)");
  verb->add_option("--seed", flags->seed, "First seed (default 1)");
  verb->add_option("--estimate-error", flags->estimate_error,
                   "Sigma of the log-normal error of the iterations that schedulers see");
  verb->add_option("--resamples", flags->resamples, "Of the bootstrap (default 10000)");
  verb->add_option("--threads", flags->threads, "0: one per core; the result doesn't depend on it")->capture_default_str();
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->add_flag("--csv", flags->csv, "Print a row per episode and scheduler");
  verb->add_flag("--markdown", flags->markdown, "Print tables for documents");
  verb->add_option("-o,--out", flags->out, "Folder for result.json, episodes.csv, report.html, episode.trace.json, timings.json");
  verb->add_option("--report", flags->report, "Write the report, one HTML file");
  verb->add_option("--trace", flags->trace, "Write the chosen episode for Perfetto (Chrome trace JSON)");
  verb->add_option("--trace-scheduler", flags->trace_scheduler, "Whose episode (default: the reference's)");
  verb->add_option("--episode", flags->episode, "Seed of the chosen episode (default: the first)");
  verb->add_option("--cell", flags->cell, "Cell of the chosen episode, from 0")->capture_default_str();
  verb->add_option("--timings", flags->timings, "Write how long decisions took (JSON); never part of the results");
  verb->add_option("--fail-if", flags->fail_if,
                   "Exit with code 1 where this holds in a cell, e.g. \"policy.mean_jct > greedy.mean_jct\" (docs/compare.md); "
                   "may be repeated")
      ->expected(1)
      ->take_all();
  verb->add_flag("--quiet", flags->quiet, "No progress bar");
  verb->callback([flags] { RunCompare(*flags); });
}

}  // namespace weir::cli
