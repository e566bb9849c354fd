// The learned scheduler: loads a policy file and decides with it. Serving uses a hand-written float forward, so a coordinator
// needs no LibTorch; LoadPolicyTorch runs the same weights through LibTorch (the reference of the parity test).
#ifndef WEIR_AGENT_POLICY_POLICY_H_
#define WEIR_AGENT_POLICY_POLICY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/policy/policy_file.h"
#include "env/mdp/observation.h"
#include "env/mdp/scheduler.h"

namespace weir {

// A score per action (higher is better) and a value; masked actions get -infinity. Thread-compatible, one object per thread.
class ActionScorer {
 public:
  virtual ~ActionScorer() = default;
  // `scores` is resized to num_actions(). `value`: predicted ln(1 + cost to go), see agent/train/rollout.h; may be null.
  virtual void Score(const Observation& observation, std::vector<float>* scores, float* value) = 0;
};

// Masked argmax over the scores (the first of equals). Where a score is not finite, the best baseline decides that one time.
class PolicyScheduler : public Scheduler {
 public:
  PolicyScheduler(std::unique_ptr<ActionScorer> scorer, PolicyInfo info);
  ~PolicyScheduler() override;
  std::string name() const override { return "policy"; }
  void Reset() override;
  Action Decide(const ClusterState& state) override;

  const PolicyInfo& info() const { return info_; }
  long decisions() const { return decisions_; }
  long fallbacks() const { return fallbacks_; }  // decisions that the baseline took, since construction

 private:
  std::unique_ptr<ActionScorer> scorer_;
  PolicyInfo info_;
  std::unique_ptr<Scheduler> fallback_;  // made when first needed
  Observer observer_;
  Observation observation_;
  std::vector<float> scores_;
  long decisions_ = 0, fallbacks_ = 0;
};

// Index of the greatest legal score; -1 where a legal score is not finite. REQUIRES: some action is legal.
int BestAction(const Observation& observation, const std::vector<float>& scores);

// Throw Error(kInvalid) naming the file, what was expected and what was found: missing, damaged, of another version or schema.
std::unique_ptr<PolicyScheduler> LoadPolicy(const std::string& path);
std::unique_ptr<PolicyScheduler> LoadPolicyTorch(const std::string& path);  // through libweir_torch.so

// $WEIR_POLICY; else $WEIR_HOME/policies/default.weirpolicy; else default.weirpolicy in ../share/weir beside the executable, or
// in a `policies` folder of one of its parents. Throws Error(kInvalid) naming the places where there is none.
std::string DefaultPolicyPath();

}  // namespace weir

#endif  // WEIR_AGENT_POLICY_POLICY_H_
