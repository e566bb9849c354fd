#include <ATen/core/Scalar.h>

#include <algorithm>
#include <numeric>

#include "worker/runtime/onnx_rules.h"

namespace weir::worker {
namespace {

using partitioner::DType;
using torch::jit::IValue;

void Reshape(OnnxEmitter& e) {
  e.Out(0, e.Aten("reshape", {e.In(0), IValue(e.OutputTarget())}));
}

void Flatten(OnnxEmitter& e) {
  const std::int64_t axis = OnnxEmitter::Axis(e.node().Int("axis", 1), e.Rank(0));
  if (axis == 1) return e.Out(0, e.Aten("flatten", {e.In(0), IValue(std::int64_t{1}), IValue(std::int64_t{-1})}));
  Reshape(e);
}

void Transpose(OnnxEmitter& e) {
  Ints reversed(e.Rank(0));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  e.Out(0, e.Aten("permute", {e.In(0), IValue(e.node().Ints("perm", reversed))}));
}

void Concat(OnnxEmitter& e) {
  std::vector<JitValue*> parts;
  for (std::size_t i = 0; i < e.NumInputs(); ++i) {
    if (e.Has(i)) parts.push_back(e.In(i));
  }
  e.Out(0, e.Aten("cat", {e.List(parts), IValue(e.node().Int("axis", 0))}));
}

void Split(OnnxEmitter& e) {
  const std::int64_t axis = OnnxEmitter::Axis(e.node().Int("axis", 0), e.Rank(0));
  const std::size_t count = e.node().outputs.size();
  Ints sizes;
  if (auto given = e.IntsOf("split", 1)) {
    sizes = *given;
  } else {  // equal pieces, the last one smaller
    const std::int64_t total = e.Shape(0)[axis], piece = (total + count - 1) / count;
    for (std::size_t i = 0; i < count; ++i) sizes.push_back(std::min<std::int64_t>(piece, total - piece * i));
  }
  const auto pieces = e.Unpack(e.Aten("split_with_sizes", {e.In(0), IValue(sizes), IValue(axis)}), count);
  for (std::size_t i = 0; i < count; ++i) e.Out(i, pieces[i]);
}

void Slice(OnnxEmitter& e) {
  const auto starts = e.IntsOf("starts", 1), ends = e.IntsOf("ends", 2), steps = e.IntsOf("steps", 4);
  auto axes = e.IntsOf("axes", 3);
  if (!starts || !ends || starts->size() != ends->size()) e.Refuse("starts and ends must be constant and of one length");
  if (!axes) {
    axes = Ints(starts->size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  JitValue* x = e.In(0);
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const std::int64_t step = steps ? (*steps)[i] : 1;
    if (step < 1) {
      // Backwards: the elements by index. Bounds clamp as the operator's definition says.
      const std::int64_t axis = OnnxEmitter::Axis((*axes)[i], e.Rank(0)), size = e.Shape(0)[axis];
      auto at = [&](std::int64_t v, std::int64_t low) {
        return std::clamp<std::int64_t>(v < 0 ? std::max<std::int64_t>(v, -size - 1) + size : v, low, size - 1);
      };
      Ints indices;
      for (std::int64_t k = at((*starts)[i], 0), end = at((*ends)[i], -1); k > end; k += step) indices.push_back(k);
      x = e.Aten("index_select", {x, IValue(axis), e.Constant(at::tensor(indices, at::kLong))});
      continue;
    }
    x = e.Aten("slice", {x, IValue((*axes)[i]), IValue((*starts)[i]), IValue((*ends)[i]), IValue(step)});
  }
  e.Out(0, x);
}

void Squeeze(OnnxEmitter& e) {
  const std::int64_t rank = e.Rank(0);
  Ints axes;
  if (auto given = e.IntsOf("axes", 1)) {
    for (std::int64_t a : *given) axes.push_back(OnnxEmitter::Axis(a, rank));
  } else {
    for (std::int64_t a = 0; a < rank; ++a) {
      if (e.Shape(0)[a] == 1) axes.push_back(a);
    }
  }
  std::sort(axes.rbegin(), axes.rend());
  JitValue* x = e.In(0);
  for (std::int64_t a : axes) x = e.Aten("squeeze", {x, IValue(a)});
  e.Out(0, x);
}

void Unsqueeze(OnnxEmitter& e) {
  auto axes = e.IntsOf("axes", 1);
  if (!axes) e.Refuse("axes must be constant");
  const std::int64_t rank = e.Rank(0) + static_cast<std::int64_t>(axes->size());
  for (std::int64_t& a : *axes) a = OnnxEmitter::Axis(a, rank);
  std::sort(axes->begin(), axes->end());
  JitValue* x = e.In(0);
  for (std::int64_t a : *axes) x = e.Aten("unsqueeze", {x, IValue(a)});
  e.Out(0, x);
}

void Gather(OnnxEmitter& e) {
  const std::int64_t axis = OnnxEmitter::Axis(e.node().Int("axis", 0), e.Rank(0));
  if (e.IsConstant(1)) {
    Ints indices = e.ConstantInts(1);
    for (std::int64_t& i : indices) i = OnnxEmitter::Axis(i, e.Shape(0)[axis]);
    if (e.Rank(1) == 0) return e.Out(0, e.Aten("select", {e.In(0), IValue(axis), IValue(indices.at(0))}));
  }
  if (axis == 0 && e.Rank(0) == 2 && !e.IsConstant(1)) return e.Out(0, e.Aten("embedding", {e.In(0), e.In(1)}));
  JitValue* flat = e.Aten("reshape", {e.In(1), IValue(Ints{-1})});
  JitValue* rows = e.Aten("index_select", {e.In(0), IValue(axis), flat});
  e.Out(0, e.Aten("reshape", {rows, IValue(e.OutputTarget())}));
}

void Expand(OnnxEmitter& e) {
  Ints shape = e.OutputTarget();
  // -1 keeps the input's own dimension: right for the batch where the input has it.
  const std::size_t shift = shape.size() - e.Shape(0).size();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == -1 && (d < shift || e.Shape(0)[d - shift] != e.OutputShape()[d])) shape[d] = e.OutputShape()[d];
  }
  e.Out(0, e.Aten("expand", {e.In(0), IValue(shape)}));
}

void Cast(OnnxEmitter& e) {
  at::ScalarType type;
  switch (e.OutputInfo(0).dtype) {
    case DType::kFloat32:
      type = at::kFloat;
      break;
    case DType::kFloat64:
      type = at::kDouble;
      break;
    case DType::kFloat16:
      type = at::kHalf;
      break;
    case DType::kBFloat16:
      type = at::kBFloat16;
      break;
    case DType::kInt64:
      type = at::kLong;
      break;
    case DType::kInt32:
      type = at::kInt;
      break;
    case DType::kBool:
      type = at::kBool;
      break;
    default:
      e.Refuse("type {} is not supported", partitioner::DTypeName(e.OutputInfo(0).dtype));
  }
  e.Out(0, e.Aten("to", {e.In(0), IValue(static_cast<std::int64_t>(type)), IValue(false), IValue(false), IValue()}));
}

// The reduction `name` of `x`, the node's first input or something made of it.
JitValue* Reduced(OnnxEmitter& e, const char* name, JitValue* x) {
  Ints axes;
  const auto given = e.IntsOf("axes", 1);
  if (given && !given->empty()) {
    for (std::int64_t a : *given) axes.push_back(OnnxEmitter::Axis(a, e.Rank(0)));
  } else {
    if (e.node().Int("noop_with_empty_axes", 0) != 0) return x;
    for (std::int64_t a = 0; a < e.Rank(0); ++a) axes.push_back(a);
  }
  return e.Aten(name, {x, IValue(axes), IValue(e.node().Int("keepdims", 1) != 0)});
}

void Reduce(OnnxEmitter& e, const char* name) {
  e.Out(0, Reduced(e, name, e.In(0)));
}

void ReduceProd(OnnxEmitter& e) {
  Ints axes = e.IntsOf("axes", 1).value_or(Ints());
  const bool keep = e.node().Int("keepdims", 1) != 0;
  if (axes.empty() && e.node().Int("noop_with_empty_axes", 0) != 0) return e.Out(0, e.In(0));
  for (std::int64_t a = 0; axes.empty() && a < e.Rank(0); ++a) axes.push_back(a);
  for (std::int64_t& a : axes) a = OnnxEmitter::Axis(a, e.Rank(0));
  std::sort(axes.rbegin(), axes.rend());
  JitValue* x = e.In(0);
  for (std::int64_t a : axes) x = e.Aten("prod", {x, IValue(a), IValue(keep)});
  e.Out(0, x);
}

void Pad(OnnxEmitter& e) {
  auto pads = e.IntsOf("pads", 1);
  if (!pads) e.Refuse("pads must be constant");
  if (e.Has(3)) {  // of some axes only
    const Ints axes = e.ConstantInts(3);
    const std::int64_t rank = e.Rank(0);
    Ints all(2 * rank, 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      all[OnnxEmitter::Axis(axes[i], rank)] = (*pads)[i];
      all[OnnxEmitter::Axis(axes[i], rank) + rank] = (*pads)[i + axes.size()];
    }
    pads = all;
  }
  const std::size_t rank = pads->size() / 2;
  Ints last_first;
  for (std::size_t i = rank; i-- > 0;) {
    last_first.push_back((*pads)[i]);
    last_first.push_back((*pads)[i + rank]);
  }
  const std::string mode = e.node().String("mode", "constant");
  double value = e.node().Float("value", 0);
  if (e.Has(2)) value = e.ConstantReals(2).at(0);
  if (mode == "constant") return e.Out(0, e.Aten("constant_pad_nd", {e.In(0), IValue(last_first), IValue(value)}));
  while (last_first.size() > 4) {
    if (last_first[last_first.size() - 1] != 0 || last_first[last_first.size() - 2] != 0)
      e.Refuse("mode {} pads the last two dimensions only", mode);
    last_first.resize(last_first.size() - 2);
  }
  if (mode == "reflect") return e.Out(0, e.Aten("reflection_pad2d", {e.In(0), IValue(last_first)}));
  if (mode == "edge") return e.Out(0, e.Aten("replication_pad2d", {e.In(0), IValue(last_first)}));
  e.Refuse("mode {} is not supported", mode);
}

}  // namespace

void AddShapeRules(OnnxRuleTable* table) {
  OnnxRuleTable& t = *table;
  t["Reshape"] = Reshape;
  t["Flatten"] = Flatten;
  t["Transpose"] = Transpose;
  t["Concat"] = Concat;
  t["Split"] = Split;
  t["Slice"] = Slice;
  t["Squeeze"] = Squeeze;
  t["Unsqueeze"] = Unsqueeze;
  t["Gather"] = Gather;
  t["Expand"] = Expand;
  t["Cast"] = Cast;
  t["Pad"] = Pad;
  t["ReduceMean"] = [](OnnxEmitter& e) { Reduce(e, "mean"); };
  t["ReduceSum"] = [](OnnxEmitter& e) { Reduce(e, "sum"); };
  t["ReduceMax"] = [](OnnxEmitter& e) { Reduce(e, "amax"); };
  t["ReduceProd"] = ReduceProd;
  t["ReduceLogSumExp"] = [](OnnxEmitter& e) { Reduce(e, "logsumexp"); };
  t["ReduceL1"] = [](OnnxEmitter& e) { e.Out(0, Reduced(e, "sum", e.Aten("abs", {e.In(0)}))); };
  t["ReduceSumSquare"] = [](OnnxEmitter& e) { e.Out(0, Reduced(e, "sum", e.Aten("mul", {e.In(0), e.In(0)}))); };
  t["ReduceL2"] = [](OnnxEmitter& e) { e.Out(0, e.Aten("sqrt", {Reduced(e, "sum", e.Aten("mul", {e.In(0), e.In(0)}))})); };
  t["ReduceLogSum"] = [](OnnxEmitter& e) { e.Out(0, e.Aten("log", {Reduced(e, "sum", e.In(0))})); };
  t["ReduceMin"] = [](OnnxEmitter& e) { Reduce(e, "amin"); };
}

}  // namespace weir::worker
