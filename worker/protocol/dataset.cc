#include "worker/protocol/dataset.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/file.h"
#include "worker/protocol/dataset_formats.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {

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

std::int64_t CheckLabel(double value, std::int64_t classes, const std::string& where) {
  if (value != std::floor(value) || value < 0 || value >= static_cast<double>(classes)) {
    throw Invalid("{}: expected a label from 0 to {}, found {}", where, classes - 1, value);
  }
  return static_cast<std::int64_t>(value);
}

Dataset ReadDataset(const std::string& path, const std::string& labels_path, const wire::DataSpec& spec) {
  const std::string& format = spec.format();
  if (format != "csv" && format != "idx" && format != "cifar" && format != "tokens" && format != "pt")
    throw Invalid("{}: data format must be csv, idx, cifar, tokens or pt, got '{}'", path, format);
  const bool targets = spec.targets() > 0 || (format == "pt" && spec.num_classes() == 0);
  if (!targets && spec.num_classes() < 1)
    throw Invalid("{}: the number of classes must be >= 1, got {}", path, spec.num_classes());
  if (!(spec.scale() > 0)) throw Invalid("{}: scale must be > 0, got {}", path, spec.scale());
  if (format == "csv") return ReadCsv(path, spec);
  if (format == "idx") return ReadIdx(path, labels_path, spec);
  if (format == "cifar") return ReadCifar(path, spec);
  if (format == "tokens") return ReadTokens(path, spec);
  return ReadPt(path, spec);
}

Dataset ReadDataset(const std::string& path, const std::string& labels_path, const std::string& format,
                    const std::vector<std::int64_t>& shape, std::int64_t classes, double scale) {
  wire::DataSpec spec;
  spec.set_format(format);
  for (std::int64_t d : shape) spec.add_sample_shape(d);
  spec.set_num_classes(classes);
  spec.set_scale(scale);
  return ReadDataset(path, labels_path, spec);
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
