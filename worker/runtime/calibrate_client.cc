// The side of calibration that needs no LibTorch.
#include <cstdlib>
#include <memory>

#include "env/core/plugin.h"
#include "worker/runtime/calibrate.h"

namespace weir::worker {

double ReferenceShare(const std::string& operator_class) {
  if (operator_class == "matmul") return 0.40;
  if (operator_class == "conv") return 0.56;
  if (operator_class == "elementwise") return 0.03;
  if (operator_class == "reduction") return 0.01;
  return 0;
}

double MixedSpeed(const std::vector<OperatorClassSpeed>& classes) {
  double shares = 0, time = 0;
  for (const OperatorClassSpeed& c : classes) {
    const double share = ReferenceShare(c.name);
    if (share <= 0 || c.flops <= 0) continue;
    shares += share;
    time += share / c.flops;
  }
  return time > 0 ? shares / time : 0;
}

CalibrationResult Calibrate(const CalibrationRequest& request) {
  const std::string threads = std::to_string(request.threads);  // read by OpenBLAS and OpenMP when they are loaded
  ::setenv("OMP_NUM_THREADS", threads.c_str(), 1);
  ::setenv("OPENBLAS_NUM_THREADS", threads.c_str(), 1);
  using Function = CalibrationResult*(const CalibrationRequest&);
  const std::unique_ptr<CalibrationResult> result(TorchFunction<Function>("weir_torch_calibrate")(request));
  result->flops = MixedSpeed(result->classes);
  return std::move(*result);
}

}  // namespace weir::worker
