// Which parts of which checkpoints of one attempt have come in. A checkpoint counts once every stage has reported the same
// iteration; an older one that is still open then never will. Pure.
#ifndef WEIR_COORDINATOR_CHECKPOINT_BOOK_H_
#define WEIR_COORDINATOR_CHECKPOINT_BOOK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "worker/protocol/wire.pb.h"

namespace weir::coordinator {

class CheckpointBook {
 public:
  // A new attempt of so many stages.
  void Begin(int num_stages);
  // A report; the checkpoint where it was the last one of its iteration. Repeats change nothing.
  std::optional<wire::CheckpointInfo> Add(const wire::StageCheckpoint& report);
  // Every stage has ended with a checkpoint.
  bool AllStopped() const { return num_stages_ > 0 && static_cast<int>(stopped_.size()) == num_stages_; }
  bool AnyStopped() const { return !stopped_.empty(); }

 private:
  struct Part {
    std::string artifact;
    double bytes = 0;
  };
  int num_stages_ = 0;
  std::map<std::int64_t, std::map<int, Part>> open_;  // by iteration, by stage
  std::int64_t complete_ = -1;                        // the newest complete iteration
  std::set<int> stopped_;
};

}  // namespace weir::coordinator

#endif  // WEIR_COORDINATOR_CHECKPOINT_BOOK_H_
