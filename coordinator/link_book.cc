#include "coordinator/link_book.h"

#include <algorithm>
#include <cmath>

namespace weir::coordinator {

std::optional<LinkBook::Probe> LinkBook::Next(int num_workers, double now, const std::function<bool(WorkerId)>& may) {
  if (now < open_until_ || now < last_ + kGapSeconds) return std::nullopt;
  std::optional<std::pair<WorkerId, WorkerId>> best;
  double best_asked = now - kRepeatSeconds;
  for (WorkerId a = 0; a < num_workers; ++a) {
    if (!may(a)) continue;
    for (WorkerId b = a + 1; b < num_workers; ++b) {
      const auto found = pairs_.find({a, b});
      const double asked = found == pairs_.end() ? -1 : found->second.asked;
      const bool due = asked < 0 || asked <= best_asked;
      if (!due || (best && asked >= best_asked) || !may(b)) continue;
      best = {a, b};
      best_asked = asked;
    }
  }
  if (!best) return std::nullopt;
  Pair& pair = pairs_[*best];
  pair.asked = now;
  last_ = now;
  open_until_ = now + kPatience;
  const bool back = pair.attempts++ % 2 == 1;
  return Probe{back ? best->second : best->first, back ? best->first : best->second};
}

void LinkBook::Add(WorkerId from, WorkerId to, double bandwidth, double latency, double now) {
  Fail(from, to, now);
  if (!std::isfinite(bandwidth) || bandwidth <= 0 || !std::isfinite(latency) || latency < 0) return;
  Pair& pair = pairs_[Key(from, to)];
  ++pair.count;
  const double w = std::max(1.0 / pair.count, kWeight);
  pair.log_bandwidth += w * (std::log(bandwidth) - pair.log_bandwidth);
  pair.log_latency += w * (std::log(std::max(latency, kLeastLatency)) - pair.log_latency);
}

void LinkBook::Fail(WorkerId from, WorkerId to, double now) {
  open_until_ = -1;
  last_ = now;
}

void LinkBook::Forget(WorkerId worker) {
  std::erase_if(pairs_, [&](const auto& entry) { return entry.first.first == worker || entry.first.second == worker; });
}

std::optional<LinkOverride> LinkBook::Find(WorkerId a, WorkerId b) const {
  const auto found = pairs_.find(Key(a, b));
  if (found == pairs_.end() || found->second.count == 0) return std::nullopt;
  return LinkOverride{std::exp(found->second.log_bandwidth), std::exp(found->second.log_latency)};
}

std::shared_ptr<const LinkTable> LinkBook::Table() const {
  auto table = std::make_shared<LinkTable>();
  bool any = false;
  for (const auto& [key, pair] : pairs_) {
    if (pair.count == 0) continue;
    table->Set(key.first, key.second, *Find(key.first, key.second));
    any = true;
  }
  return any ? table : nullptr;
}

}  // namespace weir::coordinator
