// Attention, Einsum and the normalisations that came with transformers.
#include <cmath>

#include "worker/runtime/onnx_rules.h"

namespace weir::worker {
namespace {

using torch::jit::IValue;
using torch::jit::NamedValue;

void Einsum(OnnxEmitter& e) {
  std::vector<JitValue*> terms;
  for (std::size_t i = 0; i < e.NumInputs(); ++i) terms.push_back(e.In(i));
  e.Out(0, e.Aten("einsum", {IValue(e.node().String("equation", "")), e.List(terms)}));
}

// x / sqrt(mean of x^2 over the axes from `axis` on + epsilon) * scale
void RmsNormalization(OnnxEmitter& e) {
  const std::int64_t axis = OnnxEmitter::Axis(e.node().Int("axis", -1), e.Rank(0));
  Ints axes;
  for (std::int64_t a = axis; a < e.Rank(0); ++a) axes.push_back(a);
  JitValue* x = e.In(0);
  JitValue* mean = e.Aten("mean", {e.Aten("mul", {x, x}), IValue(axes), IValue(true)});
  JitValue* scale = e.Aten("rsqrt", {e.Aten("add", {mean, IValue(static_cast<double>(e.node().Float("epsilon", 1e-5f)))})});
  e.Out(0, e.Aten("mul", {e.Aten("mul", {x, scale}), e.In(1)}));
}

// Scale per channel since opset 21, per group before.
void GroupNormalization(OnnxEmitter& e) {
  const std::int64_t groups = e.node().Int("num_groups", 1), channels = e.Shape(0)[1];
  auto per_channel = [&](std::size_t input) {
    JitValue* value = e.In(input);
    if (e.Shape(input)[0] == channels) return value;
    JitValue* column = e.Aten("unsqueeze", {value, IValue(std::int64_t{1})});
    return e.Aten("reshape", {e.Aten("expand", {column, IValue(Ints{groups, channels / groups})}), IValue(Ints{channels})});
  };
  e.Out(0, e.Aten("group_norm", {e.In(0), IValue(groups), per_channel(1), per_channel(2),
                                 IValue(static_cast<double>(e.node().Float("epsilon", 1e-5f))), IValue(true)}));
}

void Attention(OnnxEmitter& e) {
  if (e.Has(4) || e.Has(5)) e.Refuse("past keys and values are not supported");
  for (std::size_t i = 1; i < e.node().outputs.size(); ++i) {
    if (e.node().outputs[i] >= 0) e.Refuse("only the first output is supported");
  }
  const bool joined = e.Rank(0) == 3;
  const std::int64_t q_heads = joined ? e.node().Int("q_num_heads", 1) : e.Shape(0)[1];
  const std::int64_t kv_heads = joined ? e.node().Int("kv_num_heads", 1) : e.Shape(1)[1];
  const std::int64_t rows = e.Shape(0)[joined ? 1 : 2], columns = e.Shape(1)[joined ? 1 : 2];
  const std::int64_t size = joined ? e.Shape(0)[2] / q_heads : e.Shape(0)[3];
  auto heads = [&](std::size_t input, std::int64_t count) {
    JitValue* x = e.In(input);
    if (joined) {
      x = e.Aten("reshape", {x, IValue(Ints{-1, e.Shape(input)[1], count, e.Shape(input)[2] / count})});
      x = e.Aten("transpose", {x, IValue(std::int64_t{1}), IValue(std::int64_t{2})});
    }
    // Grouped queries: each key head serves several.
    if (count != q_heads) x = e.Aten("repeat_interleave", {x, IValue(q_heads / count), IValue(std::int64_t{1}), IValue()});
    return x;
  };
  const double scale =
      e.node().Find("scale") ? static_cast<double>(e.node().Float("scale", 1)) : 1 / std::sqrt(static_cast<double>(size));
  JitValue* keys = e.Aten("transpose", {heads(1, kv_heads), IValue(std::int64_t{-2}), IValue(std::int64_t{-1})});
  JitValue* scores = e.Aten("mul", {e.Aten("matmul", {heads(0, q_heads), keys}), IValue(scale)});
  const double minus_infinity = -INFINITY;
  if (e.node().Int("is_causal", 0) != 0) {
    scores = e.Aten("masked_fill", {scores, e.Constant(at::ones({rows, columns}, at::kBool).triu(1)), IValue(minus_infinity)});
  }
  if (e.Has(3)) {
    scores = e.Info(3).dtype == partitioner::DType::kBool
                 ? e.Aten("masked_fill", {scores, e.Aten("logical_not", {e.In(3)}), IValue(minus_infinity)})
                 : e.Aten("add", {scores, e.In(3)});
  }
  const double cap = e.node().Float("softcap", 0);
  if (cap > 0) scores = e.Aten("mul", {e.Aten("tanh", {e.Aten("div", {scores, IValue(cap)})}), IValue(cap)});
  JitValue* out = e.Aten("matmul", {e.Aten("softmax", {scores, IValue(std::int64_t{-1}), IValue()}), heads(2, kv_heads)});
  if (joined) {
    out = e.Aten("transpose", {out, IValue(std::int64_t{1}), IValue(std::int64_t{2})});
    out = e.Aten("reshape", {out, IValue(Ints{-1, rows, e.OutputShape()[2]})});
  }
  e.Out(0, out);
}

}  // namespace

void AddAttentionRules(OnnxRuleTable* table) {
  OnnxRuleTable& t = *table;
  t["Einsum"] = Einsum;
  t["RMSNormalization"] = RmsNormalization;
  t["GroupNormalization"] = GroupNormalization;
  t["Attention"] = Attention;
}

}  // namespace weir::worker
