// How fast this device trains, by class of operator: small models of one kind of layer each are read and trained as a job's would
// be, and their FLOP are those that the cost model counts, so that a job's FLOP over this speed is its time.
#ifndef WEIR_WORKER_RUNTIME_CALIBRATE_H_
#define WEIR_WORKER_RUNTIME_CALIBRATE_H_

#include <string>
#include <vector>

namespace weir::worker {

struct CalibrationRequest {
  std::string device = "cpu";  // or cuda:<index>
  int threads = 1;             // of the CPU
  double seconds = 2;          // about so long in all, after loading LibTorch; > 0
};

struct OperatorClassSpeed {
  std::string name;  // matmul | conv | elementwise | reduction
  double flops = 0;  // training FLOP/s: (forward + backward FLOP) / (median seconds of both)
  double flop = 0;   // of one forward and backward pass of the probe
};

struct CalibrationResult {
  std::vector<OperatorClassSpeed> classes;
  double flops = 0;  // MixedSpeed of them
  double seconds = 0;
};

// Share of each class in the FLOP of the reference mix, summing to 1; 0 for unknown names. docs/calibration.md has the reason.
double ReferenceShare(const std::string& operator_class);
// FLOP/s of work that has these shares of FLOP: the harmonic mean 1 / sum(share_i / flops_i), shares scaled to sum to 1 over the
// given classes. 0 where none of them has a share.
double MixedSpeed(const std::vector<OperatorClassSpeed>& classes);

// Throws Error(kInvalid): no such device. Error(kInfrastructure): no libweir_torch.so here.
CalibrationResult Calibrate(const CalibrationRequest& request);  // loads the library

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_CALIBRATE_H_
