#include "partitioner/onnx/einsum.h"
#include "partitioner/onnx/shape_context.h"

namespace weir::partitioner {
namespace {

void EinsumShape(ShapeContext& c) {
  const std::string equation = c.node.String("equation", "");
  const auto einsum = ParseEinsum(equation);
  if (!einsum && equation.find("...") != std::string::npos) return;  // unknown
  if (!einsum) c.Fail("equation '{}' is none", equation);
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) shapes.push_back(c.In(i));
  const auto sizes = EinsumSizes(*einsum, shapes);
  if (!sizes) c.Fail("the inputs don't fit equation '{}'", equation);
  Shape out;
  for (char label : einsum->result) out.push_back(sizes->at(label));
  c.Out(out);
}

// Q, K, V as [batch, heads, length, size], or [batch, length, heads * size] with the numbers of heads as attributes.
void Attention(ShapeContext& c) {
  const Shape &q = c.In(0), &k = c.In(1), &v = c.In(2);
  if (q.size() != k.size() || k.size() != v.size() || (q.size() != 3 && q.size() != 4))
    c.Fail("Q [{}], K [{}] and V [{}] must all have rank 3 or 4", fmt::join(q, ","), fmt::join(k, ","), fmt::join(v, ","));
  if (q.size() == 4) return c.Out({q[0], q[1], q[2], v[3]});
  const std::int64_t heads = c.node.Int("q_num_heads", 0), kv_heads = c.node.Int("kv_num_heads", 0);
  if (heads < 1 || kv_heads < 1 || q[2] % heads != 0 || v[2] % kv_heads != 0)
    c.Fail("q_num_heads={} and kv_num_heads={} don't fit Q [{}] and V [{}]", heads, kv_heads, fmt::join(q, ","),
           fmt::join(v, ","));
  c.Out({q[0], q[1], CheckedMul(heads, v[2] / kv_heads, c.where)});
}

}  // namespace

void AddAttentionShapes(ShapeRuleTable* table) {
  ShapeRuleTable& t = *table;
  t["Einsum"] = EinsumShape;
  t["Attention"] = Attention;
}

}  // namespace weir::partitioner
