// Measuring the own device in a process of its own, so that the daemon holds no LibTorch and a crash costs a figure, not a
// worker.
#ifndef WEIR_WORKER_DAEMON_CALIBRATION_H_
#define WEIR_WORKER_DAEMON_CALIBRATION_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/daemon/child_process.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {

class CalibrationRun {
 public:
  // Starts `command` --device D --threads N --out FILE, FILE in `folder`. An empty command is this executable with the verb
  // `calibrate`. Throws Error(kInfrastructure) where it can't be started.
  CalibrationRun(std::vector<std::string> command, const std::string& device, int threads, const std::string& folder);
  ~CalibrationRun();

  // nullopt while it runs. Afterwards the figures, or `error` set: it died, wrote nothing readable, or took over kPatience.
  std::optional<wire::Calibration> Result();
  static constexpr std::chrono::seconds kPatience{120};

 private:
  std::string file_;
  std::unique_ptr<ChildProcess> child_;
  std::chrono::steady_clock::time_point start_;
};

// What training on this device may take where nobody says: three quarters of the memory that is free now (of the accelerator's
// where it has its own).
double MemoryForTraining(const std::string& device);

}  // namespace weir::worker

#endif  // WEIR_WORKER_DAEMON_CALIBRATION_H_
