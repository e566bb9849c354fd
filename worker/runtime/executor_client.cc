// The side of the runtime that needs no LibTorch: sets the environment, loads the library, calls it.
#include <cstdlib>
#include <memory>

#include "env/core/plugin.h"
#include "worker/runtime/executor.h"
#include "worker/runtime/held_out.h"
#include "worker/runtime/profile_model.h"
#include "worker/runtime/trainable.h"

namespace weir::worker {

int RunExecutor(const ExecutorOptions& options) {
  // Read by OpenBLAS and OpenMP when they are loaded. One thread makes sums repeatable; several stages share the cores anyway.
  const std::string threads = std::to_string(options.threads);
  ::setenv("OMP_NUM_THREADS", threads.c_str(), 1);
  ::setenv("OPENBLAS_NUM_THREADS", threads.c_str(), 1);
  return TorchFunction<int(const ExecutorOptions*)>("weir_torch_run_executor")(&options);
}

double CheckTrainable(const TrainableRequest& request) {
  return TorchFunction<double(const TrainableRequest&)>("weir_torch_check_trainable")(request);
}

ModelProfile ProfileModel(const ProfileRequest& request) {
  using Profile = ModelProfile*(const ProfileRequest&);
  const std::unique_ptr<ModelProfile> profile(TorchFunction<Profile>("weir_torch_profile_model")(request));
  return std::move(*profile);
}

double HeldOutAccuracy(const std::string& torchscript_path, const Dataset& data, double holdout, std::uint64_t seed) {
  return TorchFunction<double(const std::string&, const Dataset&, double, std::uint64_t)>("weir_torch_held_out_accuracy")(
      torchscript_path, data, holdout, seed);
}

}  // namespace weir::worker
