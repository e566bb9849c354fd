#include "worker/protocol/dataset.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <string_view>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/file.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {
namespace {

constexpr std::int64_t kMostValues = std::int64_t{1} << 30;

// The whole file, unpacked where it is gzipped.
std::string ReadUnpacked(const std::string& path) {
  constexpr std::size_t kMostBytes = std::size_t{8} << 30;
  std::string content = ReadFile(path, kMostBytes);
  if (content.size() < 2 || content[0] != '\x1f' || content[1] != '\x8b') return content;
  z_stream stream{};
  WEIR_CHECK_EQ(inflateInit2(&stream, 15 + 32), Z_OK);
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, &inflateEnd);
  std::string out;
  std::vector<char> buffer(1 << 18);
  std::size_t consumed = 0;
  while (true) {
    if (stream.avail_in == 0 && consumed < content.size()) {
      const std::size_t next = std::min<std::size_t>(content.size() - consumed, 1 << 30);
      stream.next_in = reinterpret_cast<Bytef*>(content.data() + consumed);
      stream.avail_in = static_cast<uInt>(next);
      consumed += next;
    }
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    const int result = inflate(&stream, Z_NO_FLUSH);
    out.append(buffer.data(), buffer.size() - stream.avail_out);
    if (out.size() > kMostBytes) throw Invalid("{}: larger than {} bytes when unpacked", path, kMostBytes);
    if (result == Z_STREAM_END) {
      if (stream.avail_in == 0 && consumed == content.size()) return out;
      if (inflateReset(&stream) != Z_OK) throw Invalid("{}: damaged gzip file", path);  // a further member follows
      continue;
    }
    if (result == Z_BUF_ERROR) throw Invalid("{}: truncated gzip file", path);
    if (result != Z_OK) throw Invalid("{}: damaged gzip file: {}", path, stream.msg ? stream.msg : "unexpected content");
  }
}

std::int64_t Product(const std::vector<std::int64_t>& shape, const std::string& path) {
  std::int64_t count = 1;
  for (std::int64_t d : shape) {
    if (d < 1 || d > kMostValues || count > kMostValues / d) throw Invalid("{}: shape {} is too large", path, FormatShape(shape));
    count *= d;
  }
  return count;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

double ParseNumber(std::string_view text, const std::string& path, std::int64_t line, std::int64_t column) {
  const std::string_view trimmed = Trim(text);
  const char* first = trimmed.data() + (!trimmed.empty() && trimmed.front() == '+' ? 1 : 0);
  const char* last = trimmed.data() + trimmed.size();
  double value = 0;
  const auto [end, error] = std::from_chars(first, last, value);
  if (error != std::errc() || end != last || !std::isfinite(value)) {
    throw Invalid("{}:{}: column {}: expected a number, found '{}'", path, line, column, trimmed.substr(0, 40));
  }
  return value;
}

std::int64_t CheckLabel(double value, std::int64_t classes, const std::string& where) {
  if (value != std::floor(value) || value < 0 || value >= static_cast<double>(classes)) {
    throw Invalid("{}: expected a label from 0 to {}, found {}", where, classes - 1, value);
  }
  return static_cast<std::int64_t>(value);
}

Dataset ReadCsv(const std::string& path, const std::vector<std::int64_t>& shape, std::int64_t classes, double scale) {
  if (shape.empty()) throw Invalid("{}: the shape of a sample is needed for csv", path);
  Dataset data;
  data.sample_shape = shape;
  const std::int64_t features = Product(shape, path);
  const std::string content = ReadUnpacked(path);
  std::int64_t line_number = 0;
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t newline = std::min(content.find('\n', at), content.size());
    const std::string_view line = Trim(std::string_view(content).substr(at, newline - at));
    at = newline + 1;
    ++line_number;
    if (line.empty()) continue;
    const std::int64_t columns = 1 + std::count(line.begin(), line.end(), ',');
    if (columns != features + 1) {
      throw Invalid("{}:{}: expected {} columns ({} features and a label), found {}", path, line_number, features + 1, features,
                    columns);
    }
    if ((data.samples + 1) * features > kMostValues) throw Invalid("{}: more than {} values", path, kMostValues);
    std::size_t start = 0;
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::size_t comma = std::min(line.find(',', start), line.size());
      const double value = ParseNumber(line.substr(start, comma - start), path, line_number, c + 1);
      start = comma + 1;
      if (c < features) {
        data.features.push_back(static_cast<float>(value / scale));
      } else {
        data.labels.push_back(CheckLabel(value, classes, fmt::format("{}:{}: column {}", path, line_number, c + 1)));
      }
    }
    ++data.samples;
  }
  if (data.samples == 0) throw Invalid("{}: expected at least one row, found none", path);
  return data;
}

struct IdxFile {
  std::vector<std::int64_t> dims;
  std::vector<double> values;
};

IdxFile ReadIdx(const std::string& path) {
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

Dataset ReadIdxPair(const std::string& path, const std::string& labels_path, const std::vector<std::int64_t>& shape,
                    std::int64_t classes, double scale) {
  const IdxFile samples = ReadIdx(path);
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
  const IdxFile labels = ReadIdx(labels_path);
  if (labels.dims.size() != 1 || labels.dims[0] != data.samples) {
    throw Invalid("{}: expected {} labels, found shape {}", labels_path, data.samples, FormatShape(labels.dims));
  }
  for (std::size_t i = 0; i < labels.values.size(); ++i) {
    data.labels.push_back(CheckLabel(labels.values[i], classes, fmt::format("{}: label {}", labels_path, i)));
  }
  return data;
}

}  // namespace

Dataset ReadDataset(const std::string& path, const std::string& labels_path, const std::string& format,
                    const std::vector<std::int64_t>& shape, std::int64_t classes, double scale) {
  if (classes < 1) throw Invalid("{}: the number of classes must be >= 1, got {}", path, classes);
  if (!(scale > 0)) throw Invalid("{}: scale must be > 0, got {}", path, scale);
  if (format == "csv") return ReadCsv(path, shape, classes, scale);
  if (format == "idx") return ReadIdxPair(path, labels_path, shape, classes, scale);
  throw Invalid("{}: data format must be csv or idx, got '{}'", path, format);
}

Dataset ReadDataset(const std::string& path, const std::string& labels_path, const wire::DataSpec& spec) {
  return ReadDataset(path, labels_path, spec.format(), {spec.sample_shape().begin(), spec.sample_shape().end()},
                     spec.num_classes(), spec.scale());
}

std::int64_t HeldOutSamples(std::int64_t samples, double holdout) {
  const auto count = static_cast<std::int64_t>(std::llround(static_cast<double>(samples) * std::clamp(holdout, 0.0, 1.0)));
  return std::min(count, std::max<std::int64_t>(samples - 1, 0));
}

std::int64_t TotalIterations(double iterations, double epochs, std::int64_t train_samples, std::int64_t batch) {
  WEIR_CHECK(batch >= 1 && batch <= train_samples) << batch << train_samples;
  if (iterations > 0) return std::max<std::int64_t>(1, std::llround(iterations));
  return std::max<std::int64_t>(1,
                                static_cast<std::int64_t>(std::ceil(epochs * static_cast<double>(train_samples / batch) - 1e-9)));
}

std::string FormatShape(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace weir::worker
