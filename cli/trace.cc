// weir trace: other people's job traces, in Weir's words (docs/traces.md).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/verbs.h"
#include "env/core/file.h"
#include "env/core/units.h"
#include "env/workload/trace.h"
#include "env/workload/trace_import.h"

namespace weir::cli {
namespace {

struct ImportFlags {
  std::string format, out, speeds, device, group, min_duration, max_duration, outside = "clamp", window;
  std::vector<std::string> files;
};

double Seconds(const std::string& text, const char* flag) {
  const auto seconds = ParseQuantity(text, Unit::kSeconds);
  if (!seconds) throw Invalid("trace import: {} must be {}, got '{}'", flag, DescribeUnit(Unit::kSeconds), text);
  return *seconds;
}

TraceFilter FilterOf(const ImportFlags& flags) {
  TraceFilter filter;
  filter.group = flags.group;
  if (!flags.min_duration.empty()) filter.min_seconds = Seconds(flags.min_duration, "--min-duration");
  if (!flags.max_duration.empty()) filter.max_seconds = Seconds(flags.max_duration, "--max-duration");
  if (filter.min_seconds > filter.max_seconds) throw Invalid("trace import: --min-duration lies above --max-duration");
  filter.outside = flags.outside == "drop" ? TraceFilter::Outside::kDrop : TraceFilter::Outside::kClamp;
  if (!flags.window.empty()) {
    int used = 0;
    if (std::sscanf(flags.window.c_str(), "%lld:%lld%n", &filter.first, &filter.count, &used) != 2 ||
        used != static_cast<int>(flags.window.size()) || filter.first < 0 || filter.count < 1) {
      throw Invalid("trace import: --window must be FIRST:COUNT such as 300:150, got '{}'", flags.window);
    }
  }
  return filter;
}

void Say(const std::vector<std::string>& notices) {
  for (const std::string& notice : notices) std::fprintf(stderr, "weir: note: %s\n", notice.c_str());
}

void RunImport(const ImportFlags& flags) {
  std::vector<TraceFile> files;
  for (const std::string& path : flags.files) files.push_back({path, ReadFile(path, std::size_t{1} << 30)});
  MakeParentFolders(flags.out);  // before the work, not after it
  if (flags.format == "gavel") {
    if (files.size() != 1) throw Invalid("trace import gavel: expected one file, got {}", files.size());
    const GavelTable table = ImportGavel(files[0]);
    Say(table.notices);
    WriteFileAtomically(flags.out,
                        flags.device.empty() ? FormatPairGains(table.pairs) : FormatCorunGains(table.pairs, flags.device));
    if (!flags.speeds.empty()) WriteFileAtomically(flags.speeds, FormatDeviceSpeeds(table.speeds));
    std::printf("%s: %zu pairs on one device\n", flags.out.c_str(), table.pairs.size());
    if (!flags.speeds.empty()) std::printf("%s: %zu speeds\n", flags.speeds.c_str(), table.speeds.size());
    return;
  }
  if (!flags.speeds.empty() || !flags.device.empty()) throw Invalid("trace import: --speeds and --device go with gavel alone");
  const TraceFilter filter = FilterOf(flags);
  Trace trace = ImportTrace(flags.format, files);
  ApplyFilter(filter, &trace);
  Say(trace.notices);
  WriteFileAtomically(flags.out, FormatTrace(trace));
  const TraceStatistics s = StatisticsOf(trace.jobs);
  std::printf("%s: %lld jobs over %s, mean gap %.4g s (cv %.3g)\n", flags.out.c_str(), s.jobs, FormatSeconds(s.span).c_str(),
              s.mean_gap, s.gap_cv);
}

struct StatsFlags {
  std::string file;
  bool json = false;
};

void RunStats(const StatsFlags& flags) {
  const Trace trace = ReadTrace(flags.file);
  std::map<std::string, std::vector<TraceJob>> groups;
  for (const TraceJob& job : trace.jobs) groups[job.group].push_back(job);
  std::vector<std::pair<std::string, TraceStatistics>> rows = {{"all", StatisticsOf(trace.jobs)}};
  if (groups.size() > 1) {
    for (const auto& [name, jobs] : groups) rows.emplace_back(name.empty() ? "(none)" : name, StatisticsOf(jobs));
  }
  if (flags.json) {
    nlohmann::ordered_json out = {{"schema_version", 1}, {"file", flags.file}};
    for (const auto& [name, s] : rows) {
      out["groups"].push_back({{"group", name},
                               {"jobs", s.jobs},
                               {"span", s.span},
                               {"mean_gap", s.mean_gap},
                               {"gap_cv", s.gap_cv},
                               {"p50_duration", s.p50_duration},
                               {"p90_duration", s.p90_duration},
                               {"max_duration", s.max_duration},
                               {"one_gpu_share", s.one_gpu_share},
                               {"mean_busy_gpus", s.mean_busy_gpus}});
    }
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  std::printf("%-16s %8s %10s %7s %10s %10s %10s %8s %9s\n", "group", "jobs", "gap s", "cv", "p50 s", "p90 s", "max s", "one GPU",
              "busy GPUs");
  for (const auto& [name, s] : rows) {
    std::printf("%-16s %8lld %10.1f %7.2f %10.0f %10.0f %10.3g %7.1f%% %9.2f\n", name.substr(0, 16).c_str(), s.jobs, s.mean_gap,
                s.gap_cv, s.p50_duration, s.p90_duration, s.max_duration, 100 * s.one_gpu_share, s.mean_busy_gpus);
  }
}

}  // namespace

void AddTrace(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("trace", "Read job traces of other systems");
  verb->require_subcommand(1);
  CLI::App* import = verb->add_subcommand("import", "Write a trace as Weir's CSV, which workload files take");
  auto flags = std::make_shared<ImportFlags>();
  import
      ->add_option("format", flags->format, fmt::format("{}, or gavel (gains of pairs of jobs)", fmt::join(TraceFormats(), ", ")))
      ->required();
  import->add_option("files", flags->files, "Files of that format; several share one clock")->required();
  import->add_option("-o,--out", flags->out, "CSV file to write")->required();
  import->add_option("--group", flags->group, "Keep this group alone (philly: virtual cluster; swf: user)");
  import->add_option("--min-duration", flags->min_duration, "E.g. 60s");
  import->add_option("--max-duration", flags->max_duration, "E.g. 5h");
  import->add_option("--outside", flags->outside, "Durations beyond these: clamp or drop")
      ->check(CLI::IsMember({"clamp", "drop"}))
      ->capture_default_str();
  import->add_option("--window", flags->window, "FIRST:COUNT, jobs by their number in time, after the filters above");
  import->add_option("--device", flags->device,
                     "gavel: write the corun_gain list of a cluster file instead, for this device type");
  import->add_option("--speeds", flags->speeds, "gavel: also write steps/s alone by device and job type");
  import->callback([flags] { RunImport(*flags);
});
CLI::App* stats = verb->add_subcommand("stats", "Print gaps, durations and GPUs of a trace in Weir's CSV, by group");
auto stats_flags = std::make_shared<StatsFlags>();
stats->add_option("file", stats_flags->file, "CSV file")->required();
stats->add_flag("--json", stats_flags->json, "Print JSON");
stats->callback([stats_flags] { RunStats(*stats_flags); });
}  // namespace weir::cli

}  // namespace weir::cli
