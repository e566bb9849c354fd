// An ONNX file as it stands: parsed, functions inlined, tensors decoded, nodes sorted topologically; nothing bound or inferred.
#ifndef WEIR_PARTITIONER_ONNX_RAW_MODEL_H_
#define WEIR_PARTITIONER_ONNX_RAW_MODEL_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "partitioner/onnx/onnx_model.h"

namespace weir::partitioner {

struct RawBranch;

struct RawNode {
  std::string name, op_type, domain;
  int opset = 0;
  std::map<std::string, OnnxAttribute> attributes;
  std::vector<std::string> inputs;   // "" = left out; values captured by inner graphs (If, Loop) are appended
  std::vector<std::string> outputs;  // "" = not wanted
  // Of an If: then, else. The normaliser puts one in the node's place where the condition is constant.
  std::shared_ptr<const RawBranch> branches[2];
};

// A branch of an If, its inner names made unique. Its initialisers are among the model's.
struct RawBranch {
  std::vector<RawNode> nodes;
  std::vector<std::string> outputs;
};

struct RawInput {
  struct Dim {
    std::int64_t value = -1;  // -1: symbolic
    std::string symbol;
  };
  std::string name;
  DType dtype = DType::kFloat32;
  bool has_shape = false;
  std::vector<Dim> dims;
};

struct RawModel {
  int ir_version = 0;
  int opset = 0;
  std::vector<RawNode> nodes;  // topological order, stable with respect to the file's
  std::map<std::string, std::shared_ptr<const OnnxData>> initializers;
  std::vector<RawInput> inputs;  // those without initialiser
  std::vector<std::string> outputs;
  std::vector<std::string> warnings;
};

// `name` starts every message. `folder`: where external data may lie; "" refuses it. Throws Error(kInvalid).
RawModel ReadRawModel(std::string_view bytes, const std::string& name, const std::string& folder);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_ONNX_RAW_MODEL_H_
