// Data sets that torch.save wrote: tensors in a pair or a dictionary. LibTorch's unpickler makes tensors and containers and runs
// no code; whatever else a file holds is refused.
#include <torch/torch.h>

#include <memory>

#include "env/core/error.h"
#include "env/core/file.h"
#include "worker/protocol/dataset.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {
namespace {

constexpr std::int64_t kMostValues = std::int64_t{1} << 30;

at::Tensor Entry(const c10::IValue& value, const std::string& key, std::size_t index, const std::string& path) {
  if (value.isTuple() || value.isList()) {
    const auto items = value.isTuple() ? value.toTupleRef().elements().vec() : value.toListRef().vec();
    if (items.size() == 2 && items[index].isTensor()) return items[index].toTensor();
    throw Invalid("{}: expected a pair of tensors (features, labels), found {} items", path, items.size());
  }
  if (value.isGenericDict()) {
    std::string known;
    for (const auto& item : value.toGenericDict()) {
      if (!item.key().isString()) continue;
      if (item.key().toStringRef() == key && item.value().isTensor()) return item.value().toTensor();
      known += (known.empty() ? "" : ", ") + item.key().toStringRef();
    }
    throw Invalid("{}: expected a tensor named '{}', found {}", path, key, known.empty() ? "no names" : known);
  }
  throw Invalid("{}: expected a pair or a dictionary of tensors, found {}", path, value.tagKind());
}

Dataset Read(const std::string& path, const wire::DataSpec& spec) {
  const std::string content = ReadFile(path, std::size_t{8} << 30);
  c10::IValue value;
  try {
    value = torch::pickle_load(std::vector<char>(content.begin(), content.end()));
  } catch (const std::exception& e) {
    const std::string what = e.what();
    throw Invalid("{}: not a file of tensors that torch.save wrote: {}", path, what.substr(0, what.find('\n')).substr(0, 200));
  }
  at::Tensor features = Entry(value, spec.features_key(), 0, path), labels = Entry(value, spec.labels_key(), 1, path);
  if (features.dim() < 1 || features.size(0) < 1) throw Invalid("{}: expected features [samples, ...], found no sample", path);
  if (features.numel() > kMostValues || labels.numel() > kMostValues) throw Invalid("{}: more than {} values", path, kMostValues);
  if (labels.dim() < 1 || labels.size(0) != features.size(0)) {
    throw Invalid("{}: expected {} labels, found {}", path, features.size(0), labels.dim() < 1 ? 1 : labels.size(0));
  }
  Dataset data;
  data.samples = features.size(0);
  const std::vector<std::int64_t> found(features.sizes().begin() + 1, features.sizes().end());
  data.sample_shape = {spec.sample_shape().begin(), spec.sample_shape().end()};
  if (data.sample_shape.empty()) data.sample_shape = found;
  std::int64_t wanted = 1, have = 1;
  for (std::int64_t d : data.sample_shape) wanted *= d;
  for (std::int64_t d : found) have *= d;
  if (wanted != have)
    throw Invalid("{}: expected samples of shape {}, found {}", path, FormatShape(data.sample_shape), FormatShape(found));
  if (features.scalar_type() == at::kLong || features.scalar_type() == at::kInt) {
    features = features.to(at::kLong).contiguous();
    data.ids.assign(features.data_ptr<std::int64_t>(), features.data_ptr<std::int64_t>() + features.numel());
  } else {
    features = (features.to(at::kFloat) / spec.scale()).contiguous();
    if (!features.isfinite().all().item<bool>()) throw Invalid("{}: expected finite features, found nan or infinity", path);
    data.features.assign(features.data_ptr<float>(), features.data_ptr<float>() + features.numel());
  }
  data.label_shape = {labels.sizes().begin() + 1, labels.sizes().end()};
  if (labels.is_floating_point()) {
    labels = labels.to(at::kFloat).contiguous();
    if (!labels.isfinite().all().item<bool>()) throw Invalid("{}: expected finite targets, found nan or infinity", path);
    if (data.label_shape.empty()) data.label_shape = {1};
    data.targets.assign(labels.data_ptr<float>(), labels.data_ptr<float>() + labels.numel());
    return data;
  }
  labels = labels.to(at::kLong).contiguous();
  data.labels.assign(labels.data_ptr<std::int64_t>(), labels.data_ptr<std::int64_t>() + labels.numel());
  for (std::size_t i = 0; i < data.labels.size(); ++i) {
    if (data.labels[i] < 0 || data.labels[i] >= spec.num_classes())
      throw Invalid("{}: label {}: expected a label from 0 to {}, found {}", path, i, spec.num_classes() - 1, data.labels[i]);
  }
  return data;
}

}  // namespace
}  // namespace weir::worker

// The caller owns the result. Throws weir::Error.
extern "C" weir::worker::Dataset* weir_torch_read_pt(const std::string& path, const weir::wire::DataSpec& spec) {
  return std::make_unique<weir::worker::Dataset>(weir::worker::Read(path, spec)).release();
}
