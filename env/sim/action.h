// What a scheduler can do at a decision point.
#ifndef WEIR_ENV_SIM_ACTION_H_
#define WEIR_ENV_SIM_ACTION_H_

#include <utility>

#include "env/sim/spec.h"

namespace weir {

struct Action {
  enum class Kind { kWait, kPlace, kPreempt, kMigrate };
  Kind kind = Kind::kWait;
  JobId job = -1;       // none for kWait
  Placement placement;  // kPlace, kMigrate

  static Action Wait() { return {}; }
  static Action Place(JobId job, Placement placement) { return {Kind::kPlace, job, std::move(placement)}; }
  static Action Preempt(JobId job) { return {Kind::kPreempt, job, {}}; }
  static Action Migrate(JobId job, Placement placement) { return {Kind::kMigrate, job, std::move(placement)}; }
  bool operator==(const Action&) const = default;
};

// An action and when it was taken; a list of them, stably sorted by time, replays an episode.
struct TimedAction {
  SimTime time = 0;
  Action action;
  int line = 0;  // in the file it was read from; 0: none
};

}  // namespace weir

#endif  // WEIR_ENV_SIM_ACTION_H_
