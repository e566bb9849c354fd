// Lower bounds on the mean JCT of an episode: no schedule of the model (env/sim/iteration_time.h) can be better, whether it
// preempts and migrates or not, and whatever it knows of the future.
//
//   alone       sum of N * T*, T* = least T alone on the empty cluster, by exact search (env/sim/best_time.h)
//   srpt        one machine of rate C = sum over workers of max over n of flops * g(n), on which a job has the size
//               N * F * (1/(M*width) + (M-1)/M), width = size of the largest antichain of its subgraphs; preemptive shortest
//               remaining processing time first is optimal there
//   size_first  on the same machine the shortest original size first, preemptive, which minimises the sum of mean busy times;
//               sum of mean busy time - arrival + N * T*/2
//
// Why size: a job placed on workers S that get speeds v_w has P >= (sum of t)/width (a chain cover) and B >= F/(sum of v), so
// that (sum of v) * T >= F * (1/(M*width) + (M-1)/M), and the speeds that all jobs get add up to at most C. Why half of N*T*:
// progress is at most 1/T* a second, so the finish lies at least N*T*/2 after the mean of the times at which the work is done.
// (Mean busy time: Goemans, Queyranne, Schulz, Skutella, Wang, SIAM J. Discrete Math. 15(2), 2002.)
#ifndef WEIR_ENV_METRICS_BOUNDS_H_
#define WEIR_ENV_METRICS_BOUNDS_H_

#include <string>
#include <vector>

#include "env/sim/simulator.h"

namespace weir {

struct JctBounds {
  double alone = 0, srpt = 0, size_first = 0;  // seconds, means over the jobs counted
  double best = 0;                             // the greatest
  std::string name = "alone";                  // of the greatest: "alone", "srpt" or "size_first"
  int jobs = 0;                                // counted
  int unplaceable = 0;                         // fit nowhere even on the empty cluster; left out
};

// Of an episode on these workers. For workers that join, leave or slow down give the best that each of them ever is. A job whose
// exact search is too large counts with a weaker bound of T*, so that the result stays valid.
JctBounds LowerBounds(const std::vector<WorkerSpec>& workers, const Workload& jobs, const ModelOptions& options = {});

// Size of the largest set of subgraphs of which none reaches another along arcs (Dilworth: subgraphs - largest matching of the
// reachability relation).
int LargestAntichain(const JobSpec& job);

// ---- The parts, on one machine of rate 1.
struct MachineJob {
  double arrival = 0;
  double size = 0;  // > 0
};
// Least sum of completion - arrival on one machine with preemption (SRPT).
double SrptFlowTime(std::vector<MachineJob> jobs);
// Least sum of mean busy time - arrival (shortest original size first, preemptive).
double LeastMeanBusyTime(std::vector<MachineJob> jobs);

}  // namespace weir

#endif  // WEIR_ENV_METRICS_BOUNDS_H_
