// The demo's script (configs/demo/demo.yaml): a cluster of emulated workers and jobs that arrive over time.
#ifndef WEIR_CLI_DEMO_FILE_H_
#define WEIR_CLI_DEMO_FILE_H_

#include <string>
#include <vector>

#include "env/workload/cluster_file.h"
#include "worker/protocol/job_file.h"

namespace weir::cli {

struct DemoJob {
  worker::JobFile job;
  double at = 0;            // seconds after the start
  double min_accuracy = 0;  // held-out, that its weights must reach
};

struct DemoFile {
  Cluster cluster;
  bool emulate_link = false;  // activations and gradients travel at the workers' bandwidth and latency
  std::vector<DemoJob> jobs;  // by time
};

// Paths in it are relative to its folder. Throws Error(kInvalid) with file:line.
DemoFile ReadDemo(const std::string& path);

}  // namespace weir::cli

#endif  // WEIR_CLI_DEMO_FILE_H_
