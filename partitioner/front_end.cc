#include "partitioner/front_end.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "env/core/error.h"
#include "env/core/plugin.h"
#include "partitioner/onnx/onnx_model.h"
#include "partitioner/profile/text_profile.h"

namespace weir::partitioner {
namespace {

constexpr std::size_t kHead = 4096;  // bytes that tell the format

}  // namespace

ModelFormat FormatOfContent(std::string_view content) {
  if (content.substr(0, 2) == "PK") return ModelFormat::kTorchScript;
  const std::string_view head = content.substr(0, kHead);
  const bool text =
      std::none_of(head.begin(), head.end(), [](char c) { return c >= 0 && c < ' ' && c != '\n' && c != '\r' && c != '\t'; });
  return text && head.find(" -- ") != std::string_view::npos ? ModelFormat::kTextProfile : ModelFormat::kOnnx;
}

ModelFormat FormatOfFile(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw Invalid("{}: no such file", path);
  if (std::filesystem::is_directory(status)) throw Invalid("{}: is a folder, expected a model file", path);
  if (std::filesystem::is_character_file(status) || std::filesystem::is_block_file(status))
    throw Invalid("{}: is a device, expected a model file", path);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Invalid("{}: can't be read", path);
  std::string first(kHead, '\0');
  in.read(first.data(), kHead);
  if (in.gcount() == 0) throw Invalid("{}: the file is empty, expected an ONNX or TorchScript model", path);
  return FormatOfContent(std::string_view(first).substr(0, static_cast<std::size_t>(in.gcount())));
}

OperatorGraph LoadModel(const std::string& path, const LoadOptions& options) {
  switch (FormatOfFile(path)) {
    case ModelFormat::kOnnx:
      return ToOperatorGraph(LoadOnnx(path, options));
    case ModelFormat::kTextProfile:
      return LoadTextProfile(path);
    case ModelFormat::kTorchScript:
      break;
  }
  using Load = OperatorGraph*(const std::string&, const LoadOptions&);
  std::unique_ptr<OperatorGraph> graph(TorchFunction<Load>("weir_torch_load_graph")(path, options));
  return std::move(*graph);
}

}  // namespace weir::partitioner
