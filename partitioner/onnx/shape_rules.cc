#include "partitioner/onnx/shape_rules.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "env/core/error.h"
#include "partitioner/onnx/shape_context.h"
#include "partitioner/onnx/tensor_reader.h"

namespace weir::partitioner {

Shape Broadcast(const ShapeContext& c, const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (std::size_t d = 0; d < out.size(); ++d) {
    const std::int64_t x = d < a.size() ? a[a.size() - 1 - d] : 1, y = d < b.size() ? b[b.size() - 1 - d] : 1;
    if (x != y && x != 1 && y != 1) c.Fail("shapes [{}] and [{}] don't broadcast", fmt::join(a, ","), fmt::join(b, ","));
    out[out.size() - 1 - d] = x == 1 ? y : x;
  }
  return out;
}

namespace {

using Context = ShapeContext;
using Rule = ShapeRule;

void Same(Context& c) {
  c.Out(c.In(0));
}

void Elementwise(Context& c) {
  Shape out = c.In(0);
  for (std::size_t i = 1; i < c.inputs.size(); ++i) {
    if (c.Has(i)) out = Broadcast(c, out, c.In(i));
  }
  c.Out(out);
}

void Compare(Context& c) {
  c.Out(0, c.Has(1) ? Broadcast(c, c.In(0), c.In(1)) : c.In(0), DType::kBool);
}

// Spatial sizes of a convolution or pooling window.
struct Window {
  Shape kernel, strides, dilations, pads;
  std::string auto_pad;
  bool ceil = false;
};

Window ReadWindow(const Context& c, const Shape& kernel) {
  const std::size_t n = kernel.size();
  Window w;
  w.kernel = kernel;
  w.strides = c.node.Ints("strides", Shape(n, 1));
  w.dilations = c.node.Ints("dilations", Shape(n, 1));
  w.pads = c.node.Ints("pads", Shape(2 * n, 0));
  w.auto_pad = c.node.String("auto_pad", "NOTSET");
  w.ceil = c.node.Int("ceil_mode", 0) != 0;
  if (w.strides.size() != n || w.dilations.size() != n || w.pads.size() != 2 * n) {
    c.Fail("strides, dilations and pads must fit the {} spatial dimensions", n);
  }
  for (std::size_t d = 0; d < n; ++d) {
    if (w.kernel[d] < 1 || w.strides[d] < 1 || w.dilations[d] < 1 || w.pads[d] < 0 || w.pads[d + n] < 0 ||
        w.kernel[d] > (1 << 24) || w.dilations[d] > (1 << 24) || w.strides[d] > (1 << 24)) {
      c.Fail("kernel, strides and dilations must be >= 1 and pads >= 0");
    }
  }
  return w;
}

std::int64_t WindowOutput(const Context& c, const Window& w, std::size_t d, std::int64_t in) {
  const std::size_t n = w.kernel.size();
  if (w.auto_pad == "SAME_UPPER" || w.auto_pad == "SAME_LOWER") return (in + w.strides[d] - 1) / w.strides[d];
  const std::int64_t effective = (w.kernel[d] - 1) * w.dilations[d] + 1;
  const bool valid = w.auto_pad == "VALID";
  const std::int64_t begin = valid ? 0 : w.pads[d];
  const std::int64_t room = CheckedAdd(in, begin + (valid ? 0 : w.pads[d + n]), c.where) - effective;
  if (room < 0) c.Fail("a window of {} doesn't fit {} elements with its padding", effective, in);
  std::int64_t out = (w.ceil ? room + w.strides[d] - 1 : room) / w.strides[d] + 1;
  // The last window must start inside the input or its left padding.
  if (w.ceil && (out - 1) * w.strides[d] >= in + begin) --out;
  return out;
}

void Conv(Context& c) {
  const Shape &x = c.In(0), &w = c.In(1);
  if (x.size() < 3 || w.size() != x.size())
    c.Fail("input [{}] and weight [{}] must have the same rank >= 3", fmt::join(x, ","), fmt::join(w, ","));
  const std::int64_t group = c.node.Int("group", 1);
  if (group < 1 || w[0] % group != 0 || CheckedMul(w[1], group, c.where) != x[1]) {
    c.Fail("{} input channels don't fit weight [{}] with group={}", x[1], fmt::join(w, ","), group);
  }
  const Shape kernel(w.begin() + 2, w.end());
  if (c.node.Find("kernel_shape") && c.node.Ints("kernel_shape") != kernel) {
    c.Fail("kernel_shape [{}] differs from weight [{}]", fmt::join(c.node.Ints("kernel_shape"), ","), fmt::join(w, ","));
  }
  const Window window = ReadWindow(c, kernel);
  Shape out = {x[0], w[0]};
  for (std::size_t d = 0; d < kernel.size(); ++d) out.push_back(WindowOutput(c, window, d, x[d + 2]));
  c.Out(out);
}

void ConvTranspose(Context& c) {
  const Shape &x = c.In(0), &w = c.In(1);
  if (x.size() < 3 || w.size() != x.size() || w[0] != x[1])
    c.Fail("weight [{}] doesn't fit input [{}]", fmt::join(w, ","), fmt::join(x, ","));
  const Shape kernel(w.begin() + 2, w.end());
  const std::size_t n = kernel.size();
  const Window window = ReadWindow(c, kernel);
  const Shape extra = c.node.Ints("output_padding", Shape(n, 0)), given = c.node.Ints("output_shape");
  if (extra.size() != n || (!given.empty() && given.size() != n)) c.Fail("output_padding or output_shape doesn't fit the rank");
  Shape out = {x[0], CheckedMul(w[1], c.node.Int("group", 1), c.where)};
  for (std::size_t d = 0; d < n; ++d) {
    const std::int64_t full =
        CheckedMul(x[d + 2] - 1, window.strides[d], c.where) + (window.kernel[d] - 1) * window.dilations[d] + 1 + extra[d];
    const bool same = window.auto_pad.rfind("SAME", 0) == 0;
    out.push_back(!given.empty() ? given[d] : same ? x[d + 2] * window.strides[d] : full - window.pads[d] - window.pads[d + n]);
  }
  c.Out(out);
}

void Pool(Context& c) {
  const Shape& x = c.In(0);
  const Shape kernel = c.node.Ints("kernel_shape");
  if (x.size() < 3 || kernel.size() + 2 != x.size())
    c.Fail("kernel_shape [{}] doesn't fit input [{}]", fmt::join(kernel, ","), fmt::join(x, ","));
  const Window window = ReadWindow(c, kernel);
  Shape out = {x[0], x[1]};
  for (std::size_t d = 0; d < kernel.size(); ++d) out.push_back(WindowOutput(c, window, d, x[d + 2]));
  c.Out(out);
  c.Out(1, out, DType::kInt64);  // MaxPool's indices
}

void GlobalPool(Context& c) {
  Shape out = c.In(0);
  if (out.size() < 2) c.Fail("input must have rank >= 2");
  std::fill(out.begin() + 2, out.end(), 1);
  c.Out(out);
}

void BatchNormalization(Context& c) {
  const Shape& x = c.In(0);
  if (x.size() < 2) c.Fail("input must have rank >= 2");
  for (std::size_t i = 1; i < 5; ++i) {
    if (c.In(i) != Shape{x[1]}) c.Fail("input {} is [{}], expected [{}]", i, fmt::join(c.In(i), ","), x[1]);
  }
  c.Out(x);
  for (std::size_t i = 1; i < 5; ++i) c.Out(i, {x[1]}, c.Type(3));
}

void LayerNormalization(Context& c) {
  const Shape& x = c.In(0);
  const std::int64_t axis = c.Axis(c.node.Int("axis", -1), c.Rank(0));
  c.Out(x);
  Shape statistics = x;
  std::fill(statistics.begin() + axis, statistics.end(), 1);
  c.Out(1, statistics, DType::kFloat32);
  c.Out(2, statistics, DType::kFloat32);
}

void Dropout(Context& c) {
  c.Out(c.In(0));
  c.Out(1, c.In(0), DType::kBool);
}

void Gemm(Context& c) {
  const Shape &a = c.In(0), &b = c.In(1);
  if (a.size() != 2 || b.size() != 2) c.Fail("A [{}] and B [{}] must be matrices", fmt::join(a, ","), fmt::join(b, ","));
  const bool ta = c.node.Int("transA", 0) != 0, tb = c.node.Int("transB", 0) != 0;
  if (a[ta ? 0 : 1] != b[tb ? 1 : 0]) c.Fail("A [{}] and B [{}] don't fit", fmt::join(a, ","), fmt::join(b, ","));
  const Shape out = {a[ta ? 1 : 0], b[tb ? 0 : 1]};
  if (c.Has(2) && Broadcast(c, out, c.In(2)) != out)
    c.Fail("C [{}] doesn't fit [{}]", fmt::join(c.In(2), ","), fmt::join(out, ","));
  c.Out(out);
}

void MatMul(Context& c) {
  Shape a = c.In(0), b = c.In(1);
  if (a.empty() || b.empty()) c.Fail("scalars can't be multiplied as matrices");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (a.back() != b[b.size() - 2]) c.Fail("[{}] and [{}] don't fit", fmt::join(c.In(0), ","), fmt::join(c.In(1), ","));
  Shape out = Broadcast(c, Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (!row) out.push_back(a[a.size() - 2]);
  if (!column) out.push_back(b.back());
  c.Out(out);
}

void Concat(Context& c) {
  Shape out = c.In(0);
  const std::int64_t axis = c.Axis(c.node.Int("axis", 1), c.Rank(0));
  for (std::size_t i = 1; i < c.inputs.size(); ++i) {
    const Shape& x = c.In(i);
    bool fits = x.size() == out.size();
    for (std::size_t d = 0; fits && d < x.size(); ++d) fits = static_cast<std::int64_t>(d) == axis || x[d] == out[d];
    if (!fits) c.Fail("[{}] can't be concatenated with [{}] along axis {}", fmt::join(x, ","), fmt::join(c.In(0), ","), axis);
    out[axis] = CheckedAdd(out[axis], x[axis], c.where);
  }
  c.Out(out);
}

void Split(Context& c) {
  const Shape& x = c.In(0);
  const std::int64_t axis = c.Axis(c.node.Int("axis", 0), c.Rank(0));
  if (c.Dynamic(1)) return;
  const auto n = static_cast<std::int64_t>(c.outputs.size());
  Shape sizes = c.Integers(1, "split").value_or(Shape());
  if (sizes.empty()) {
    const std::int64_t each = (x[axis] + n - 1) / n;
    for (std::int64_t i = 0; i < n; ++i) sizes.push_back(std::min(each, std::max<std::int64_t>(0, x[axis] - i * each)));
  }
  std::int64_t total = 0;
  for (std::int64_t size : sizes) total = size < 0 ? -1 : CheckedAdd(total, size, c.where);
  if (static_cast<std::int64_t>(sizes.size()) != n || total != x[axis]) {
    c.Fail("split [{}] doesn't fit {} outputs of dimension {}", fmt::join(sizes, ","), n, x[axis]);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    Shape out = x;
    out[axis] = sizes[i];
    c.Out(i, out, c.Type(0));
  }
}

void Flatten(Context& c) {
  const Shape& x = c.In(0);
  std::int64_t axis = c.node.Int("axis", 1);
  if (axis < -c.Rank(0) || axis > c.Rank(0)) c.Fail("axis {} is out of range for rank {}", axis, c.Rank(0));
  if (axis < 0) axis += c.Rank(0);
  c.Out({ElementCount(Shape(x.begin(), x.begin() + axis), c.where), ElementCount(Shape(x.begin() + axis, x.end()), c.where)});
}

void Reshape(Context& c) {
  const Shape& x = c.In(0);
  if (c.Dynamic(1)) return;
  const auto target = c.Integers(1, "shape");
  if (!target) c.Fail("no target shape");
  Shape out = *target;
  const std::int64_t elements = ElementCount(x, c.where);
  const bool allow_zero = c.node.Int("allowzero", 0) != 0;
  std::int64_t known = 1, wildcard = -1;
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (out[d] == 0 && !allow_zero) {
      if (d >= x.size())
        c.Fail("target [{}] copies a dimension that input [{}] lacks", fmt::join(*target, ","), fmt::join(x, ","));
      out[d] = x[d];
    }
    if (out[d] == -1) {
      if (wildcard >= 0) c.Fail("target [{}] has two -1", fmt::join(*target, ","));
      wildcard = static_cast<std::int64_t>(d);
    } else if (out[d] < 0) {
      c.Fail("target [{}] has a negative dimension", fmt::join(*target, ","));
    } else {
      known = CheckedMul(known, out[d], c.where);
    }
  }
  if (wildcard >= 0 && known > 0 && elements % known == 0) {
    out[wildcard] = elements / known;
    known = elements;
  }
  if (known != elements || (wildcard >= 0 && out[wildcard] < 0)) {
    c.Fail("[{}] can't be reshaped to [{}]", fmt::join(x, ","), fmt::join(*target, ","));
  }
  c.Out(out);
}

void Transpose(Context& c) {
  const Shape& x = c.In(0);
  Shape perm = c.node.Ints("perm");
  if (perm.empty()) {
    for (std::int64_t d = c.Rank(0) - 1; d >= 0; --d) perm.push_back(d);
  }
  Shape sorted = perm, out;
  std::sort(sorted.begin(), sorted.end());
  bool valid = sorted.size() == x.size();
  for (std::size_t d = 0; valid && d < sorted.size(); ++d) valid = sorted[d] == static_cast<std::int64_t>(d);
  if (!valid) c.Fail("perm [{}] isn't a permutation of the {} dimensions", fmt::join(perm, ","), x.size());
  for (std::int64_t p : perm) out.push_back(x[p]);
  c.Out(out);
}

void Squeeze(Context& c) {
  const Shape& x = c.In(0);
  if (c.Dynamic(1)) return;
  const auto axes = c.Integers(1, "axes");
  std::vector<bool> drop(x.size(), false);
  if (axes) {
    for (std::int64_t axis : *axes) {
      const std::int64_t a = c.Axis(axis, c.Rank(0));
      if (x[a] != 1) c.Fail("dimension {} of [{}] isn't 1", a, fmt::join(x, ","));
      drop[a] = true;
    }
  } else {
    for (std::size_t d = 0; d < x.size(); ++d) drop[d] = x[d] == 1;
  }
  Shape out;
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (!drop[d]) out.push_back(x[d]);
  }
  c.Out(out);
}

void Unsqueeze(Context& c) {
  if (c.Dynamic(1)) return;
  const auto axes = c.Integers(1, "axes");
  if (!axes) c.Fail("no axes");
  const auto rank = c.Rank(0) + static_cast<std::int64_t>(axes->size());
  Shape sorted;
  for (std::int64_t axis : *axes) sorted.push_back(c.Axis(axis, rank));
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) c.Fail("axes [{}] repeat", fmt::join(*axes, ","));
  Shape out = c.In(0);
  for (std::int64_t axis : sorted) out.insert(out.begin() + axis, 1);
  c.Out(out);
}

void Slice(Context& c) {
  Shape out = c.In(0);
  for (std::size_t i = 1; i < 5; ++i) {
    if (c.Dynamic(i)) return;
  }
  const auto starts = c.Integers(1, "starts"), ends = c.Integers(2, "ends");
  if (!starts || !ends || starts->size() != ends->size()) c.Fail("starts and ends don't fit");
  Shape axes = c.Integers(3, "axes").value_or(Shape());
  Shape steps = c.Integers(4, "steps").value_or(Shape(starts->size(), 1));
  if (axes.empty()) {
    for (std::size_t i = 0; i < starts->size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (axes.size() != starts->size() || steps.size() != starts->size()) c.Fail("axes or steps don't fit");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = c.Axis(axes[i], c.Rank(0)), size = out[axis], step = steps[i];
    if (step == 0) c.Fail("step must not be 0");
    auto at = [&](std::int64_t v, std::int64_t low, std::int64_t high) {
      return std::clamp(v < 0 ? std::max<std::int64_t>(v, -size - 1) + size : v, low, high);
    };
    if (step > 0) {
      const std::int64_t begin = at((*starts)[i], 0, size), end = at((*ends)[i], 0, size);
      out[axis] = end > begin ? (end - begin - 1) / step + 1 : 0;
    } else {
      const std::int64_t begin = at((*starts)[i], 0, size - 1), end = at((*ends)[i], -1, size - 1);
      out[axis] = begin > end ? (begin - end - 1) / -std::max(step, -(std::int64_t{1} << 62)) + 1 : 0;
    }
  }
  c.Out(out);
}

void Gather(Context& c) {
  const Shape &x = c.In(0), &indices = c.In(1);
  const std::int64_t axis = c.Axis(c.node.Int("axis", 0), c.Rank(0));
  Shape out(x.begin(), x.begin() + axis);
  out.insert(out.end(), indices.begin(), indices.end());
  out.insert(out.end(), x.begin() + axis + 1, x.end());
  c.Out(out);
}

void Expand(Context& c) {
  if (c.Dynamic(1)) return;
  const auto target = c.Integers(1, "shape");
  if (!target) c.Fail("no target shape");
  for (std::int64_t d : *target) {
    if (d < 0) c.Fail("target [{}] has a negative dimension", fmt::join(*target, ","));
  }
  c.Out(Broadcast(c, c.In(0), *target));
}

void Cast(Context& c) {
  c.Out(0, c.In(0), DTypeOfCode(static_cast<int>(c.node.Int("to", 1))));
}
void CastLike(Context& c) {
  c.Out(0, c.In(0), c.Type(1));
}

void Reduce(Context& c) {
  if (c.Dynamic(1)) return;
  const bool keep = c.node.Int("keepdims", 1) != 0;
  const Shape axes = c.Integers(1, "axes").value_or(Shape());
  const Shape& x = c.In(0);
  if (axes.empty() && c.node.Int("noop_with_empty_axes", 0) != 0) return c.Out(x);
  std::vector<bool> reduced(x.size(), axes.empty());
  for (std::int64_t axis : axes) reduced[c.Axis(axis, c.Rank(0))] = true;
  Shape out;
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (!reduced[d])
      out.push_back(x[d]);
    else if (keep)
      out.push_back(1);
  }
  c.Out(out);
}

void ArgReduce(Context& c) {
  Shape out = c.In(0);
  const std::int64_t axis = c.Axis(c.node.Int("axis", 0), c.Rank(0));
  if (c.node.Int("keepdims", 1) != 0)
    out[axis] = 1;
  else
    out.erase(out.begin() + axis);
  c.Out(0, out, DType::kInt64);
}

void Pad(Context& c) {
  Shape out = c.In(0);
  if (c.Dynamic(1) || c.Dynamic(3)) return;
  const auto pads = c.Integers(1, "pads");
  if (!pads) c.Fail("no pads");
  Shape axes = c.Integers(3, "no attribute").value_or(Shape());
  if (axes.empty()) {
    for (std::size_t d = 0; d < out.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  }
  if (pads->size() != 2 * axes.size()) c.Fail("{} pads for {} axes", pads->size(), axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = c.Axis(axes[i], c.Rank(0));
    out[axis] = CheckedAdd(out[axis], CheckedAdd((*pads)[i], (*pads)[i + axes.size()], c.where), c.where);
    if (out[axis] < 0) c.Fail("pads make dimension {} negative", axis);
  }
  c.Out(out);
}

void Where(Context& c) {
  c.Out(0, Broadcast(c, c.In(0), Broadcast(c, c.In(1), c.In(2))), c.Type(1));
}

void ConstantOfShape(Context& c) {
  const OnnxAttribute* value = c.node.Find("value");
  const DType dtype = value && value->tensor ? value->tensor->dtype : DType::kFloat32;
  if (c.Dynamic(0)) {
    if (!c.outputs.empty()) c.outputs[0].dtype = dtype;
    return;
  }
  c.Out(0, c.inputs.at(0).data->Ints(), dtype);
}

void ShapeOf(Context& c) {
  const std::int64_t rank = c.Rank(0);
  auto clamp = [&](std::int64_t v) { return std::clamp<std::int64_t>(v < 0 ? v + rank : v, 0, rank); };
  const std::int64_t start = clamp(c.node.Int("start", 0)), end = clamp(c.node.Int("end", rank));
  c.Out(0, {std::max<std::int64_t>(0, end - start)}, DType::kInt64);
}

void SizeOf(Context& c) {
  c.Out(0, {}, DType::kInt64);
}

void Range(Context& c) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (c.Dynamic(i)) return;
  }
  const double start = c.inputs.at(0).data->Reals().at(0), limit = c.inputs.at(1).data->Reals().at(0),
               delta = c.inputs.at(2).data->Reals().at(0);
  const double count = delta == 0 ? 0 : std::ceil((limit - start) / delta);
  if (!(std::fabs(count) < 1e15)) c.Fail("range is too long");
  c.Out({std::max<std::int64_t>(0, static_cast<std::int64_t>(count))});
}

void Recurrent(Context& c, int states) {
  const Shape &x = c.In(0), &w = c.In(1), &r = c.In(2);
  if (x.size() != 3 || w.size() != 3 || r.size() != 3) c.Fail("X, W and R must have rank 3");
  const bool batch_first = c.node.Int("layout", 0) != 0;
  const std::int64_t sequence = x[batch_first ? 1 : 0], batch = x[batch_first ? 0 : 1], directions = w[0], hidden = r[2];
  if (w[2] != x[2]) c.Fail("W [{}] doesn't fit X [{}]", fmt::join(w, ","), fmt::join(x, ","));
  const std::int64_t gates = c.node.op_type == "LSTM" ? 4 : c.node.op_type == "GRU" ? 3 : 1;
  const std::string direction = c.node.String("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    c.Fail("direction '{}' is unknown", direction);
  const std::int64_t rows = CheckedMul(gates, hidden, c.where);
  if (directions != (direction == "bidirectional" ? 2 : 1) || w[1] != rows || r[0] != directions || r[1] != rows) {
    c.Fail("W [{}] and R [{}] don't fit {} gates of {} {}", fmt::join(w, ","), fmt::join(r, ","), gates, hidden, direction);
  }
  if (c.Has(3) && c.In(3) != Shape{directions, 2 * rows})
    c.Fail("B is [{}], expected [{},{}]", fmt::join(c.In(3), ","), directions, 2 * rows);
  if (c.node.Int("hidden_size", hidden) != hidden)
    c.Fail("hidden_size is {}, but R is [{}]", c.node.Int("hidden_size", hidden), fmt::join(r, ","));
  c.Out(batch_first ? Shape{batch, sequence, directions, hidden} : Shape{sequence, directions, batch, hidden});
  for (int i = 1; i <= states; ++i)
    c.Out(i, batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden}, c.Type(0));
}

void Resize(Context& c) {
  const Shape& x = c.In(0);
  const bool upsample = c.node.op_type == "Upsample";
  const std::size_t scales_at = upsample || c.node.opset < 11 ? 1 : 2;
  const bool has_sizes = !upsample && c.Has(3) && (c.Dynamic(3) || c.inputs[3].data->elements() > 0);
  if (c.Dynamic(scales_at) || c.Dynamic(3)) return;
  if (has_sizes) {
    const Shape sizes = c.inputs[3].data->Ints();
    if (sizes.size() != x.size()) c.Fail("sizes [{}] don't fit input [{}]", fmt::join(sizes, ","), fmt::join(x, ","));
    return c.Out(sizes);
  }
  std::vector<double> scales;
  if (c.Has(scales_at)) {
    scales = c.inputs[scales_at].data->Reals();
  } else if (const OnnxAttribute* attribute = c.node.Find("scales")) {
    scales.assign(attribute->floats.begin(), attribute->floats.end());
  }
  if (scales.size() != x.size()) c.Fail("{} scales for rank {}", scales.size(), x.size());
  Shape out;
  for (std::size_t d = 0; d < x.size(); ++d) {
    const double size = std::floor(static_cast<double>(x[d]) * scales[d]);
    if (!(size >= 0 && size < 9e15)) c.Fail("scale {} is out of range", scales[d]);
    out.push_back(static_cast<std::int64_t>(size));
  }
  c.Out(out);
}

void Constant(Context& c) {
  const OnnxNode& n = c.node;
  if (const OnnxAttribute* a = n.Find("value"); a && a->tensor) return c.Out(0, a->tensor->shape, a->tensor->dtype);
  if (n.Find("value_int")) return c.Out(0, {}, DType::kInt64);
  if (n.Find("value_float")) return c.Out(0, {}, DType::kFloat32);
  if (const OnnxAttribute* a = n.Find("value_ints")) return c.Out(0, {static_cast<std::int64_t>(a->ints.size())}, DType::kInt64);
  if (const OnnxAttribute* a = n.Find("value_floats"))
    return c.Out(0, {static_cast<std::int64_t>(a->floats.size())}, DType::kFloat32);
  c.Fail("no value, or one of a kind that isn't supported");
}

const std::map<std::string, Rule>& Rules() {
  static const std::map<std::string, Rule>* rules = [] {
    auto* table = new std::map<std::string, Rule>{{"Conv", Conv},
                                                  {"ConvTranspose", ConvTranspose},
                                                  {"MaxPool", Pool},
                                                  {"AveragePool", Pool},
                                                  {"LpPool", Pool},
                                                  {"GlobalAveragePool", GlobalPool},
                                                  {"GlobalMaxPool", GlobalPool},
                                                  {"BatchNormalization", BatchNormalization},
                                                  {"LayerNormalization", LayerNormalization},
                                                  {"InstanceNormalization", Same},
                                                  {"GroupNormalization", Same},
                                                  {"LRN", Same},
                                                  {"Dropout", Dropout},
                                                  {"Gemm", Gemm},
                                                  {"MatMul", MatMul},
                                                  {"Concat", Concat},
                                                  {"Split", Split},
                                                  {"Flatten", Flatten},
                                                  {"Reshape", Reshape},
                                                  {"Transpose", Transpose},
                                                  {"Squeeze", Squeeze},
                                                  {"Unsqueeze", Unsqueeze},
                                                  {"Slice", Slice},
                                                  {"Gather", Gather},
                                                  {"Expand", Expand},
                                                  {"Cast", Cast},
                                                  {"CastLike", CastLike},
                                                  {"ArgMax", ArgReduce},
                                                  {"ArgMin", ArgReduce},
                                                  {"Pad", Pad},
                                                  {"Where", Where},
                                                  {"ConstantOfShape", ConstantOfShape},
                                                  {"Shape", ShapeOf},
                                                  {"Size", SizeOf},
                                                  {"Range", Range},
                                                  {"LSTM", [](Context& c) { Recurrent(c, 2); }},
                                                  {"GRU", [](Context& c) { Recurrent(c, 1); }},
                                                  {"RNN", [](Context& c) { Recurrent(c, 1); }},
                                                  {"Resize", Resize},
                                                  {"Upsample", Resize},
                                                  {"Constant", Constant}};
    for (const char* op : {"Relu",     "LeakyRelu",   "Sigmoid",    "Tanh",   "Erf",
                           "Gelu",     "HardSigmoid", "HardSwish",  "Clip",   "Exp",
                           "Log",      "Sqrt",        "Neg",        "Abs",    "Reciprocal",
                           "Identity", "Softmax",     "LogSoftmax", "Elu",    "Selu",
                           "Celu",     "Softplus",    "Softsign",   "Mish",   "ThresholdedRelu",
                           "Floor",    "Ceil",        "Round",      "Sign",   "Sin",
                           "Cos",      "Not",         "Hardmax",    "CumSum", "LpNormalization"}) {
      (*table)[op] = Same;
    }
    for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Mod", "Sum", "Max", "Min", "Mean", "PRelu"})
      (*table)[op] = Elementwise;
    for (const char* op : {"Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "And", "Or", "Xor", "IsNaN", "IsInf"}) {
      (*table)[op] = Compare;
    }
    for (const char* op : {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                           "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}) {
      (*table)[op] = Reduce;
    }
    for (const char* op : {"Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Swish", "Shrink",
                           "RMSNormalization", "RotaryEmbedding", "Trilu", "ReverseSequence"}) {
      (*table)[op] = Same;
    }
    AddIndexingShapes(table);
    AddAttentionShapes(table);
    return table;
  }();
  return *rules;
}

// Output types that don't depend on shapes, for when those are unknown.
DType TypeWithoutShape(const OnnxNode& node, const std::vector<RuleInput>& inputs, std::size_t output) {
  if (node.op_type == "Cast") return DTypeOfCode(static_cast<int>(node.Int("to", 1)));
  if (node.op_type == "Shape" || node.op_type == "Size" || node.op_type == "ArgMax" || node.op_type == "ArgMin")
    return DType::kInt64;
  if (output == 1 && node.op_type == "Dropout") return DType::kBool;
  if (output == 1 && node.op_type == "MaxPool") return DType::kInt64;
  for (const char* op : {"Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "And", "Or", "Xor", "Not"}) {
    if (node.op_type == op) return DType::kBool;
  }
  const std::size_t i = node.op_type == "Where" ? 1 : 0;
  return i < inputs.size() && inputs[i].present ? inputs[i].type.dtype : DType::kFloat32;
}

}  // namespace

bool HasShapeRule(const std::string& domain, const std::string& op_type) {
  return domain.empty() && Rules().count(op_type) > 0;
}

std::vector<TypedShape> InferShapes(const OnnxNode& node, const std::vector<RuleInput>& inputs, const std::string& where) {
  Context context(node, inputs, where);
  for (std::size_t i = 0; i < context.outputs.size(); ++i) context.outputs[i].dtype = TypeWithoutShape(node, inputs, i);
  for (const RuleInput& input : inputs) {
    if (input.present && !input.type.shape) return context.outputs;
  }
  Rules().at(node.op_type)(context);
  return context.outputs;
}

}  // namespace weir::partitioner
