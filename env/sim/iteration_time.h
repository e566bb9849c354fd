// How long one iteration of a placed job takes: the model that simulator, coordinator and every scheduler share.
//
//   t_k   = f_k / speed_w(n_w),  speed_w(n) = flops_w * (1 + gamma_w * (1 - 1/n)) / n         n_w: jobs resident on w
//   a cut arc (u != v) takes 2*bytes/min(b_u/c_u, b_v/c_v) + 2*(l_u + l_v)                   c_w: jobs with a cut arc at w
//   P     = longest path over node and arc times (also where parallel branches share a worker)
//   B     = max over the job's workers of max(sum of its t_k there, sum over its cut arcs there of 2*bytes/(b_w/c_w))
//   T     = P/M + (M-1)/M * B
// With R replicas FLOP and arc bytes are divided by R, T is the slowest row plus the exchange of gradients: a ring over the
// R copies, for each worker 2*(R-1)/R * param_bytes there / (slowest b/c of the job) + 2*(R-1)*2*(largest latency), the greatest.
// options.physical, for predictions on real clusters: each NIC direction is charged alone (B: bytes in place of 2*bytes), every
// micro-batch pays the latency (P = longest path of t_k/M and 2*bytes/(bw*M) + 2*lat, T = P + (M-1)/M * B), and T >= B.
// options.links overrides bandwidth and latency of pairs (env/sim/links.h), options.corun the gain of pairs of job classes
// (env/sim/corun.h): gamma is then the mean over the pairs of residents.
// Pure functions; thread-safe.
#ifndef WEIR_ENV_SIM_ITERATION_TIME_H_
#define WEIR_ENV_SIM_ITERATION_TIME_H_

#include <memory>
#include <span>

#include "env/sim/corun.h"
#include "env/sim/links.h"
#include "env/sim/spec.h"

namespace weir {

struct ModelOptions {
  bool physical = false;
  double restart_seconds = 2;  // added to the transfer of state by a migration or by a placement after a preemption
  std::shared_ptr<const LinkTable> links = nullptr;   // null: no overrides
  std::shared_ptr<const CorunTable> corun = nullptr;  // null: every pair gains its worker's corun_gain
};

// How many jobs use a worker, the one in question included.
struct WorkerLoad {
  int residents = 0;    // n_w
  int cut_jobs = 0;     // c_w
  double gain_sum = 0;  // over the pairs of residents; kept only where options.corun is set
};

// speed_w(n). REQUIRES: n >= 1.
inline double SpeedOf(const WorkerSpec& worker, int n) {
  return worker.flops * (1 + worker.corun_gain * (1 - 1.0 / n)) / n;
}

// The same with the mean gain over the pairs of residents, where the options have a table of them.
inline double SpeedOf(const WorkerSpec& worker, const WorkerLoad& load, const ModelOptions& options) {
  if (!options.corun || load.residents < 2) return SpeedOf(worker, load.residents);
  const double n = load.residents;
  return worker.flops * (1 + load.gain_sum / (n * (n - 1) / 2) * (1 - 1 / n)) / n;
}

// The most FLOP/s that the worker gives to one job, and to all together, whoever shares it.
struct GreatestSpeed {
  double one = 0, all = 0;
};
GreatestSpeed GreatestSpeedOf(const WorkerSpec& worker, const ModelOptions& options);

// T. `workers` and `loads` are indexed by WorkerId; loads of the job's workers include the job itself.
// REQUIRES: placement.size() == replicas * subgraphs; without replicas a shorter one gives T of the first subgraphs alone.
double IterationTime(const JobSpec& job, std::span<const WorkerId> placement, std::span<const WorkerSpec> workers,
                     std::span<const WorkerLoad> loads, const ModelOptions& options);

// T of the job where it has every worker to itself (n = 1, c = 1).
double IterationTimeAlone(const JobSpec& job, std::span<const WorkerId> placement, std::span<const WorkerSpec> workers,
                          const ModelOptions& options);

// Work on one worker in FLOP: (longest path of f)/M + (M-1)/M * F, so that dividing by speed_w(n) gives T of the whole job there.
double WholeJobWork(const JobSpec& job);

}  // namespace weir

#endif  // WEIR_ENV_SIM_ITERATION_TIME_H_
