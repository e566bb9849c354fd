// The worker process: keeps one connection to the coordinator and one executor process (a crash of LibTorch ends a part, not the
// daemon). Fetches artifacts, hands stages to the executor, repeats what the coordinator must hear until it is acknowledged.
#ifndef WEIR_WORKER_DAEMON_DAEMON_H_
#define WEIR_WORKER_DAEMON_DAEMON_H_

#include <string>
#include <vector>

#include "env/core/error.h"

namespace weir::worker {

// What plans don't count on an accelerator: the workspaces of cuBLAS (twice 32 MiB on Hopper, once a process), and those of cuDNN
// with the allocator's rounding, for which a quarter of the rest is kept. docs/measurements.md has planned and measured peaks of
// ten models.
inline constexpr double kDeviceWorkspaceBytes = 64.0 * (1 << 20);
inline constexpr double kPlannedShareOfDevice = 0.75;

struct DaemonOptions {
  std::string coordinator = "tcp://127.0.0.1:7700";
  std::string name;  // unique in the cluster
  // What the scheduler is told about the device. SI units.
  double flops = 0;  // 0: the daemon measures it before it joins
  double memory_bytes = 0;
  double bandwidth = 125e6;
  double latency = 0.0002;
  double corun_gain = 0;
  int max_residents = 2;
  bool emulate = false;                 // the executor stretches every iteration to what a device of `flops` would take
  bool emulate_link = false;            // activations and gradients travel at `bandwidth` and `latency`
  std::string device = "cpu";           // or cuda:<index>
  int threads = 1;                      // of the executor
  std::string bind_host = "127.0.0.1";  // where the executor listens for other executors
  std::string work_folder;              // artifacts and results; empty: a temporary one, removed at the end
  double connect_timeout = 30;          // seconds until the first answer; later breaks are waited out
  std::string version;
  int stop_fd = -1;  // readable: say Bye, end the executor, return
  // The executor's command line up to the control address; empty: this executable with the verb `executor`. The daemon appends
  // --control ADDRESS --bind HOST --threads N --corun-gain G --device D --memory BYTES and, where `emulate`, --emulate-flops F,
  // where `emulate_link` --emulate-bandwidth B --emulate-latency S.
  std::vector<std::string> executor_command;
  // The command that measures the device, up to its options (worker/daemon/calibration.h); empty: this executable with the verb
  // `calibrate`.
  std::vector<std::string> calibrate_command;
};

// Reads a worker's YAML file on top of `options`: name, coordinator, flops, memory, bandwidth, latency, corun_gain,
// max_residents, emulate, emulate_link, device, threads, work_folder, bind_host. Throws Error(kInvalid) with file:line.
void ReadDaemonConfig(const std::string& path, DaemonOptions* options);

// Runs until stop_fd is readable. Throws Error: kInvalid for options, kUnreachable where nothing answers within connect_timeout,
// kNotFound where the coordinator refuses (e.g. the name is in use), kInfrastructure where the executor can't be started.
void RunDaemon(const DaemonOptions& options);

}  // namespace weir::worker

#endif  // WEIR_WORKER_DAEMON_DAEMON_H_
