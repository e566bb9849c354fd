// One door for model files: tells the format by content and returns the operator graph.
// ONNX and text profiles are read here; TorchScript (a ZIP archive) is read by libweir_torch.so, loaded on first need, which
// exports
//   extern "C" weir::partitioner::OperatorGraph* weir_torch_load_graph(const std::string& path,
//                                                                      const weir::partitioner::LoadOptions& options);
// The caller owns what it returns; it may throw weir::Error.
#ifndef WEIR_PARTITIONER_FRONT_END_H_
#define WEIR_PARTITIONER_FRONT_END_H_

#include <string>
#include <string_view>

#include "partitioner/graph/operator_graph.h"
#include "partitioner/load_options.h"

namespace weir::partitioner {

enum class ModelFormat {
  kOnnx,
  kTorchScript,
  kTextProfile,  // profile/text_profile.h: can be cut, not run
};

// By the first bytes: "PK" is a ZIP archive, so TorchScript; text with " -- " in its first 4 KiB a profile; anything else is read
// as ONNX, which reports what's wrong with it.
ModelFormat FormatOfContent(std::string_view content);
// The same by file. Throws Error(kInvalid): missing, a folder, unreadable or empty.
ModelFormat FormatOfFile(const std::string& path);

// Throws Error(kInvalid) in one line that starts with the path: missing, empty, truncated, not a model, inconsistent.
OperatorGraph LoadModel(const std::string& path, const LoadOptions& options = {});

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_FRONT_END_H_
