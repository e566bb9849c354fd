#include "worker/runtime/load_model.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>

#include "env/core/error.h"
#include "env/core/rng.h"
#include "partitioner/front_end.h"
#include "partitioner/onnx/onnx_model.h"
#include "partitioner/torchscript/lowering.h"
#include "worker/runtime/onnx_lowering.h"

namespace weir::worker {

using partitioner::LoweredModel;
using partitioner::LoweredWeight;

void RefuseProfile(const std::string& content, const std::string& name) {
  if (partitioner::FormatOfContent(content) == partitioner::ModelFormat::kTextProfile)
    throw Invalid("{}: is a text profile, which can be cut but not run: expected an ONNX or TorchScript model", name);
}

LoweredModel LoadLoweredModel(const std::string& content, const std::string& name, std::int64_t batch,
                              const std::vector<std::int64_t>& sample_shape) {
  RefuseProfile(content, name);
  if (partitioner::FormatOfContent(content) == partitioner::ModelFormat::kTorchScript) {
    LoweredModel model = partitioner::LowerTorchScript(content, name);
    const auto shape = sample_shape.empty() ? partitioner::TorchScriptInputShape(content, name, model) : sample_shape;
    partitioner::MeasureShapes(batch, shape, name, &model);
    return model;
  }
  partitioner::LoadOptions options;
  options.batch = batch;
  if (!sample_shape.empty()) options.input_shape = sample_shape;
  options.batch_axes = true;
  return LowerOnnx(partitioner::ParseOnnx(content, name, options));
}

namespace {

// A weight's place among the parameters of a normalisation operator: decides between 1 and 0.
enum class NormRole { kNone, kScale, kShift, kMean, kVariance };

std::vector<NormRole> NormRoles(const LoweredModel& model) {
  std::vector<NormRole> roles(model.weights.size(), NormRole::kNone);
  for (const auto& op : model.operator_graph.operators) {
    const bool norm = op.kind.find("norm") != std::string::npos || op.kind.find("Norm") != std::string::npos;
    if (!norm) continue;
    int trainable = 0, buffers = 0;
    for (int p : op.parameters) {
      if (model.weights[p].shape.empty()) continue;  // a counter
      if (model.weights[p].trainable) {
        roles[p] = trainable++ == 0 ? NormRole::kScale : NormRole::kShift;
      } else {
        roles[p] = buffers++ == 0 ? NormRole::kMean : NormRole::kVariance;
      }
    }
  }
  return roles;
}

bool IsRepeatedValue(const at::Tensor& tensor) {
  if (tensor.numel() < 2) return false;
  return std::all_of(tensor.strides().begin(), tensor.strides().end(), [](std::int64_t s) { return s == 0; });
}

std::uint64_t NameSeed(std::uint64_t seed, const std::string& name) {
  std::uint64_t hash = seed;
  for (unsigned char c : name) hash = Mix64(hash, c);
  return hash;
}

at::Tensor Kaiming(const LoweredWeight& weight, NormRole role, std::uint64_t seed) {
  at::Tensor tensor = at::zeros(weight.shape);
  if (role == NormRole::kScale || role == NormRole::kVariance) return tensor.fill_(1);
  if (role != NormRole::kNone || weight.shape.size() < 2) return tensor;
  double fan_in = 1;
  for (std::size_t d = 1; d < weight.shape.size(); ++d) fan_in *= static_cast<double>(weight.shape[d]);
  const double bound = 1 / std::sqrt(std::max(1.0, fan_in));
  Rng rng(NameSeed(seed, weight.names.front()));
  float* data = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) data[i] = static_cast<float>(rng.Uniform(-bound, bound));
  return tensor;
}

}  // namespace

namespace {

void CheckKept(const LoweredModel& model, const LoweredWeight& w) {
  if (!w.tensor.defined()) {
    throw Invalid("{}: weight '{}' has no values in the file: train it with init: kaiming", model.operator_graph.name,
                  w.names.front());
  }
  if (IsRepeatedValue(w.tensor) && w.shape.size() >= 2) {
    throw Invalid("{}: weight '{}' holds one repeated value, which can't be trained: use init: kaiming",
                  model.operator_graph.name, w.names.front());
  }
}

}  // namespace

void CheckInit(const LoweredModel& model, Init init) {
  if (init == Init::kKaiming) return;
  for (const LoweredWeight& w : model.weights) {
    if (w.trainable) CheckKept(model, w);
  }
}

std::vector<at::Tensor> InitialWeights(const LoweredModel& model, const std::vector<int>& ids, Init init, std::uint64_t seed) {
  const std::vector<NormRole> roles = NormRoles(model);
  std::vector<at::Tensor> weights(model.weights.size());
  for (int id : ids) {
    const LoweredWeight& w = model.weights[id];
    at::Tensor tensor;
    if (!w.trainable && w.tensor.defined()) {
      tensor = w.tensor.detach().clone(at::MemoryFormat::Contiguous);
    } else if (init == Init::kKaiming || !w.trainable) {
      tensor = Kaiming(w, roles[id], seed);
    } else {
      CheckKept(model, w);
      tensor = w.tensor.detach().clone(at::MemoryFormat::Contiguous);
    }
    tensor.requires_grad_(w.trainable);
    weights[id] = tensor;
  }
  return weights;
}

}  // namespace weir::worker
