// The simulator's speed on one core: whole episodes of the study's workload, an event being an arrival, a finish or a change of a
// worker (not a placement). Time includes the scheduler's decisions, not the generation of the workload. `sim` prints the bars
// and the growth from 8 to 1,024 workers; `sim 256 10000 fifo-pack` one cell.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "agent/baselines/baselines.h"
#include "env/core/rng.h"
#include "env/mdp/scheduler.h"
#include "env/workload/cluster_file.h"
#include "env/workload/generator.h"

namespace weir {
namespace {

struct Speed {
  double events_per_second = 0;
  double decisions_per_second = 0;
  double mean_jct = 0;
};

// edge8's workers again and again, each copy scaled by 0.8 .. 1.2 so that no two are alike.
std::vector<WorkerSpec> MakeWorkers(int count) {
  const std::vector<WorkerSpec> base = ReadCluster(std::string(WEIR_SOURCE_DIR) + "/configs/clusters/edge8.yaml").workers;
  std::vector<WorkerSpec> workers;
  Rng rng(1);
  for (int w = 0; w < count; ++w) {
    WorkerSpec worker = base[w % base.size()];
    if (w >= static_cast<int>(base.size())) worker.flops *= rng.Uniform(0.8, 1.2);
    worker.name = "w" + std::to_string(w);
    workers.push_back(std::move(worker));
  }
  return workers;
}

Speed Measure(int num_workers, int num_jobs, const std::string& name, double least_seconds) {
  const ModelMix mix = ReadModelMix(std::string(WEIR_SOURCE_DIR) + "/configs/workloads/study.yaml");
  const std::vector<WorkerSpec> workers = MakeWorkers(num_workers);
  const Workload jobs = GenerateWorkload(mix, workers, {0.9, num_jobs, 1});
  auto scheduler = MakeBaseline(name);
  long events = 0, decisions = 0;
  double spent = 0, best = 0, best_decisions = 0;
  Speed speed;
  for (int round = 0; round < 3 || spent < least_seconds; ++round) {
    Simulator simulator(workers, jobs);
    simulator.set_keep_actions(false);
    const auto start = std::chrono::steady_clock::now();
    RunEpisode(&simulator, scheduler.get());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    events = 2L * num_jobs;
    decisions = simulator.num_events() - events;
    spent += seconds;
    best = std::max(best, static_cast<double>(events) / seconds);
    best_decisions = std::max(best_decisions, static_cast<double>(decisions) / seconds);
    speed.mean_jct = simulator.job_seconds() / num_jobs;
    if (round > 50) break;
  }
  speed.events_per_second = best;
  speed.decisions_per_second = best_decisions;
  return speed;
}

void Print(int workers, int jobs, const std::string& name, const Speed& speed, double reference) {
  std::printf("%7d  %7d  %-12s  %12.0f  %12.0f  %10.1f", workers, jobs, name.c_str(), speed.events_per_second,
              speed.decisions_per_second, speed.mean_jct);
  if (reference > 0) std::printf("  %5.3f of fifo-pack", speed.events_per_second / reference);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  using namespace weir;
  std::printf("workers     jobs  scheduler         events/s  placements/s  mean JCT s   (load 0.9, best of at least 3 runs)\n");
  if (argc == 4) {
    const int workers = std::atoi(argv[1]), jobs = std::atoi(argv[2]);
    Print(workers, jobs, argv[3], Measure(workers, jobs, argv[3], 1), 0);
    return 0;
  }
  for (int workers : {8, 32, 128, 256, 512, 1024}) {
    const int jobs = workers == 8 ? 2000 : 10000;
    const double pack = [&] {
      const Speed speed = Measure(workers, jobs, "fifo-pack", 0.5);
      Print(workers, jobs, "fifo-pack", speed, 0);
      return speed.events_per_second;
    }();
    for (const char* name : {"fifo-eft", "rule"}) Print(workers, jobs, name, Measure(workers, jobs, name, 0.5), pack);
  }
  return 0;
}
