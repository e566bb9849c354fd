#include "worker/runtime/trainable.h"

#include "env/core/file.h"
#include "partitioner/front_end.h"
#include "partitioner/onnx/onnx_model.h"
#include "partitioner/torchscript/lowering.h"
#include "worker/runtime/load_model.h"
#include "worker/runtime/onnx_lowering.h"

extern "C" void weir_torch_check_trainable(const weir::worker::TrainableRequest& request) {
  using namespace weir;
  const std::string content = ReadFile(request.path);
  worker::RefuseProfile(content, request.name);
  const worker::Init init = request.init == "kaiming" ? worker::Init::kKaiming : worker::Init::kKeep;
  if (partitioner::FormatOfContent(content) == partitioner::ModelFormat::kTorchScript) {
    return worker::CheckInit(partitioner::LowerTorchScript(content, request.name), init);
  }
  partitioner::LoadOptions options;
  options.batch = request.batch;
  options.input_shape = request.sample_shape;
  worker::CheckInit(worker::LowerOnnx(partitioner::ParseOnnx(content, request.name, options)), init);
}
