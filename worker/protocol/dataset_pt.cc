#include <memory>

#include "env/core/plugin.h"
#include "worker/protocol/dataset_formats.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {

Dataset ReadPt(const std::string& path, const wire::DataSpec& spec) {
  using Read = Dataset*(const std::string&, const wire::DataSpec&);
  const std::unique_ptr<Dataset> data(TorchFunction<Read>("weir_torch_read_pt")(path, spec));
  return std::move(*data);
}

}  // namespace weir::worker
