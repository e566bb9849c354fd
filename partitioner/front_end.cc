#include "partitioner/front_end.h"

#include <filesystem>
#include <fstream>
#include <memory>

#include "env/core/error.h"
#include "env/core/plugin.h"
#include "partitioner/onnx/onnx_model.h"

namespace weir::partitioner {

ModelFormat FormatOfContent(std::string_view content) {
  return content.substr(0, 2) == "PK" ? ModelFormat::kTorchScript : ModelFormat::kOnnx;
}

ModelFormat FormatOfFile(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw Invalid("{}: no such file", path);
  if (std::filesystem::is_directory(status)) throw Invalid("{}: is a folder, expected a model file", path);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Invalid("{}: can't be read", path);
  char first[2] = {};
  in.read(first, 2);
  if (in.gcount() == 0) throw Invalid("{}: the file is empty, expected an ONNX or TorchScript model", path);
  return FormatOfContent(std::string_view(first, static_cast<std::size_t>(in.gcount())));
}

OperatorGraph LoadModel(const std::string& path, const LoadOptions& options) {
  if (FormatOfFile(path) == ModelFormat::kOnnx) return ToOperatorGraph(LoadOnnx(path, options));
  using Load = OperatorGraph*(const std::string&, const LoadOptions&);
  std::unique_ptr<OperatorGraph> graph(TorchFunction<Load>("weir_torch_load_graph")(path, options));
  return std::move(*graph);
}

}  // namespace weir::partitioner
