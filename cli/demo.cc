// weir demo: a coordinator and emulated workers on this machine train real jobs under the policy; then the same arrivals in the
// simulator.
#include <poll.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/demo_cluster.h"
#include "cli/demo_file.h"
#include "cli/remote.h"
#include "cli/resources.h"
#include "cli/schedulers.h"
#include "cli/submit_job.h"
#include "cli/verbs.h"
#include "env/core/file.h"
#include "env/core/units.h"
#include "env/sim/simulator.h"
#include "worker/protocol/dataset.h"
#include "worker/runtime/held_out.h"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string file, scheduler = "policy", policy, output;
  double timeout = 240;
  bool json = false;
};

struct Checked {
  wire::JobInfo info;
  double accuracy = -1;  // measured here on the returned weights
  double wanted = 0;     // what it must reach
  std::string problem;   // empty: all well
};

std::string Workers(const wire::JobInfo& job) {
  std::string text;
  for (const std::string& w : job.workers()) text += (text.empty() ? "" : ",") + w;
  return text;
}

// The job as the scheduler saw it, for the simulator.
JobSpec ToSpec(const wire::JobInfo& info, int id, double epoch) {
  JobSpec spec;
  spec.id = id;
  spec.name = info.name();
  spec.arrival = info.arrival() - epoch;
  spec.iterations = static_cast<double>(info.iterations_total());
  spec.micro_batches = std::max(1, info.micro_batches());
  spec.evaluation_share = info.evaluation_share();
  spec.overhead_seconds = info.predicted_overhead_seconds();
  if (info.correction() > 0) spec.correction = info.correction();
  for (int k = 0; k < info.subgraph_flop_size(); ++k) {
    SubgraphSpec s;
    s.flop = info.subgraph_flop(k);
    s.memory_bytes = info.subgraph_memory_bytes(k);
    s.param_bytes = k < info.subgraph_param_bytes_size() ? info.subgraph_param_bytes(k) : 0;
    spec.subgraphs.push_back(s);
  }
  for (int a = 0; a + 2 < info.arc_size(); a += 3) {
    spec.arcs.push_back({static_cast<int>(info.arc(a)), static_cast<int>(info.arc(a + 1)), info.arc(a + 2)});
  }
  return spec;
}

bool Ended(const wire::JobInfo& job) {
  return job.state() == "finished" || job.state() == "failed" || job.state() == "cancelled";
}

// Follows the jobs: a line for each change of a job's state, and one of progress every few seconds.
class Reporter {
 public:
  void Show(const wire::ListReply& reply, double elapsed) {
    for (const auto& job : reply.jobs()) {
      std::string& before = state_[job.job()];
      if (before == job.state()) continue;
      before = job.state();
      if (job.state() == "running" || job.state() == "starting") {
        Line(elapsed,
             fmt::format("{:<18} {} on {} ({} part{}, {} decided in {:.1f} ms)", job.name(), job.state(), Workers(job),
                         job.workers_size(), job.workers_size() == 1 ? "" : "s", job.scheduler(), job.decision_seconds() * 1e3));
      } else if (job.state() == "finished") {
        Line(elapsed, fmt::format("{:<18} finished after {}, loss {:.3f}, held-out accuracy {:.1f} %", job.name(),
                                  FormatSeconds(job.finish() - job.arrival()), job.loss(), 100 * job.accuracy()));
      } else {
        Line(elapsed, fmt::format("{:<18} {}{}{}", job.name(), job.state(), job.reason().empty() ? "" : ": ", job.reason()));
      }
    }
    if (elapsed - last_ < 3) return;
    last_ = elapsed;
    std::string running;
    int waiting = 0, done = 0;
    for (const auto& job : reply.jobs()) {
      waiting += job.state() == "waiting";
      done += Ended(job);
      if (job.state() != "running" || job.iterations_total() == 0) continue;
      running += fmt::format("  {} {:.0f}%", job.name(),
                             100.0 * static_cast<double>(job.iterations_done()) / static_cast<double>(job.iterations_total()));
    }
    Line(elapsed, fmt::format("waiting {}, done {}, running:{}", waiting, done, running.empty() ? " none" : running));
  }

 private:
  static void Line(double elapsed, const std::string& text) { std::fprintf(stderr, "%6.1fs  %s\n", elapsed, text.c_str()); }
  std::map<std::int64_t, std::string> state_;
  double last_ = 0;
};

wire::ListReply List(worker::Client* client) {
  return client->Call<wire::ListReply>(worker::MessageType::kListRequest, wire::ListRequest(), worker::MessageType::kListReply);
}

// Submits each job at its time and returns once all have ended. `ids[i]` is the number of demo.jobs[i].
std::vector<std::int64_t> RunJobs(const DemoFile& demo, DemoCluster* cluster, double timeout) {
  worker::Client client(cluster->address());
  Reporter reporter;
  std::vector<std::int64_t> ids;
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  while (true) {
    while (ids.size() < demo.jobs.size() && demo.jobs[ids.size()].at <= elapsed()) {
      ids.push_back(SubmitJob(demo.jobs[ids.size()].job, cluster->address(), "", true));
    }
    const wire::ListReply reply = List(&client);
    reporter.Show(reply, elapsed());
    const auto ended = std::count_if(reply.jobs().begin(), reply.jobs().end(), Ended);
    if (ids.size() == demo.jobs.size() && ended == static_cast<long>(ids.size())) return ids;
    cluster->RequireAlive();
    if (elapsed() > timeout) throw Failure(ExitCode::kTimeout, "not all jobs ended within {:.0f} s", timeout);
    pollfd stop{StopFd(), POLLIN, 0};
    if (::poll(&stop, 1, 200) > 0) throw Failure(ExitCode::kInterrupted, "interrupted");
  }
}

// Fetches a job's weights and measures them as a user would.
Checked Check(const DemoJob& wanted, std::int64_t id, worker::Client* client, worker::ArtifactClient* artifacts,
              const std::string& folder) {
  Checked result;
  result.info = ShowJob(client, id);
  result.wanted = wanted.min_accuracy;
  if (result.info.state() != "finished") {
    result.problem = result.info.state() + ": " + result.info.reason();
    return result;
  }
  try {
    const std::string path = fmt::format("{}/{}.pt", folder, wanted.job.name);
    artifacts->GetFile(result.info.result_artifact(), path);
    const worker::JobFile& job = wanted.job;
    const auto data =
        worker::ReadDataset(job.data_path, job.labels_path, job.data_format, job.sample_shape, job.num_classes, job.scale);
    result.accuracy = worker::HeldOutAccuracy(path, data, job.holdout, job.seed);
    if (result.accuracy < wanted.min_accuracy) {
      result.problem = fmt::format("accuracy {:.3f}, at least {:.3f} expected", result.accuracy, wanted.min_accuracy);
    }
  } catch (const Error& e) {
    result.problem = e.what();
  }
  return result;
}

struct SimulatedRow {
  std::string scheduler;
  double mean_jct = 0;
  std::size_t unfinished = 0;
};

std::vector<SimulatedRow> Simulate(const std::vector<Checked>& jobs, const Cluster& cluster, double epoch, const Options& o) {
  std::vector<JobSpec> specs;
  for (const Checked& job : jobs) specs.push_back(ToSpec(job.info, static_cast<int>(specs.size()), epoch));
  const Workload workload = MakeWorkload(specs);
  std::vector<SimulatedRow> rows;
  for (const std::string name : {"fifo", "sjf", "greedy", "policy"}) {
    SchedulerOptions options;
    options.policy_path = o.policy;
    auto scheduler = MakeScheduler(name, options);
    Simulator simulator(cluster.workers, workload, ModelOptions{.physical = true, .restart_seconds = 2});
    SimulatedRow row{name, 0, RunEpisode(&simulator, scheduler.get()).size()};
    for (const JobRecord& r : simulator.records()) row.mean_jct += r.finished() ? r.jct() : 0;
    row.mean_jct /= static_cast<double>(std::max<std::size_t>(1, jobs.size() - row.unfinished));
    rows.push_back(row);
  }
  return rows;
}

void PrintTable(const std::vector<Checked>& jobs, double epoch) {
  std::printf("\n%-18s %-18s %8s %8s %8s %8s  %-14s %5s %7s %9s %7s\n", "JOB", "MODEL", "ARRIVAL", "START", "FINISH", "JCT",
              "WORKERS", "PARTS", "LOSS", "ACCURACY", "NEEDED");
  for (const Checked& c : jobs) {
    const wire::JobInfo& j = c.info;
    std::printf("%-18s %-18s %7.1fs %7.1fs %7.1fs %7.1fs  %-14s %5d %7.3f %8.1f%% %6.0f%%%s%s\n", j.name().c_str(),
                j.model().c_str(), j.arrival() - epoch, j.start() - epoch, j.finish() - epoch, j.finish() - j.arrival(),
                Workers(j).c_str(), j.parts(), j.loss(), 100 * c.accuracy, 100 * c.wanted, c.problem.empty() ? "" : "  ! ",
                c.problem.c_str());
  }
}

void RunDemo(const Options& o) {
  const DemoFile demo = ReadDemo(o.file.empty() ? ResourcePath("configs/demo/demo.yaml") : o.file);
  SchedulerOptions check;
  check.policy_path = o.policy;
  MakeScheduler(o.policy.empty() ? o.scheduler : "policy", check);  // throws before anything starts
  char name[] = "/tmp/weir-demo-XXXXXX";
  const bool keep = !o.output.empty();
  if (!keep && !::mkdtemp(name)) throw Failure(ExitCode::kInfrastructure, "{}: can't be made", name);
  const std::string folder = keep ? o.output : name;
  struct Remove {
    std::string path;
    ~Remove() {
      std::error_code ignored;
      if (!path.empty()) fs::remove_all(path, ignored);
    }
  } remove{keep ? "" : folder};
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Failure(ExitCode::kInfrastructure, "{}: can't be made: {}", folder, error.message());

  std::fprintf(
      stderr,
      "Starting a coordinator (scheduler %s) and %zu workers on this machine. Speed and memory of the workers are emulated:\n"
      "they really train, and each part is then stretched to the time that its device would take. Traffic runs at %s.\n",
      o.scheduler.c_str(), demo.cluster.workers.size(),
      demo.emulate_link ? "the speed\nof the links below, which are emulated too"
                        : "loopback\nspeed; the links below are what the scheduler reckons with");
  for (const WorkerSpec& w : demo.cluster.workers) {
    std::fprintf(stderr, "  %-8s %sFLOP/s, %s, %s/s\n", w.name.c_str(), FormatCount(w.flops).c_str(),
                 FormatBytes(w.memory_bytes).c_str(), FormatBytes(w.bandwidth).c_str());
  }
  std::vector<Checked> jobs;
  std::string policy_hash;
  double epoch = 0;
  {
    DemoCluster cluster(demo.cluster.workers, folder + "/state", o.scheduler, o.policy, demo.emulate_link);
    const std::vector<std::int64_t> ids = RunJobs(demo, &cluster, o.timeout);
    worker::Client client(cluster.address());
    worker::ArtifactClient artifacts(worker::ArtifactAddress(&client));
    for (std::size_t i = 0; i < ids.size(); ++i) jobs.push_back(Check(demo.jobs[i], ids[i], &client, &artifacts, folder));
    epoch = jobs.front().info.arrival();
    policy_hash = List(&client).policy_hash();
  }
  double measured = 0;
  std::size_t bad = 0, split = 0;
  for (const Checked& c : jobs) {
    measured += (c.info.finish() - c.info.arrival()) / static_cast<double>(jobs.size());
    bad += !c.problem.empty();
    split += c.info.workers_size() > 1;
  }
  const std::vector<SimulatedRow> simulated = Simulate(jobs, demo.cluster, epoch, o);
  if (o.json) {
    nlohmann::ordered_json out = {
        {"schema_version", 1}, {"scheduler", o.scheduler}, {"policy_hash", policy_hash}, {"emulated", true}};
    for (const Checked& c : jobs) {
      nlohmann::ordered_json row = ToJson(c.info, false);
      row["held_out_accuracy"] = c.accuracy;
      row["accuracy_needed"] = c.wanted;
      row["problem"] = c.problem;
      out["jobs"].push_back(row);
    }
    out["measured_mean_jct"] = measured;
    for (const SimulatedRow& r : simulated)
      out["simulated"].push_back({{"scheduler", r.scheduler}, {"mean_jct", r.mean_jct}, {"unfinished", r.unfinished}});
    std::printf("%s\n", out.dump().c_str());
  } else {
    PrintTable(jobs, epoch);
    std::printf("\n%zu jobs, %zu in several parts on several workers. Mean JCT of the same arrivals on these workers:\n",
                jobs.size(), split);
    std::printf("  %-22s %7.1f s  measured (real training on emulated workers)\n", o.scheduler.c_str(), measured);
    for (const SimulatedRow& r : simulated) {
      std::printf("  %-22s %7.1f s  simulated%s\n", r.scheduler.c_str(), r.mean_jct,
                  r.unfinished ? fmt::format(", {} unplaced", r.unfinished).c_str() : "");
    }
    if (!policy_hash.empty()) std::printf("policy %s\n", policy_hash.substr(0, 12).c_str());
    if (keep) std::printf("weights and event log in %s\n", folder.c_str());
  }
  if (bad > 0) {
    std::fprintf(stderr, "weir: %zu of %zu jobs did not end well\n", bad, jobs.size());
    throw VerbExit{ExitCode::kJobFailed};
  }
}

void Run(const Options& o) {
  try {
    RunDemo(o);
  } catch (const Error&) {
    // Ctrl-C ends the children too, so that a request to them fails first.
    pollfd stop{StopFd(), POLLIN, 0};
    if (::poll(&stop, 1, 200) > 0) throw Failure(ExitCode::kInterrupted, "interrupted");
    throw;
  }
}

}  // namespace

void AddDemo(CLI::App& app) {
  static Options o;
  CLI::App* verb = app.add_subcommand("demo", "Train small models on emulated workers of this machine, and show what happened");
  verb->add_option("--file", o.file, "Another script than configs/demo/demo.yaml");
  verb->add_option("--scheduler", o.scheduler, "policy, fifo, sjf, greedy, ...")->capture_default_str();
  verb->add_option("--policy", o.policy, "Policy file");
  verb->add_option("--output", o.output, "Keep weights and event log in this folder");
  verb->add_option("--timeout", o.timeout, "Seconds until the jobs must have ended")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  verb->add_flag("--json", o.json, "Print JSON");
  verb->callback([] { Run(o); });
}

}  // namespace weir::cli
