// In which order a stage runs the forward and backward passes of an iteration's micro-batches.
//   gpipe  all forward, then all backward: every micro-batch's activations are kept at once (Huang et al., NeurIPS'19)
//   1f1b   min(stages - stage, M) forward passes ahead, then one backward, one forward in turn: no more micro-batches are kept
//   than
//          stages follow (Narayanan et al., SOSP'19; the order that partitioner/cut/memory_model.h counts with)
// Both run the backward passes in the order of the micro-batches, so gradients are summed in the same order and the results have
// the same bits. Stages are numbered in topological order; no order waits in a circle on any graph whose arcs run upwards.
#ifndef WEIR_WORKER_RUNTIME_PIPELINE_SCHEDULE_H_
#define WEIR_WORKER_RUNTIME_PIPELINE_SCHEDULE_H_

#include <vector>

namespace weir::worker {

enum class PipelineOrder { k1f1b, kGpipe };

struct PipelineStep {
  bool forward = true;
  int micro_batch = 0;
};

// 2 * micro_batches steps. REQUIRES: 0 <= stage < num_stages, micro_batches >= 1.
std::vector<PipelineStep> PipelineSteps(PipelineOrder order, int stage, int num_stages, int micro_batches);

// Micro-batches whose forward pass has run and whose backward pass has not, at most.
int MostInFlight(PipelineOrder order, int stage, int num_stages, int micro_batches);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_PIPELINE_SCHEDULE_H_
