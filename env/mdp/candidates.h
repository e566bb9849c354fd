// Whole-gang candidates and their prices: what the rules choose among and what the policy scores.
//
//   own      = N_left * T(p), with the counts n+1, c+1 that hold once the job is there (plus the reload of a preempted job)
//   T*       = best T alone on the empty cluster (available workers), memory observed
//   Delay(p) = sum over running r that share a worker with p of min(iterations left of r, own/T_r') * (T_r' - T_r)
//   W        = wait estimate: the least, over busy workers w and over the i-th departure there after which the whole job fits in
//              memory, of max(f_i, reserved[w]) - now + N_left*work/speed_w(n_w - i + 1);
//              if no busy worker could ever hold it whole: over the next 6 departures one after another,
//              departure - now + N_left * least T of the candidates then, with no worker
// Pure functions of the state; thread-safe.
#ifndef WEIR_ENV_MDP_CANDIDATES_H_
#define WEIR_ENV_MDP_CANDIDATES_H_

#include <span>
#include <vector>

#include "env/sim/best_time.h"
#include "env/sim/cluster_state.h"

namespace weir {

struct Candidate {
  JobId job = -1;
  Placement placement;
  double iteration_time = 0;  // T(p)
  double own = 0;             // seconds to the job's end, as above
  int workers_used = 0;       // distinct
};

// Placements of a waiting job that are legal now, first generated first:
//   1. the whole job on each worker with a free residency and the memory, fastest speed(n+1) first
//   2. k >= 2: the first q subgraphs on x, the rest on y, every q, ordered pairs of the fastest 4 free workers (wide: 8); kept
//      where T < 1.3 * least T so far
//   3. k >= 3 and (wide or nothing found): a beam over subgraphs, width 4 (wide: 12), over the fastest 8 (all if nothing found)
//   4. nothing found and nothing runs: the first placement that memory allows, if there is one
// With replicas > 1: rows of whole replicas on the fastest R workers that hold one each, or nothing.
std::vector<Candidate> GenerateCandidates(const ClusterState& state, JobId job, bool wide = false);

// Static Delay(p), in job-seconds.
double InflictedDelay(const ClusterState& state, const Candidate& candidate);

// Runs the jobs connected to p by shared workers to their end, nothing else starts.
struct Projection {
  double own = 0;    // finish of the job - now
  double delay = 0;  // max(0, sum of finishes of the others with the job - without)
};
Projection Project(const ClusterState& state, const Candidate& candidate);

// What moving a running job to `target` does: all jobs connected to its old and new workers run to their end, nothing else
// starts.
struct MoveProjection {
  double finish = 0;  // of the job after the move, from now
  double before = 0;  // sum of finishes, from now, without the move
  double after = 0;   // with it
};
// REQUIRES: the move is legal.
MoveProjection ProjectMove(const ClusterState& state, JobId job, std::span<const WorkerId> target);

struct WaitEstimate {
  double seconds = kNever;  // W
  WorkerId worker = -1;     // -1: none
};
// `reserved`: time until which each worker is promised to another waiting job, 0 for none; empty: none at all. `wide`: of the
// candidates.
WaitEstimate EstimateWait(const ClusterState& state, JobId job, std::span<const SimTime> reserved, bool wide = false);

// Least remaining time of the running jobs on the candidate's workers; kNever where these are empty.
double LeastRemainingTime(const ClusterState& state, std::span<const WorkerId> placement);

}  // namespace weir

#endif  // WEIR_ENV_MDP_CANDIDATES_H_
