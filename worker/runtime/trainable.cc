#include "worker/runtime/trainable.h"

#include "env/core/error.h"
#include "env/core/file.h"
#include "partitioner/front_end.h"
#include "partitioner/onnx/onnx_model.h"
#include "partitioner/torchscript/lowering.h"
#include "worker/runtime/load_model.h"
#include "worker/runtime/measure_memory.h"
#include "worker/runtime/onnx_lowering.h"

extern "C" double weir_torch_check_trainable(const weir::worker::TrainableRequest& request) {
  using namespace weir;
  const std::string content = ReadFile(request.path);
  worker::RefuseProfile(content, request.name);
  const worker::Init init = request.init == "kaiming" ? worker::Init::kKaiming : worker::Init::kKeep;
  if (partitioner::FormatOfContent(content) == partitioner::ModelFormat::kTorchScript) {
    worker::CheckInit(partitioner::LowerTorchScript(content, request.name), init);
  } else {
    partitioner::LoadOptions options;
    options.batch = request.batch;
    options.input_shape = request.sample_shape;
    worker::CheckInit(worker::LowerOnnx(partitioner::ParseOnnx(content, request.name, options)), init);
  }
  try {
    return worker::MeasureActivationBytes(content, request.name, request.batch, request.sample_shape, request.accumulates);
  } catch (const std::exception& e) {
    const std::string what = e.what();
    throw Invalid("{}: a training pass can't be run: {}", request.name, what.substr(0, what.find('\n')));
  }
}
