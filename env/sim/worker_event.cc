#include "env/sim/worker_event.h"

#include <algorithm>

#include "env/core/error.h"

namespace weir {

void CheckEvents(const std::vector<WorkerEvent>& events, int num_workers, const std::string& where) {
  SimTime before = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const WorkerEvent& event = events[i];
    const std::string entry = fmt::format("{}[{}]", where, i);
    if (!(event.time >= before) || event.time == kNever) {
      throw Invalid("{}: its time must be a number not before the entry above ({}), got {}", entry, before, event.time);
    }
    before = event.time;
    const bool join = event.kind == WorkerEvent::Kind::kJoin;
    if (join && event.worker != num_workers)
      throw Invalid("{}: a joining worker gets id {}, got {}", entry, num_workers, event.worker);
    if (join) ++num_workers;
    if (event.worker < 0 || event.worker >= num_workers) throw Invalid("{}: there is no worker {} then", entry, event.worker);
    if (join || event.kind == WorkerEvent::Kind::kChange) CheckSpec(event.spec, entry);
  }
}

std::vector<WorkerSpec> WorkersAtTheirBest(std::vector<WorkerSpec> workers, const std::vector<WorkerEvent>& events) {
  for (const WorkerEvent& event : events) {
    if (event.kind == WorkerEvent::Kind::kJoin) workers.push_back(event.spec);
    if (event.kind != WorkerEvent::Kind::kChange) continue;
    WorkerSpec& best = workers[event.worker];
    best.flops = std::max(best.flops, event.spec.flops);
    best.memory_bytes = std::max(best.memory_bytes, event.spec.memory_bytes);
    best.bandwidth = std::max(best.bandwidth, event.spec.bandwidth);
    best.latency = std::min(best.latency, event.spec.latency);
    best.corun_gain = std::max(best.corun_gain, event.spec.corun_gain);
    best.max_residents = std::max(best.max_residents, event.spec.max_residents);
  }
  return workers;
}

}  // namespace weir
