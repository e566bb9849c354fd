// One scheduler behind every heuristic that works in passes: at each event the waiting jobs are visited in an order; each is
// placed at once or left waiting. With every field at its default it is Greedy; the ten-parameter rule uses them all.
//
//   order   ascending key: arrival; N*F; N*F*memory; N*F*k; -N*F; N*T*, then + pmem*ln(memory) - aging*ln(1 + age/(N*T*)) on its
//   logarithm choose  skip p where own > chi * rem_r for a running r on a worker of p
//           cost = own*(1 + split*(s-1) + (beta + press*waiting/slots)*s) + alpha*Delay(p), s = workers of p
//           p = the cheapest; with `projected` the four cheapest are first priced again with own and Delay from Project
//           nothing runs anywhere: place p
//           wait where there is no p, cost > kappa*W or own > delta*N*T*; then the worker behind W is reserved until
//           now + claim*W for the rest of the pass, which only other jobs' wait estimates read
// N counts the iterations left. See env/mdp/candidates.h for own, Delay, W and Project.
#ifndef WEIR_AGENT_BASELINES_RULE_H_
#define WEIR_AGENT_BASELINES_RULE_H_

#include <string>
#include <vector>

#include "env/mdp/candidates.h"
#include "env/mdp/scheduler.h"

namespace weir {

struct RuleOptions {
  enum class Order { kArrival, kWork, kBestTime, kLongestWork, kWorkMemory, kWorkSubgraphs };
  enum class Choice { kSpread, kPack, kPrice, kHeft, kPeft };  // kHeft, kPeft: agent/baselines/heft.h
  Order order = Order::kArrival;
  bool strict = false;  // a job that isn't placed ends the pass
  Choice choice = Choice::kPrice;
  bool wide = true;  // candidates
  bool projected = false;
  // The ten parameters; the defaults switch each one off.
  double alpha = 0;
  double kappa = kNever;
  double chi = kNever;
  double claim = 0;
  double delta = kNever;
  double split = 0, beta = 0, press = 0;
  double pmem = 0, aging = 0;
};

// The ten-parameter rule (narrow candidates, projected delay): set by hand, in the middle of the ranges that tuning found
// elsewhere.
RuleOptions HandSetRule();
// Tuned by `weir tune` on edge8 at load 0.7 (configs/tune/edge8.yaml; the values also stand in configs/rules/edge8.yaml).
RuleOptions TunedRule();

class RuleScheduler : public Scheduler {
 public:
  RuleScheduler(std::string name, RuleOptions options) : name_(std::move(name)), options_(options) {}
  std::string name() const override { return name_; }
  void Reset() override;
  Action Decide(const ClusterState& state) override;
  const RuleOptions& options() const { return options_; }
  // The waiting jobs as a pass that starts now would visit them.
  virtual std::vector<JobId> OrderOf(const ClusterState& state);

 private:
  void StartPass(const ClusterState& state);
  // Empty: wait.
  Placement Choose(const ClusterState& state, JobId job);
  Placement ChooseByPrice(const ClusterState& state, JobId job);

  std::string name_;
  RuleOptions options_;
  BestTimes best_times_;
  bool in_pass_ = false;
  std::vector<JobId> queue_;  // of this pass
  std::size_t next_ = 0;
  std::vector<SimTime> reserved_;
};

// Subgraphs in topological order, each on the least-loaded worker with memory and (a residency or a subgraph of this job already
// there); load_w = sum over running jobs of iterations left * f/flops_w, own subgraphs added as they are placed; ties to the
// faster. Empty where it fails.
Placement SpreadPlacement(const ClusterState& state, JobId job);
// The whole job on the least-loaded worker that holds it, else SpreadPlacement.
Placement PackPlacement(const ClusterState& state, JobId job);

}  // namespace weir

#endif  // WEIR_AGENT_BASELINES_RULE_H_
