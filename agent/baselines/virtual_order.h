// Orders that come from a virtual machine which runs all jobs by itself, whatever the cluster does. A job's size there is its
// N * T*, and its rate 1.
//   a-srpt   one machine, shortest remaining size first, preemptive: jobs are visited in the order in which that machine
//   completes
//            them (after A-SRPT, arXiv:2501.05563)
//   wfair-A  one machine shared in proportion to size^A among the jobs that it hasn't completed (generalised processor sharing:
//            Demers, Keshav, Shenker, SIGCOMM'89; A = 0 fair, > 0 favours large jobs, < 0 small ones); visited in the order in
//            which it completes them, were no more to arrive. Work-conserving.
// The machine serves as many times faster than 1 as the cluster has workers. Placement: EFT, not strict, no preemption.
#ifndef WEIR_AGENT_BASELINES_VIRTUAL_ORDER_H_
#define WEIR_AGENT_BASELINES_VIRTUAL_ORDER_H_

#include <map>
#include <string>
#include <vector>

#include "agent/baselines/rule.h"

namespace weir {

class VirtualOrderScheduler : public RuleScheduler {
 public:
  enum class Sharing { kShortestRemaining, kWeighted };
  VirtualOrderScheduler(std::string name, Sharing sharing, double exponent = 0)
      : RuleScheduler(std::move(name), RuleOptions{}), sharing_(sharing), exponent_(exponent) {}
  void Reset() override;
  std::vector<JobId> OrderOf(const ClusterState& state) override;

 private:
  struct Job {
    double size = 0, left = 0, weight = 1;
    double completed = kNever;  // virtual completion
  };
  void Serve(double seconds);  // from served_ on

  Sharing sharing_;
  double exponent_;
  BestTimes times_;
  SimTime served_ = 0;
  double rate_ = 1;
  std::map<JobId, Job> jobs_;  // live ones, and those that the virtual machine hasn't completed
};

}  // namespace weir

#endif  // WEIR_AGENT_BASELINES_VIRTUAL_ORDER_H_
