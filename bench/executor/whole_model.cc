// One worker, the whole model: Weir's executor against the loop that any LibTorch user would write over the same TorchScript
// file, with the same weights, batches and optimiser. Speed (ratios, runs in turn) and held-out accuracy (over seeds, Weir in
// parts and micro-batches).
//   whole_model throughput|accuracy DEVICE MODEL DATA [key=value...]     DATA: csv:FILE | idx:IMAGES:LABELS | tokens:FILE
#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <thread>

#include "env/core/error.h"
#include "env/core/file.h"
#include "partitioner/cut/partition.h"
#include "worker/runtime/batches.h"
#include "worker/runtime/bulk_exchange.h"
#include "worker/runtime/device_memory.h"
#include "worker/runtime/learning_rate.h"
#include "worker/runtime/load_model.h"
#include "worker/runtime/loss.h"
#include "worker/runtime/model_device.h"
#include "worker/runtime/stage_trainer.h"

namespace {

using namespace weir;
using namespace weir::worker;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string mode, device, model, data;
  std::map<std::string, double> number = {{"batch", 64}, {"iterations", 60}, {"runs", 5},  {"epochs", 3}, {"parts", 3},
                                          {"micro", 4},  {"graphs", 1},      {"seeds", 5}, {"lr", 0.05},  {"micro_batches", 1}};
};

struct Task {
  wire::Assign assign;
  std::string content;
  Dataset data;
  at::Device device = at::kCPU;
  std::string init = "kaiming";
  bool graphs = true;
};

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

Task Prepare(const Options& o, std::uint64_t seed, int micro_batches) {
  Task task;
  task.content = ReadFile(o.model);
  task.graphs = o.number.at("graphs") != 0;
  task.device = DeviceOf(o.device);
  wire::TrainSpec* train = task.assign.mutable_train();
  wire::DataSpec* spec = train->mutable_data();
  spec->set_scale(1);
  spec->set_holdout(0.2);
  std::vector<std::string> field;
  for (std::size_t at = 0; at <= o.data.size();) {
    const std::size_t colon = std::min(o.data.find(':', at), o.data.size());
    field.push_back(o.data.substr(at, colon - at));
    at = colon + 1;
  }
  train->set_loss("cross_entropy");
  spec->set_num_classes(10);
  if (field[0] == "csv") {
    spec->set_scale(16);
    task.data = ReadDataset(field.at(1), "", "csv", {1, 8, 8}, 10, 16);
  } else if (field[0] == "idx") {
    spec->set_scale(255);
    task.data = ReadDataset(field.at(1), field.at(2), "idx", {1, 28, 28}, 10, 255);
  } else if (field[0] == "tokens") {
    task.data = ReadDataset(field.at(1), "", "tokens", {64}, 128, 1);
    train->set_loss("token_cross_entropy");
    spec->set_num_classes(128);
  } else {
    throw Invalid("data must be csv:FILE, idx:IMAGES:LABELS or tokens:FILE, got '{}'", o.data);
  }
  task.assign.set_model_name(o.model);
  task.assign.set_num_stages(1);
  train->set_batch(static_cast<std::int64_t>(o.number.at("batch")));
  train->set_micro_batches(micro_batches);
  train->set_seed(seed);
  train->set_init("kaiming");
  train->set_evaluate("end");
  const bool tokens = field[0] == "tokens";
  train->mutable_optimizer()->set_kind(tokens ? "adamw" : "sgd");
  train->mutable_optimizer()->set_learning_rate(tokens ? 3e-3 : o.number.at("lr"));
  train->mutable_optimizer()->set_momentum(0.9);
  train->mutable_optimizer()->set_beta1(0.9);
  train->mutable_optimizer()->set_beta2(0.999);
  train->mutable_optimizer()->set_epsilon(1e-8);
  train->mutable_optimizer()->mutable_schedule()->set_kind("cosine");
  if (o.mode == "throughput") {
    train->set_iterations(o.number.at("iterations"));
  } else {
    train->set_epochs(o.number.at("epochs"));
  }
  return task;
}

struct Outcome {
  double seconds_per_iteration = 0;  // without the first ten
  double accuracy = -1;
};

constexpr std::int64_t kWarm = 10;

// The loop that a LibTorch user writes.
Outcome Plain(const Task& task) {
  const wire::TrainSpec& train = task.assign.train();
  std::istringstream stream(task.content);
  torch::jit::Module module = torch::jit::load(stream);
  module.train();
  const auto lowered = LoadLoweredModel(task.content, "model", train.batch(), task.data.sample_shape);
  std::vector<int> ids;
  for (std::size_t i = 0; i < lowered.weights.size(); ++i) ids.push_back(static_cast<int>(i));
  const auto initial = InitialWeights(lowered, ids, Init::kKaiming, train.seed());
  std::map<std::string, at::Tensor> by_name;
  for (std::size_t i = 0; i < initial.size(); ++i) {
    for (const std::string& name : lowered.weights[i].names) by_name[name] = initial[i];
  }
  std::vector<at::Tensor> parameters;
  for (const auto& p : module.named_parameters()) {
    at::Tensor value = p.value;
    value.set_data(by_name.at(p.name).detach().clone().to(task.device));
    value.requires_grad_(true);
    parameters.push_back(value);
  }
  module.to(task.device);
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  const wire::Optimizer& spec = train.optimizer();
  if (spec.kind() == "sgd") {
    optimizer = std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(spec.learning_rate()).momentum(0.9));
  } else {
    optimizer =
        std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(spec.learning_rate()).weight_decay(0));
  }
  const LossKind kind = LossOf(train.loss());
  Batches batches(task.data, train.batch(), 0.2, train.seed(), !task.device.is_cpu());
  const std::int64_t total = TotalIterations(train.iterations(), train.epochs(), batches.train_samples(), train.batch());
  Outcome outcome;
  Clock::time_point start;
  for (std::int64_t i = 0; i < total; ++i) {
    if (i == kWarm) {
      if (task.device.is_cuda()) torch::cuda::synchronize();
      start = Clock::now();
    }
    for (auto& group : optimizer->param_groups())
      group.options().set_lr(spec.learning_rate() * LearningRateFactor(spec.schedule(), i, total));
    for (at::Tensor& p : parameters) p.mutable_grad().reset();
    const at::Tensor input = batches.Features(i, 0, train.batch()).to(task.device, true);
    const at::Tensor labels = batches.Labels(i, 0, train.batch()).to(task.device, true);
    const at::Tensor loss = Loss(kind, module.forward({input}).toTensor(), labels, train.data().num_classes());
    loss.backward();
    optimizer->step();
    if (i % 20 == 19) (void)loss.item<double>();  // a user looks at it now and then
  }
  if (task.device.is_cuda()) torch::cuda::synchronize();
  if (total > kWarm) outcome.seconds_per_iteration = Seconds(start) / static_cast<double>(total - kWarm);
  module.eval();
  torch::NoGradGuard no_grad;
  Evaluation evaluation;
  for (std::int64_t first = 0; first < batches.held_out(); first += train.batch()) {
    const at::Tensor output = module.forward({batches.HeldOutFeatures(first, train.batch()).to(task.device)}).toTensor();
    evaluation.Add(kind, output, batches.HeldOutLabels(first, train.batch()).to(task.device), train.data().num_classes(),
                   std::min(train.batch(), batches.held_out() - first));
  }
  outcome.accuracy = evaluation.accuracy();
  return outcome;
}

Outcome Weir(Task task, int parts) {
  const wire::TrainSpec& train = task.assign.train();
  task.assign.set_num_stages(parts);
  if (parts > 1) {
    const auto model = LoadLoweredModel(task.content, "model", train.batch() / train.micro_batches(), task.data.sample_shape);
    partitioner::CutOptions options;
    options.num_parts = parts;
    options.balance_slack = 0.4;
    const auto partition = partitioner::CutIntoParts(model.operator_graph, options);
    if (partition.status != partitioner::Partition::Status::kOk) throw Invalid("no {} parts: {}", parts, partition.reason);
    for (int part : partition.part_of) task.assign.add_stage_of(part);
  }
  Outcome outcome;
  BulkSocket socket({.pinned = !task.device.is_cpu()});
  std::vector<std::thread> threads;
  for (int p = 0; p < parts; ++p) {
    threads.emplace_back([&, p] {
      if (task.device.is_cpu()) at::set_num_threads(at::get_num_threads());
      wire::Assign own = task.assign;
      own.mutable_key()->set_stage(p);
      BulkExchange exchange(&socket, 1, 1, p, std::vector<std::string>(parts, socket.address()));
      TrainerHooks hooks;
      Clock::time_point start;
      hooks.progress = [&](const TrainerProgress& progress) {
        if (progress.iteration == kWarm) start = Clock::now();
        if (progress.iteration == progress.total && progress.total > kWarm)
          outcome.seconds_per_iteration = Seconds(start) / static_cast<double>(progress.total - kWarm);
      };
      const TrainerResult result = TrainStage(own, task.content, task.data, &exchange, hooks, {task.device, {}, task.graphs});
      if (!result.torchscript.empty()) outcome.accuracy = result.accuracy;
    });
  }
  for (auto& t : threads) t.join();
  return outcome;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Throughput(const Options& o) {
  const Task task = Prepare(o, 1, 1);
  std::vector<double> plain, ours, ratio;
  for (int run = 0; run < static_cast<int>(o.number.at("runs")); ++run) {
    plain.push_back(Plain(task).seconds_per_iteration);
    ours.push_back(Weir(task, 1).seconds_per_iteration);
    ratio.push_back(plain.back() / ours.back());
  }
  std::printf("%-28s %-7s batch %-4.0f plain %8.3f ms  weir %8.3f ms  throughput ratio %.3f (%.3f to %.3f)\n",
              o.model.substr(o.model.find_last_of('/') + 1).c_str(), o.device.c_str(), o.number.at("batch"), 1e3 * Median(plain),
              1e3 * Median(ours), Median(ratio), *std::min_element(ratio.begin(), ratio.end()),
              *std::max_element(ratio.begin(), ratio.end()));
}

void Accuracy(const Options& o) {
  double sum = 0;
  const int seeds = static_cast<int>(o.number.at("seeds"));
  for (int seed = 1; seed <= seeds; ++seed) {
    const double plain = Plain(Prepare(o, static_cast<std::uint64_t>(seed), 1)).accuracy;
    const double ours = Weir(Prepare(o, static_cast<std::uint64_t>(seed), static_cast<int>(o.number.at("micro"))),
                             static_cast<int>(o.number.at("parts")))
                            .accuracy;
    std::printf("seed %d: plain %.2f %%, weir in %.0f parts and %.0f micro-batches %.2f %%\n", seed, 100 * plain,
                o.number.at("parts"), o.number.at("micro"), 100 * ours);
    std::fflush(stdout);
    sum += ours - plain;
  }
  std::printf("%s on %s: mean difference %+.2f points over %d seeds\n", o.model.substr(o.model.find_last_of('/') + 1).c_str(),
              o.device.c_str(), 100 * sum / seeds, seeds);
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  if (argc == 1) {  // `./run bench`: throughput on the CPU, from the root of the repository
    o.mode = "throughput";
    o.device = "cpu";
    for (const char* model : {"resnet_tiny_ts.pt", "attention_ts.pt", "transformer_ts.pt"}) {
      o.model = std::string("models/") + model;
      o.data = o.model.find("transformer") == std::string::npos ? "csv:data/digits8x8/digits.csv.gz"
                                                                : "tokens:data/text/us-constitution.txt";
      o.number["batch"] = o.data[0] == 't' ? 16 : 64;
      Throughput(o);
    }
    return 0;
  }
  if (argc < 5) {
    std::fprintf(stderr, "whole_model throughput|accuracy DEVICE MODEL DATA [key=value...]\n");
    return 2;
  }
  o.mode = argv[1];
  o.device = argv[2];
  o.model = argv[3];
  o.data = argv[4];
  try {
    for (int i = 5; i < argc; ++i) {
      const std::string text = argv[i];
      const std::size_t at = text.find('=');
      if (at == std::string::npos || !o.number.count(text.substr(0, at))) throw weir::Invalid("unknown option '{}'", text);
      o.number[text.substr(0, at)] = std::stod(text.substr(at + 1));
    }
    PrepareDevice(DeviceOf(o.device), 0);
    o.mode == "accuracy" ? Accuracy(o) : Throughput(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "whole_model: %s\n", e.what());
    return 2;
  }
}
