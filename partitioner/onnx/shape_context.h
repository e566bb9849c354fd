// What a shape rule sees, and the tables of rules. Private to the ONNX front end.
#ifndef WEIR_PARTITIONER_ONNX_SHAPE_CONTEXT_H_
#define WEIR_PARTITIONER_ONNX_SHAPE_CONTEXT_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "env/core/error.h"
#include "partitioner/onnx/shape_rules.h"

namespace weir::partitioner {

using Shape = std::vector<std::int64_t>;

// What a rule sees: the node, its inputs' types, and where to put the outputs'.
class ShapeContext {
 public:
  ShapeContext(const OnnxNode& n, const std::vector<RuleInput>& in, const std::string& w)
      : node(n), inputs(in), outputs(n.outputs.size()), where(w) {}

  const OnnxNode& node;
  const std::vector<RuleInput>& inputs;
  std::vector<TypedShape> outputs;
  const std::string& where;

  template <typename... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Invalid("{}: {}", where, fmt::format(format, std::forward<Args>(args)...));
  }
  bool Has(std::size_t i) const { return i < inputs.size() && inputs[i].present; }
  const Shape& In(std::size_t i) const {
    if (!Has(i)) Fail("input {} is missing", i);
    return *inputs[i].type.shape;
  }
  DType Type(std::size_t i) const {
    if (!Has(i)) Fail("input {} is missing", i);
    return inputs[i].type.dtype;
  }
  std::int64_t Rank(std::size_t i) const { return static_cast<std::int64_t>(In(i).size()); }
  void Out(std::size_t i, Shape shape, DType dtype) {
    if (i >= outputs.size()) return;
    outputs[i] = {dtype, std::move(shape)};
  }
  void Out(Shape shape) { Out(0, std::move(shape), Type(0)); }
  std::int64_t Axis(std::int64_t axis, std::int64_t rank) const {
    if (axis < -rank || axis >= rank) Fail("axis {} is out of range for rank {}", axis, rank);
    return axis < 0 ? axis + rank : axis;
  }
  // Integers from input i (newer opsets) or an attribute (older ones). nullopt: neither is there, or the input isn't constant.
  std::optional<Shape> Integers(std::size_t i, const char* attribute) const {
    if (Has(i)) {
      if (!inputs[i].data) return std::nullopt;
      return inputs[i].data->Ints();
    }
    if (node.Find(attribute)) return node.Ints(attribute);
    return std::nullopt;
  }
  // True where input i is given but not known before run time: the output's shape is unknown then.
  bool Dynamic(std::size_t i) const { return Has(i) && !inputs[i].data; }
};

using ShapeRule = std::function<void(ShapeContext&)>;
using ShapeRuleTable = std::map<std::string, ShapeRule>;

// The shape of an elementwise result; fails where the two don't broadcast.
Shape Broadcast(const ShapeContext& c, const Shape& a, const Shape& b);

void AddIndexingShapes(ShapeRuleTable* table);   // gather, scatter, top-k, tiles, blocks
void AddAttentionShapes(ShapeRuleTable* table);  // attention, einsum, later normalisations

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_ONNX_SHAPE_CONTEXT_H_
