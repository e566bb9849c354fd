// An independent check of returned weights: loads the TorchScript file as any user would and runs it on the held-out samples.
#ifndef WEIR_WORKER_RUNTIME_HELD_OUT_H_
#define WEIR_WORKER_RUNTIME_HELD_OUT_H_

#include <cstdint>
#include <string>

#include "worker/protocol/dataset.h"

namespace weir::worker {

// Share of held-out samples (as split by `holdout` and `seed` in training) whose largest output is their label.
// Throws Error(kJobFailed) where the file can't be loaded or run. Loads libweir_torch.so.
double HeldOutAccuracy(const std::string& torchscript_path, const Dataset& data, double holdout, std::uint64_t seed);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_HELD_OUT_H_
