#include "agent/policy/policy.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "agent/baselines/baselines.h"
#include "agent/policy/network.h"
#include "env/core/error.h"
#include "env/core/log.h"
#include "env/core/plugin.h"

namespace weir {
namespace {

constexpr const char* kFallback = "rule";

}  // namespace

int BestAction(const Observation& observation, const std::vector<float>& scores) {
  int best = -1;
  for (int a = 0; a < observation.num_actions(); ++a) {
    if (!observation.mask[a]) continue;
    if (!std::isfinite(scores[a])) return -1;
    if (best < 0 || scores[a] > scores[best]) best = a;
  }
  return best;
}

PolicyScheduler::PolicyScheduler(std::unique_ptr<ActionScorer> scorer, PolicyInfo info)
    : scorer_(std::move(scorer)), info_(std::move(info)) {}
PolicyScheduler::~PolicyScheduler() = default;

void PolicyScheduler::Reset() {
  if (fallback_) fallback_->Reset();
}

Action PolicyScheduler::Decide(const ClusterState& state) {
  ++decisions_;
  observer_.Observe(state, &observation_);
  int best = -1;
  if (observation_.num_actions() == 1) {
    best = 0;
  } else {
    scorer_->Score(observation_, &scores_, nullptr);
    best = BestAction(observation_, scores_);
  }
  if (best >= 0) return observation_.actions[best];
  ++fallbacks_;
  if (!fallback_) {
    WEIR_LOG(Warning, "event=policy_fallback policy={} baseline={} reason=\"a score is not finite\"", info_.hash, kFallback);
    fallback_ = MakeBaseline(kFallback);
    fallback_->Reset();
  }
  return fallback_->Decide(state);
}

std::unique_ptr<PolicyScheduler> LoadPolicy(const std::string& path) {
  PolicyFile policy = ReadPolicyFile(path);
  return std::make_unique<PolicyScheduler>(std::make_unique<FloatNetwork>(policy.info.sizes, std::move(policy.weights)),
                                           std::move(policy.info));
}

std::unique_ptr<PolicyScheduler> LoadPolicyTorch(const std::string& path) {
  PolicyFile policy = ReadPolicyFile(path);
  auto* load = TorchFunction<ActionScorer*(const PolicyFile&)>("weir_torch_load_policy");
  std::unique_ptr<ActionScorer> scorer(load(policy));
  return std::make_unique<PolicyScheduler>(std::move(scorer), std::move(policy.info));
}

std::string DefaultPolicyPath() {
  namespace fs = std::filesystem;
  if (const char* path = std::getenv("WEIR_POLICY"); path && *path) return path;
  std::error_code error;
  if (const char* home = std::getenv("WEIR_HOME"); home && *home)
    return (fs::path(home) / "policies/default.weirpolicy").string();
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  const fs::path name = "default.weirpolicy";
  const fs::path installed = executable.parent_path().parent_path() / "share/weir" / name;
  if (fs::exists(installed, error)) return installed.string();
  for (fs::path folder = executable.parent_path(); folder != folder.parent_path(); folder = folder.parent_path()) {
    if (fs::exists(folder / "policies" / name, error)) return (folder / "policies" / name).string();
  }
  throw Invalid("no policy file: looked at {} and policies/{} above {}; set WEIR_POLICY or train one (weir train)",
                installed.string(), name.string(), executable.parent_path().string());
}

}  // namespace weir
