#include "worker/runtime/profile_model.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include "env/core/error.h"
#include "env/core/file.h"
#include "partitioner/torchscript/operator_runner.h"
#include "worker/runtime/load_model.h"
#include "worker/runtime/model_device.h"
#include "worker/runtime/stage.h"

namespace weir::worker {
namespace {

using partitioner::Mode;
using partitioner::OperatorSeconds;

void Synchronize(const at::Device& device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

// Median seconds of `work` after one run to warm up.
double Median(const at::Device& device, int runs, const std::function<void()>& work) {
  std::vector<double> times;
  for (int run = -1; run < runs; ++run) {
    Synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    work();
    Synchronize(device);
    if (run >= 0) times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

void MeasureDevice(const at::Device& device, int runs, partitioner::TimeTable* table) {
  torch::NoGradGuard no_grad;
  const std::int64_t n = device.is_cuda() ? 4096 : 768;
  const at::Tensor a = torch::rand({n, n}, device), b = torch::rand({n, n}, device);
  table->peak_flops = 2.0 * static_cast<double>(n * n * n) / Median(device, runs, [&] { torch::mm(a, b); });
  const std::int64_t large = device.is_cuda() ? std::int64_t{1} << 27 : std::int64_t{1} << 24;
  const at::Tensor x = torch::rand({large}, device), y = torch::rand({large}, device);
  at::Tensor z = torch::empty({large}, device);
  table->bandwidth = 12.0 * static_cast<double>(large) / Median(device, runs, [&] { at::add_out(z, x, y); });
  const at::Tensor tiny = torch::rand({4}, device);
  constexpr int kTimes = 1000;
  table->launch_seconds = Median(device, runs,
                                 [&] {
                                   for (int i = 0; i < kTimes; ++i) at::add(tiny, tiny);
                                 }) /
                          kTimes;
}

ModelProfile* Measure(const ProfileRequest& request) {
  const at::Device device = DeviceOf(request.device);
  if (request.threads > 0) at::set_num_threads(request.threads);
  const partitioner::LoweredModel model =
      LoadLoweredModel(ReadFile(request.path), request.path, request.batch, request.sample_shape);
  MoveConstants(model, device);
  const auto& graph = model.operator_graph;
  auto profile = std::make_unique<ModelProfile>();
  profile->graph = graph;
  profile->graph.name = request.path.substr(request.path.find_last_of('/') + 1);
  profile->device.device = device.is_cpu()
                               ? fmt::format("cpu, {} thread{}", at::get_num_threads(), at::get_num_threads() == 1 ? "" : "s")
                               : request.device;
  MeasureDevice(device, request.runs, &profile->device);

  std::vector<int> all;
  for (std::size_t w = 0; w < model.weights.size(); ++w) all.push_back(static_cast<int>(w));
  std::vector<at::Tensor> weights = InitialWeights(model, all, Init::kKaiming, 1);
  for (std::size_t w = 0; w < weights.size(); ++w) {
    weights[w] = weights[w].to(device);
    if (model.weights[w].trainable) weights[w].requires_grad_(true);
  }
  const auto& input_tensor = graph.tensors[graph.inputs.front()];
  const bool real = input_tensor.dtype == partitioner::DType::kFloat32;
  const at::Tensor input = real ? torch::rand(*input_tensor.shape, device)
                                : torch::zeros(*input_tensor.shape, torch::TensorOptions(torch::kLong).device(device));

  // The whole pass first, so that memory pools are warm.
  Stage stage(model, std::vector<int>(graph.operators.size(), 0), 0, weights);
  profile->pass_seconds = Median(device, request.runs, [&] {
    const auto forwarded = stage.Forward(0, Mode::kTrain, 1, {}, input);
    if (forwarded.output.requires_grad()) stage.Backward(0, {}, forwarded.output.square().mean());
  });

  std::vector<at::Tensor> values(graph.tensors.size());
  values[graph.inputs.front()] = input;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    const auto& op = graph.operators[i];
    const partitioner::OperatorRunner runner(model, static_cast<int>(i), Mode::kTrain);
    std::vector<at::Tensor> in, own;
    for (int t : op.inputs) {
      at::Tensor value = values[t].detach();
      if (model.tensor_mutated[t]) value = value.clone();
      if (graph.tensors[t].has_gradient && value.is_floating_point()) value.requires_grad_(true);
      in.push_back(value);
    }
    for (int p : op.parameters) own.push_back(weights[p]);
    std::vector<at::Tensor> out = runner.Run(in, own, 1);
    OperatorSeconds seconds;
    seconds.forward = Median(device, request.runs, [&] { out = runner.Run(in, own, 1); });
    std::vector<at::Tensor> roots, gradients, leaves;
    for (const at::Tensor& o : out) {
      if (!o.requires_grad()) continue;
      roots.push_back(o);
      gradients.push_back(torch::ones_like(o));
    }
    for (const auto* list : {&in, &own}) {
      for (const at::Tensor& t : *list) {
        if (t.requires_grad()) leaves.push_back(t);
      }
    }
    if (!roots.empty() && !leaves.empty()) {
      seconds.backward = Median(device, request.runs, [&] {
        torch::autograd::grad(roots, leaves, gradients, /*retain_graph=*/true, /*create_graph=*/false, /*allow_unused=*/true);
      });
    }
    profile->operators.push_back(seconds);
    for (std::size_t k = 0; k < out.size(); ++k) values[op.outputs[k]] = out[k].detach();
    for (int t : op.inputs) {
      if (graph.tensors[t].readers.back() == static_cast<int>(i)) values[t] = at::Tensor();
    }
  }
  return profile.release();
}

}  // namespace
}  // namespace weir::worker

extern "C" weir::worker::ModelProfile* weir_torch_profile_model(const weir::worker::ProfileRequest& request) {
  try {
    return weir::worker::Measure(request);
  } catch (const weir::Error&) {
    throw;
  } catch (const std::exception& e) {  // what LibTorch can't do with this model on this device
    const std::string reason = e.what();
    throw weir::Invalid("{}: can't be run: {}", request.path, reason.substr(0, reason.find('\n')));
  }
}
