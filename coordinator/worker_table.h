// Who is connected, under which routing id, and since when silent. A worker's number (WorkerId) belongs to its name for the life
// of the process; its routing id changes with every connection and is no identity.
#ifndef WEIR_COORDINATOR_WORKER_TABLE_H_
#define WEIR_COORDINATOR_WORKER_TABLE_H_

#include <map>
#include <string>
#include <vector>

#include "env/sim/spec.h"
#include "worker/protocol/wire.pb.h"

namespace weir::coordinator {

struct WorkerEntry {
  enum class State {
    kReady,
    kStarting,   // connected, but its executor isn't there (yet, or after it died)
    kSuspected,  // silent for a while
    kLost,       // silent for long, or its process started anew: its jobs were moved
    kGone,       // said goodbye
  };
  WorkerId id = -1;
  wire::Hello spec;
  wire::Telemetry telemetry;      // of the last heartbeat that had one
  wire::Calibration calibration;  // the last one: its figures, or why there are none
  double bench_until = -1;        // it measures itself and takes no jobs until then; < 0: no
  std::uint64_t bench_sequence = 0;
  std::string peer;  // routing id; empty once lost or gone
  State state = State::kStarting;
  double last_seen = 0;

  bool connected() const { return state == State::kReady || state == State::kStarting || state == State::kSuspected; }
};

std::string_view StateName(WorkerEntry::State state);

class WorkerTable {
 public:
  // nullptr: unknown.
  WorkerEntry* ByPeer(const std::string& peer);
  WorkerEntry* ByName(const std::string& name);
  WorkerEntry& Get(WorkerId id) { return entries_[id]; }
  const WorkerEntry& Get(WorkerId id) const { return entries_[id]; }
  // REQUIRES: the name is new. Numbers count up from 0, as ClusterState's do.
  WorkerEntry& Add(const wire::Hello& hello);
  void SetPeer(WorkerEntry* entry, const std::string& peer);  // "": none
  std::vector<WorkerEntry>& entries() { return entries_; }
  const std::vector<WorkerEntry>& entries() const { return entries_; }

 private:
  std::vector<WorkerEntry> entries_;  // by id
  std::map<std::string, WorkerId> by_name_, by_peer_;
};

// Throws Error(kInvalid) for a name or figures that break a bound.
WorkerSpec ToWorkerSpec(const wire::Hello& hello);

}  // namespace weir::coordinator

#endif  // WEIR_COORDINATOR_WORKER_TABLE_H_
