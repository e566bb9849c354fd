// The heuristics the policy is compared with, by name. No LibTorch.
#ifndef WEIR_AGENT_BASELINES_BASELINES_H_
#define WEIR_AGENT_BASELINES_BASELINES_H_

#include <memory>
#include <string>
#include <vector>

#include "env/mdp/scheduler.h"

namespace weir {

// A fresh scheduler. Throws Error(kInvalid) naming the known names (and the nearest one) for any other.
std::unique_ptr<Scheduler> MakeBaseline(const std::string& name);
// Whether MakeBaseline knows the name. Throws Error(kInvalid) for a number out of range in a name that carries one.
bool IsBaseline(const std::string& name);
// The known names (of names that carry a number, such as sbt-mc-hold-1.5, the usual ones), in the order of the table in
// agent/baselines/README.md.
const std::vector<std::string>& BaselineNames();

}  // namespace weir

#endif  // WEIR_AGENT_BASELINES_BASELINES_H_
