#include "partitioner/onnx/tensor_reader.h"

#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "env/core/error.h"
#include "partitioner/onnx/weir_onnx.pb.h"

namespace weir::partitioner {
namespace {

namespace fs = std::filesystem;

template <typename To, typename From>
std::string Pack(const From& from) {
  std::string bytes(static_cast<std::size_t>(from.size()) * sizeof(To), '\0');
  std::size_t at = 0;
  for (auto value : from) {
    const To converted = static_cast<To>(value);
    std::memcpy(bytes.data() + at, &converted, sizeof(To));
    at += sizeof(To);
  }
  return bytes;
}

std::int64_t Number(const std::string& text, const std::string& where, const char* key) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw Invalid("{}: external data: {} must be a number >= 0, got '{}'", where, key, text);
  }
  return value;
}

std::string ReadExternal(const weir_onnx::TensorProto& proto, const std::string& where, const std::string& folder,
                         std::int64_t size) {
  std::string location;
  std::int64_t offset = 0, length = -1;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = Number(entry.value(), where, "offset");
    if (entry.key() == "length") length = Number(entry.value(), where, "length");
  }
  if (folder.empty())
    throw Invalid("{}: external data '{}' is refused here: the model didn't come from a folder", where, location);
  const fs::path relative(location);
  bool climbs = location.empty() || relative.is_absolute();
  for (const fs::path& component : relative) climbs = climbs || component == "..";
  if (climbs) throw Invalid("{}: external data '{}' is refused: it must lie in the model's folder", where, location);
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error) throw Invalid("{}: external data: no folder '{}'", where, folder);
  const fs::path target = fs::canonical(root / relative, error);
  if (error || !fs::is_regular_file(target)) throw Invalid("{}: external data '{}' is missing beside the model", where, location);
  const fs::path inside = target.lexically_relative(root);
  if (inside.empty() || *inside.begin() == "..") {
    throw Invalid("{}: external data '{}' is refused: it leads out of the model's folder", where, location);
  }
  const auto available = static_cast<std::int64_t>(fs::file_size(target));
  if (length < 0) length = size;
  if (length != size || offset > available || length > available - offset) {
    throw Invalid("{}: external data '{}' holds {} bytes from offset {}, expected {}", where, location, available, offset, size);
  }
  std::string bytes(static_cast<std::size_t>(size), '\0');
  std::ifstream in(target, std::ios::binary);
  in.seekg(offset);
  if (!in.read(bytes.data(), size)) throw Invalid("{}: external data '{}' can't be read", where, location);
  return bytes;
}

}  // namespace

DType DTypeOfCode(int onnx_data_type) {
  switch (onnx_data_type) {
    case 1:
      return DType::kFloat32;
    case 2:
      return DType::kUint8;
    case 3:
      return DType::kInt8;
    case 4:
    case 5:
      return DType::kInt16;
    case 6:
    case 12:
      return DType::kInt32;
    case 7:
    case 13:
      return DType::kInt64;
    case 9:
      return DType::kBool;
    case 10:
      return DType::kFloat16;
    case 11:
      return DType::kFloat64;
    case 16:
      return DType::kBFloat16;
    default:
      return DType::kOther;
  }
}

std::shared_ptr<const OnnxData> DecodeTensor(weir_onnx::TensorProto& proto, const std::string& where, const std::string& folder) {
  auto data = std::make_shared<OnnxData>();
  data->dtype = DTypeOfCode(proto.data_type());
  data->shape.assign(proto.dims().begin(), proto.dims().end());
  const std::int64_t elements = ElementCount(data->shape, where);
  const std::int64_t size = CheckedMul(elements, DTypeSize(data->dtype), where);
  if (proto.data_location() == weir_onnx::TensorProto::EXTERNAL) {
    data->bytes = ReadExternal(proto, where, folder, size);
  } else if (proto.has_raw_data()) {
    data->bytes = std::move(*proto.mutable_raw_data());
  } else {
    switch (data->dtype) {
      case DType::kFloat32:
        data->bytes = Pack<float>(proto.float_data());
        break;
      case DType::kFloat64:
        data->bytes = Pack<double>(proto.double_data());
        break;
      case DType::kInt64:
        data->bytes = proto.uint64_data_size() ? Pack<std::int64_t>(proto.uint64_data()) : Pack<std::int64_t>(proto.int64_data());
        break;
      case DType::kInt32:
        data->bytes = proto.uint64_data_size() ? Pack<std::int32_t>(proto.uint64_data()) : Pack<std::int32_t>(proto.int32_data());
        break;
      case DType::kFloat16:
      case DType::kBFloat16:
      case DType::kInt16:
        data->bytes = Pack<std::int16_t>(proto.int32_data());
        break;
      default:
        data->bytes = Pack<std::int8_t>(proto.int32_data());
        break;
    }
  }
  if (data->dtype != DType::kOther && static_cast<std::int64_t>(data->bytes.size()) != size) {
    throw Invalid("{}: {} bytes of data for {} elements of {}", where, data->bytes.size(), elements, DTypeName(data->dtype));
  }
  return data;
}

}  // namespace weir::partitioner
