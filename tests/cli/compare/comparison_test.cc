// Comparisons: every aggregate recomputed from the episodes, which are recomputed by running them one by one; independence of
// threads.
#include "cli/compare/comparison.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "agent/baselines/baselines.h"
#include "cli/compare/build_info.h"
#include "cli/compare/compare_config.h"
#include "cli/compare/output.h"
#include "env/core/error.h"
#include "env/core/file.h"
#include "env/sim/best_time.h"
#include "env/workload/csv.h"

namespace weir::cli {
namespace {

const std::string kConfigs = std::string(WEIR_SOURCE_DIR) + "/configs/";

CompareSpec SmallSpec() {
  CompareSpec spec;
  spec.name = "test";
  for (const char* name : {"small", "edge8"}) {
    CompareSpec::ClusterEntry entry;
    entry.cluster = ReadCluster(kConfigs + "clusters/" + name + ".yaml");
    spec.clusters.push_back(entry);
  }
  spec.clusters[1].jobs = 25;
  spec.clusters[1].loads = {0.9};
  spec.workloads.push_back(WorkloadSource::Read(kConfigs + "workloads/study.yaml"));
  spec.loads = {0.5, 0.8};
  spec.schedulers = {"fifo", "greedy", "srpt-eft"};
  if (std::count(BaselineNames().begin(), BaselineNames().end(), "srpt-eft") == 0) spec.schedulers[2] = "rule";
  spec.seed = spec.chosen_seed = 40;
  spec.seeds = 5;
  spec.jobs = 20;
  spec.resamples = 500;
  spec.hash = "h";
  return spec;
}
CompareOptions Options(int threads) {
  CompareOptions options;
  options.threads = threads;
  options.make_scheduler = [](const std::string& name, std::uint64_t) { return MakeBaseline(name); };
  return options;
}

TEST(ComparisonTest, IsTheSameOnAnyNumberOfThreads) {
  const Comparison one = RunComparison(SmallSpec(), Options(1));
  CompareOptions options = Options(7);
  options.measure_decisions = true;
  long calls = 0, last = 0;
  options.progress = [&](long done, long all) {
    ++calls;
    last = done;
    EXPECT_EQ(all, 3 * 5 * 3);
  };
  const Comparison many = RunComparison(SmallSpec(), options);
  EXPECT_EQ(FormatJson(one), FormatJson(many));
  EXPECT_EQ(FormatCsv(one), FormatCsv(many));
  EXPECT_EQ(FormatTable(one), FormatTable(many));
  EXPECT_EQ(FormatReport(one), FormatReport(many));
  EXPECT_EQ(calls, 45);
  EXPECT_EQ(last, 45);
  EXPECT_EQ(many.times.size(), 9u);
  for (const DecisionTimes& t : many.times) EXPECT_GT(t.decisions, 20);
}

TEST(ComparisonTest, EveryFigureFollowsFromTheEpisodes) {
  const CompareSpec spec = SmallSpec();
  const Comparison c = RunComparison(spec, Options(2));
  ASSERT_EQ(c.cells.size(), 3u);
  EXPECT_EQ(c.cells[2].cluster, "edge8");
  EXPECT_EQ(c.cells[2].jobs, 25);
  EXPECT_EQ(c.cells[2].load, 0.9);
  for (std::size_t k = 0; k < c.cells.size(); ++k) {
    const CellResult& cell = c.cells[k];
    const Cluster& cluster = spec.clusters[k == 2].cluster;
    double flops = 0;
    for (const WorkerSpec& w : cluster.workers) flops += w.flops;
    std::vector<std::vector<double>> mean(3);
    std::vector<double> all_jct;
    for (int s = 0; s < 3; ++s) {
      for (int i = 0; i < spec.seeds; ++i) {
        const Workload jobs = GenerateWorkload(spec.workloads[0].mix(), cluster.workers,
                                               {cell.load, cell.jobs, spec.seed + static_cast<std::uint64_t>(i)});
        Simulator simulator(cluster.workers, jobs, cluster.model);
        const auto scheduler = MakeBaseline(spec.schedulers[s]);
        RunEpisode(&simulator, scheduler.get());
        const ClusterState empty(cluster.workers, cluster.model);
        const EpisodeResult& e = cell.schedulers[s].episodes[i];
        double jct = 0, slowdown = 0, x = 0, xx = 0, work = 0, finish = 0, first = kNever;
        for (const JobRecord& r : simulator.records()) {
          const JobSpec& job = *jobs[r.id];
          const double alone = job.iterations * BestAloneTime(empty, job);
          jct += r.jct() / cell.jobs;
          slowdown += r.jct() / alone / cell.jobs;
          x += alone / r.jct();
          xx += alone / r.jct() * (alone / r.jct());
          work += job.iterations * job.total_flop();
          finish = std::max(finish, r.finish);
          first = std::min(first, r.arrival);
          if (s == 0) all_jct.push_back(r.jct());
          EXPECT_GE(r.jct(), alone * (1 - 1e-9));
        }
        EXPECT_NEAR(e.jct.mean_jct, jct, 1e-9 * jct);
        EXPECT_NEAR(e.mean_slowdown, slowdown, 1e-9 * slowdown);
        EXPECT_NEAR(e.fairness, x * x / (cell.jobs * xx), 1e-9);
        EXPECT_NEAR(e.work_rate, work / ((finish - first) * flops), 1e-9);
        EXPECT_LE(e.bound, jct * (1 + 1e-9));
        EXPECT_GT(e.utilisation, 0);
        EXPECT_LE(e.utilisation, 1);
        mean[s].push_back(jct);
      }
    }
    for (int s = 0; s < 3; ++s) {
      const SchedulerResult& r = cell.schedulers[s];
      double ratio = 0, difference = 0;
      int won = 0, lost = 0;
      for (int i = 0; i < spec.seeds; ++i) {
        ratio += mean[s][i] / mean[1][i] / spec.seeds;
        difference += (mean[s][i] - mean[1][i]) / spec.seeds;
        won += mean[s][i] < mean[1][i];
        lost += mean[s][i] > mean[1][i];
      }
      EXPECT_NEAR(r.ratio.mean, ratio, 1e-9 * ratio);
      EXPECT_NEAR(r.difference.mean, difference, 1e-6);
      EXPECT_EQ(r.won, won);
      EXPECT_EQ(r.lost, lost);
      EXPECT_LE(r.ratio.interval.low, r.ratio.mean);
      EXPECT_GE(r.ratio.interval.high, r.ratio.mean);
    }
    EXPECT_EQ(cell.schedulers[1].ratio.interval.low, 1);
    EXPECT_EQ(cell.schedulers[1].difference.interval.high, 0);
    for (int p : {1, 50, 95, 100}) EXPECT_EQ(cell.schedulers[0].jct_quantiles[p], Quantile(all_jct, p / 100.0)) << p;
  }
}

TEST(ComparisonTest, JsonAndCsvSayTheSame) {
  const Comparison c = RunComparison(SmallSpec(), Options(2));
  const auto json = nlohmann::json::parse(FormatJson(c));
  const CsvTable csv = CsvTable::Parse(FormatCsv(c), "csv");
  EXPECT_EQ(csv.num_rows(), 45);
  double sum = 0;
  for (int row = 0; row < csv.num_rows(); ++row) {
    if (csv.Text(row, csv.Column("cluster")) == "edge8" && csv.Text(row, csv.Column("scheduler")) == "fifo")
      sum += csv.Number(row, csv.Column("mean_jct"), 0, 1e12) / 5;
  }
  EXPECT_NEAR(json["cells"][2]["schedulers"][0]["mean_jct"].get<double>(), sum, 1e-9 * sum);
  EXPECT_EQ(json["cells"][0]["schedulers"][0]["episodes"].size(), 5u);
  EXPECT_EQ(json["config_hash"], "h");
  EXPECT_EQ(json["git"], std::string(GitHash()));
  EXPECT_TRUE(std::regex_match(std::string(GitHash()), std::regex("unknown|[0-9a-f]{12,40}(-dirty)?"))) << GitHash();
}

TEST(ComparisonTest, MarkdownHasARowPerSchedulerAndAColumnPerCell) {
  const Comparison c = RunComparison(SmallSpec(), Options(2));
  const std::string text = FormatMarkdown(c);
  EXPECT_EQ(text.find("| mean JCT / greedy | small 0.5 | small 0.8 | edge8 0.9 |\n|---|---:|---:|---:|\n| greedy, s | "), 0u)
      << text;
  EXPECT_NE(text.find("\n| greedy | 1.000 ± 0.000 | 1.000 ± 0.000 | 1.000 ± 0.000 |\n"), std::string::npos);
  EXPECT_NE(text.find(fmt::format("\n| fifo | {:.3f} ± {:.3f} | ", c.cells[0].schedulers[0].ratio.mean,
                                  c.cells[0].schedulers[0].ratio.standard_error)),
            std::string::npos);
  EXPECT_NE(text.find("\n\n| p95 JCT / greedy |"), std::string::npos);
}

TEST(ReportTest, StandsAloneAndHoldsTheData) {
  CompareSpec spec = SmallSpec();
  spec.name = "a</script><script>alert(1)</script>";
  spec.chosen_cell = 1;
  spec.chosen_seed = 42;
  const Comparison c = RunComparison(spec, Options(2));
  const std::string html = FormatReport(c);
  // Nothing that a browser would fetch.
  for (const char* pattern :
       {"https?://", "src\\s*=", "<link", "@import", "url\\(", "href\\s*=", "fetch\\(", "XMLHttp", "@DATA@"})
    EXPECT_FALSE(std::regex_search(html, std::regex(pattern))) << pattern;
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(html.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(html.find("width=device-width"), std::string::npos);
  auto count = [&](const std::string& what) {
    int n = 0;
    for (std::size_t at = html.find(what); at != std::string::npos; at = html.find(what, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("<script"), 2);
  EXPECT_EQ(count("</script>"), 2);
  // Every element that the script fills is on the page.
  const std::regex use("\\$\\(\"([a-z-]+)\"\\)");
  for (std::sregex_iterator it(html.begin(), html.end(), use), end; it != end; ++it)
    EXPECT_NE(html.find("id=\"" + (*it)[1].str() + "\""), std::string::npos) << (*it)[1];
  const std::string open = "<script id=\"data\" type=\"application/json\">";
  const std::size_t begin = html.find(open) + open.size();
  const auto data = nlohmann::json::parse(html.substr(begin, html.find("</script>", begin) - begin));
  EXPECT_EQ(data["name"], spec.name);
  EXPECT_EQ(data["cells"].size(), 3u);
  const auto& s = data["cells"][1]["schedulers"][2];
  EXPECT_EQ(s["jct_quantiles"].size(), 101u);
  EXPECT_TRUE(std::is_sorted(s["jct_quantiles"].begin(), s["jct_quantiles"].end()));
  // The Gantt chart holds the chosen episode: the stays of a job end at its finish.
  ASSERT_EQ(data["episode"]["runs"].size(), 3u);
  EXPECT_EQ(data["episode"]["seed"], 42);
  const Workload jobs = GenerateWorkload(spec.workloads[0].mix(), spec.clusters[0].cluster.workers, {0.8, 20, 42});
  Simulator simulator(spec.clusters[0].cluster.workers, jobs);
  const auto fifo = MakeBaseline("fifo");
  RunEpisode(&simulator, fifo.get());
  std::map<int, double> last;
  for (const auto& segment : data["episode"]["runs"][0]["segments"]) last[segment[0].get<int>()] = segment[2].get<double>();
  ASSERT_EQ(last.size(), 20u);
  for (const JobRecord& r : simulator.records()) EXPECT_EQ(last[r.id], r.finish);
  const auto trace = nlohmann::json::parse(FormatEpisodeTrace(c, "fifo"));
  EXPECT_GT(trace["traceEvents"].size(), 40u);
}

TEST(FailIfTest, NamesCellsAndRefusesUnknownNames) {
  const CompareSpec spec = SmallSpec();
  const Comparison c = RunComparison(spec, Options(2));
  auto cells = [&](const std::string& text) { return CellsWhere(ParseFailIf(text, spec), c); };
  EXPECT_EQ(cells("greedy.ratio == 1 and greedy.won + greedy.lost == 0"), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(cells("cluster == 'edge8'"), (std::vector<int>{2}));
  EXPECT_EQ(cells("load < 0.6 and workers == 4"), (std::vector<int>{0}));
  EXPECT_EQ(cells("fifo.bound_ratio < 1"), (std::vector<int>{}));
  EXPECT_EQ(cells("fifo.ratio_low <= fifo.ratio and fifo.difference > 0"), (std::vector<int>{0, 1, 2}));
  auto error = [&](const std::string& text) {
    try {
      ParseFailIf(text, spec);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error("fifo.mean_jtc > 1"), "condition 'fifo.mean_jtc > 1': unknown figure 'mean_jtc', did you mean 'mean_jct'?");
  EXPECT_EQ(error("fiffo.mean_jct > 1"), "condition 'fiffo.mean_jct > 1': unknown scheduler 'fiffo', did you mean 'fifo'?");
  EXPECT_NE(error("brightness > 1").find("unknown variable 'brightness' (known: "), std::string::npos);
}

TEST(ComparisonTest, ASchedulerThatLeavesJobsWaitingIsNamedWithItsEpisode) {
  class Never : public Scheduler {
   public:
    std::string name() const override { return "never"; }
    Action Decide(const ClusterState&) override { return Action::Wait(); }
  };
  for (int threads : {1, 6}) {
    CompareOptions options = Options(threads);
    options.make_scheduler = [](const std::string& name, std::uint64_t) {
      return name == "fifo" ? std::unique_ptr<Scheduler>(std::make_unique<Never>()) : MakeBaseline(name);
    };
    try {
      RunComparison(SmallSpec(), options);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kNotPlaceable);
      EXPECT_STREQ(e.what(), "compare: small, study, load 0.5, seed 40: fifo left 20 jobs waiting for ever (first: 0)");
    }
  }
}

TEST(CompareConfigTest, ShippedFilesAreReadAndErrorsNameTheField) {
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs + "compare")) {
    if (entry.path().stem() == "traces") continue;  // needs traces that aren't in the tree
    EXPECT_NO_THROW(CheckSpec(ReadCompareConfig(entry.path().string()))) << entry.path();
  }
  std::string pattern = ::testing::TempDir() + "weir-compare-XXXXXX";
  const std::string folder = ::mkdtemp(pattern.data());
  auto error = [&](const std::string& text) {
    WriteFileAtomically(folder + "/c.yaml", text);
    try {
      ReadCompareConfig(folder + "/c.yaml");
    } catch (const Error& e) {
      return std::string(e.what()).substr(folder.size() + 1);
    }
    return std::string("no error");
  };
  const std::string head = "clusters: [" + kConfigs + "clusters/small.yaml]\nworkloads: [" + kConfigs + "workloads/study.yaml]\n";
  EXPECT_EQ(error(head + "schedulers: [fifo, sjf]\n"), "no error");
  EXPECT_EQ(error(head + "schedulers: [fifo, fifo]\n"), "c.yaml:3: schedulers[1] must be given once, got 'fifo' twice");
  EXPECT_EQ(error(head + "schedulers: [fifo]\nloads: [0]\n").substr(0, 23), "c.yaml:4: loads[0] must");
  EXPECT_EQ(error(head + "schedulers: [fifo]\nseedz: 3\n"), "c.yaml:4: unknown key 'seedz', did you mean 'seed'?");
  EXPECT_EQ(error("clusters: []\n").substr(0, 25), "c.yaml:1: clusters must b");
  std::filesystem::remove_all(folder);
}

// The rule in configs/clusters/campus256.yaml.
TEST(ClustersTest, Campus256FollowsItsRule) {
  const Cluster campus = ReadCluster(kConfigs + "clusters/campus256.yaml"), edge8 = ReadCluster(kConfigs + "clusters/edge8.yaml");
  ASSERT_EQ(campus.workers.size(), 256u);
  for (int copy = 0; copy < 32; ++copy) {
    const double factor = 0.8 + 0.4 * (13 * copy % 32) / 31;
    for (int i = 0; i < 8; ++i) {
      const WorkerSpec &w = campus.workers[8 * copy + i], &base = edge8.workers[i];
      EXPECT_NEAR(w.flops, std::round(base.flops * factor / 1e9) * 1e9, 1) << w.name;
      EXPECT_EQ(w.memory_bytes, base.memory_bytes);
      EXPECT_EQ(w.bandwidth, base.bandwidth);
      EXPECT_EQ(w.latency, base.latency);
      EXPECT_EQ(w.corun_gain, base.corun_gain);
    }
  }
}

}  // namespace
}  // namespace weir::cli
