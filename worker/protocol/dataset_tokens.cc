// Token numbers one after the other, in windows that don't overlap.
#include "env/core/error.h"
#include "env/core/file.h"
#include "worker/protocol/dataset_formats.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {

Dataset ReadTokens(const std::string& path, const wire::DataSpec& spec) {
  if (spec.sample_shape_size() != 1) throw Invalid("{}: the length of a window is needed for tokens (data.length)", path);
  const std::int64_t length = spec.sample_shape(0);
  const std::string& type = spec.token_type();
  const std::int64_t width = type == "int32" ? 4 : type == "uint16" ? 2 : 1;
  if (!type.empty() && type != "uint8" && type != "uint16" && type != "int32")
    throw Invalid("{}: token type must be uint8, uint16 or int32, got '{}'", path, type);
  const std::string content = ReadUnpacked(path);
  const auto bytes = static_cast<std::int64_t>(content.size());
  if (bytes % width != 0) throw Invalid("{}: {} bytes are no whole number of {} tokens", path, bytes, type);
  const std::int64_t tokens = bytes / width;
  Dataset data;
  data.sample_shape = data.label_shape = {length};
  data.samples = tokens > 0 ? (tokens - 1) / length : 0;
  if (data.samples < 1)
    throw Invalid("{}: expected at least {} tokens for a window of {}, found {}", path, length + 1, length, tokens);
  if (data.samples > kMostValues / length) throw Invalid("{}: more than {} tokens", path, kMostValues);
  const auto token = [&](std::int64_t i) {
    const auto* at = reinterpret_cast<const unsigned char*>(content.data()) + i * width;
    std::int64_t value = 0;
    for (std::int64_t b = 0; b < width; ++b) value |= std::int64_t{at[b]} << 8 * b;
    if (width == 4) value = static_cast<std::int32_t>(value);
    if (value < 0 || value >= spec.num_classes())
      throw Invalid("{}: token {}: expected a number from 0 to {}, found {}", path, i, spec.num_classes() - 1, value);
    return value;
  };
  const std::int64_t used = data.samples * length;
  data.ids.reserve(used);
  data.labels.reserve(used);
  for (std::int64_t i = 0; i < used; ++i) {
    data.ids.push_back(token(i));
    data.labels.push_back(token(i + 1));
  }
  return data;
}

}  // namespace weir::worker
