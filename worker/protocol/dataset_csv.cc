#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "env/core/error.h"
#include "env/core/file.h"
#include "worker/protocol/dataset_formats.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {
namespace {

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

}  // namespace

Dataset ReadCsv(const std::string& path, const wire::DataSpec& spec) {
  const std::vector<std::int64_t> shape(spec.sample_shape().begin(), spec.sample_shape().end());
  const std::int64_t classes = spec.num_classes(), targets = spec.targets(), last = targets > 0 ? targets : 1;
  const double scale = spec.scale();
  if (shape.empty()) throw Invalid("{}: the shape of a sample is needed for csv", path);
  Dataset data;
  data.sample_shape = shape;
  if (targets > 0) data.label_shape = {targets};
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
    if (columns != features + last) {
      throw Invalid("{}:{}: expected {} columns ({} features and {}), found {}", path, line_number, features + last, features,
                    targets > 0 ? fmt::format("{} targets", targets) : "a label", columns);
    }
    if ((data.samples + 1) * features > kMostValues) throw Invalid("{}: more than {} values", path, kMostValues);
    std::size_t start = 0;
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::size_t comma = std::min(line.find(',', start), line.size());
      const double value = ParseNumber(line.substr(start, comma - start), path, line_number, c + 1);
      start = comma + 1;
      if (c < features) {
        data.features.push_back(static_cast<float>(value / scale));
      } else if (targets > 0) {
        data.targets.push_back(static_cast<float>(value));
      } else {
        data.labels.push_back(CheckLabel(value, classes, fmt::format("{}:{}: column {}", path, line_number, c + 1)));
      }
    }
    ++data.samples;
  }
  if (data.samples == 0) throw Invalid("{}: expected at least one row, found none", path);
  return data;
}

}  // namespace weir::worker
