#include <ATen/core/Scalar.h>

#include "worker/runtime/onnx_rules.h"

namespace weir::worker {
namespace {

using torch::jit::IValue;

OnnxRule Unary(const char* name) {
  return [name](OnnxEmitter& e) { e.Out(0, e.Aten(name, {e.In(0)})); };
}

OnnxRule Binary(const char* name) {
  return [name](OnnxEmitter& e) { e.Out(0, e.Aten(name, {e.In(0), e.In(1)})); };
}

// Sum, Max, Min: any number of inputs, left to right.
OnnxRule Fold(const char* name) {
  return [name](OnnxEmitter& e) {
    JitValue* result = e.In(0);
    for (std::size_t i = 1; i < e.NumInputs(); ++i) result = e.Aten(name, {result, e.In(i)});
    e.Out(0, result);
  };
}

bool IsFloat(partitioner::DType type) {
  using partitioner::DType;
  return type == DType::kFloat32 || type == DType::kFloat64 || type == DType::kFloat16 || type == DType::kBFloat16;
}

void Clip(OnnxEmitter& e) {
  IValue low, high;
  if (e.node().Find("min")) low = static_cast<double>(e.node().Float("min", 0));
  if (e.node().Find("max")) high = static_cast<double>(e.node().Float("max", 0));
  if (e.Has(1)) low = e.ConstantReals(1).at(0);
  if (e.Has(2)) high = e.ConstantReals(2).at(0);
  if (low.isNone() && high.isNone()) return e.Out(0, e.In(0));
  e.Out(0, e.Aten("clamp", {e.In(0), low, high}));
}

void Mean(OnnxEmitter& e) {
  JitValue* sum = e.In(0);
  for (std::size_t i = 1; i < e.NumInputs(); ++i) sum = e.Aten("add", {sum, e.In(i)});
  e.Out(0, e.Aten("div", {sum, IValue(static_cast<double>(e.NumInputs()))}));
}

void Div(OnnxEmitter& e) {
  if (IsFloat(e.Info(0).dtype)) return e.Out(0, e.Aten("div", {e.In(0), e.In(1)}));
  e.Out(0, e.Aten("div", {e.In(0), e.In(1), torch::jit::NamedValue("rounding_mode", IValue(std::string("trunc")))}));
}

void HardSigmoid(OnnxEmitter& e) {
  const double alpha = e.node().Float("alpha", 0.2f), beta = e.node().Float("beta", 0.5f);
  JitValue* scaled = e.Aten("add", {e.Aten("mul", {e.In(0), IValue(alpha)}), IValue(beta)});
  e.Out(0, e.Aten("clamp", {scaled, IValue(0.0), IValue(1.0)}));
}

void Gelu(OnnxEmitter& e) {
  e.Out(0, e.Aten("gelu", {e.In(0), torch::jit::NamedValue("approximate", IValue(e.node().String("approximate", "none")))}));
}

void Pow(OnnxEmitter& e) {
  if (e.IsConstant(1) && e.Info(1).data->elements() == 1) {
    return e.Out(0, e.Aten("pow", {e.In(0), IValue(e.ConstantReals(1)[0])}));
  }
  e.Out(0, e.Aten("pow", {e.In(0), e.In(1)}));
}

}  // namespace

void AddElementwiseRules(OnnxRuleTable* table) {
  OnnxRuleTable& t = *table;
  for (auto [onnx, aten] : {std::pair{"Relu", "relu"},
                            {"Sigmoid", "sigmoid"},
                            {"Tanh", "tanh"},
                            {"Erf", "erf"},
                            {"Exp", "exp"},
                            {"Log", "log"},
                            {"Sqrt", "sqrt"},
                            {"Neg", "neg"},
                            {"Abs", "abs"},
                            {"Reciprocal", "reciprocal"},
                            {"HardSwish", "hardswish"},
                            {"Softplus", "softplus"},
                            {"Floor", "floor"},
                            {"Ceil", "ceil"},
                            {"Sin", "sin"},
                            {"Cos", "cos"},
                            {"Mish", "mish"},
                            {"Not", "logical_not"},
                            {"Sign", "sign"},
                            {"Round", "round"},
                            {"Tan", "tan"},
                            {"Asin", "asin"},
                            {"Acos", "acos"},
                            {"Atan", "atan"},
                            {"Sinh", "sinh"},
                            {"Cosh", "cosh"},
                            {"Asinh", "asinh"},
                            {"Acosh", "acosh"},
                            {"Atanh", "atanh"},
                            {"IsNaN", "isnan"},
                            {"IsInf", "isinf"},
                            {"Selu", "selu"}}) {
    t[onnx] = Unary(aten);
  }
  for (auto [onnx, aten] : {std::pair{"Add", "add"},
                            {"Sub", "sub"},
                            {"Mul", "mul"},
                            {"Equal", "eq"},
                            {"Greater", "gt"},
                            {"Less", "lt"},
                            {"GreaterOrEqual", "ge"},
                            {"LessOrEqual", "le"},
                            {"And", "logical_and"},
                            {"Or", "logical_or"},
                            {"Xor", "logical_xor"},
                            {"PRelu", "prelu"}}) {
    t[onnx] = Binary(aten);
  }
  t["Sum"] = Fold("add");
  t["Max"] = Fold("maximum");
  t["Min"] = Fold("minimum");
  t["Mean"] = Mean;
  t["Div"] = Div;
  t["Clip"] = Clip;
  t["HardSigmoid"] = HardSigmoid;
  t["Gelu"] = Gelu;
  t["Pow"] = Pow;
  t["LeakyRelu"] = [](OnnxEmitter& e) {
    e.Out(0, e.Aten("leaky_relu", {e.In(0), IValue(static_cast<double>(e.node().Float("alpha", 0.01f)))}));
  };
  t["Elu"] = [](OnnxEmitter& e) {
    e.Out(0, e.Aten("elu", {e.In(0), IValue(static_cast<double>(e.node().Float("alpha", 1.0f)))}));
  };
  t["Where"] = [](OnnxEmitter& e) { e.Out(0, e.Aten("where", {e.In(0), e.In(1), e.In(2)})); };
  t["Softsign"] = [](OnnxEmitter& e) {
    e.Out(0, e.Aten("div", {e.In(0), e.Aten("add", {e.Aten("abs", {e.In(0)}), IValue(1.0)})}));
  };
  t["Celu"] = [](OnnxEmitter& e) {
    e.Out(0, e.Aten("celu", {e.In(0), IValue(static_cast<double>(e.node().Float("alpha", 1.0f)))}));
  };
  t["ThresholdedRelu"] = [](OnnxEmitter& e) {
    e.Out(0, e.Aten("threshold", {e.In(0), IValue(static_cast<double>(e.node().Float("alpha", 1.0f))), IValue(0.0)}));
  };
  t["Swish"] = [](OnnxEmitter& e) {
    JitValue* scaled = e.Aten("mul", {e.In(0), IValue(static_cast<double>(e.node().Float("alpha", 1.0f)))});
    e.Out(0, e.Aten("mul", {e.In(0), e.Aten("sigmoid", {scaled})}));
  };
  t["Mod"] = [](OnnxEmitter& e) { e.Out(0, e.Aten(e.node().Int("fmod", 0) != 0 ? "fmod" : "remainder", {e.In(0), e.In(1)})); };
  t["CastLike"] = [](OnnxEmitter& e) { e.Out(0, e.Aten("type_as", {e.In(0), e.In(1)})); };
  t["Identity"] = [](OnnxEmitter& e) { e.Out(0, e.In(0)); };
}

}  // namespace weir::worker
