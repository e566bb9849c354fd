// Latency of one policy decision (observation + forward pass) on one core: 32 workers, about 100 waiting jobs, the cluster as
// full as it gets. Usage: decision_latency [policy file]. Prints p50 and p99 in milliseconds of CPU of the whole decision and of
// the forward alone.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <vector>

#include "agent/baselines/baselines.h"
#include "agent/policy/network.h"
#include "agent/policy/policy.h"
#include "env/workload/cluster_file.h"
#include "env/workload/generator.h"

namespace weir {
namespace {

// CPU time of this thread: what other processes do on the machine doesn't count.
double Milliseconds() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

void Print(const char* name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::printf("%-24s n %zu  p50 %.3f ms  p99 %.3f ms  max %.3f ms\n", name, values.size(), values[values.size() / 2],
              values[values.size() * 99 / 100], values.back());
}

void Run(const std::string& path) {
  const std::string root = WEIR_SOURCE_DIR;
  const Cluster cluster = ReadCluster(root + "/configs/clusters/edge32.yaml");
  const ModelMix mix = ReadModelMix(root + "/configs/workloads/study.yaml");
  const PolicyFile file = ReadPolicyFile(path);
  FloatNetwork network(file.info.sizes, file.weights);
  Observer observer;
  Observation observation;
  std::vector<float> scores;
  std::vector<double> decisions, forwards;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    // Load 3 fills the queue; from 100 waiting jobs on every decision counts.
    Simulator simulator(cluster.workers, GenerateWorkload(mix, cluster.workers, {3, 400, seed}), cluster.model);
    auto rule = MakeBaseline("sbt-eft-hold-2");
    rule->Reset();
    while (simulator.Advance() && decisions.size() < seed * 500) {
      for (;;) {
        const std::size_t waiting = simulator.state().waiting().size();
        if (waiting >= 80 && waiting <= 120) {
          const double start = Milliseconds();
          observer.Observe(simulator.state(), &observation);
          const double seen = Milliseconds();
          network.Score(observation, &scores, nullptr);
          const double end = Milliseconds();
          decisions.push_back(end - start);
          forwards.push_back(end - seen);
        }
        const Action action = rule->Decide(simulator.state());
        simulator.Apply(action);
        if (action.kind == Action::Kind::kWait) break;
      }
    }
  }
  Print("decision", decisions);
  Print("forward pass", forwards);
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  try {
    weir::Run(argc > 1 ? argv[1] : weir::DefaultPolicyPath());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "decision_latency: %s\n", e.what());
    return 2;
  }
  return 0;
}
