// Times every operator of a model with LibTorch, alone, forward and backward, and the whole training pass beside it.
#ifndef WEIR_WORKER_RUNTIME_PROFILE_MODEL_H_
#define WEIR_WORKER_RUNTIME_PROFILE_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "partitioner/graph/operator_graph.h"
#include "partitioner/profile/time_table.h"

namespace weir::worker {

struct ProfileRequest {
  std::string path;                        // of the model file
  std::int64_t batch = 1;                  // samples
  std::vector<std::int64_t> sample_shape;  // empty: what the file says
  std::string device = "cpu";              // "cpu" or "cuda:0"
  int threads = 0;                         // of the CPU; 0: all cores
  int runs = 5;                            // medians of so many, >= 1
};

struct ModelProfile {
  partitioner::OperatorGraph graph;
  std::vector<partitioner::OperatorSeconds> operators;  // parallel to graph.operators
  double pass_seconds = 0;                              // forward and backward of the whole model, without the optimiser
  // Of the device, measured in the same process: an empty table to start from.
  partitioner::TimeTable device;
};

// Throws Error(kInvalid): no such device, or the model can't be executed. Error(kInfrastructure): no libweir_torch.so here.
ModelProfile ProfileModel(const ProfileRequest& request);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_PROFILE_MODEL_H_
