#include "coordinator/checkpoint_book.h"

namespace weir::coordinator {

void CheckpointBook::Begin(int num_stages) {
  *this = {};
  num_stages_ = num_stages;
}

std::optional<wire::CheckpointInfo> CheckpointBook::Add(const wire::StageCheckpoint& report) {
  const int stage = report.key().stage();
  if (stage < 0 || stage >= num_stages_) return std::nullopt;
  if (report.stopped()) stopped_.insert(stage);
  if (report.iteration() <= complete_ || report.artifact().empty()) return std::nullopt;
  auto& parts = open_[report.iteration()];
  parts[stage] = {report.artifact(), report.bytes()};
  if (static_cast<int>(parts.size()) < num_stages_) return std::nullopt;
  wire::CheckpointInfo complete;
  complete.set_iteration(report.iteration());
  for (const auto& [s, part] : parts) {
    complete.add_artifacts(part.artifact);
    complete.set_bytes(complete.bytes() + part.bytes);
  }
  complete_ = report.iteration();
  open_.erase(open_.begin(), open_.upper_bound(complete_));
  return complete;
}

}  // namespace weir::coordinator
