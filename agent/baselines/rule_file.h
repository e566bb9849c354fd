// Parameters of the ten-parameter rule as a YAML file (configs/rules): what `weir tune` writes and `rule:FILE` reads.
#ifndef WEIR_AGENT_BASELINES_RULE_FILE_H_
#define WEIR_AGENT_BASELINES_RULE_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/baselines/cem.h"
#include "agent/baselines/preempting.h"
#include "agent/baselines/rule.h"
#include "env/core/yaml.h"

namespace weir {

struct RuleFile {
  RuleOptions rule;
  std::optional<PreemptOptions> preempt;  // none: never preempts
};

// Throw Error(kInvalid) with file:line and the field.
RuleFile ReadRuleFile(const std::string& path);
RuleFile ParseRuleFile(const std::string& text, const std::string& source);
// `comment` becomes the first lines, each with a '#'. Reads back to the same numbers.
std::string FormatRuleFile(const RuleFile& file, const std::string& comment);
std::unique_ptr<Scheduler> MakeRule(const std::string& name, const RuleFile& file);

// The search space of tuning: the ten parameters, with `preempt` three more (phi, mu, eta), with the start and spread of each.
std::vector<CemParameter> RuleParameters(bool preempt);
// Sets them, in that order.
void SetRuleParameters(const std::vector<double>& values, RuleFile* file);

// What `weir tune` runs (configs/tune): keys in configs/README.md.
struct TuneConfig {
  std::string cluster, workload;  // paths
  double load = 0.7;
  int jobs = 150, episodes = 20;
  std::uint64_t first_seed = 1'000'001;  // training episodes have the seeds first_seed, first_seed + 1, ...
  std::string reference = "sbt-eft-hold-2";
  RuleFile base;  // wide, projected; preempt set: its parameters are tuned too
  CemOptions cem;
};
TuneConfig ReadTuneConfig(const std::string& path);

// Mean over the training episodes of mean JCT / the reference's, minimised; the same on any number of threads (0: one a core).
CemResult TuneRule(const TuneConfig& config, int threads,
                   const std::function<void(int generation, const CemGeneration&)>& progress = {});

}  // namespace weir

#endif  // WEIR_AGENT_BASELINES_RULE_FILE_H_
