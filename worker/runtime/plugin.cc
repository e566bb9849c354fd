// The exported C symbols of libweir_torch.so that belong to no other file.
#include <ATen/Parallel.h>

#include <memory>

#include "env/core/error.h"
#include "env/core/file.h"
#include "partitioner/load_options.h"
#include "partitioner/torchscript/lowering.h"

// TorchScript file to operator graph; the caller owns the result. Throws weir::Error.
extern "C" weir::partitioner::OperatorGraph* weir_torch_load_graph(const std::string& path,
                                                                   const weir::partitioner::LoadOptions& options) {
  using namespace weir::partitioner;
  const std::string content = weir::ReadFile(path);
  LoweredModel model = LowerTorchScript(content, path);
  const auto shape = options.input_shape ? *options.input_shape : TorchScriptInputShape(content, path, model);
  const std::int64_t batch = options.batch > 0 ? options.batch : 1;
  // Batch statistics of a single 1x1 value don't exist: where batch 1 can't run in train mode, two samples are run and counts
  // halved.
  try {
    MeasureShapes(batch, shape, path, &model);
  } catch (const weir::Error&) {
    if (batch != 1) throw;
    MeasureShapes(2, shape, path, &model);
    HalveBatch(&model.operator_graph);
  }
  return std::make_unique<OperatorGraph>(std::move(model.operator_graph)).release();
}
