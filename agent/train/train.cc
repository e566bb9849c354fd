#include "agent/train/train.h"

#include "env/core/plugin.h"

namespace weir {

TrainReport Train(const TrainOptions& options) {
  TrainReport report;
  TorchFunction<void(const TrainOptions&, TrainReport*)>("weir_torch_train")(options, &report);
  return report;
}

}  // namespace weir
