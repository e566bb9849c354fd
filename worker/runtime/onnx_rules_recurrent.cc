// LSTM, GRU and RNN by LibTorch's own kernels, one operator each. ONNX stacks the gates in another order (i, o, f, c against
// i, f, g, o; z, r, h against r, z, n), so weights are cut and put together at run time: the parameters stay as the file has
// them.
#include <algorithm>

#include "worker/runtime/onnx_rules.h"

namespace weir::worker {
namespace {

using torch::jit::IValue;
using torch::jit::NamedValue;

struct Recurrent {
  std::int64_t directions = 1, hidden = 0, steps = 0;
  bool batch_first = false, reverse = false, has_bias = false;
};

Recurrent Describe(OnnxEmitter& e) {
  Recurrent r;
  const std::string direction = e.node().String("direction", "forward");
  r.directions = e.Shape(1)[0];
  r.hidden = e.Shape(2)[2];
  r.batch_first = e.node().Int("layout", 0) != 0;
  r.steps = e.Shape(0)[r.batch_first ? 1 : 0];
  r.reverse = direction == "reverse";
  r.has_bias = e.Has(3);
  if (e.node().Find("clip")) e.Refuse("clip is not supported");
  if (e.Has(4)) {
    const Ints lengths = e.ConstantInts(4);
    if (std::any_of(lengths.begin(), lengths.end(), [&](std::int64_t n) { return n != r.steps; }))
      e.Refuse("sequence_lens other than the whole sequence are not supported");
  }
  return r;
}

void CheckActivations(OnnxEmitter& e, std::initializer_list<const char*> expected) {
  const partitioner::OnnxAttribute* given = e.node().Find("activations");
  if (!given) return;
  for (std::size_t i = 0; i < given->strings.size(); ++i) {
    std::string name = given->strings[i];
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::string want = expected.begin()[i % expected.size()];
    if (name != want) e.Refuse("activation {} is not supported there, expected {}", given->strings[i], want);
  }
}

// Rows of gate blocks `first` .. of a [blocks * hidden, ...] value, in a new order.
JitValue* Reorder(OnnxEmitter& e, JitValue* value, std::int64_t hidden, std::initializer_list<int> blocks) {
  std::vector<JitValue*> rows;
  for (int b : blocks) {
    rows.push_back(
        e.Aten("slice", {value, IValue(std::int64_t{0}), IValue(b * hidden), IValue((b + 1) * hidden), IValue(std::int64_t{1})}));
  }
  return rows.size() == 1 ? rows[0] : e.Aten("cat", {e.List(rows), IValue(std::int64_t{0})});
}

// Weights of all directions as LibTorch wants them: w_ih, w_hh, b_ih, b_hh each.
std::vector<JitValue*> Weights(OnnxEmitter& e, const Recurrent& r, std::initializer_list<int> order) {
  const auto gates = static_cast<std::int64_t>(order.size());
  JitValue *w = e.In(1), *u = e.In(2), *b = r.has_bias ? e.In(3) : nullptr;
  std::vector<JitValue*> out;
  for (std::int64_t d = 0; d < r.directions; ++d) {
    auto of_direction = [&](JitValue* value) { return e.Aten("select", {value, IValue(std::int64_t{0}), IValue(d)}); };
    out.push_back(Reorder(e, of_direction(w), r.hidden, order));
    out.push_back(Reorder(e, of_direction(u), r.hidden, order));
    if (!b) continue;
    JitValue* both = of_direction(b);
    for (int half : {0, 1}) {
      JitValue* one = e.Aten("slice", {both, IValue(std::int64_t{0}), IValue(half * gates * r.hidden),
                                       IValue((half + 1) * gates * r.hidden), IValue(std::int64_t{1})});
      out.push_back(Reorder(e, one, r.hidden, order));
    }
  }
  return out;
}

// The state before the first step, [directions, batch, hidden]. Zeros, where left out or constant zeros, for any batch.
JitValue* InitialState(OnnxEmitter& e, const Recurrent& r, JitValue* x, std::size_t input) {
  bool zeros = !e.Has(input);
  if (!zeros && e.IsConstant(input)) {
    const auto& data = *e.Info(input).data;
    zeros = data.fill ? *data.fill == 0 : data.bytes.find_first_not_of('\0') == std::string::npos;
  }
  if (zeros) {
    JitValue* column =
        e.Aten("slice", {e.Aten("select", {x, IValue(std::int64_t{0}), IValue(std::int64_t{0})}), IValue(std::int64_t{1}),
                         IValue(std::int64_t{0}), IValue(std::int64_t{1}), IValue(std::int64_t{1})});
    JitValue* state = e.Aten("unsqueeze", {e.Aten("zeros_like", {column}), IValue(std::int64_t{0})});
    return e.Aten("contiguous", {e.Aten("expand", {state, IValue(Ints{r.directions, -1, r.hidden})})});
  }
  JitValue* state = e.In(input);
  return r.batch_first ? e.Aten("transpose", {state, IValue(std::int64_t{0}), IValue(std::int64_t{1})}) : state;
}

void Emit(OnnxEmitter& e, const Recurrent& r, const char* name, std::initializer_list<int> order, bool cell) {
  JitValue* x = e.In(0);
  auto swap = [&](JitValue* value) { return e.Aten("transpose", {value, IValue(std::int64_t{0}), IValue(std::int64_t{1})}); };
  auto turn = [&](JitValue* value) { return r.reverse ? e.Aten("flip", {value, IValue(Ints{0})}) : value; };
  if (r.batch_first) x = swap(x);
  x = turn(x);
  JitValue* state = InitialState(e, r, x, 5);
  const auto weights = e.List(Weights(e, r, order));
  const NamedValue initial = cell ? NamedValue(e.List({state, InitialState(e, r, x, 6)})) : NamedValue(state);
  const auto results = e.AtenAll(name, {x, initial, weights, IValue(r.has_bias), IValue(std::int64_t{1}), IValue(0.0),
                                        IValue(true), IValue(r.directions == 2), IValue(false)});
  // [steps, batch, directions * hidden] -> [steps, directions, batch, hidden]
  JitValue* y = e.Aten("reshape", {turn(results[0]), IValue(Ints{r.steps, -1, r.directions, r.hidden})});
  e.Out(0, e.Aten("permute", {y, IValue(r.batch_first ? Ints{1, 0, 2, 3} : Ints{0, 2, 1, 3})}));
  e.Out(1, r.batch_first ? swap(results[1]) : results[1]);
  if (cell) e.Out(2, r.batch_first ? swap(results[2]) : results[2]);
}

void Lstm(OnnxEmitter& e) {
  CheckActivations(e, {"sigmoid", "tanh", "tanh"});
  if (e.Has(7)) e.Refuse("peepholes are not supported");
  if (e.node().Int("input_forget", 0) != 0) e.Refuse("input_forget is not supported");
  Emit(e, Describe(e), "lstm", {0, 2, 3, 1}, true);
}

void Gru(OnnxEmitter& e) {
  CheckActivations(e, {"sigmoid", "tanh"});
  if (e.node().Int("linear_before_reset", 0) == 0)
    e.Refuse("linear_before_reset = 0 is not supported: export with 1, as PyTorch does");
  Emit(e, Describe(e), "gru", {1, 0, 2}, false);
}

void Rnn(OnnxEmitter& e) {
  const partitioner::OnnxAttribute* given = e.node().Find("activations");
  const bool relu = given && !given->strings.empty() && (given->strings[0] == "Relu" || given->strings[0] == "relu");
  CheckActivations(e, {relu ? "relu" : "tanh"});
  Emit(e, Describe(e), relu ? "rnn_relu" : "rnn_tanh", {0}, false);
}

}  // namespace

void AddRecurrentRules(OnnxRuleTable* table) {
  OnnxRuleTable& t = *table;
  t["LSTM"] = Lstm;
  t["GRU"] = Gru;
  t["RNN"] = Rnn;
}

}  // namespace weir::worker
