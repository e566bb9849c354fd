// T*: the least iteration time of a job that has the cluster to itself.
#ifndef WEIR_ENV_SIM_BEST_TIME_H_
#define WEIR_ENV_SIM_BEST_TIME_H_

#include <cstdint>
#include <span>
#include <unordered_map>

#include "env/sim/cluster_state.h"

namespace weir {

// Least iteration time of the job alone on the available workers, all of them empty, memory observed; kNever where it fits
// nowhere. Branch and bound over every placement, at most 200,000 nodes; then the best found. With replicas > 1: whole rows only.
// `exact`, if given: the search was complete, so that no placement is faster.
double BestAloneTime(const ClusterState& state, const JobSpec& job, bool* exact = nullptr);

// A lower bound of the iteration time of every placement on any subset of these workers, alone or beside others, provided that
// no worker gives one job more than its `flops`: (longest path)/(M*v) + (M-1)/M * max(largest f/v, F/sum of v), over R replicas;
// v = the fastest. Where BestAloneTime isn't exact.
double AloneTimeBound(std::span<const WorkerSpec> workers, const JobSpec& job);

// Remembers BestAloneTime by (cluster, job shape), so that jobs of one profile are searched once; results are shared by all
// objects of the process. The values are those of BestAloneTime. Thread-compatible.
class BestTimes {
 public:
  double Get(const ClusterState& state, const JobSpec& job);
  double Get(const ClusterState& state, const LiveJob& job);

 private:
  double Find(const ClusterState& state, const JobSpec& job, std::uint64_t shape);
  std::unordered_map<std::uint64_t, double> known_;
};

}  // namespace weir

#endif  // WEIR_ENV_SIM_BEST_TIME_H_
