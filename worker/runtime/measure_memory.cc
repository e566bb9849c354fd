#include "worker/runtime/measure_memory.h"

#include <c10/core/Allocator.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "worker/runtime/load_model.h"
#include "worker/runtime/stage.h"

namespace weir::worker {
namespace {

// Sums what LibTorch's allocator reports of this thread.
class MemoryWatch : public c10::MemoryReportingInfoBase {
 public:
#if TORCH_VERSION_MAJOR >= 2
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    Add(size);
  }
#else
  void reportMemoryUsage(void*, std::int64_t size, std::int64_t, std::int64_t, c10::Device) override {
    Add(size);
  }
#endif
  bool memoryProfilingEnabled() const override {
    return true;
  }
  double most() const {
    return static_cast<double>(most_);
  }

 private:
  void Add(std::int64_t size) {
    now_ += size;
    most_ = std::max(most_, now_);
  }
  std::int64_t now_ = 0, most_ = 0;
};

double MeasureAt(const std::string& content, const std::string& name, std::int64_t batch,
                 const std::vector<std::int64_t>& sample_shape, bool accumulates) {
  const auto model = LoadLoweredModel(content, name, batch, sample_shape);
  std::vector<int> ids;
  for (std::size_t w = 0; w < model.weights.size(); ++w) ids.push_back(static_cast<int>(w));
  const std::vector<at::Tensor> weights = InitialWeights(model, ids, Init::kKaiming, 1);
  Stage stage(model, std::vector<int>(model.operators.size(), 0), 0, weights);
  const auto& input_tensor = model.operator_graph.tensors[model.operator_graph.inputs.front()];
  const bool real = input_tensor.dtype == partitioner::DType::kFloat32;
  std::vector<std::int64_t> shape = {batch};
  shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
  const at::Tensor input = real ? torch::rand(shape) : torch::zeros(shape, torch::kLong);
  const auto pass = [&] {
    const auto forwarded = stage.Forward(0, partitioner::Mode::kTrain, 1, {}, input);
    if (forwarded.output.requires_grad()) stage.Backward(0, {}, forwarded.output.square().mean());
  };
  const auto reset = [&] {
    for (const at::Tensor& w : weights) at::Tensor(w).mutable_grad().reset();
  };
  pass();  // operators and library handles are made
  reset();
  auto watch = std::make_shared<MemoryWatch>();
  double gradients = 0;
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, watch);
    pass();
    if (accumulates) pass();
  }
  for (const at::Tensor& w : weights) gradients += w.grad().defined() ? static_cast<double>(w.grad().nbytes()) : 0;
  return std::max(0.0, watch->most() - gradients);
}

}  // namespace

double MeasureActivationBytes(const std::string& content, const std::string& name, std::int64_t batch,
                              const std::vector<std::int64_t>& sample_shape, bool accumulates) {
  if (batch <= 8) return MeasureAt(content, name, batch, sample_shape, accumulates);
  const double four = MeasureAt(content, name, 4, sample_shape, accumulates);
  const double eight = MeasureAt(content, name, 8, sample_shape, accumulates);
  return std::max(0.0, four + (eight - four) / 4 * static_cast<double>(batch - 4));
}

}  // namespace weir::worker
