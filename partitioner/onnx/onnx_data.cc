// Elements of constants, and typed access to attributes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "env/core/check.h"
#include "partitioner/onnx/onnx_model.h"

namespace weir::partitioner {
namespace {

template <typename From, typename To>
std::vector<To> Unpack(const std::string& bytes, std::size_t count) {
  WEIR_CHECK_GE(bytes.size(), count * sizeof(From));
  std::vector<To> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    out[i] = static_cast<To>(value);
  }
  return out;
}

double HalfToDouble(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double value = exponent == 0    ? std::ldexp(fraction, -24)
                 : exponent == 31 ? (fraction ? NAN : INFINITY)
                                  : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

}  // namespace

std::int64_t OnnxData::elements() const {
  return ElementCount(shape, "constant");
}

std::vector<std::int64_t> OnnxData::Ints() const {
  const auto count = static_cast<std::size_t>(elements());
  if (fill) return std::vector<std::int64_t>(count, static_cast<std::int64_t>(*fill));
  switch (dtype) {
    case DType::kInt64:
      return Unpack<std::int64_t, std::int64_t>(bytes, count);
    case DType::kInt32:
      return Unpack<std::int32_t, std::int64_t>(bytes, count);
    case DType::kInt16:
      return Unpack<std::int16_t, std::int64_t>(bytes, count);
    case DType::kInt8:
      return Unpack<std::int8_t, std::int64_t>(bytes, count);
    default:
      return Unpack<std::uint8_t, std::int64_t>(bytes, count);
  }
}

std::vector<double> OnnxData::Reals() const {
  const auto count = static_cast<std::size_t>(elements());
  if (fill) return std::vector<double>(count, *fill);
  switch (dtype) {
    case DType::kFloat32:
      return Unpack<float, double>(bytes, count);
    case DType::kFloat64:
      return Unpack<double, double>(bytes, count);
    case DType::kFloat16: {
      std::vector<double> out;
      for (std::uint16_t bits : Unpack<std::uint16_t, std::uint16_t>(bytes, count)) out.push_back(HalfToDouble(bits));
      return out;
    }
    case DType::kBFloat16: {
      std::vector<double> out;
      for (std::uint32_t bits : Unpack<std::uint16_t, std::uint32_t>(bytes, count))
        out.push_back(std::bit_cast<float>(bits << 16));
      return out;
    }
    default: {
      const auto ints = Ints();
      return std::vector<double>(ints.begin(), ints.end());
    }
  }
}

const OnnxAttribute* OnnxNode::Find(std::string_view attribute) const {
  auto it = attributes.find(std::string(attribute));
  return it == attributes.end() ? nullptr : &it->second;
}
std::int64_t OnnxNode::Int(std::string_view attribute, std::int64_t otherwise) const {
  const OnnxAttribute* found = Find(attribute);
  return found && found->kind == OnnxAttribute::Kind::kInt ? found->i : otherwise;
}
float OnnxNode::Float(std::string_view attribute, float otherwise) const {
  const OnnxAttribute* found = Find(attribute);
  return found && found->kind == OnnxAttribute::Kind::kFloat ? found->f : otherwise;
}
std::string OnnxNode::String(std::string_view attribute, std::string_view otherwise) const {
  const OnnxAttribute* found = Find(attribute);
  return found && found->kind == OnnxAttribute::Kind::kString ? found->s : std::string(otherwise);
}
std::vector<std::int64_t> OnnxNode::Ints(std::string_view attribute, std::vector<std::int64_t> otherwise) const {
  const OnnxAttribute* found = Find(attribute);
  return found && found->kind == OnnxAttribute::Kind::kInts ? found->ints : otherwise;
}

int OnnxModel::FindValue(std::string_view value_name) const {
  auto it = std::find_if(values.begin(), values.end(), [&](const OnnxValue& v) { return v.name == value_name; });
  return it == values.end() ? -1 : static_cast<int>(it - values.begin());
}

}  // namespace weir::partitioner
