// Tables, traces and importers: exact values from small files, the published figures of the public traces, errors by line.
#include "env/workload/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "env/core/error.h"
#include "env/core/file.h"
#include "env/core/rng.h"
#include "env/mdp/scheduler.h"
#include "env/workload/cluster_file.h"
#include "env/workload/csv.h"
#include "env/workload/profiles.h"
#include "env/workload/trace_import.h"
#include "env/workload/workload_source.h"
#include "tests/testing/shared_data.h"

namespace weir {
namespace {

template <typename Call>
std::string ErrorOf(Call call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInvalid);
    return e.what();
  }
  return "no error";
}
void ExpectStart(const std::string& text, const std::string& start) {
  EXPECT_EQ(text.substr(0, start.size()), start);
}

TEST(CsvTest, ReadsQuotesBreaksAndAnyLineEnd) {
  const CsvTable t = CsvTable::Parse(
      "\xef\xbb\xbf"
      "b, a\r\n1,\"x, \"\"y\"\"\nz\"\r\n\n2, 3 \n",
      "t.csv");
  ASSERT_EQ(t.num_rows(), 2);
  EXPECT_EQ(t.Text(0, t.Column("a")), "x, \"y\"\nz");
  EXPECT_EQ(t.Text(1, t.Column("a")), "3");
  EXPECT_EQ(t.Number(1, t.Column("b"), 0, 9), 2);
  EXPECT_EQ(t.where(0), "t.csv:2");
  EXPECT_EQ(t.where(1), "t.csv:5");
}

TEST(CsvTest, WhatIsWrittenReadsBack) {
  const std::string alphabet = "ab,\"\n\r x";
  Rng rng(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text = "h,i\n";
    std::vector<std::string> cells;
    for (int i = 0; i < 6; ++i) {
      std::string cell;
      for (int n = static_cast<int>(rng.Below(6)); n > 0; --n) cell.push_back(alphabet[rng.Below(alphabet.size())]);
      cells.push_back(cell);
      text += CsvField(cell) + (i % 2 ? "\n" : ",");
    }
    const CsvTable t = CsvTable::Parse(text, "t");
    for (int i = 0, row = 0; i < 6; i += 2, ++row) {
      ASSERT_LT(row, t.num_rows()) << text;
      ASSERT_EQ(t.Text(row, 0), cells[i]) << text;
      ASSERT_EQ(t.Text(row, 1), cells[i + 1]) << text;
    }
  }
}

TEST(CsvTest, NamesLineColumnAndReason) {
  auto parse = [](const std::string& text) { return ErrorOf([&] { CsvTable::Parse(text, "t.csv"); }); };
  EXPECT_EQ(parse(""), "t.csv: empty, expected a line with the names of the columns");
  EXPECT_EQ(parse("a,a\n"), "t.csv:1: column 'a' stands there twice");
  EXPECT_EQ(parse("a,b\n1,2\n3\n"), "t.csv:3: expected 2 fields as in the header, got 1");
  EXPECT_EQ(parse("a\n\"x\n"), "t.csv:2: a quote is opened and never closed");
  EXPECT_EQ(parse("a\n\"x\"y\n"), "t.csv:2: expected a comma after the closing quote, got 'y'");
  const CsvTable t = CsvTable::Parse("duration,gpus\nnan,1.5\n1e999,2.0\n-3,x\n", "t.csv");
  EXPECT_EQ(ErrorOf([&] { t.Column("durations"); }),
            "t.csv:1: column 'durations' is missing, did you mean 'duration'? (columns: duration, gpus)");
  EXPECT_EQ(ErrorOf([&] { t.Number(0, 0, 0, 10); }), "t.csv:2: duration must be a number from 0 to 10, got 'nan'");
  EXPECT_EQ(ErrorOf([&] { t.Number(1, 0, 0, 10); }), "t.csv:3: duration must be a number from 0 to 10, got '1e999'");
  EXPECT_EQ(ErrorOf([&] { t.Number(2, 0, 0, 10); }), "t.csv:4: duration must be a number from 0 to 10, got '-3'");
  EXPECT_EQ(ErrorOf([&] { t.Integer(0, 1, 0, 10); }), "t.csv:2: gpus must be a whole number from 0 to 10, got '1.5'");
  EXPECT_EQ(t.Integer(1, 1, 0, 10), 2);
}

TEST(TraceTest, ReadsItsOwnColumnsInAnyOrderAndWritesThemBack) {
  const Trace t =
      ParseTrace("model,gpus,arrival_s,duration_s,iterations,estimate_s,other\nbert,4,0,10,,20,x\n,,5.5,,1e9,,y\n", "t.csv");
  ASSERT_EQ(t.jobs.size(), 2u);
  EXPECT_EQ(t.jobs[0].model, "bert");
  EXPECT_EQ(t.jobs[0].gpus, 4);
  EXPECT_EQ(t.jobs[0].duration, 10);
  EXPECT_EQ(t.jobs[0].estimate, 20);
  EXPECT_EQ(t.jobs[1].duration, -1);
  EXPECT_EQ(t.jobs[1].iterations, 1e9);
  const Trace again = ParseTrace(FormatTrace(t), "again");
  EXPECT_EQ(FormatTrace(again), FormatTrace(t));
  EXPECT_EQ(again.jobs[1].arrival, 5.5);
}

TEST(TraceTest, NamesLineColumnAndReason) {
  auto parse = [](const std::string& text) { return ErrorOf([&] { ParseTrace(text, "t.csv"); }); };
  EXPECT_EQ(parse("duration_s\n1\n"), "t.csv:1: column 'arrival_s' is missing (columns: duration_s)");
  EXPECT_EQ(parse("arrival_s,duration\n1,1\n"), "t.csv:1: unknown column 'duration', did you mean 'duration_s'?");
  EXPECT_EQ(parse("arrival_s\n"), "t.csv: no job in the file");
  EXPECT_EQ(parse("arrival_s,duration_s\n1,-1\n"), "t.csv:2: duration_s must be a number from 0 to 1e+12, got '-1'");
  EXPECT_EQ(parse("arrival_s,duration_s\n1,nan\n"), "t.csv:2: duration_s must be a number from 0 to 1e+12, got 'nan'");
  ExpectStart(parse("arrival_s\n2\n1\n"), "t.csv:3: arrival_s 1 lies before the row above (2)");
  EXPECT_EQ(parse("arrival_s,gpus\n1,0\n"), "t.csv:2: gpus must be a whole number from 1 to 1000000, got '0'");
  EXPECT_EQ(parse("arrival_s,iterations\n1,1e300\n"), "t.csv:2: iterations must be a number from 1 to 1e+15, got '1e300'");
}

TEST(TraceTest, FiltersSayWhatTheyDid) {
  Trace t = ParseTrace("arrival_s,duration_s,group\n0,5,a\n10,50,a\n20,500,b\n30,5000,a\n40,50,a\n", "t.csv");
  TraceFilter filter;
  filter.group = "a";
  filter.min_seconds = 10;
  filter.max_seconds = 1000;
  filter.outside = TraceFilter::Outside::kClamp;
  filter.first = 1;
  filter.count = 2;
  ApplyFilter(filter, &t);
  ASSERT_EQ(t.jobs.size(), 2u);
  EXPECT_EQ(t.jobs[0].arrival, 0);
  EXPECT_EQ(t.jobs[0].duration, 50);
  EXPECT_EQ(t.jobs[1].arrival, 20);
  EXPECT_EQ(t.jobs[1].duration, 1000);
  EXPECT_EQ(t.notices, (std::vector<std::string>{"1 jobs of other groups left out", "2 durations cut to 10 .. 1000 s",
                                                 "jobs 1 to 2 of 4 kept"}));
  Trace dropped = ParseTrace("arrival_s,duration_s\n0,5\n10,50\n", "t.csv");
  filter = {};
  filter.min_seconds = 10;
  filter.outside = TraceFilter::Outside::kDrop;
  ApplyFilter(filter, &dropped);
  EXPECT_EQ(dropped.jobs.size(), 1u);
  filter.group = "z";
  EXPECT_EQ(ErrorOf([&] { ApplyFilter(filter, &dropped); }), "no job of group 'z' (groups: )");
  filter = {};
  filter.first = 7;
  Trace one = ParseTrace("arrival_s\n0\n", "t.csv");
  ExpectStart(ErrorOf([&] { ApplyFilter(filter, &one); }), "no job is left");
}

const std::string kData = std::string(WEIR_SOURCE_DIR) + "/tests/data/traces/";

TEST(TraceImportTest, SmallFilesOfEveryFormat) {
  auto import = [](const std::string& format, const std::string& name) {
    return ImportTrace(format, {{name, ReadFile(kData + name)}});
  };
  const Trace philly = import("philly", "philly.csv");
  ASSERT_EQ(philly.jobs.size(), 3u);
  EXPECT_EQ(philly.notices, std::vector<std::string>{"sorted by time: 1 rows stood before the row above them"});
  EXPECT_EQ(philly.jobs[1].arrival, 3600 + 1);  // over the end of a month
  EXPECT_EQ(philly.jobs[2].arrival, 86400);
  EXPECT_EQ(philly.jobs[2].duration, 66);
  EXPECT_EQ(philly.jobs[2].gpus, 4);
  EXPECT_EQ(philly.jobs[0].group, "aa");
  const Trace muri = import("muri", "muri.csv");
  EXPECT_EQ(muri.jobs[1].arrival, 201694);
  EXPECT_EQ(muri.jobs[1].duration, 4472936);
  EXPECT_EQ(muri.jobs[1].gpus, 8);
  EXPECT_EQ(muri.jobs[1].model, "dqn");
  EXPECT_EQ(muri.jobs[1].iterations, 8787693);
  const Trace pollux = import("pollux", "pollux.csv");
  EXPECT_EQ(pollux.jobs[0].model, "cifar10");
  EXPECT_EQ(pollux.jobs[1].arrival, 3);
  EXPECT_EQ(pollux.jobs[1].duration, -1);
  const Trace swf = import("swf", "small.swf");
  ASSERT_EQ(swf.jobs.size(), 2u);
  EXPECT_EQ(swf.notices, std::vector<std::string>{"small.swf: 1 jobs without a run time or processors (-1) left out"});
  EXPECT_EQ(swf.jobs[0].gpus, 16);  // allocated
  EXPECT_EQ(swf.jobs[1].gpus, 8);   // requested, as nothing is said of the allocation
  EXPECT_EQ(swf.jobs[0].estimate, 7200);
  EXPECT_EQ(swf.jobs[0].group, "3");
  EXPECT_EQ(swf.jobs[1].arrival, 50);
  const Trace csv = ImportTrace("csv", {{"t.csv", "arrival_s,gpus\n5,1\n2,3\n"}});
  EXPECT_EQ(csv.jobs[0].gpus, 3);
  EXPECT_EQ(csv.jobs[1].arrival, 3);
}

TEST(TraceImportTest, NamesLineColumnAndReason) {
  auto import = [](const std::string& format, const std::string& text) {
    return ErrorOf([&] { ImportTrace(format, {{"f", text}}); });
  };
  EXPECT_EQ(import("phily", "a\n"),
            "unknown trace format 'phily', did you mean 'philly'? (known: philly, muri, pollux, swf, csv, gavel)");
  EXPECT_EQ(import("philly", "timestamp,num_gpus\n"), "f:1: column 'duration' is missing (columns: timestamp, num_gpus)");
  const std::string philly = "timestamp,duration,num_gpus\n";
  EXPECT_EQ(import("philly", philly), "f: no job in the file");
  EXPECT_EQ(import("philly", philly + "2017-10-09 07:01:55,-1,1\n"), "f:2: duration must be a number from 0 to 1e+12, got '-1'");
  EXPECT_EQ(import("philly", philly + "2017-10-09 07:01:55,nan,1\n"),
            "f:2: duration must be a number from 0 to 1e+12, got 'nan'");
  for (const char* time :
       {"2017-13-09 07:01:55", "2017-02-29 07:01:55", "2017-10-09", "2017-10-09 25:00:00", "2017-10-09 07:01:55 CET", ""})
    EXPECT_EQ(import("philly", philly + time + ",1,1\n"),
              std::string("f:2: timestamp must be a time such as 2017-10-09 07:01:55, got '") + time + "'");
  EXPECT_EQ(import("muri", "submit_time,duration,num_gpu,iterations,model_name\n1,1,1,0,x\n"),
            "f:2: iterations must be a number from 1 to 1e+15, got '0'");
  EXPECT_EQ(import("swf", "; c\n1 2 3\n"), "f:2: expected 18 fields (Standard Workload Format), got 3");
  EXPECT_EQ(import("swf", "1 0 x 1 1 -1 -1 1 1 -1 1 1 1 -1 -1 -1 -1 -1\n"), "f:1: field 3 must be a number, got 'x'");
  EXPECT_EQ(import("swf", "1 -7 0 1 1 -1 -1 1 1 -1 1 1 1 -1 -1 -1 -1 -1\n"),
            "f:1: field 2 (submit time) must be from 0 to 1e+12, got -7");
}

TEST(TraceImportTest, GavelPairsAndSpeeds) {
  const std::string text = R"j({"v100": {
    "('A (batch size 16)', 1)": {"null": 10, "('A (batch size 16)', 1)": [6, 6], "('B', 1)": [8, 1], "('C', 1)": [0, 0]},
    "('B', 1)": {"null": 2, "('A (batch size 16)', 1)": [1, 8]}, "('C', 1)": {"null": 0}}})j";
  const GavelTable table = ImportGavel({"g.json", text});
  ASSERT_EQ(table.speeds.size(), 2u);
  ASSERT_EQ(table.pairs.size(), 2u);
  EXPECT_EQ(table.pairs[0].job_a, "A (batch size 16)");
  EXPECT_DOUBLE_EQ(table.pairs[0].normalised_sum(), 1.2);
  EXPECT_DOUBLE_EQ(table.pairs[0].gamma(), 0.4);
  EXPECT_DOUBLE_EQ(table.pairs[1].normalised_sum(), 0.8 + 0.5);
  EXPECT_EQ(table.notices.size(), 2u);
  // As the gains of a cluster: what the file says is what the model then uses.
  const std::string device = table.pairs.at(0).device;
  const Cluster cluster = ParseCluster(
      "workers:\n  - {name: a, flops: 1GFLOP/s, memory: 1GB, bandwidth: 1Gbit/s}\n" + FormatCorunGains(table.pairs, device),
      "c.yaml");
  for (const PairGain& pair : table.pairs) {
    if (pair.device != device || pair.gpus != 1) continue;
    const CorunTable& corun = *cluster.model.corun;
    EXPECT_NEAR(corun.Gain(corun.Find(pair.job_a), corun.Find(pair.job_b), 99), std::clamp(pair.gamma(), -0.99, 10.0), 1e-5);
  }
  EXPECT_NE(ErrorOf([&] { FormatCorunGains(table.pairs, "abacus"); }).find("no pairs on one 'abacus'"), std::string::npos);
  auto error = [](const std::string& json) { return ErrorOf([&] { ImportGavel({"g.json", json}); }); };
  EXPECT_EQ(error("{\n\"a\": }"), "g.json:2: not a JSON document");
  EXPECT_EQ(error("[]"), "g.json: must be an object, got array");
  ExpectStart(error(R"j({"k80": {"B": {"null": 1}}})j"), "g.json: k80: B: a job type must look like");
  ExpectStart(error(R"j({"k80": {"('B', 1)": {}}})j"), "g.json: k80: ('B', 1): 'null'");
  ExpectStart(error(R"j({"k80": {"('B', 1)": {"null": -1}}})j"), "g.json: k80: ('B', 1): null: steps a second must be >= 0");
}

// Whatever a file holds, it is read, or refused in one line.
TEST(TraceImportTest, DamagedFilesAreReadOrRefused) {
  const std::string gavel = R"j({"v100": {"('A', 1)": {"null": 10, "('A', 1)": [6, 6]}}})j";
  Rng rng(2);
  int refused = 0, read = 0;
  for (const auto& [format, name] : std::vector<std::pair<std::string, std::string>>{
           {"philly", "philly.csv"}, {"muri", "muri.csv"}, {"pollux", "pollux.csv"}, {"swf", "small.swf"}, {"gavel", ""}}) {
    const std::string good = format == "gavel" ? gavel : ReadFile(kData + name);
    for (int round = 0; round < 1500; ++round) {
      std::string text = good;
      for (int edits = 1 + static_cast<int>(rng.Below(4)); edits > 0 && !text.empty(); --edits) {
        const std::size_t at = rng.Below(text.size());
        switch (rng.Below(4)) {
          case 0:
            text[at] = static_cast<char>(rng.Below(256));
            break;
          case 1:
            text.erase(at, 1 + rng.Below(5));
            break;
          case 2:
            text.insert(at, std::string(1 + rng.Below(3), "9-e.,\"\n "[rng.Below(8)]));
            break;
          default:
            text.resize(at);
        }
      }
      try {
        if (format == "gavel") {
          ImportGavel({"f", text});
        } else {
          for (const TraceJob& job : ImportTrace(format, {{"f", text}}).jobs) {
            ASSERT_TRUE(std::isfinite(job.arrival) && job.arrival >= 0 && job.gpus >= 1);
            ASSERT_TRUE(job.duration == -1 || (job.duration >= 0 && job.duration <= 1e12));
          }
        }
        ++read;
      } catch (const Error& e) {
        ++refused;
        ASSERT_EQ(e.code(), ExitCode::kInvalid);
        ASSERT_EQ(std::string(e.what()).substr(0, 1), "f");
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(read, 500);
}

// The figures that were counted from the public files by other means.
TEST(PublicTracesTest, HaveTheirPublishedFigures) {
  if (!testing::HasSharedData("traces")) GTEST_SKIP() << "no ../shared/data/traces";
  const std::string path = testing::SharedData("traces/philly/philly_train.csv");
  Trace all = ImportTrace("philly", {{path, ReadFile(path)}});
  EXPECT_EQ(all.jobs.size(), 80314u);
  TraceStatistics s = StatisticsOf(all.jobs);
  EXPECT_NEAR(s.mean_gap, 117, 0.5);
  EXPECT_NEAR(s.gap_cv, 15, 0.5);
  EXPECT_EQ(s.p50_duration, 1103);
  EXPECT_EQ(s.p90_duration, 10446);
  EXPECT_NEAR(s.one_gpu_share, 0.936, 5e-4);
  TraceFilter filter;
  filter.group = "103959";
  ApplyFilter(filter, &all);
  s = StatisticsOf(all.jobs);
  EXPECT_EQ(s.jobs, 1934);
  EXPECT_NEAR(s.mean_gap, 4093, 1);
  EXPECT_NEAR(s.gap_cv, 3.3, 0.05);
  EXPECT_EQ(s.p50_duration, 474);
  EXPECT_EQ(s.p90_duration, 87977);
  EXPECT_NEAR(s.mean_busy_gpus, 19.5, 0.05);
  for (const auto& [name, jobs, hours, p50] : std::vector<std::tuple<const char*, std::size_t, double, double>>{
           {"trace1.csv", 1494, 3005, 14393}, {"trace2.csv", 5755, 2381, 8653}}) {
    const std::string muri = testing::SharedData(std::string("traces/muri/") + name);
    const Trace t = ImportTrace("muri", {{muri, ReadFile(muri)}});
    EXPECT_EQ(t.jobs.size(), jobs);
    EXPECT_NEAR(t.jobs.back().arrival / 3600, hours, 1);
    EXPECT_NEAR(StatisticsOf(t.jobs).p50_duration, p50, 1);
  }
  std::vector<TraceFile> files;
  for (int i = 1; i <= 8; ++i) {
    const std::string file = testing::SharedData("traces/pollux/workloads/workload-" + std::to_string(i) + ".csv");
    files.push_back({file, ReadFile(file)});
    EXPECT_EQ(ImportTrace("pollux", {files.back()}).jobs.size(), 160u);
  }
  EXPECT_EQ(ImportTrace("pollux", files).jobs.size(), 1280u);
}

TEST(PublicTracesTest, GavelsGainsHaveTheirPublishedMedians) {
  const std::string path = testing::SharedData("traces/gavel/simulation_throughputs.json");
  if (!testing::HasSharedData("traces/gavel")) GTEST_SKIP() << "no ../shared/data/traces";
  const GavelTable table = ImportGavel({path, ReadFile(path)});
  for (const auto& [device, speed] : std::vector<std::pair<const char*, double>>{{"k80", 4.8}, {"p100", 35.9}, {"v100", 32.4}}) {
    bool found = false;
    for (const DeviceSpeed& s : table.speeds) {
      if (s.device != device || s.job != "ResNet-18 (batch size 16)" || s.gpus != 1) continue;
      found = true;
      EXPECT_NEAR(s.steps_per_second, speed, 0.06) << device;
    }
    EXPECT_TRUE(found) << device;
  }
  for (const auto& [device, gamma] : std::vector<std::pair<const char*, double>>{{"k80", 0.12}, {"p100", 0.26}, {"v100", 0.74}}) {
    std::vector<double> gammas;
    for (const PairGain& p : table.pairs) {
      if (p.device == device && p.gpus == 1 && p.together_a > 0 && p.together_b > 0) gammas.push_back(p.gamma());
    }
    ASSERT_GT(gammas.size(), 50u) << device;
    std::sort(gammas.begin(), gammas.end());
    EXPECT_NEAR(gammas[gammas.size() / 2], gamma, 0.02) << device;
  }
}

class WorkloadSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "weir-workload-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    Write("mix.yaml",
          "name: mix\nduration: {median: 100s, sigma: 1, min: 10s, max: 1000s, reference: 1TFLOP/s}\nprofiles: p.yaml\n");
    Write("p.yaml",
          "name: p\nprofiles:\n  - {model: a, batch: 1, micro_batches: 1, subgraphs: [[1e12, 1e9, 0]]}\n"
          "  - {model: b, batch: 1, micro_batches: 1, subgraphs: [[2e12, 1e9, 0], [2e12, 1e9, 0]], arcs: [[0, 1, 5]]}\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) const { WriteFileAtomically(folder_ + "/" + name, text); }
  WorkloadSource Source(const std::string& extra, const std::string& csv) const {
    Write("t.csv", csv);
    return WorkloadSource::Parse("name: t\ntrace: t.csv\nmix: mix.yaml\n" + extra, folder_ + "/w.yaml");
  }
  std::string folder_;
  const std::vector<WorkerSpec> workers_ = {{"w0", 1e12, 4e9, 1e9, 0, 0, 2}, {"w1", 3e12, 4e9, 1e9, 0, 0, 2}};
};

TEST_F(WorkloadSourceTest, TraceJobsGetSizesByTheFormulaAndTheLoadAskedFor) {
  const std::string csv = "arrival_s,duration_s,gpus,model\n0,100,1,x\n40,200,2,b\n100,40,1,b\n130,52,1,y\n";
  const WorkloadSource source = Source("models: {x: a}\n", csv);
  const DrawnWorkload drawn = source.Draw(workers_, {0.5, 4, 1});
  ASSERT_EQ(drawn.jobs.size(), 4u);
  EXPECT_EQ(drawn.jobs[0]->iterations, 100);  // 100 s * 1 TFLOP/s / 1 TFLOP
  EXPECT_EQ(drawn.jobs[1]->iterations, 100);  // 2 GPUs: 200 * 2 / 4
  EXPECT_EQ(drawn.jobs[2]->iterations, 10);
  double work = 0;
  for (const auto& job : drawn.jobs) work += job->iterations * job->total_flop();
  EXPECT_EQ(work, 1e12 * (100 + 400 + 40 + 52));
  const double span = drawn.jobs.back()->arrival - drawn.jobs.front()->arrival;
  EXPECT_NEAR(work / (span * 4e12), 0.5, 1e-12);
  EXPECT_NEAR(drawn.arrival_factor, work / (130 * 4e12) / 0.5, 1e-12);
  EXPECT_NEAR(drawn.jobs[1]->arrival / drawn.jobs[2]->arrival, 0.4, 1e-12);  // bursts stay
  ASSERT_EQ(drawn.notices.size(), 2u);
  ExpectStart(drawn.notices[0], "t: seed 1: jobs 0 to 3, arrival times x 2.27692 (load 1.138 -> 0.5)");
  EXPECT_EQ(drawn.notices[1], "1 of 4 jobs got a model drawn from the mix");
  EXPECT_EQ(Source("gpus: ignore\n", csv).Draw(workers_, {0.5, 4, 1}).jobs[1]->iterations, 50);
}

TEST_F(WorkloadSourceTest, SeedsTakeWindowsOneAfterTheOther) {
  std::string csv = "arrival_s,duration_s\n";
  for (int i = 0; i < 7; ++i) csv += std::to_string(10 * i) + "," + std::to_string(100 + i) + "\n";
  const WorkloadSource source = Source("", csv);
  auto first = [&](std::uint64_t seed) {
    const DrawnWorkload drawn = source.Draw(workers_, {0.5, 2, seed});
    return std::round(drawn.jobs[0]->iterations * drawn.jobs[0]->total_flop() / 4e12);
  };
  EXPECT_EQ(first(3), first(0));  // three windows: 0-1, 2-3, 4-5
  const DrawnWorkload drawn = source.Draw(workers_, {0.5, 2, 5});
  ExpectStart(drawn.notices[0], "t: seed 5: jobs 4 to 5");
  EXPECT_EQ(drawn.jobs[0]->arrival, 0);
  ExpectStart(ErrorOf([&] { source.Draw(workers_, {0.5, 8, 1}); }), "workload t: the trace has 7 jobs, an episode asks for 8");
}

TEST_F(WorkloadSourceTest, ReplicasEstimatesCutsAndUnknownDurations) {
  const std::string csv = "arrival_s,duration_s,gpus,model,estimate_s\n0,100,2,a,300\n10,5000,1,a,\n20,,1,a,\n30,100,3,a,\n";
  const WorkloadSource source = Source("gpus: replicas\nestimates: true\nduration: {max: 1000s}\n", csv);
  const DrawnWorkload drawn = source.Draw(workers_, {0.5, 4, 1});
  EXPECT_EQ(drawn.unplaceable, 1);  // three replicas on two workers
  ASSERT_EQ(drawn.jobs.size(), 3u);
  EXPECT_EQ(drawn.jobs[0]->replicas, 2);
  EXPECT_EQ(drawn.jobs[0]->iterations, 200);
  EXPECT_EQ(drawn.jobs[0]->estimated_iterations, 600);
  EXPECT_EQ(drawn.jobs[1]->iterations, 1000);
  EXPECT_EQ(drawn.jobs[1]->estimated_iterations, 0);
  EXPECT_GE(drawn.jobs[2]->iterations, 10);  // by the mix's law
  EXPECT_LE(drawn.jobs[2]->iterations, 1000);
  // All at once: no load can be set, and it is said.
  const DrawnWorkload once = Source("", "arrival_s,duration_s\n0,1\n0,1\n").Draw(workers_, {0.5, 2, 1});
  EXPECT_EQ(once.arrival_factor, 1);
  EXPECT_NE(once.notices[0].find("at once"), std::string::npos);
}

TEST_F(WorkloadSourceTest, ABillionIterationsNeitherOverflowNorHang) {
  const WorkloadSource source = Source("", "arrival_s,iterations,model\n0,1e9,a\n1,1e15,b\n2,1000000000,a\n");
  const DrawnWorkload drawn = source.Draw(workers_, {0.7, 3, 1});
  EXPECT_EQ(drawn.jobs[0]->iterations, 1e9);
  Simulator simulator(workers_, drawn.jobs);
  class First : public Scheduler {
   public:
    std::string name() const override { return "first"; }
    Action Decide(const ClusterState& state) override {
      for (JobId id : state.waiting()) {
        for (int w = 0; w < state.num_workers(); ++w) {
          Placement p(state.job(id).spec->subgraphs.size(), w);
          if (state.CanPlace(id, p)) return Action::Place(id, p);
        }
      }
      return Action::Wait();
    }
  } scheduler;
  EXPECT_TRUE(RunEpisode(&simulator, &scheduler).empty());
  for (const JobRecord& record : simulator.records()) EXPECT_TRUE(std::isfinite(record.finish));
}

TEST_F(WorkloadSourceTest, ErrorsNameTheField) {
  const std::string csv = "arrival_s\n0\n";
  ExpectStart(ErrorOf([&] { Source("models: {x: c}\n", csv); }),
              folder_ + "/w.yaml:4: models.x must be a model of the mix (a, b), got 'c'");
  ExpectStart(ErrorOf([&] { Source("gpus: some\n", csv); }), folder_ + "/w.yaml:4: gpus must be");
  ExpectStart(ErrorOf([&] { Source("gpu: work\n", csv); }), folder_ + "/w.yaml:4: unknown key 'gpu', did you mean 'gpus'?");
  ExpectStart(ErrorOf([&] { Source("", "arrival\n0\n"); }), folder_ + "/t.csv:1: column 'arrival_s' is missing");
}

TEST(ProfilesTest, WhatIsWrittenReadsBack) {
  JobSpec job;
  job.micro_batches = 4;
  job.subgraphs = {{1e12 / 3, 7, 5}, {2, 0.1, 0}};
  job.arcs = {{0, 1, 1e9 / 7}};
  JobSpec other = job;
  other.micro_batches = 1;
  const std::string text = FormatProfiles("p", {{"cnn", 8, job}, {"a: b \"c\"", 2, other}, {"cnn", 16, other}}, "one\ntwo");
  ExpectStart(text, "# one\n# two\n");
  const std::vector<ModelMix::Model> models = ParseProfiles(text, "p.yaml");
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[1].name, "a: b \"c\"");
  ASSERT_EQ(models[0].profiles.size(), 2u);
  const JobSpec& read = models[0].profiles[0];
  EXPECT_EQ(read.name, "cnn-b8-k2-m4");
  EXPECT_EQ(read.micro_batches, 4);
  EXPECT_EQ(read.subgraphs[0].flop, 1e12 / 3);
  EXPECT_EQ(read.subgraphs[1].memory_bytes, 0.1);
  EXPECT_EQ(read.arcs[0].bytes, 1e9 / 7);
  auto error = [](const std::string& entry) { return ErrorOf([&] { ParseProfiles("profiles:\n  - " + entry, "p.yaml"); }); };
  ExpectStart(error("{model: a, batch: 1, micro_batches: 1, subgraphs: [[1, 2]]}"),
              "p.yaml:2: profiles[0].subgraphs[0] must be a list [FLOP");
  ExpectStart(error("{model: a, batch: 1, micro_batches: 1, subgraphs: []}"), "p.yaml:2: a job must have at least one subgraph");
  ExpectStart(error("{model: a, batch: 1, micro_batches: 1, subgraphs: [[0, 2, 1]]}"), "p.yaml:2: the sum of flop");
  ExpectStart(error("{model: a, batch: 1, micro_batches: 1, subgraphs: [[1, 2, 1]], arcs: [[0, 0, 1]]}"),
              "p.yaml:2: an arc must go");
}

}  // namespace
}  // namespace weir
