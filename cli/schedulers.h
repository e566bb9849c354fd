// Schedulers by name, for every verb that runs one.
#ifndef WEIR_CLI_SCHEDULERS_H_
#define WEIR_CLI_SCHEDULERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "env/mdp/scheduler.h"

namespace weir::cli {

struct SchedulerOptions {
  std::uint64_t seed = 1;
  std::string policy_path = {};  // for the name "policy"; empty: the shipped one
  bool libtorch = false;         // the policy's network runs in LibTorch, not in the hand-written forward pass
};

// The file that the name "policy" stands for.
std::string PolicyPath(const SchedulerOptions& options);

// A fresh scheduler: a baseline of agent/baselines, "policy" (the file of DefaultPolicyPath), "policy:FILE" or "rule:FILE".
// Throws Error(kInvalid) naming the known names for any other.
std::unique_ptr<Scheduler> MakeScheduler(const std::string& name, const SchedulerOptions& options = {});

// "fifo,sjf" -> {"fifo", "sjf"}. Throws Error(kInvalid) for an empty list or entry, or a name given twice.
std::vector<std::string> SplitNames(const std::string& text, const std::string& flag);

}  // namespace weir::cli

#endif  // WEIR_CLI_SCHEDULERS_H_
