#include "coordinator/worker_table.h"

#include <cmath>

#include "env/core/check.h"
#include "env/core/error.h"

namespace weir::coordinator {

std::string_view StateName(WorkerEntry::State state) {
  switch (state) {
    case WorkerEntry::State::kReady:
      return "ready";
    case WorkerEntry::State::kStarting:
      return "starting";
    case WorkerEntry::State::kSuspected:
      return "suspected";
    case WorkerEntry::State::kLost:
      return "lost";
    case WorkerEntry::State::kGone:
      return "gone";
  }
  return "";
}

WorkerEntry* WorkerTable::ByPeer(const std::string& peer) {
  const auto found = by_peer_.find(peer);
  return found == by_peer_.end() ? nullptr : &entries_[found->second];
}

WorkerEntry* WorkerTable::ByName(const std::string& name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

WorkerEntry& WorkerTable::Add(const wire::Hello& hello) {
  const auto id = static_cast<WorkerId>(entries_.size());
  WEIR_CHECK(by_name_.emplace(hello.worker(), id).second) << hello.worker();
  WorkerEntry entry;
  entry.id = id;
  entry.spec = hello;
  entries_.push_back(std::move(entry));
  return entries_.back();
}

void WorkerTable::SetPeer(WorkerEntry* entry, const std::string& peer) {
  if (!entry->peer.empty()) by_peer_.erase(entry->peer);
  entry->peer = peer;
  if (!peer.empty()) by_peer_[peer] = entry->id;
}

WorkerSpec ToWorkerSpec(const wire::Hello& hello) {
  if (hello.worker().empty() || hello.worker().size() > 100) throw Invalid("worker: its name must have 1 to 100 characters");
  WorkerSpec spec;
  spec.name = hello.worker();
  spec.flops = hello.flops();
  spec.memory_bytes = hello.memory_bytes();
  spec.bandwidth = hello.bandwidth();
  spec.latency = hello.latency();
  spec.corun_gain = hello.corun_gain();
  spec.max_residents = hello.max_residents();
  for (double v : {spec.flops, spec.memory_bytes, spec.bandwidth, spec.latency, spec.corun_gain}) {
    if (!std::isfinite(v)) throw Invalid("worker {}: its figures must be finite", hello.worker());
  }
  CheckSpec(spec, "worker " + hello.worker());
  return spec;
}

}  // namespace weir::coordinator
