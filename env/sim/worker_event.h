// What happens to workers during an episode, at times fixed beforehand.
#ifndef WEIR_ENV_SIM_WORKER_EVENT_H_
#define WEIR_ENV_SIM_WORKER_EVENT_H_

#include <string>
#include <vector>

#include "env/sim/spec.h"

namespace weir {

struct WorkerEvent {
  enum class Kind {
    kJoin,    // a worker joins with `spec`; its id is the next one (workers at the start, then joins in order of the list)
    kLost,    // it is gone: its jobs go back to waiting and keep their progress; a later start reloads their state
    kBack,    // a lost or drained worker takes jobs again
    kDrain,   // takes no new jobs; residents run on to their end
    kChange,  // it has `spec` from now on (slower, faster, another link); residents' rates change
  };
  SimTime time = 0;
  Kind kind = Kind::kLost;
  WorkerId worker = -1;  // kJoin: the id that it gets
  WorkerSpec spec = {};  // kJoin, kChange
};

// Throws Error(kInvalid), starting with `where`, for events that are not sorted by time, name a worker that isn't there at the
// time, have a bad spec, or give a joining worker another id than the next. `num_workers`: at the start.
void CheckEvents(const std::vector<WorkerEvent>& events, int num_workers, const std::string& where);

// Each worker at its best over the episode (the greatest of every figure, whether there or not): what bounds and checks of
// placeability use.
std::vector<WorkerSpec> WorkersAtTheirBest(std::vector<WorkerSpec> workers, const std::vector<WorkerEvent>& events);

}  // namespace weir

#endif  // WEIR_ENV_SIM_WORKER_EVENT_H_
