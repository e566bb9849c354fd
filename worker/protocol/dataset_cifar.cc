// The binary form of CIFAR-10 and CIFAR-100 (Krizhevsky, 2009): records without a header.
#include "env/core/error.h"
#include "env/core/file.h"
#include "worker/protocol/dataset_formats.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {

Dataset ReadCifar(const std::string& path, const wire::DataSpec& spec) {
  constexpr std::int64_t kPixels = 3 * 32 * 32;
  const std::int64_t label_bytes = spec.label_bytes() > 0 ? spec.label_bytes() : 1, record = label_bytes + kPixels;
  if (label_bytes > 2) throw Invalid("{}: a cifar record has 1 or 2 label bytes, got {}", path, label_bytes);
  Dataset data;
  data.sample_shape = {spec.sample_shape().begin(), spec.sample_shape().end()};
  if (data.sample_shape.empty()) data.sample_shape = {3, 32, 32};
  if (Product(data.sample_shape, path) != kPixels)
    throw Invalid("{}: expected samples of shape {}, found [3, 32, 32]", path, FormatShape(data.sample_shape));
  const std::string content = ReadUnpacked(path);
  const auto bytes = static_cast<std::int64_t>(content.size());
  if (bytes == 0 || bytes % record != 0)
    throw Invalid("{}: expected records of {} bytes ({} of label), found {} bytes: the last record is cut off", path, record,
                  label_bytes, bytes);
  data.samples = bytes / record;
  if (data.samples > kMostValues / kPixels) throw Invalid("{}: more than {} values", path, kMostValues);
  data.features.reserve(data.samples * kPixels);
  for (std::int64_t i = 0; i < data.samples; ++i) {
    const auto* at = reinterpret_cast<const unsigned char*>(content.data()) + i * record;
    data.labels.push_back(CheckLabel(at[label_bytes - 1], spec.num_classes(), fmt::format("{}: record {}", path, i)));
    for (std::int64_t p = 0; p < kPixels; ++p) data.features.push_back(static_cast<float>(at[label_bytes + p] / spec.scale()));
  }
  return data;
}

}  // namespace weir::worker
