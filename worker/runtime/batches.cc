#include "worker/runtime/batches.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <numeric>

#include "env/core/error.h"
#include "env/core/rng.h"

namespace weir::worker {
namespace {

void Shuffle(std::vector<std::int64_t>* items, Rng rng) {
  for (std::size_t i = items->size(); i > 1; --i) std::swap((*items)[i - 1], (*items)[rng.Below(i)]);
}

constexpr std::uint64_t kSplitStream = 0x5911, kEpochStream = 0xe90c;

}  // namespace

Batches::Batches(const Dataset& data, std::int64_t batch, double holdout, std::uint64_t seed, bool pinned)
    : data_(data), batch_(batch), seed_(seed), pinned_(pinned) {
  train_.resize(data.samples);
  std::iota(train_.begin(), train_.end(), 0);
  Shuffle(&train_, Rng(seed).Split(kSplitStream));
  const std::int64_t kept = HeldOutSamples(data.samples, holdout);
  held_out_.assign(train_.end() - kept, train_.end());
  train_.resize(data.samples - kept);
  if (train_samples() < batch)
    throw Invalid("train.batch must be at most the number of training samples ({}), got {}", train_samples(), batch);
}

std::vector<std::int64_t> Batches::Rows(std::int64_t iteration, std::int64_t begin, std::int64_t end) {
  const std::int64_t epoch = iteration / per_epoch(), first = iteration % per_epoch() * batch_;
  if (epoch != epoch_) {
    order_ = train_;
    Shuffle(&order_, Rng(seed_).Split(kEpochStream + static_cast<std::uint64_t>(epoch)));
    epoch_ = epoch;
  }
  return {order_.begin() + first + begin, order_.begin() + first + end};
}

template <typename T>
at::Tensor Batches::Gather(const std::vector<T>& values, const std::vector<std::int64_t>& sample_shape,
                           const std::vector<std::int64_t>& rows) const {
  std::vector<std::int64_t> shape = {static_cast<std::int64_t>(rows.size())};
  std::int64_t width = 1;
  for (std::int64_t d : sample_shape) {
    shape.push_back(d);
    width *= d;
  }
  at::Tensor result = at::empty(shape, at::TensorOptions(c10::CppTypeToScalarType<T>::value).pinned_memory(pinned_));
  T* out = result.data_ptr<T>();
  for (std::size_t i = 0; i < rows.size(); ++i) std::copy_n(values.begin() + rows[i] * width, width, out + i * width);
  return result;
}

at::Tensor Batches::GatherFeatures(const std::vector<std::int64_t>& rows) const {
  if (!data_.ids.empty()) return Gather(data_.ids, data_.sample_shape, rows);
  return Gather(data_.features, data_.sample_shape, rows);
}

at::Tensor Batches::GatherLabels(const std::vector<std::int64_t>& rows) const {
  if (!data_.targets.empty()) return Gather(data_.targets, data_.label_shape, rows);
  return Gather(data_.labels, data_.label_shape, rows);
}

at::Tensor Batches::Features(std::int64_t iteration, std::int64_t begin, std::int64_t end) {
  return GatherFeatures(Rows(iteration, begin, end));
}
at::Tensor Batches::Labels(std::int64_t iteration, std::int64_t begin, std::int64_t end) {
  return GatherLabels(Rows(iteration, begin, end));
}

namespace {
std::vector<std::int64_t> Window(const std::vector<std::int64_t>& items, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = first; i < first + count; ++i)
    rows.push_back(i < static_cast<std::int64_t>(items.size()) ? items[i] : items[0]);
  return rows;
}
}  // namespace

at::Tensor Batches::HeldOutFeatures(std::int64_t first, std::int64_t count) const {
  return GatherFeatures(Window(held_out_, first, count));
}
at::Tensor Batches::HeldOutLabels(std::int64_t first, std::int64_t count) const {
  return GatherLabels(Window(held_out_, first, count));
}

}  // namespace weir::worker
