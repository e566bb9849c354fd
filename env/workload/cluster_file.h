// Cluster files (configs/clusters/*.yaml): the workers and the model's options. Keys and units: configs/README.md.
#ifndef WEIR_ENV_WORKLOAD_CLUSTER_FILE_H_
#define WEIR_ENV_WORKLOAD_CLUSTER_FILE_H_

#include <string>
#include <vector>

#include "env/sim/iteration_time.h"
#include "env/sim/spec.h"
#include "env/sim/worker_event.h"

namespace weir {

struct Cluster {
  std::string name;
  std::vector<WorkerSpec> workers;
  ModelOptions model;               // with the links and co-run gains of the file
  std::vector<WorkerEvent> events;  // by time
};

// Throw Error(kInvalid) with file:line and the field.
Cluster ReadCluster(const std::string& path);
Cluster ParseCluster(const std::string& text, const std::string& source);

}  // namespace weir

#endif  // WEIR_ENV_WORKLOAD_CLUSTER_FILE_H_
