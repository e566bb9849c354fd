#include "worker/runtime/calibrate.h"

#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>

#include "env/core/error.h"
#include "worker/runtime/load_model.h"
#include "worker/runtime/model_device.h"
#include "worker/runtime/stage.h"

namespace weir::worker {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Synchronize(const at::Device& device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

struct Probe {
  const char* name;
  std::int64_t batch;
  std::vector<std::int64_t> sample;
  std::vector<std::pair<const char*, std::vector<std::int64_t>>> parameters;
  const char* forward;
};

// Sizes as in models that train on small devices; on an accelerator the batch is larger, or the probe measures launches alone.
std::vector<Probe> Probes(bool accelerator) {
  const std::int64_t scale = accelerator ? 16 : 1;
  return {
      {"matmul",
       64 * scale,
       {512},
       {{"a", {512, 512}}, {"b", {512, 512}}},
       "def forward(self, x):\n  return torch.linear(torch.linear(x, self.a), self.b)\n"},
      {"conv",
       8 * scale,
       {32, 16, 16},
       {{"a", {32, 32, 3, 3}}, {"b", {32, 32, 3, 3}}},
       "def forward(self, x):\n  return torch.conv2d(torch.conv2d(x, self.a, None, [1, 1], [1, 1]), self.b, None, [1, 1], [1, "
       "1])\n"},
      {"elementwise",
       32 * scale,
       {64, 64},
       {{"a", {64}}, {"b", {64}}},
       "def forward(self, x):\n  y = torch.relu(torch.layer_norm(x, [64], self.a, self.b))\n  return torch.tanh(x * y + y)\n"},
      {"reduction",
       32 * scale,
       {64, 64},
       {{"a", {64}}},
       "def forward(self, x):\n  y = torch.softmax(x * self.a, -1)\n  return torch.mean(y, 1)\n"},
  };
}

std::string TorchScriptOf(const Probe& probe) {
  torch::jit::Module module("Probe");
  for (const auto& [name, shape] : probe.parameters) module.register_parameter(name, torch::rand(shape).requires_grad_(true), false);
  module.define(probe.forward);
  std::ostringstream file;
  module.save(file);
  return file.str();
}

OperatorClassSpeed Measure(const Probe& probe, const at::Device& device, double seconds) {
  const partitioner::LoweredModel model = LoadLoweredModel(TorchScriptOf(probe), probe.name, probe.batch, probe.sample);
  MoveConstants(model, device);
  std::vector<int> ids;
  for (std::size_t w = 0; w < model.weights.size(); ++w) ids.push_back(static_cast<int>(w));
  std::vector<at::Tensor> weights = InitialWeights(model, ids, Init::kKaiming, 1);
  for (at::Tensor& w : weights) w = w.detach().to(device).requires_grad_(true);
  Stage stage(model, std::vector<int>(model.operators.size(), 0), 0, weights);
  std::vector<std::int64_t> shape = {probe.batch};
  shape.insert(shape.end(), probe.sample.begin(), probe.sample.end());
  const at::Tensor input = torch::rand(shape, device);
  const auto train = [&] {
    const auto forwarded = stage.Forward(0, partitioner::Mode::kTrain, 1, {}, input);
    stage.Backward(0, {}, forwarded.output.sum());
  };
  for (int i = 0; i < 3; ++i) train();
  Synchronize(device);
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < 5 || SecondsSince(start) < seconds) {
    const auto one = Clock::now();
    train();
    Synchronize(device);
    times.push_back(SecondsSince(one));
  }
  std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
  const auto& graph = model.operator_graph;
  const auto flop = static_cast<double>(graph.TotalForwardFlop() + graph.TotalBackwardFlop());
  return {probe.name, flop / times[times.size() / 2], flop};
}

}  // namespace
}  // namespace weir::worker

extern "C" weir::worker::CalibrationResult* weir_torch_calibrate(const weir::worker::CalibrationRequest& request) {
  using namespace weir::worker;
  const auto start = Clock::now();
  const at::Device device = DeviceOf(request.device);
  at::set_num_threads(request.threads);
  auto result = std::make_unique<CalibrationResult>();
  const auto probes = Probes(!device.is_cpu());
  for (const Probe& probe : probes)
    result->classes.push_back(Measure(probe, device, request.seconds / static_cast<double>(probes.size())));
  result->seconds = SecondsSince(start);
  return result.release();
}
