#include "env/workload/arrivals.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "env/core/check.h"

namespace weir {

ArrivalProcess ArrivalsFromYaml(const Yaml& map) {
  ArrivalProcess process;
  const Yaml kind = map.Required("kind");
  process.kind = static_cast<ArrivalProcess::Kind>(kind.AsEnum({"poisson", "bursty", "diurnal", "batch"}));
  switch (process.kind) {
    case ArrivalProcess::Kind::kPoisson:
      break;
    case ArrivalProcess::Kind::kBursty:
      process.factor = map.Double("factor", process.factor, 1, 1e6);
      process.share = map.Double("share", process.share, 1e-6, 0.999999);
      process.burst_jobs = map.Double("jobs", process.burst_jobs, 1e-3, 1e9);
      if (process.factor * process.share > 1) {
        map.Fail("a process with factor * share <= 1 (bursts can't hold more than all jobs)",
                 fmt::format("{} * {}", process.factor, process.share));
      }
      break;
    case ArrivalProcess::Kind::kDiurnal:
      process.period = map.Quantity("period", process.period, Unit::kSeconds);
      if (!(process.period > 0)) map.Required("period").Fail("a time above 0");
      process.amplitude = map.Double("amplitude", process.amplitude, 0, 1);
      process.phase = map.Double("phase", process.phase, 0, 1);
      break;
    case ArrivalProcess::Kind::kBatch:
      process.batch = static_cast<int>(map.Int("size", process.batch, 1, 1 << 20));
      break;
  }
  map.Finish();
  return process;
}

ArrivalStream::ArrivalStream(const ArrivalProcess& process, double mean_gap, const Rng& rng)
    : process_(process), mean_gap_(mean_gap), rng_(rng) {
  WEIR_CHECK(mean_gap > 0);
  if (process_.kind != ArrivalProcess::Kind::kBursty) return;
  bursting_ = rng_.Uniform() < process_.share;  // stationary from the start
  const double burst = process_.burst_jobs * mean_gap_ / process_.factor;
  switch_at_ = rng_.Exponential(bursting_ ? burst : burst * (1 - process_.share) / process_.share);
}

SimTime ArrivalStream::Next() {
  switch (process_.kind) {
    case ArrivalProcess::Kind::kPoisson:
      return now_ += rng_.Exponential(mean_gap_);
    case ArrivalProcess::Kind::kBursty:
      return NextBursty();
    case ArrivalProcess::Kind::kDiurnal:
      return NextDiurnal();
    case ArrivalProcess::Kind::kBatch:
      if (left_ == 0) {
        now_ += rng_.Exponential(mean_gap_ * process_.batch);
        left_ = process_.batch;
      }
      --left_;
      return now_;
  }
  return now_;
}

SimTime ArrivalStream::NextBursty() {
  const double burst = process_.burst_jobs * mean_gap_ / process_.factor;
  const double quiet_rate = (1 - process_.share * process_.factor) / (1 - process_.share) / mean_gap_;
  while (true) {
    const double rate = bursting_ ? process_.factor / mean_gap_ : quiet_rate;
    // A gap that reaches beyond the state is drawn anew there: exponential gaps have no memory.
    const SimTime next = rate > 0 ? now_ + rng_.Exponential(1 / rate) : kNever;
    if (next <= switch_at_) return now_ = next;
    now_ = switch_at_;
    bursting_ = !bursting_;
    switch_at_ += rng_.Exponential(bursting_ ? burst : burst * (1 - process_.share) / process_.share);
  }
}

SimTime ArrivalStream::NextDiurnal() {
  const double peak = 1 + process_.amplitude;
  while (true) {
    now_ += rng_.Exponential(mean_gap_ / peak);
    const double rate = 1 + process_.amplitude * std::sin(2 * std::numbers::pi * (now_ / process_.period + process_.phase));
    if (rng_.Uniform() * peak < rate) return now_;
  }
}

}  // namespace weir
