// Schedulers that look at all waiting jobs at once and place one (or a matching) after another until nothing fits. own: seconds
// to a job's end on a placement, env/mdp/candidates.h; candidates are wide but for random.
#ifndef WEIR_AGENT_BASELINES_BATCH_H_
#define WEIR_AGENT_BASELINES_BATCH_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "env/mdp/scheduler.h"
#include "env/sim/best_time.h"

namespace weir {

// With b_j = least own of job j (Ibarra, Kim, JACM 24(2), 1977; Maheswaran et al., HCW'99), the next job is that of
//   min-min    least b_j
//   max-min    greatest b_j
//   sufferage  greatest (second-least own - b_j); a job with one candidate suffers most
// and goes to its best placement.
class MinMinScheduler : public Scheduler {
 public:
  enum class Rule { kMinMin, kMaxMin, kSufferage };
  explicit MinMinScheduler(Rule rule) : rule_(rule) {}
  std::string name() const override;
  Action Decide(const ClusterState& state) override;

 private:
  Rule rule_;
};

// Uniform over the legal placements of all waiting jobs (candidates, narrow); never waits where something fits. Seeded.
class RandomScheduler : public Scheduler {
 public:
  explicit RandomScheduler(std::uint64_t seed) : seed_(seed) {}
  std::string name() const override { return "random"; }
  void Reset() override { draws_ = 0; }
  Action Decide(const ClusterState& state) override;

 private:
  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
};

// Packing after Tetris (Grandl et al., SIGCOMM'14): the (job, placement) of greatest <demand, free> + epsilon * r, where demand
// and free are (share of memory, share of residencies) on each worker of the placement, averaged over its workers, and r = least
// R of all waiting / R_j, R = iterations left * T*.
class TetrisScheduler : public Scheduler {
 public:
  TetrisScheduler(std::string name, double epsilon) : name_(std::move(name)), epsilon_(epsilon) {}
  std::string name() const override { return name_; }
  Action Decide(const ClusterState& state) override;

 private:
  std::string name_;
  double epsilon_;
  BestTimes best_times_;
};

// Assignment per event: the first 64 waiting jobs by arrival are matched to workers with a free residency, at most one each, so
// that the sum of costs is least (Hungarian method): own of the whole job on the worker, or W for staying unscheduled (nothing
// runs: never unscheduled where it fits). A job that no available worker could hold whole, even empty, goes to its candidate of
// least own instead, if that is at most W. Again until nothing is matched.
class AssignmentScheduler : public Scheduler {
 public:
  std::string name() const override { return "assignment"; }
  void Reset() override { planned_.clear(); }
  Action Decide(const ClusterState& state) override;

 private:
  std::vector<Action> Match(const ClusterState& state) const;
  std::vector<Action> planned_;  // of this round, last first
};

// Least sum of cost[i][assigned[i]] over all assignments of rows to distinct columns. REQUIRES: columns >= rows, finite costs.
std::vector<int> LeastAssignment(const std::vector<std::vector<double>>& cost);

}  // namespace weir

#endif  // WEIR_AGENT_BASELINES_BATCH_H_
