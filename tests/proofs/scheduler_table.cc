// Every scheduler on the study's workload: clusters x loads, 24 held-out episodes (seeds 1 to 24), mean over episodes of mean JCT
// / Greedy's, +- one standard error, as a Markdown table; below it the best lower bound. Then the bars, one line each; exit code
// 1 where one is missed. `scheduler_table CLUSTER...` prints those clusters only.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "agent/baselines/baselines.h"
#include "env/core/parallel.h"
#include "env/metrics/bounds.h"
#include "env/metrics/jct.h"
#include "env/workload/cluster_file.h"
#include "env/workload/generator.h"

namespace weir {
namespace {

constexpr int kSeeds = 24;

struct Cell {
  std::string cluster;
  double load;
};
// [scheduler][seed] -> mean JCT; the last row is the best bound.
using Row = std::vector<double>;
std::map<std::string, Row> RunCell(const Cell& cell) {
  const std::string configs = std::string(WEIR_SOURCE_DIR) + "/configs/";
  const Cluster cluster = ReadCluster(configs + "clusters/" + cell.cluster + ".yaml");
  const ModelMix mix = ReadModelMix(configs + "workloads/study.yaml");
  const int jobs = cell.cluster == "small" ? 100 : cell.cluster == "edge32" ? 300 : 150;
  const std::vector<std::string>& names = BaselineNames();
  std::vector<Row> rows(names.size() + 1, Row(kSeeds, 0.0));
  ParallelFor(0, kSeeds, [&](int i) {
    const Workload workload = GenerateWorkload(mix, cluster.workers, {cell.load, jobs, static_cast<std::uint64_t>(i + 1)});
    for (std::size_t n = 0; n < names.size(); ++n) {
      Simulator simulator(cluster.workers, workload, cluster.model);
      simulator.set_keep_actions(false);
      RunEpisode(&simulator, MakeBaseline(names[n]).get());
      rows[n][i] = Summarize(simulator.records()).mean_jct;
    }
    rows.back()[i] = LowerBounds(cluster.workers, workload, cluster.model).best;
  });
  std::map<std::string, Row> result;
  for (std::size_t n = 0; n < names.size(); ++n) result[names[n]] = rows[n];
  result["(best bound)"] = rows.back();
  return result;
}

MeanAndError Ratio(const std::map<std::string, Row>& cell, const std::string& name) {
  std::vector<double> ratios;
  for (int i = 0; i < kSeeds; ++i) ratios.push_back(cell.at(name)[i] / cell.at("greedy")[i]);
  return MeanOf(ratios);
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  using namespace weir;
  std::vector<std::string> clusters(argv + 1, argv + argc);
  if (clusters.empty()) clusters = {"small", "edge8", "edge32", "edge8-tight"};
  std::map<std::string, std::map<std::string, Row>> cells;
  std::string head = "| mean JCT / greedy |", rule = "| --- |", means = "| *greedy, mean s* |";
  for (const std::string& cluster : clusters) {
    for (const double load : {0.5, 0.7, 0.9}) {
      const std::string name = fmt::format("{} {}", cluster, load);
      cells[name] = RunCell({cluster, load});
      head += " " + name + " |";
      rule += " ---: |";
      means += fmt::format(" {:.0f} |", MeanOf(cells[name].at("greedy")).mean);
    }
  }
  std::vector<std::string> names = BaselineNames();
  names.push_back("(best bound)");
  std::printf("%s\n%s\n%s\n", head.c_str(), rule.c_str(), means.c_str());
  for (const std::string& name : names) {
    std::string line = "| `" + name + "` |";
    for (const std::string& cluster : clusters) {
      for (const double load : {0.5, 0.7, 0.9}) {
        const MeanAndError r = Ratio(cells[fmt::format("{} {}", cluster, load)], name);
        line += fmt::format(" {:.3f} ± {:.3f} |", r.mean, r.standard_error);
      }
    }
    std::printf("%s\n", line.c_str());
  }
  bool all = true;
  const auto bar = [&](bool holds, const std::string& text) {
    all = all && holds;
    std::printf("%s: %s\n", holds ? "holds" : "MISSED", text.c_str());
  };
  if (cells.contains("edge8 0.7")) {
    const auto r = [&](const char* name) { return Ratio(cells["edge8 0.7"], name).mean; };
    bar(r("sbt-mc-hold-1.5") < 1 && 1 < r("sjf") && r("sjf") < r("fifo"),
        fmt::format("edge8 0.7: hold {:.3f} < greedy 1 < sjf {:.2f} < fifo {:.2f}", r("sbt-mc-hold-1.5"), r("sjf"), r("fifo")));
    bar(std::abs(r("sbt-mc-hold-1.5") - 0.67) <= 0.06,
        fmt::format("edge8 0.7: sbt-mc-hold-1.5 {:.3f} at 0.67 +- 0.06", r("sbt-mc-hold-1.5")));
    bar(r("rule") <= 0.68, fmt::format("edge8 0.7: rule {:.3f} <= 0.68", r("rule")));
  }
  if (cells.contains("edge8-tight 0.7")) {
    const auto r = [&](const char* name) { return Ratio(cells["edge8-tight 0.7"], name).mean; };
    bar(r("sbt-mc-hold-1.5") <= 0.25, fmt::format("edge8-tight 0.7: sbt-mc-hold-1.5 {:.3f} <= 0.25", r("sbt-mc-hold-1.5")));
    bar(r("rule") <= 0.15, fmt::format("edge8-tight 0.7: rule {:.3f} <= 0.15", r("rule")));
  }
  return all ? 0 : 1;
}
