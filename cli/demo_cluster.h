// A coordinator and workers as child processes on loopback, for `weir demo`.
#ifndef WEIR_CLI_DEMO_CLUSTER_H_
#define WEIR_CLI_DEMO_CLUSTER_H_

#include <memory>
#include <string>
#include <vector>

#include "env/sim/spec.h"
#include "worker/daemon/child_process.h"

namespace weir::cli {

class DemoCluster {
 public:
  // Starts the coordinator on a free port and one daemon a worker, each emulating its speed and memory; returns once all of them
  // have joined. Throws Error(kInfrastructure) where one ends or doesn't join within 60 s.
  DemoCluster(const std::vector<WorkerSpec>& workers, const std::string& state_folder, const std::string& scheduler,
              const std::string& policy, bool emulate_link = false);
  ~DemoCluster();  // ends them in order

  const std::string& address() const { return address_; }
  // Throws Error(kInfrastructure) where one of the processes has ended.
  void RequireAlive();

 private:
  void WaitForAll(std::size_t count);
  void Stop();
  std::string address_;
  std::unique_ptr<worker::ChildProcess> coordinator_;
  std::vector<std::unique_ptr<worker::ChildProcess>> workers_;
};

}  // namespace weir::cli

#endif  // WEIR_CLI_DEMO_CLUSTER_H_
