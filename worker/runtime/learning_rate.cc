#include "worker/runtime/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "worker/protocol/wire.pb.h"

namespace weir::worker {

double LearningRateFactor(const wire::Schedule& schedule, std::int64_t iteration, std::int64_t total) {
  const double i = static_cast<double>(iteration), warmup = schedule.warmup();
  if (i < warmup) return (i + 1) / (warmup + 1);
  if (schedule.kind() == "step") return std::pow(schedule.gamma(), std::floor((i - warmup) / std::max(1.0, schedule.step())));
  const double t = std::min(1.0, (i - warmup) / std::max(1.0, static_cast<double>(total) - 1 - warmup));
  if (schedule.kind() == "linear") return 1 + (schedule.floor() - 1) * t;
  if (schedule.kind() == "cosine") return schedule.floor() + (1 - schedule.floor()) * (1 + std::cos(std::numbers::pi * t)) / 2;
  return 1;
}

}  // namespace weir::worker
