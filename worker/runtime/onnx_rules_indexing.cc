// Gather, scatter, sort and rearrange.
#include <algorithm>
#include <numeric>

#include "worker/runtime/onnx_rules.h"

namespace weir::worker {
namespace {

using torch::jit::IValue;
using torch::jit::NamedValue;

std::int64_t AxisOf(OnnxEmitter& e, std::int64_t otherwise) {
  return OnnxEmitter::Axis(e.node().Int("axis", otherwise), e.Rank(0));
}

// Indices may count from the end.
JitValue* Indices(OnnxEmitter& e, std::size_t input, std::int64_t size) {
  return e.Aten("remainder", {e.In(input), IValue(size)});
}

void GatherElements(OnnxEmitter& e) {
  const std::int64_t axis = AxisOf(e, 0);
  e.Out(0, e.Aten("gather", {e.In(0), IValue(axis), Indices(e, 1, e.Shape(0)[axis])}));
}

// The columns of an index tensor [..., r] as a list of r index tensors.
JitValue* Columns(OnnxEmitter& e, std::size_t input) {
  const std::int64_t last = e.Rank(input) - 1, count = e.Shape(input)[last];
  std::vector<JitValue*> columns;
  for (std::int64_t i = 0; i < count; ++i) columns.push_back(e.Aten("select", {e.In(input), IValue(last), IValue(i)}));
  return e.OptionalList(columns);
}

void GatherNd(OnnxEmitter& e) {
  if (e.node().Int("batch_dims", 0) != 0) e.Refuse("batch_dims other than 0 are not supported");
  e.Out(0, e.Aten("index", {e.In(0), Columns(e, 1)}));
}

void ScatterNd(OnnxEmitter& e) {
  const std::string reduction = e.node().String("reduction", "none");
  if (reduction != "none" && reduction != "add") e.Refuse("reduction {} is not supported", reduction);
  e.Out(0, e.Aten("index_put", {e.In(0), Columns(e, 1), e.In(2), IValue(reduction == "add")}));
}

void ScatterElements(OnnxEmitter& e) {
  const std::string reduction = e.node().String("reduction", "none");
  if (reduction != "none" && reduction != "add") e.Refuse("reduction {} is not supported", reduction);
  const std::int64_t axis = AxisOf(e, 0);
  const char* name = reduction == "add" ? "scatter_add" : "scatter";
  e.Out(0, e.Aten(name, {e.In(0), IValue(axis), Indices(e, 1, e.Shape(0)[axis]), e.In(2)}));
}

void TopK(OnnxEmitter& e) {
  const Ints k = e.IntsOf("k", 1).value_or(Ints());
  if (k.size() != 1) e.Refuse("k must be one constant number");
  const auto results = e.AtenAll("topk", {e.In(0), IValue(k[0]), IValue(AxisOf(e, -1)), IValue(e.node().Int("largest", 1) != 0),
                                          IValue(e.node().Int("sorted", 1) != 0)});
  e.Out(0, results[0]);
  e.Out(1, results[1]);
}

void OneHot(OnnxEmitter& e) {
  const std::int64_t rank = e.Rank(0), axis = OnnxEmitter::Axis(e.node().Int("axis", -1), rank + 1);
  const std::int64_t depth = e.ConstantInts(1).at(0);
  const std::vector<double> values = e.ConstantReals(2);  // off, on
  JitValue* hot = e.Aten("one_hot", {Indices(e, 0, depth), IValue(depth)});
  if (axis != rank) {
    Ints order(rank);
    std::iota(order.begin(), order.end(), 0);
    order.insert(order.begin() + axis, rank);
    hot = e.Aten("permute", {hot, IValue(order)});
  }
  hot = e.Aten("to", {hot, IValue(static_cast<std::int64_t>(e.ScalarType(e.OutputInfo(0).dtype))), IValue(false), IValue(false),
                      IValue()});
  if (values.size() == 2 && (values[0] != 0 || values[1] != 1))
    hot = e.Aten("add", {e.Aten("mul", {hot, IValue(values[1] - values[0])}), IValue(values[0])});
  e.Out(0, hot);
}

void Tile(OnnxEmitter& e) {
  const auto repeats = e.IntsOf("repeats", 1);
  if (!repeats) e.Refuse("repeats must be constant");
  e.Out(0, e.Aten("repeat", {e.In(0), IValue(*repeats)}));
}

void Trilu(OnnxEmitter& e) {
  const std::int64_t k = e.Has(1) ? e.ConstantInts(1).at(0) : 0;
  e.Out(0, e.Aten(e.node().Int("upper", 1) != 0 ? "triu" : "tril", {e.In(0), IValue(k)}));
}

// DCR: depth is [block, block, channels]; CRD: [channels, block, block].
void DepthToSpace(OnnxEmitter& e) {
  const Ints& x = e.Shape(0);
  const std::int64_t b = e.node().Int("blocksize", 1), c = x[1] / (b * b);
  const bool dcr = e.node().String("mode", "DCR") == "DCR";
  JitValue* six = e.Aten("reshape", {e.In(0), IValue(dcr ? Ints{-1, b, b, c, x[2], x[3]} : Ints{-1, c, b, b, x[2], x[3]})});
  JitValue* moved = e.Aten("permute", {six, IValue(dcr ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3})});
  e.Out(0, e.Aten("reshape", {moved, IValue(Ints{-1, c, x[2] * b, x[3] * b})}));
}

void SpaceToDepth(OnnxEmitter& e) {
  const Ints& x = e.Shape(0);
  const std::int64_t b = e.node().Int("blocksize", 1);
  JitValue* six = e.Aten("reshape", {e.In(0), IValue(Ints{-1, x[1], x[2] / b, b, x[3] / b, b})});
  JitValue* moved = e.Aten("permute", {six, IValue(Ints{0, 3, 5, 1, 2, 4})});
  e.Out(0, e.Aten("reshape", {moved, IValue(Ints{-1, x[1] * b * b, x[2] / b, x[3] / b})}));
}

void ArgReduce(OnnxEmitter& e, const char* name) {
  if (e.node().Int("select_last_index", 0) != 0) e.Refuse("select_last_index is not supported");
  e.Out(0, e.Aten(name, {e.In(0), IValue(AxisOf(e, 0)), IValue(e.node().Int("keepdims", 1) != 0)}));
}

void CumSum(OnnxEmitter& e) {
  if (e.node().Int("exclusive", 0) != 0) e.Refuse("exclusive is not supported");
  const std::int64_t axis = OnnxEmitter::Axis(e.ConstantInts(1).at(0), e.Rank(0));
  const bool reverse = e.node().Int("reverse", 0) != 0;
  auto turn = [&](JitValue* x) { return reverse ? e.Aten("flip", {x, IValue(Ints{axis})}) : x; };
  e.Out(0, turn(e.Aten("cumsum", {turn(e.In(0)), IValue(axis)})));
}

}  // namespace

void AddIndexingRules(OnnxRuleTable* table) {
  OnnxRuleTable& t = *table;
  t["GatherElements"] = GatherElements;
  t["GatherND"] = GatherNd;
  t["ScatterND"] = ScatterNd;
  t["ScatterElements"] = t["Scatter"] = ScatterElements;
  t["TopK"] = TopK;
  t["OneHot"] = OneHot;
  t["Tile"] = Tile;
  t["Trilu"] = Trilu;
  t["DepthToSpace"] = DepthToSpace;
  t["SpaceToDepth"] = SpaceToDepth;
  t["ArgMax"] = [](OnnxEmitter& e) { ArgReduce(e, "argmax"); };
  t["ArgMin"] = [](OnnxEmitter& e) { ArgReduce(e, "argmin"); };
  t["CumSum"] = CumSum;
}

}  // namespace weir::worker
