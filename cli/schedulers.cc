#include "cli/schedulers.h"

#include <algorithm>

#include "agent/baselines/baselines.h"
#include "agent/baselines/rule_file.h"
#include "agent/policy/policy.h"
#include "env/core/error.h"
#include "env/core/yaml.h"

namespace weir::cli {

std::string PolicyPath(const SchedulerOptions& options) {
  return options.policy_path.empty() ? DefaultPolicyPath() : options.policy_path;
}

std::unique_ptr<Scheduler> MakeScheduler(const std::string& name, const SchedulerOptions& options) {
  if (name == "policy" || name.starts_with("policy:")) {
    const std::string path = name.size() > 7 ? name.substr(7) : PolicyPath(options);
    return options.libtorch ? LoadPolicyTorch(path) : LoadPolicy(path);
  }
  if (name.starts_with("rule:")) return MakeRule(name, ReadRuleFile(name.substr(5)));
  if (!IsBaseline(name)) {
    std::vector<std::string> all = BaselineNames();
    all.push_back("policy");
    const std::string nearest = NearestName(name, all);
    throw Invalid("unknown scheduler '{}'{} (known: {}, policy:FILE, rule:FILE)", name,
                  nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest), fmt::join(all, ", "));
  }
  return MakeBaseline(name);
}

std::vector<std::string> SplitNames(const std::string& text, const std::string& flag) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string name = text.substr(at, end - at);
    if (name.empty()) throw Invalid("{}: a name is empty in '{}'", flag, text);
    if (std::find(names.begin(), names.end(), name) != names.end()) throw Invalid("{}: '{}' is given twice", flag, name);
    names.push_back(std::move(name));
    at = end + 1;
  }
  return names;
}

}  // namespace weir::cli
