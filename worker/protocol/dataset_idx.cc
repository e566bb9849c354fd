#include <bit>
#include <cmath>

#include "env/core/error.h"
#include "env/core/file.h"
#include "worker/protocol/dataset_formats.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {
namespace {

struct IdxFile {
  std::vector<std::int64_t> dims;
  std::vector<double> values;
};

IdxFile ReadIdxFile(const std::string& path) {
  const std::string content = ReadUnpacked(path);
  const auto* bytes = reinterpret_cast<const unsigned char*>(content.data());
  auto big_endian = [&](std::size_t at, int size) {
    std::uint64_t value = 0;
    for (int i = 0; i < size; ++i) value = value << 8 | bytes[at + i];
    return value;
  };
  if (content.size() < 4 || bytes[0] != 0 || bytes[1] != 0)
    throw Invalid("{}: not an idx file (it must start with two zero bytes)", path);
  const int type = bytes[2], num_dims = bytes[3];
  const int size = type == 0x08 || type == 0x09 ? 1 : type == 0x0B ? 2 : type == 0x0C || type == 0x0D ? 4 : type == 0x0E ? 8 : 0;
  if (size == 0) throw Invalid("{}: idx element type 0x{:02x} is unknown", path, type);
  if (num_dims < 1 || num_dims > 8) throw Invalid("{}: expected 1 to 8 dimensions, found {}", path, num_dims);
  const std::size_t header = 4 + 4 * static_cast<std::size_t>(num_dims);
  if (content.size() < header) throw Invalid("{}: truncated idx header", path);
  IdxFile file;
  for (int d = 0; d < num_dims; ++d) file.dims.push_back(static_cast<std::int64_t>(big_endian(4 + 4 * d, 4)));
  const std::int64_t count = Product(file.dims, path);
  if (content.size() != header + static_cast<std::size_t>(count) * size) {
    throw Invalid("{}: expected {} bytes for shape {}, found {}", path, header + count * size, FormatShape(file.dims),
                  content.size());
  }
  file.values.reserve(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t raw = big_endian(header + i * size, size);
    double value = 0;
    switch (type) {
      case 0x08:
        value = static_cast<double>(raw);
        break;
      case 0x09:
        value = static_cast<std::int8_t>(raw);
        break;
      case 0x0B:
        value = static_cast<std::int16_t>(raw);
        break;
      case 0x0C:
        value = static_cast<std::int32_t>(raw);
        break;
      case 0x0D:
        value = std::bit_cast<float>(static_cast<std::uint32_t>(raw));
        break;
      default:
        value = std::bit_cast<double>(raw);
    }
    if (!std::isfinite(value)) throw Invalid("{}: element {}: expected a finite number, found {}", path, i, value);
    file.values.push_back(value);
  }
  return file;
}

}  // namespace

Dataset ReadIdx(const std::string& path, const std::string& labels_path, const wire::DataSpec& spec) {
  const std::vector<std::int64_t> shape(spec.sample_shape().begin(), spec.sample_shape().end());
  const std::int64_t classes = spec.num_classes();
  const double scale = spec.scale();
  const IdxFile samples = ReadIdxFile(path);
  if (samples.dims.size() < 2)
    throw Invalid("{}: expected at least 2 dimensions (samples first), found {}", path, FormatShape(samples.dims));
  Dataset data;
  data.samples = samples.dims[0];
  const std::vector<std::int64_t> found(samples.dims.begin() + 1, samples.dims.end());
  data.sample_shape = shape.empty() ? found : shape;
  if (Product(data.sample_shape, path) != Product(found, path)) {
    throw Invalid("{}: expected samples of shape {}, found {}", path, FormatShape(data.sample_shape), FormatShape(found));
  }
  data.features.reserve(samples.values.size());
  for (double v : samples.values) data.features.push_back(static_cast<float>(v / scale));
  const IdxFile labels = ReadIdxFile(labels_path);
  if (labels.dims.size() != 1 || labels.dims[0] != data.samples) {
    throw Invalid("{}: expected {} labels, found shape {}", labels_path, data.samples, FormatShape(labels.dims));
  }
  for (std::size_t i = 0; i < labels.values.size(); ++i) {
    data.labels.push_back(CheckLabel(labels.values[i], classes, fmt::format("{}: label {}", labels_path, i)));
  }
  return data;
}

}  // namespace weir::worker
