#include <algorithm>

#include "partitioner/onnx/shape_context.h"

namespace weir::partitioner {
namespace {

void Tile(ShapeContext& c) {
  if (c.Dynamic(1)) return;
  const auto repeats = c.Integers(1, "repeats");
  if (!repeats || repeats->size() != c.In(0).size()) c.Fail("repeats must have one entry a dimension");
  Shape out = c.In(0);
  for (std::size_t d = 0; d < out.size(); ++d) {
    if ((*repeats)[d] < 0) c.Fail("repeats must be >= 0, got {}", (*repeats)[d]);
    out[d] = CheckedMul(out[d], (*repeats)[d], c.where);
  }
  c.Out(out);
}

void GatherElements(ShapeContext& c) {
  if (c.Rank(0) != c.Rank(1))
    c.Fail("data [{}] and indices [{}] must have one rank", fmt::join(c.In(0), ","), fmt::join(c.In(1), ","));
  c.Out(c.In(1));
}

void GatherNd(ShapeContext& c) {
  const Shape &x = c.In(0), &indices = c.In(1);
  const std::int64_t batch = c.node.Int("batch_dims", 0);
  if (indices.empty() || batch < 0 || batch >= static_cast<std::int64_t>(indices.size()) || indices.back() < 1 ||
      batch + indices.back() > c.Rank(0)) {
    c.Fail("indices [{}] don't fit data [{}] with batch_dims={}", fmt::join(indices, ","), fmt::join(x, ","), batch);
  }
  Shape out(indices.begin(), indices.end() - 1);
  out.insert(out.end(), x.begin() + batch + indices.back(), x.end());
  c.Out(out);
}

void Scatter(ShapeContext& c) {
  (void)c.In(1);
  (void)c.In(2);
  c.Out(c.In(0));
}

void TopK(ShapeContext& c) {
  Shape out = c.In(0);
  const std::int64_t axis = c.Axis(c.node.Int("axis", -1), c.Rank(0));
  if (c.Dynamic(1)) return;
  const auto k = c.Integers(1, "k");
  if (!k || k->size() != 1 || k->at(0) < 0 || k->at(0) > out[axis]) c.Fail("k must lie in 0..{}", out[axis]);
  out[axis] = k->at(0);
  c.Out(out);
  c.Out(1, out, DType::kInt64);
}

void OneHot(ShapeContext& c) {
  Shape out = c.In(0);
  const auto rank = c.Rank(0) + 1;
  const std::int64_t axis = c.Axis(c.node.Int("axis", -1), rank);
  if (c.Dynamic(1)) return;
  const Shape depth = c.inputs.at(1).data->Ints();
  if (depth.size() != 1 || depth[0] < 1) c.Fail("depth must be one number >= 1");
  out.insert(out.begin() + axis, depth[0]);
  c.Out(0, out, c.Type(2));
}

void DepthToSpace(ShapeContext& c, bool to_space) {
  const Shape& x = c.In(0);
  const std::int64_t block = c.node.Int("blocksize", 0);
  if (x.size() != 4 || block < 1 || block > (1 << 15)) c.Fail("input must have rank 4 and blocksize be >= 1");
  const bool fits = to_space ? x[1] % (block * block) == 0 : x[2] % block == 0 && x[3] % block == 0;
  if (!fits) c.Fail("blocksize {} doesn't fit [{}]", block, fmt::join(x, ","));
  if (to_space) return c.Out({x[0], x[1] / (block * block), CheckedMul(x[2], block, c.where), CheckedMul(x[3], block, c.where)});
  c.Out({x[0], CheckedMul(x[1], block * block, c.where), x[2] / block, x[3] / block});
}

// Results whose size depends on data: known to exist, of unknown shape.
void DataDependent(ShapeContext& c) {
  for (auto& output : c.outputs) output.dtype = c.node.op_type == "NonZero" ? DType::kInt64 : c.Type(0);
}

}  // namespace

void AddIndexingShapes(ShapeRuleTable* table) {
  ShapeRuleTable& t = *table;
  t["Tile"] = Tile;
  t["GatherElements"] = GatherElements;
  t["GatherND"] = GatherNd;
  t["Scatter"] = t["ScatterElements"] = t["ScatterND"] = Scatter;
  t["TopK"] = TopK;
  t["OneHot"] = OneHot;
  t["DepthToSpace"] = [](ShapeContext& c) { DepthToSpace(c, true); };
  t["SpaceToDepth"] = [](ShapeContext& c) { DepthToSpace(c, false); };
  t["NonZero"] = t["Compress"] = DataDependent;
}

}  // namespace weir::partitioner
