// Output types and shapes of ONNX operators, keyed by operator and opset. To add one: write a rule in shape_rules.cc, list it in
// its table, give it a cost in cost_model.cc where it does arithmetic that counts, and a test in shape_rules_test.cc.
#ifndef WEIR_PARTITIONER_ONNX_SHAPE_RULES_H_
#define WEIR_PARTITIONER_ONNX_SHAPE_RULES_H_

#include <optional>
#include <string>
#include <vector>

#include "partitioner/onnx/onnx_model.h"

namespace weir::partitioner {

// The newest operator set that the rules were written for; newer files are read by the same rules, with a warning.
constexpr int kNewestOpset = 23;

struct TypedShape {
  DType dtype = DType::kFloat32;
  std::optional<std::vector<std::int64_t>> shape;  // nullopt: unknown
};

struct RuleInput {
  bool present = false;
  TypedShape type;
  const OnnxData* data = nullptr;  // of constants
};

bool HasShapeRule(const std::string& domain, const std::string& op_type);

// Types of the node's outputs, one each (also those nobody wants). Where an input's shape is unknown, so are the outputs'.
// Throws Error(kInvalid) starting with `where` for inputs that the operator refuses.
// REQUIRES: HasShapeRule(node.domain, node.op_type).
std::vector<TypedShape> InferShapes(const OnnxNode& node, const std::vector<RuleInput>& inputs, const std::string& where);

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_ONNX_SHAPE_RULES_H_
