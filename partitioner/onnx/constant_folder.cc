#include "partitioner/onnx/constant_folder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

namespace weir::partitioner {
namespace {

using Shape = std::vector<std::int64_t>;

bool IsInteger(DType type) {
  return type == DType::kInt64 || type == DType::kInt32 || type == DType::kInt16 || type == DType::kInt8 ||
         type == DType::kUint8 || type == DType::kBool;
}
bool IsReal(DType type) {
  return type == DType::kFloat32 || type == DType::kFloat64;
}

std::int64_t Count(const Shape& shape) {
  return ElementCount(shape, "constant");
}

template <typename To, typename From>
std::string Encode(const std::vector<From>& values) {
  std::string bytes(values.size() * sizeof(To), '\0');
  for (std::size_t i = 0; i < values.size(); ++i) {
    const To value = static_cast<To>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(To), &value, sizeof(To));
  }
  return bytes;
}

template <typename From>
OnnxData Make(const std::vector<From>& values, const Shape& shape, DType dtype) {
  OnnxData out;
  out.dtype = dtype;
  out.shape = shape;
  switch (dtype) {
    case DType::kFloat32:
      out.bytes = Encode<float>(values);
      break;
    case DType::kFloat64:
      out.bytes = Encode<double>(values);
      break;
    case DType::kInt64:
      out.bytes = Encode<std::int64_t>(values);
      break;
    case DType::kInt32:
      out.bytes = Encode<std::int32_t>(values);
      break;
    case DType::kInt16:
      out.bytes = Encode<std::int16_t>(values);
      break;
    default:
      out.bytes = Encode<std::int8_t>(values);
      break;
  }
  return out;
}

// Index into a tensor of `shape` that is broadcast to `out`, for the flat index `at` of `out`.
std::int64_t BroadcastIndex(std::int64_t at, const Shape& out, const Shape& shape) {
  std::int64_t index = 0, stride = 1;
  for (std::size_t d = 0; d < out.size(); ++d) {
    const std::size_t axis = out.size() - 1 - d;
    const std::int64_t coordinate = at % out[axis];
    at /= out[axis];
    if (d < shape.size()) {
      const std::int64_t size = shape[shape.size() - 1 - d];
      index += (size == 1 ? 0 : coordinate) * stride;
      stride *= size;
    }
  }
  return index;
}

// Saturates: the arithmetic of shapes never needs values near the limits, and must not trap on hostile files.
std::int64_t IntBinary(const std::string& op, std::int64_t a, std::int64_t b, bool* ok) {
  std::int64_t r = 0;
  if (op == "Add")
    *ok = !__builtin_add_overflow(a, b, &r);
  else if (op == "Sub")
    *ok = !__builtin_sub_overflow(a, b, &r);
  else if (op == "Mul")
    *ok = !__builtin_mul_overflow(a, b, &r);
  else if (op == "Div")
    *ok = b != 0 && !(b == -1 && a == std::numeric_limits<std::int64_t>::min()), r = *ok ? a / b : 0;
  else if (op == "Mod")
    *ok = b != 0 && b != -1, r = *ok ? ((a % b) + b) % b : 0;
  else if (op == "Min")
    r = std::min(a, b);
  else if (op == "Max")
    r = std::max(a, b);
  else if (op == "Equal")
    r = a == b;
  else if (op == "Greater")
    r = a > b;
  else if (op == "Less")
    r = a < b;
  else if (op == "GreaterOrEqual")
    r = a >= b;
  else if (op == "LessOrEqual")
    r = a <= b;
  else if (op == "And")
    r = a && b;
  else if (op == "Or")
    r = a || b;
  else
    *ok = false;
  return r;
}

double RealBinary(const std::string& op, double a, double b, bool* ok) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return a / b;
  if (op == "Pow") return std::pow(a, b);
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "Equal") return a == b;
  if (op == "Greater") return a > b;
  if (op == "Less") return a < b;
  *ok = false;
  return 0;
}

double RealUnary(const std::string& op, double a, bool* ok) {
  if (op == "Floor") return std::floor(a);
  if (op == "Ceil") return std::ceil(a);
  if (op == "Neg") return -a;
  if (op == "Sqrt") return std::sqrt(a);
  if (op == "Abs") return std::fabs(a);
  if (op == "Reciprocal") return 1 / a;
  *ok = false;
  return 0;
}

// Flat source index of every output element, for operators that only move elements; empty where not such an operator.
std::optional<std::vector<std::int64_t>> Movement(const OnnxNode& node, const std::vector<const OnnxData*>& inputs,
                                                  const Shape& shape) {
  const Shape& from = inputs[0]->shape;
  const std::int64_t count = Count(shape);
  std::vector<std::int64_t> index(static_cast<std::size_t>(count));
  const auto rank = static_cast<std::int64_t>(from.size());
  auto normal = [&](std::int64_t axis) { return axis < 0 ? axis + rank : axis; };
  if (node.op_type == "Expand") {
    for (std::int64_t i = 0; i < count; ++i) index[i] = BroadcastIndex(i, shape, from);
    return index;
  }
  if (node.op_type == "Gather") {
    const std::int64_t axis = normal(node.Int("axis", 0));
    if (axis < 0 || axis >= rank) return std::nullopt;
    const std::vector<std::int64_t> picks = inputs[1]->Ints();
    std::int64_t outer = 1, inner = 1;
    for (std::int64_t d = 0; d < rank; ++d) (d < axis ? outer : inner) *= d == axis ? 1 : from[d];
    std::size_t at = 0;
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t pick : picks) {
        const std::int64_t p = pick < 0 ? pick + from[axis] : pick;
        if (p < 0 || p >= from[axis]) return std::nullopt;
        for (std::int64_t k = 0; k < inner; ++k) index.at(at++) = (o * from[axis] + p) * inner + k;
      }
    }
    return index;
  }
  if (node.op_type == "Slice" && rank == 1) {
    auto values = [&](std::size_t i, const char* attribute) {
      return i < inputs.size() && inputs[i] ? inputs[i]->Ints() : node.Ints(attribute);
    };
    const Shape starts = values(1, "starts"), steps = values(4, "steps");
    if (starts.size() != 1) return std::nullopt;
    const std::int64_t step = steps.empty() ? 1 : steps[0];
    std::int64_t start = starts[0] < 0 ? starts[0] + from[0] : starts[0];
    start = step > 0 ? std::clamp<std::int64_t>(start, 0, from[0]) : std::clamp<std::int64_t>(start, 0, from[0] - 1);
    for (std::int64_t i = 0; i < count; ++i) index[i] = start + i * step;
    return index;
  }
  if (node.op_type == "Transpose") {
    Shape perm = node.Ints("perm");
    if (perm.empty()) {
      for (std::int64_t d = rank - 1; d >= 0; --d) perm.push_back(d);
    }
    Shape stride(rank, 1);
    for (std::int64_t d = rank - 2; d >= 0; --d) stride[d] = stride[d + 1] * from[d + 1];
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t at = i, source = 0;
      for (std::int64_t d = rank - 1; d >= 0; --d) {
        source += at % shape[d] * stride[perm[d]];
        at /= shape[d];
      }
      index[i] = source;
    }
    return index;
  }
  return std::nullopt;
}

bool KeepsElements(const std::string& op) {
  return op == "Identity" || op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Flatten";
}

template <typename T, typename Get>
std::optional<OnnxData> Move(const OnnxNode& node, const std::vector<const OnnxData*>& inputs, const Shape& shape, DType dtype,
                             Get get) {
  auto index = Movement(node, inputs, shape);
  if (!index) return std::nullopt;
  const std::vector<T> from = get(*inputs[0]);
  std::vector<T> out;
  out.reserve(index->size());
  for (std::int64_t i : *index) {
    if (i < 0 || i >= static_cast<std::int64_t>(from.size())) return std::nullopt;
    out.push_back(from[i]);
  }
  return Make(out, shape, dtype);
}

}  // namespace

OnnxData IntVector(const std::vector<std::int64_t>& values) {
  return Make(values, {static_cast<std::int64_t>(values.size())}, DType::kInt64);
}

std::optional<OnnxData> Fold(const OnnxNode& node, const std::vector<const OnnxData*>& inputs, const Shape& shape, DType dtype) {
  if (!node.domain.empty() || inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  const std::string& op = node.op_type;
  const OnnxData& a = *inputs[0];
  const std::int64_t count = Count(shape);
  // A fill stays a fill through whatever only moves or converts elements.
  if (a.fill && (KeepsElements(op) || op == "Expand" || op == "Transpose" || op == "Cast")) {
    OnnxData out = a;
    out.shape = shape;
    if (op == "Cast" && IsInteger(dtype)) out.fill = std::trunc(*a.fill);
    out.dtype = dtype;
    return out;
  }
  if (count > kMaxFoldedElements || (!IsInteger(dtype) && !IsReal(dtype))) return std::nullopt;
  for (const OnnxData* input : inputs) {
    if (input == nullptr) continue;
    if (input->elements() > kMaxFoldedElements || (!IsInteger(input->dtype) && !IsReal(input->dtype))) return std::nullopt;
  }
  if (KeepsElements(op)) {
    OnnxData out = a;
    out.shape = shape;
    return out;
  }
  if (op == "Cast") return IsInteger(a.dtype) ? Make(a.Ints(), shape, dtype) : Make(a.Reals(), shape, dtype);
  if (op == "Where") {
    if (inputs.size() < 3 || !inputs[1] || !inputs[2]) return std::nullopt;
    const auto condition = a.Ints();
    auto pick = [&](auto values) {
      const auto x = values(*inputs[1]), y = values(*inputs[2]);
      auto out = x;
      out.clear();
      for (std::int64_t i = 0; i < count; ++i) {
        out.push_back(condition[BroadcastIndex(i, shape, a.shape)] ? x[BroadcastIndex(i, shape, inputs[1]->shape)]
                                                                   : y[BroadcastIndex(i, shape, inputs[2]->shape)]);
      }
      return Make(out, shape, dtype);
    };
    return IsInteger(dtype) ? pick([](const OnnxData& d) { return d.Ints(); }) : std::optional<OnnxData>();
  }
  if (op == "Concat") {
    if (shape.size() != 1) return std::nullopt;
    if (IsReal(dtype)) {  // scales
      std::vector<double> out;
      for (const OnnxData* input : inputs) {
        const auto values = input->Reals();
        out.insert(out.end(), values.begin(), values.end());
      }
      return Make(out, shape, dtype);
    }
    if (!IsInteger(dtype)) return std::nullopt;
    std::vector<std::int64_t> out;
    for (const OnnxData* input : inputs) {
      const auto values = input->Ints();
      out.insert(out.end(), values.begin(), values.end());
    }
    return Make(out, shape, dtype);
  }
  if (op == "Range") {
    if (!IsInteger(dtype) || inputs.size() < 3) return std::nullopt;
    const std::int64_t start = a.Ints().at(0), delta = inputs[2]->Ints().at(0);
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < count; ++i) out.push_back(start + i * delta);
    return Make(out, shape, dtype);
  }
  if (op == "ReduceProd" && IsInteger(dtype) && count == 1) {
    std::int64_t product = 1;
    for (std::int64_t value : a.Ints()) {
      if (__builtin_mul_overflow(product, value, &product)) return std::nullopt;
    }
    return Make(std::vector<std::int64_t>{product}, shape, dtype);
  }
  auto moved = IsInteger(dtype) ? Move<std::int64_t>(node, inputs, shape, dtype, [](const OnnxData& d) { return d.Ints(); })
                                : Move<double>(node, inputs, shape, dtype, [](const OnnxData& d) { return d.Reals(); });
  if (moved) return moved;
  bool ok = true;
  if (inputs.size() == 1) {
    if (IsInteger(a.dtype)) {
      std::vector<std::int64_t> out = a.Ints();
      for (auto& v : out) {
        if (op == "Not")
          v = !v;
        else if (op == "Neg")
          v = -v;
        else if (op == "Abs")
          v = std::abs(v);
        else
          return std::nullopt;
      }
      return Make(out, shape, dtype);
    }
    std::vector<double> out = a.Reals();
    for (double& v : out) v = RealUnary(op, v, &ok);
    return ok ? std::optional(Make(out, shape, dtype)) : std::nullopt;
  }
  if (inputs.size() != 2 || inputs[1] == nullptr) return std::nullopt;
  const OnnxData& b = *inputs[1];
  if (IsInteger(a.dtype) && IsInteger(b.dtype)) {
    const auto x = a.Ints(), y = b.Ints();
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < count && ok; ++i) {
      out.push_back(IntBinary(op, x[BroadcastIndex(i, shape, a.shape)], y[BroadcastIndex(i, shape, b.shape)], &ok));
    }
    return ok ? std::optional(Make(out, shape, dtype)) : std::nullopt;
  }
  const auto x = a.Reals(), y = b.Reals();
  std::vector<double> out;
  for (std::int64_t i = 0; i < count && ok; ++i) {
    out.push_back(RealBinary(op, x[BroadcastIndex(i, shape, a.shape)], y[BroadcastIndex(i, shape, b.shape)], &ok));
  }
  return ok ? std::optional(Make(out, shape, dtype)) : std::nullopt;
}

}  // namespace weir::partitioner
