#include <algorithm>
#include <limits>

#include "worker/runtime/onnx_rules.h"

namespace weir::worker {
namespace {

using torch::jit::IValue;
using torch::jit::NamedValue;

struct Window {
  Ints kernel, stride, dilation, begin, end;  // per spatial dimension; begin/end: padding
  bool symmetric() const { return begin == end; }
};

Window WindowOf(OnnxEmitter& e, Ints kernel, const Ints& input_shape) {
  const std::size_t n = kernel.size();
  Window w;
  w.stride = e.node().Ints("strides", Ints(n, 1));
  w.dilation = e.node().Ints("dilations", Ints(n, 1));
  const Ints pads = e.node().Ints("pads", Ints(2 * n, 0));
  w.begin.assign(pads.begin(), pads.begin() + n);
  w.end.assign(pads.begin() + n, pads.end());
  const std::string auto_pad = e.node().String("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    for (std::size_t i = 0; i < n; ++i) {
      const std::int64_t in = input_shape[i + 2], out = (in + w.stride[i] - 1) / w.stride[i];
      const std::int64_t total = std::max<std::int64_t>(0, (out - 1) * w.stride[i] + (kernel[i] - 1) * w.dilation[i] + 1 - in);
      w.begin[i] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.end[i] = total - w.begin[i];
    }
  } else if (auto_pad == "VALID") {
    w.begin.assign(n, 0);
    w.end.assign(n, 0);
  }
  w.kernel = std::move(kernel);
  return w;
}

// Pads the input where LibTorch's operator can't (different begin and end), and clears the window's own padding.
JitValue* PadApart(OnnxEmitter& e, JitValue* input, Window* w, double value) {
  if (w->symmetric()) return input;
  Ints pads;  // last dimension first
  for (std::size_t i = w->kernel.size(); i-- > 0;) {
    pads.push_back(w->begin[i]);
    pads.push_back(w->end[i]);
  }
  w->begin.assign(w->kernel.size(), 0);
  w->end = w->begin;
  return e.Aten("constant_pad_nd", {input, IValue(pads), IValue(value)});
}

void Conv(OnnxEmitter& e) {
  const Ints& weight = e.Shape(1);
  Window w = WindowOf(e, Ints(weight.begin() + 2, weight.end()), e.Shape(0));
  JitValue* input = PadApart(e, e.In(0), &w, 0);
  e.Out(0, e.Aten("convolution", {input, e.In(1), e.InOrNone(2), IValue(w.stride), IValue(w.begin), IValue(w.dilation),
                                  IValue(false), IValue(Ints(w.kernel.size(), 0)), IValue(e.node().Int("group", 1))}));
}

void ConvTranspose(OnnxEmitter& e) {
  const Ints &weight = e.Shape(1), &in = e.Shape(0), &out = e.OutputShape();
  Window w = WindowOf(e, Ints(weight.begin() + 2, weight.end()), in);
  const std::size_t n = w.kernel.size();
  Ints extra = e.node().Ints("output_padding", Ints(n, 0));
  const std::string auto_pad = e.node().String("auto_pad", "NOTSET");
  Ints crop;  // last dimension first: what the window's padding takes away, where LibTorch's operator can't
  if (!w.symmetric() || auto_pad != "NOTSET" || e.node().Find("output_shape")) {
    for (std::size_t d = n; d-- > 0;) {
      const std::int64_t full = (in[d + 2] - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1;
      const std::int64_t total = full + extra[d] - out[d + 2];
      std::int64_t begin = auto_pad == "NOTSET" && !e.node().Find("output_shape") ? w.begin[d]
                           : auto_pad == "SAME_UPPER"                             ? total / 2
                                                                                  : total - total / 2;
      const std::int64_t end = full - out[d + 2] - begin;
      if (begin < 0 || end < 0)
        e.Refuse("pads [{}] with output_padding [{}] are not supported", fmt::join(w.begin, ","), fmt::join(extra, ","));
      crop.push_back(-begin);
      crop.push_back(-end);
    }
    w.begin.assign(n, 0);
    extra.assign(n, 0);
  }
  JitValue* y = e.Aten("convolution", {e.In(0), e.In(1), e.InOrNone(2), IValue(w.stride), IValue(w.begin), IValue(w.dilation),
                                       IValue(true), IValue(extra), IValue(e.node().Int("group", 1))});
  if (!crop.empty()) y = e.Aten("constant_pad_nd", {y, IValue(crop), IValue(0.0)});
  e.Out(0, y);
}

void MaxPool(OnnxEmitter& e) {
  const Ints kernel = e.node().Ints("kernel_shape");
  Window w = WindowOf(e, kernel, e.Shape(0));
  JitValue* input = PadApart(e, e.In(0), &w, -std::numeric_limits<double>::infinity());
  const std::string name = "max_pool" + std::to_string(kernel.size()) + "d";
  e.Out(0, e.Aten(name.c_str(), {input, IValue(kernel), IValue(w.stride), IValue(w.begin), IValue(w.dilation),
                                 IValue(e.node().Int("ceil_mode", 0) != 0)}));
}

void AveragePool(OnnxEmitter& e) {
  const Ints kernel = e.node().Ints("kernel_shape");
  Window w = WindowOf(e, kernel, e.Shape(0));
  const bool include = e.node().Int("count_include_pad", 0) != 0, asymmetric = !w.symmetric();
  const std::string name = "avg_pool" + std::to_string(kernel.size()) + "d";
  JitValue* input = e.In(0);
  JitValue* ones = asymmetric && !include ? e.Aten("ones_like", {input}) : nullptr;
  Window unpadded = w;
  input = PadApart(e, input, &unpadded, 0);
  const auto pool = [&](JitValue* x) {
    return e.Aten(name.c_str(), {x, IValue(kernel), IValue(unpadded.stride), IValue(unpadded.begin),
                                 IValue(e.node().Int("ceil_mode", 0) != 0), IValue(include || asymmetric)});
  };
  JitValue* mean = pool(input);
  // Without the padding in the count: divided by the share of each window that lies inside.
  if (ones) mean = e.Aten("div", {mean, pool(PadApart(e, ones, &w, 0))});
  e.Out(0, mean);
}

void GlobalPool(OnnxEmitter& e, bool average) {
  Ints dims;
  for (std::int64_t d = 2; d < e.Rank(0); ++d) dims.push_back(d);
  if (average) return e.Out(0, e.Aten("mean", {e.In(0), IValue(dims), IValue(true)}));
  e.Out(0, e.Aten("amax", {e.In(0), IValue(dims), IValue(true)}));
}

void BatchNormalization(OnnxEmitter& e) {
  const double momentum = 1 - static_cast<double>(e.node().Float("momentum", 0.9f));  // ONNX keeps `momentum` of the old value
  e.Out(0, e.Aten("batch_norm", {e.In(0), e.In(1), e.In(2), e.In(3), e.In(4), IValue(true), IValue(momentum),
                                 IValue(static_cast<double>(e.node().Float("epsilon", 1e-5f))), IValue(true)}));
}

void LayerNormalization(OnnxEmitter& e) {
  const Ints& shape = e.Shape(0);
  const std::int64_t axis = OnnxEmitter::Axis(e.node().Int("axis", -1), e.Rank(0));
  e.Out(0, e.Aten("layer_norm", {e.In(0), IValue(Ints(shape.begin() + axis, shape.end())), e.In(1), e.InOrNone(2),
                                 IValue(static_cast<double>(e.node().Float("epsilon", 1e-5f))), IValue(true)}));
}

void InstanceNormalization(OnnxEmitter& e) {
  e.Out(0, e.Aten("instance_norm", {e.In(0), e.In(1), e.In(2), IValue(), IValue(), IValue(true), IValue(0.1),
                                    IValue(static_cast<double>(e.node().Float("epsilon", 1e-5f))), IValue(true)}));
}

// x / (bias + alpha/size * sum of squares over `size` neighbouring channels)^beta
void Lrn(OnnxEmitter& e) {
  const std::int64_t size = e.node().Int("size", 1);
  JitValue* x = e.In(0);
  JitValue* square = e.Aten("unsqueeze", {e.Aten("mul", {x, x}), IValue(std::int64_t{1})});
  square = e.Aten("constant_pad_nd", {square, IValue(Ints{0, 0, 0, 0, (size - 1) / 2, size / 2}), IValue(0.0)});
  JitValue* mean = e.Aten("avg_pool3d", {square, IValue(Ints{size, 1, 1}), IValue(Ints{1, 1, 1}), IValue(Ints{0, 0, 0}),
                                         IValue(false), IValue(true)});
  mean = e.Aten("squeeze", {mean, IValue(std::int64_t{1})});
  JitValue* base = e.Aten("add", {e.Aten("mul", {mean, IValue(static_cast<double>(e.node().Float("alpha", 1e-4f)))}),
                                  IValue(static_cast<double>(e.node().Float("bias", 1.0f)))});
  e.Out(0, e.Aten("div", {x, e.Aten("pow", {base, IValue(static_cast<double>(e.node().Float("beta", 0.75f)))})}));
}

void Gemm(OnnxEmitter& e) {
  const double alpha = e.node().Float("alpha", 1.0f), beta = e.node().Float("beta", 1.0f);
  const bool trans_a = e.node().Int("transA", 0) != 0, trans_b = e.node().Int("transB", 0) != 0;
  if (!trans_a && trans_b && alpha == 1 && beta == 1 && (!e.Has(2) || e.Rank(2) == 1)) {
    return e.Out(0, e.Aten("linear", {e.In(0), e.In(1), e.InOrNone(2)}));
  }
  JitValue* a = trans_a ? e.Aten("t", {e.In(0)}) : e.In(0);
  JitValue* b = trans_b ? e.Aten("t", {e.In(1)}) : e.In(1);
  if (e.Has(2))
    return e.Out(0, e.Aten("addmm", {e.In(2), a, b, NamedValue("beta", IValue(beta)), NamedValue("alpha", IValue(alpha))}));
  JitValue* product = e.Aten("mm", {a, b});
  e.Out(0, alpha == 1 ? product : e.Aten("mul", {product, IValue(alpha)}));
}

void Dropout(OnnxEmitter& e) {
  double ratio = e.node().Float("ratio", 0.5f);
  if (e.Has(1)) ratio = e.ConstantReals(1).at(0);
  e.Out(0, e.Aten("dropout", {e.In(0), IValue(ratio), IValue(true)}));
}

// Before opset 13 the input is seen as a matrix, cut at `axis` (default 1).
void Softmax(OnnxEmitter& e, const char* name) {
  const bool flat = e.node().opset < 13;
  const std::int64_t rank = e.Rank(0), axis = OnnxEmitter::Axis(e.node().Int("axis", flat ? 1 : -1), rank);
  JitValue* x = e.In(0);
  if (!flat || axis == rank - 1) return e.Out(0, e.Aten(name, {x, IValue(axis), IValue()}));
  JitValue* matrix = e.Aten("flatten", {x, IValue(axis), IValue(std::int64_t{-1})});
  JitValue* result = e.Aten(name, {matrix, IValue(axis), IValue()});
  e.Out(0, e.Aten("reshape", {result, IValue(e.OutputTarget())}));
}

// Resize and Upsample of the last two dimensions (of four). LibTorch's nearest takes floor(i / scale): that of ONNX where the
// scale is whole, or where the node asks for `asymmetric` and `floor`.
void Resize(OnnxEmitter& e) {
  const Ints &in = e.Shape(0), &out = e.OutputShape();
  const bool upsample = e.node().op_type == "Upsample";
  const std::string mode = e.node().String("mode", "nearest");
  const std::string coordinates =
      e.node().String("coordinate_transformation_mode", upsample || e.node().opset < 11 ? "asymmetric" : "half_pixel");
  if (in.size() != 4 || in[0] != out[0] || in[1] != out[1]) e.Refuse("only the last two of four dimensions can be resized");
  if (e.node().Int("antialias", 0) != 0) e.Refuse("antialias is not supported");
  IValue scale[2];
  const std::size_t scales_at = upsample || e.node().opset < 11 ? 1 : 2;
  if (e.IsConstant(scales_at)) {
    const std::vector<double> scales = e.ConstantReals(scales_at);
    if (scales.size() == 4) {
      scale[0] = scales[2];
      scale[1] = scales[3];
    }
  }
  const Ints size = {out[2], out[3]};
  if (mode == "nearest") {
    const bool whole = out[2] % in[2] == 0 && out[3] % in[3] == 0;
    const bool floor = coordinates == "asymmetric" &&
                       (upsample || e.node().opset < 11 || e.node().String("nearest_mode", "round_prefer_floor") == "floor");
    if (!whole && !floor) e.Refuse("nearest with {} needs a whole scale", coordinates);
    return e.Out(0, e.Aten("upsample_nearest2d", {e.In(0), IValue(size), scale[0], scale[1]}));
  }
  const bool align = coordinates == "align_corners";
  if (!align && coordinates != "half_pixel" && coordinates != "pytorch_half_pixel")
    e.Refuse("mode {} with {} is not supported", mode, coordinates);
  if (mode != "linear" && mode != "cubic") e.Refuse("mode {} is not supported", mode);
  if (mode == "cubic" && e.node().Float("cubic_coeff_a", -0.75f) != -0.75f) e.Refuse("cubic_coeff_a must be -0.75");
  e.Out(0, e.Aten(mode == "linear" ? "upsample_bilinear2d" : "upsample_bicubic2d",
                  {e.In(0), IValue(size), IValue(align), scale[0], scale[1]}));
}

}  // namespace

void AddLayerRules(OnnxRuleTable* table) {
  OnnxRuleTable& t = *table;
  t["Conv"] = Conv;
  t["ConvTranspose"] = ConvTranspose;
  t["MaxPool"] = MaxPool;
  t["AveragePool"] = AveragePool;
  t["GlobalAveragePool"] = [](OnnxEmitter& e) { GlobalPool(e, true); };
  t["GlobalMaxPool"] = [](OnnxEmitter& e) { GlobalPool(e, false); };
  t["BatchNormalization"] = BatchNormalization;
  t["LayerNormalization"] = LayerNormalization;
  t["InstanceNormalization"] = InstanceNormalization;
  t["LRN"] = Lrn;
  t["Gemm"] = Gemm;
  t["MatMul"] = [](OnnxEmitter& e) { e.Out(0, e.Aten("matmul", {e.In(0), e.In(1)})); };
  t["Dropout"] = Dropout;
  t["Softmax"] = [](OnnxEmitter& e) { Softmax(e, "softmax"); };
  t["LogSoftmax"] = [](OnnxEmitter& e) { Softmax(e, "log_softmax"); };
  t["Upsample"] = Resize;
  t["Resize"] = Resize;
}

}  // namespace weir::worker
