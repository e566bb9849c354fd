// Schedulers that take running jobs off their workers. Stop and reload costs are the cluster's (ClusterState::StopSeconds).
#ifndef WEIR_AGENT_BASELINES_PREEMPTING_H_
#define WEIR_AGENT_BASELINES_PREEMPTING_H_

#include <string>
#include <utility>
#include <vector>

#include "agent/baselines/rule.h"
#include "env/mdp/scheduler.h"

namespace weir {

// reload of a job: (all its memory)/(slowest NIC of the workers in question) + restart seconds.
//
// Preemption: of the first 3 jobs j still waiting after the base rule's pass (in its order), running jobs r and workers x of r
// where the whole of j fits once r is gone, with d = N_j * T_j(x) (+ reload of j, if it was preempted) <= rem_r: the triple of
// greatest W_j - d - phi * (d + reload_r), if > 0; r is preempted, j starts on x. Up to 3 times.
// Migration: moves of a whole running job with >= 60 s left to one worker with a free residency where it would finish in less
// than 0.9 of the time left: the greatest (projected sum of finishes before - after - mu * stop - eta * its new finish), if > 0,
// the projections as ProjectMove. Up to 2 times.
struct PreemptOptions {
  double phi = 1, mu = 1, eta = 0;
  int preempts = 3, first_waiting = 3, moves = 2;
  double least_left = 60;     // seconds
  double finish_below = 0.9;  // of the time left
};

struct PreemptingRuleOptions {
  RuleOptions rule;
  PreemptOptions preempt;
};
// The ten-parameter rule with preemption and migration, all thirteen parameters tuned as TunedRule's.
PreemptingRuleOptions TunedPreemptingRule();

// The passes of a rule, each followed by preemptions and migrations.
class PreemptingRule : public Scheduler {
 public:
  PreemptingRule(std::string name, RuleOptions rule, PreemptOptions options)
      : name_(name), base_(std::move(name), rule), options_(options) {}
  std::string name() const override { return name_; }
  void Reset() override;
  Action Decide(const ClusterState& state) override;

 private:
  // Fills `planned_` with a preemption and the start that it makes room for, or leaves it empty.
  void PlanPreemption(const ClusterState& state);
  Action BestMove(const ClusterState& state) const;

  std::string name_;
  RuleScheduler base_;
  PreemptOptions options_;
  enum class Phase { kPass, kPreempt, kMove } phase_ = Phase::kPass;
  int taken_ = 0;                // preemptions or moves of this phase
  std::vector<Action> planned_;  // last first
};

// Waiting jobs by R = iterations left * T*, ascending; each goes to its candidate of least own (wide). When all
// that wait fit nowhere, the first 3 may preempt: of the running jobs r with R_r > R_j + reload_r whose departure makes a
// placement of j possible, the one of greatest R_r (Schrage, Operations Research 16(3), 1968, with costs). R of a running job
// counts what is left of it.
class SrptScheduler : public Scheduler {
 public:
  std::string name() const override { return "srpt-eft"; }
  void Reset() override { planned_.clear(); }
  Action Decide(const ClusterState& state) override;

 private:
  BestTimes best_times_;
  std::vector<Action> planned_;
};

// Least attained service after Tiresias (Gu et al., NSDI'19): two queues, attained run time up to `threshold` seconds and above;
// first queue first, inside by arrival; each job goes to its candidate of least own (wide). A job of the first queue that fits
// nowhere preempts a running job of the second: the one of greatest attained time whose departure makes a placement possible.
// `by_area`: attained counts seconds * workers used (Tiresias' two dimensions).
class LasScheduler : public Scheduler {
 public:
  LasScheduler(std::string name, double threshold, bool by_area)
      : name_(std::move(name)), threshold_(threshold), by_area_(by_area) {}
  std::string name() const override { return name_; }
  void Reset() override;
  Action Decide(const ClusterState& state) override;

 private:
  double Attained(const ClusterState& state, JobId id) const;
  void Account(const ClusterState& state);  // area, up to now

  std::string name_;
  double threshold_;
  bool by_area_;
  SimTime accounted_ = 0;
  std::vector<std::pair<JobId, double>> area_;  // of live jobs that ran, ascending id
  std::vector<std::pair<JobId, int>> width_;    // workers of the jobs that ran after the last decision
  std::vector<Action> planned_;
};

}  // namespace weir

#endif  // WEIR_AGENT_BASELINES_PREEMPTING_H_
