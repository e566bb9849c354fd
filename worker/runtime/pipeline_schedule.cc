#include "worker/runtime/pipeline_schedule.h"

#include <algorithm>

#include "env/core/check.h"

namespace weir::worker {

int MostInFlight(PipelineOrder order, int stage, int num_stages, int micro_batches) {
  WEIR_CHECK(stage >= 0 && stage < num_stages && micro_batches >= 1) << stage << num_stages << micro_batches;
  return order == PipelineOrder::kGpipe ? micro_batches : std::min(num_stages - stage, micro_batches);
}

std::vector<PipelineStep> PipelineSteps(PipelineOrder order, int stage, int num_stages, int micro_batches) {
  const int ahead = MostInFlight(order, stage, num_stages, micro_batches);
  std::vector<PipelineStep> steps;
  for (int m = 0; m < ahead; ++m) steps.push_back({true, m});
  for (int m = 0; m < micro_batches; ++m) {
    steps.push_back({false, m});
    if (m + ahead < micro_batches) steps.push_back({true, m + ahead});
  }
  return steps;
}

}  // namespace weir::worker
