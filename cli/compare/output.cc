#include "cli/compare/output.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/compare/build_info.h"
#include "env/core/error.h"
#include "env/core/yaml.h"
#include "env/workload/csv.h"

namespace weir::cli {
namespace {

using Json = nlohmann::ordered_json;

const MeanAndError& MetricOf(const SchedulerResult& s, const std::string& name) {
  const auto& metrics = CompareMetrics();
  const auto at = std::find_if(metrics.begin(), metrics.end(), [&](const Metric& m) { return m.name == name; });
  return s.metrics[static_cast<std::size_t>(at - metrics.begin())];
}

// The derived figures by name.
std::vector<std::pair<std::string, double>> Derived(const SchedulerResult& s) {
  std::vector<std::pair<std::string, double>> values;
  auto add = [&](const std::string& name, const MeanWithInterval& v) {
    values.emplace_back(name, v.mean);
    values.emplace_back(name + "_se", v.standard_error);
    values.emplace_back(name + "_low", v.interval.low);
    values.emplace_back(name + "_high", v.interval.high);
  };
  add("ratio", s.ratio);
  add("p95_ratio", s.p95_ratio);
  add("difference", s.difference);
  add("p95_difference", s.p95_difference);
  values.emplace_back("won", s.won);
  values.emplace_back("lost", s.lost);
  return values;
}

Json SchedulerJson(const SchedulerResult& s) {
  Json row = {{"name", s.name}};
  const auto& metrics = CompareMetrics();
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    row[metrics[m].name] = s.metrics[m].mean;
    row[std::string(metrics[m].name) + "_se"] = s.metrics[m].standard_error;
  }
  for (const auto& [name, value] : Derived(s)) {
    if (name == "won" || name == "lost") {
      row[name] = static_cast<int>(value);
    } else {
      row[name] = value;
    }
  }
  Json episodes = Json::array();
  for (const EpisodeResult& e : s.episodes) episodes.push_back(e.jct.mean_jct);
  row["episodes"] = std::move(episodes);
  return row;
}

Json ToJson(const Comparison& comparison) {
  const CompareSpec& spec = comparison.spec;
  Json out = {{"schema_version", 2}, {"name", spec.name},        {"version", WEIR_VERSION},
              {"git", GitHash()},    {"config_hash", spec.hash}, {"reference", spec.reference},
              {"seed", spec.seed},   {"seeds", spec.seeds},      {"resamples", spec.resamples}};
  Json& cells = out["cells"] = Json::array();
  for (const CellResult& cell : comparison.cells) {
    Json entry = {{"cluster", cell.cluster}, {"workload", cell.workload}, {"load", cell.load},
                  {"workers", cell.workers}, {"jobs", cell.jobs},         {"unplaceable", cell.unplaceable},
                  {"notices", cell.notices}};
    Json bounds = Json::array();
    for (const EpisodeResult& e : cell.schedulers.front().episodes) bounds.push_back(e.bound);
    entry["bounds"] = std::move(bounds);
    Json& rows = entry["schedulers"] = Json::array();
    for (const SchedulerResult& s : cell.schedulers) rows.push_back(SchedulerJson(s));
    cells.push_back(std::move(entry));
  }
  return out;
}

// Names of traces may hold any bytes; what is no UTF-8 is replaced.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

}  // namespace

std::string NameOf(const CellResult& cell) {
  return fmt::format("{}, {}, load {:g}", cell.cluster, cell.workload, cell.load);
}

std::string FormatTable(const Comparison& comparison) {
  const CompareSpec& spec = comparison.spec;
  std::size_t width = 9;
  for (const std::string& name : spec.schedulers) width = std::max(width, name.size());
  std::string out;
  auto to = std::back_inserter(out);
  for (const CellResult& cell : comparison.cells) {
    if (!out.empty()) out += "\n";
    fmt::format_to(to, "{}, {} jobs, {} paired episode{}; [95 % by bootstrap]\n", NameOf(cell), cell.jobs, spec.seeds,
                   spec.seeds == 1 ? "" : "s");
    for (std::size_t i = 0; i < cell.notices.size() && i < 3; ++i) fmt::format_to(to, "  {}\n", cell.notices[i]);
    if (cell.notices.size() > 3) fmt::format_to(to, "  ... and {} more seeds (--json has all)\n", cell.notices.size() - 3);
    if (cell.unplaceable > 0) fmt::format_to(to, "  {} jobs fit nowhere and were left out\n", cell.unplaceable);
    fmt::format_to(to, "{:<{}} {:>9} {:>9} {:>9} {:>9} {:>8} {:>5} {:>5} {:>23} {:>23} {:>8} {:>8}\n", "scheduler", width,
                   "mean JCT", "p95", "p99", "waiting", "slowdown", "busy", "fair", "mean / " + spec.reference,
                   "p95 / " + spec.reference, "won-lost", "/ bound");
    for (const SchedulerResult& s : cell.schedulers) {
      auto ratio = [](const MeanWithInterval& v) {
        return fmt::format("{:.3f} [{:.3f}, {:.3f}]", v.mean, v.interval.low, v.interval.high);
      };
      auto mean = [&](const char* name) { return MetricOf(s, name).mean; };
      fmt::format_to(to, "{:<{}} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>8.2f} {:>5.2f} {:>5.2f} {:>23} {:>23} {:>8} {:>8.3f}\n",
                     s.name, width, mean("mean_jct"), mean("p95_jct"), mean("p99_jct"), mean("mean_waiting"),
                     mean("mean_slowdown"), mean("utilisation"), mean("fairness"), ratio(s.ratio), ratio(s.p95_ratio),
                     fmt::format("{}-{}", s.won, s.lost), mean("bound_ratio"));
    }
  }
  return out;
}

std::string FormatJson(const Comparison& comparison) {
  return Dump(ToJson(comparison)) + "\n";
}

std::string FormatCsv(const Comparison& comparison) {
  std::string out = "cluster,workload,load,jobs,seed,scheduler";
  for (const Metric& metric : CompareMetrics()) out += fmt::format(",{}", metric.name);
  out += ",bound\n";
  for (const CellResult& cell : comparison.cells) {
    for (std::size_t i = 0; i < cell.schedulers.front().episodes.size(); ++i) {
      for (const SchedulerResult& s : cell.schedulers) {
        out += fmt::format("{},{},{},{},{},{}", CsvField(cell.cluster), CsvField(cell.workload), cell.load, cell.jobs,
                           comparison.spec.seed + i, CsvField(s.name));
        for (const Metric& metric : CompareMetrics()) out += fmt::format(",{}", metric.get(s.episodes[i]));
        out += fmt::format(",{}\n", s.episodes[i].bound);
      }
    }
  }
  return out;
}

std::string FormatMarkdown(const Comparison& comparison) {
  const CompareSpec& spec = comparison.spec;
  std::string out;
  for (const bool p95 : {false, true}) {
    std::string head = fmt::format("| {} JCT / {} |", p95 ? "p95" : "mean", spec.reference), rule = "|---|",
                seconds = fmt::format("| {}, s |", spec.reference);
    for (const CellResult& cell : comparison.cells) {
      head += fmt::format(" {}{} {:g} |", cell.cluster, spec.workloads.size() > 1 ? " " + cell.workload : "", cell.load);
      rule += "---:|";
      for (const SchedulerResult& s : cell.schedulers) {
        if (s.name == spec.reference) seconds += fmt::format(" {:.0f} |", MetricOf(s, p95 ? "p95_jct" : "mean_jct").mean);
      }
    }
    out += (out.empty() ? "" : "\n") + head + "\n" + rule + "\n" + seconds + "\n";
    for (std::size_t i = 0; i < spec.schedulers.size(); ++i) {
      out += fmt::format("| {} |", spec.schedulers[i]);
      for (const CellResult& cell : comparison.cells) {
        const MeanWithInterval& v = p95 ? cell.schedulers[i].p95_ratio : cell.schedulers[i].ratio;
        out += fmt::format(" {:.3f} ± {:.3f} |", v.mean, v.standard_error);
      }
      out += "\n";
    }
  }
  return out;
}

std::string FormatTimes(const Comparison& comparison) {
  Json out = {{"schema_version", 1}, {"unit", "s"}};
  Json& rows = out["decisions"] = Json::array();
  for (const DecisionTimes& t : comparison.times) {
    const CellResult& cell = comparison.cells[t.cell];
    rows.push_back({{"cluster", cell.cluster},
                    {"workload", cell.workload},
                    {"load", cell.load},
                    {"scheduler", t.scheduler},
                    {"decisions", t.decisions},
                    {"mean", t.mean},
                    {"p50", t.p50},
                    {"p99", t.p99},
                    {"max", t.max}});
  }
  return out.dump(1) + "\n";
}

std::string FormatReport(const Comparison& comparison) {
  Json data = ToJson(comparison);
  Json& metrics = data["metrics"] = Json::array();
  for (const Metric& m : CompareMetrics()) metrics.push_back({{"name", m.name}, {"unit", m.unit}, {"what", m.what}});
  for (std::size_t c = 0; c < comparison.cells.size(); ++c) {
    for (std::size_t s = 0; s < comparison.cells[c].schedulers.size(); ++s)
      data["cells"][c]["schedulers"][s]["jct_quantiles"] = comparison.cells[c].schedulers[s].jct_quantiles;
  }
  const ChosenEpisode& chosen = comparison.chosen;
  Json gantt = {{"cell", chosen.cell}, {"seed", chosen.seed}};
  for (const WorkerSpec& worker : chosen.workers) gantt["workers"].push_back(worker.name);
  Json& names = gantt["jobs"] = Json::object();
  for (const auto& job : chosen.jobs) names[std::to_string(job->id)] = job->name;
  Json& runs = gantt["runs"] = Json::array();
  for (const ChosenEpisode::Run& run : chosen.runs) {
    Json list = Json::array();
    for (const Segment& s : run.segments) list.push_back({s.job, s.start, s.end, s.workers});
    runs.push_back({{"scheduler", run.scheduler}, {"segments", std::move(list)}});
  }
  data["episode"] = std::move(gantt);
  // "</script>" in a name must not end the element that holds the data.
  std::string json = Dump(data);
  for (std::size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at)) json.replace(at, 1, "\\u003c");
  return Replaced(std::string(kReportTemplate), "@DATA@", json);
}

std::string FormatEpisodeTrace(const Comparison& comparison, const std::string& scheduler) {
  const ChosenEpisode& chosen = comparison.chosen;
  const auto run = std::find_if(chosen.runs.begin(), chosen.runs.end(), [&](const auto& r) { return r.scheduler == scheduler; });
  return FormatChromeTrace(chosen.workers, chosen.jobs, run->records, run->segments);
}

Condition ParseFailIf(const std::string& text, const CompareSpec& spec) {
  std::vector<std::string> figures;
  for (const Metric& metric : CompareMetrics()) figures.push_back(metric.name);
  for (const char* name : {"ratio", "p95_ratio", "difference", "p95_difference"}) {
    for (const char* end : {"", "_se", "_low", "_high"}) figures.push_back(std::string(name) + end);
  }
  figures.insert(figures.end(), {"won", "lost"});
  static const std::map<std::string, Condition::Type> kVariables = {
      {"load", Condition::Type::kNumber},    {"jobs", Condition::Type::kNumber},    {"seeds", Condition::Type::kNumber},
      {"workers", Condition::Type::kNumber}, {"cluster", Condition::Type::kString}, {"workload", Condition::Type::kString}};
  return Condition::Parse(text, [&](const Condition::Name& name) {
    auto unknown = [&](const char* kind, const std::string& found, const std::vector<std::string>& known) {
      const std::string nearest = NearestName(found, known);
      return Invalid(
          "condition '{}': unknown {} '{}'{}", text, kind, found,
          nearest.empty() ? fmt::format(" (known: {})", fmt::join(known, ", ")) : fmt::format(", did you mean '{}'?", nearest));
    };
    if (name.subject.empty()) {
      const auto variable = kVariables.find(name.metric);
      if (variable != kVariables.end()) return variable->second;
      std::vector<std::string> known;
      for (const auto& [key, type] : kVariables) known.push_back(key);
      throw unknown("variable", name.metric, known);
    }
    if (std::find(spec.schedulers.begin(), spec.schedulers.end(), name.subject) == spec.schedulers.end())
      throw unknown("scheduler", name.subject, spec.schedulers);
    if (std::find(figures.begin(), figures.end(), name.metric) == figures.end()) throw unknown("figure", name.metric, figures);
    return Condition::Type::kNumber;
  });
}

std::vector<int> CellsWhere(const Condition& condition, const Comparison& comparison) {
  std::vector<int> cells;
  for (std::size_t c = 0; c < comparison.cells.size(); ++c) {
    const CellResult& cell = comparison.cells[c];
    const bool holds = condition.Holds([&](const Condition::Name& name) -> Condition::Value {
      if (name.metric == "load" && name.subject.empty()) return cell.load;
      if (name.subject.empty()) {
        if (name.metric == "jobs") return static_cast<double>(cell.jobs);
        if (name.metric == "seeds") return static_cast<double>(comparison.spec.seeds);
        if (name.metric == "workers") return static_cast<double>(cell.workers);
        return name.metric == "cluster" ? cell.cluster : cell.workload;
      }
      const SchedulerResult& s = *std::find_if(cell.schedulers.begin(), cell.schedulers.end(),
                                               [&](const SchedulerResult& r) { return r.name == name.subject; });
      for (const auto& [figure, value] : Derived(s)) {
        if (figure == name.metric) return value;
      }
      return MetricOf(s, name.metric).mean;
    });
    if (holds) cells.push_back(static_cast<int>(c));
  }
  return cells;
}

}  // namespace weir::cli
