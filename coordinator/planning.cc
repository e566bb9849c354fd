#include "coordinator/planning.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "env/core/error.h"
#include "env/core/units.h"
#include "partitioner/cut/part_plan.h"
#include "partitioner/front_end.h"
#include "worker/protocol/dataset.h"
#include "worker/runtime/trainable.h"

namespace weir::coordinator {
namespace {

using partitioner::OperatorGraph;
using worker::FormatShape;

std::int64_t Count(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (std::int64_t d : shape) count *= d;
  return count;
}

// Errors of readers start with the artifact's path, which says nothing to the user: put the file's own name there.
template <typename F>
auto WithName(const std::string& path, const std::string& name, F f) {
  try {
    return f();
  } catch (const Error& e) {
    std::string what = e.what();
    if (const std::size_t at = what.find(path); at != std::string::npos && !path.empty()) what.replace(at, path.size(), name);
    throw Error(e.code(), what);
  }
}

OperatorGraph Load(const PlanRequest& request, const std::vector<std::int64_t>& shape) {
  const wire::TrainSpec& train = request.submit.train();
  partitioner::LoadOptions options;
  options.batch = train.batch() / train.micro_batches();
  options.input_shape = shape;
  return WithName(request.model_path, request.submit.model_name(),
                  [&] { return partitioner::LoadModel(request.model_path, options); });
}

// The shape of one sample as the model takes it. Throws where the data can't be fed to it.
std::vector<std::int64_t> CheckInput(const OperatorGraph& graph, const wire::SubmitRequest& submit,
                                     const std::vector<std::int64_t>& found) {
  if (graph.inputs.size() != 1) {
    throw Invalid("{}: expected a model with one input, found {}", submit.model_name(), graph.inputs.size());
  }
  const partitioner::Tensor& input = graph.tensors[graph.inputs[0]];
  if (!input.shape || input.shape->empty()) return found;
  const std::vector<std::int64_t> expected(input.shape->begin() + 1, input.shape->end());
  if (input.shape->front() != graph.batch) {
    throw Invalid("{}: the model takes batches of {} only, but the micro-batch is {} (train.batch / train.micro_batches)",
                  submit.model_name(), input.shape->front(), graph.batch);
  }
  const wire::DataSpec& data = submit.train().data();
  const bool of_file =
      data.sample_shape_size() == 0 && (data.format() == "idx" || data.format() == "cifar" || data.format() == "pt");
  const bool same = of_file ? Count(expected) == Count(found) : expected == found;
  if (!same) {
    throw Invalid("{}: the model expects samples of shape {}, but the data has {} (data.shape)", submit.model_name(),
                  FormatShape(expected), FormatShape(found));
  }
  return expected;
}

// What only LibTorch can tell. A coordinator without it takes the job all the same: then the first worker tells.
// Returns the measured bytes of a pass beside weights, gradients and optimiser states; nullopt where it wasn't measured.
std::optional<double> CheckTrainable(const PlanRequest& request, const std::vector<std::int64_t>& sample_shape, JobPlan* plan) {
  const wire::TrainSpec& train = request.submit.train();
  try {
    return worker::CheckTrainable({request.model_path, request.submit.model_name(), train.batch() / train.micro_batches(),
                                   sample_shape, train.init(), train.micro_batches() > 1});
  } catch (const Error& e) {
    if (e.code() != ExitCode::kInfrastructure) throw;
    plan->warnings.push_back("not checked here whether every operator can be trained: " + std::string(e.what()));
    return std::nullopt;
  }
}

// What the operators keep for the backward pass, scaled so that the whole model takes what was measured.
void UseMeasuredMemory(double activation_bytes, OperatorGraph* graph) {
  partitioner::CutOptions one_part;
  one_part.num_parts = 1;
  partitioner::MemoryModel memory;
  memory.optimizer_states = 0;
  const partitioner::PartPlan whole = partitioner::Describe(*graph, partitioner::CutIntoParts(*graph, one_part), memory);
  const auto saved = static_cast<double>(whole.parts[0].saved_bytes),
             workspace = static_cast<double>(whole.parts[0].workspace_bytes);
  if (saved <= 0) return;
  const double factor = std::clamp((activation_bytes - workspace) / saved, 0.1, 10.0);
  for (partitioner::Operator& op : graph->operators)
    op.saved_bytes = static_cast<std::int64_t>(std::llround(factor * static_cast<double>(op.saved_bytes)));
}

void CheckOutput(const OperatorGraph& graph, const wire::SubmitRequest& submit, const worker::Dataset& data) {
  if (graph.outputs.empty()) throw Invalid("{}: the model has no output", submit.model_name());
  const std::string& loss = submit.train().loss();
  if (loss == "token_cross_entropy" && data.label_shape.size() != 1)
    throw Invalid("{}: train.loss token_cross_entropy needs a label for each token of a window: data.tokens",
                  submit.model_name());
  if (loss == "cross_entropy" && (!data.targets.empty() || !data.label_shape.empty()))
    throw Invalid("{}: train.loss cross_entropy needs one class a sample, the data has {}", submit.model_name(),
                  data.targets.empty() ? "labels of shape " + FormatShape(data.label_shape) : "real targets: use mse");
  const partitioner::Tensor& output = graph.tensors[graph.outputs[0]];
  if (!output.shape) return;
  const std::int64_t classes = submit.train().data().num_classes();
  if (loss == "token_cross_entropy") {
    const std::int64_t length = data.label_shape[0];
    const bool windows = output.shape->size() == 3 && (*output.shape)[1] == length && (*output.shape)[2] == classes;
    const bool flat = output.shape->size() == 2 && (*output.shape)[0] == graph.batch * length && (*output.shape)[1] == classes;
    if (windows || flat) return;
    throw Invalid(
        "{}: expected an output [batch, {}, {}] for windows of {} tokens out of {} (data.length, data.classes), the model gives "
        "{}",
        submit.model_name(), length, classes, length, classes, FormatShape(*output.shape));
  }
  if (!data.targets.empty()) {
    const std::int64_t targets = Count(data.label_shape);
    if (output.shape->size() == 2 && output.shape->back() == targets) return;
    throw Invalid("{}: expected an output [batch, {}] for {} targets, the model gives {}", submit.model_name(), targets, targets,
                  FormatShape(*output.shape));
  }
  if (output.shape->size() != 2) {
    throw Invalid("{}: expected an output [batch, {}] for {} classes, the model gives {}", submit.model_name(), classes, classes,
                  worker::FormatShape(*output.shape));
  }
  if (output.shape->back() != classes) {
    throw Invalid("{}: the model gives {} outputs, but the data has {} classes (data.classes)", submit.model_name(),
                  output.shape->back(), classes);
  }
}

// Time of the evaluations over that of the iterations: a forward pass over a micro-batch of held-out samples takes a third of a
// micro-batch's share of an iteration, as backward FLOP are about twice the forward ones.
double EvaluationShare(const wire::TrainSpec& train, std::int64_t samples, double iterations) {
  const std::int64_t held_out = worker::HeldOutSamples(samples, train.data().holdout());
  const std::int64_t rows = train.batch() / train.micro_batches(), passes = (held_out + rows - 1) / rows;
  const double per_epoch = static_cast<double>(std::max<std::int64_t>(1, (samples - held_out) / train.batch()));
  const double evaluations = train.evaluate() == "end" ? 1 : std::ceil(iterations / per_epoch);
  return evaluations * static_cast<double>(passes) / (3.0 * train.micro_batches()) / iterations;
}

partitioner::MemoryModel MemoryOf(const wire::TrainSpec& train) {
  partitioner::MemoryModel memory;
  memory.micro_batches = train.micro_batches();
  memory.gpipe = train.pipeline() == "gpipe";
  memory.optimizer_states = train.optimizer().kind() == "sgd" ? (train.optimizer().momentum() > 0 ? 1 : 0) : 2;
  return memory;
}

}  // namespace

void CheckSubmit(const wire::SubmitRequest& submit) {
  auto require = [](bool ok, const char* field, const char* expected) {
    if (!ok) throw Invalid("submit: {} must be {}", field, expected);
  };
  const wire::TrainSpec& train = submit.train();
  const wire::DataSpec& data = train.data();
  require(!submit.name().empty() && submit.name().size() <= 200, "name", "1 to 200 characters");
  require(!submit.request_id().empty() && submit.request_id().size() <= 200, "request_id", "1 to 200 characters");
  require(train.batch() >= 1 && train.batch() <= 1 << 20, "train.batch", "1 to 1048576");
  require(train.micro_batches() >= 1 && train.micro_batches() <= 1024, "train.micro_batches", "1 to 1024");
  require(train.batch() % train.micro_batches() == 0, "train.batch", "a multiple of train.micro_batches");
  require(train.iterations() >= 0 && train.iterations() <= 1e9 && train.iterations() == std::floor(train.iterations()),
          "train.iterations", "a whole number from 0 to 1e9");
  require(train.epochs() >= 0 && train.epochs() <= 1e6, "train.epochs", "0 to 1e6");
  require((train.iterations() > 0) != (train.epochs() > 0), "train", "given iterations or epochs, one of them");
  require(train.replicas() <= 1, "train.replicas", "1 in this version");
  const bool real = data.targets() > 0 || data.format() == "pt";
  require(data.num_classes() >= (real ? 0 : 1) && data.num_classes() <= 1 << 20, "data.classes", "1 to 1048576");
  require(data.targets() >= 0 && data.targets() <= 1 << 20, "data.targets", "0 to 1048576");
  const auto one_of = [&](const std::string& value, const char* field, std::initializer_list<const char*> known) {
    if (std::none_of(known.begin(), known.end(), [&](const char* k) { return value == k; }))
      throw Invalid("submit: {} must be one of {}, got '{}'", field, fmt::join(known, ", "), value);
  };
  one_of(train.loss(), "train.loss", {"cross_entropy", "token_cross_entropy", "mse"});
  one_of(train.optimizer().kind(), "train.optimizer.kind", {"sgd", "adam", "adamw"});
  one_of(train.precision(), "train.precision", {"", "fp32", "bf16", "fp16"});
  one_of(train.wire(), "train.wire", {"", "fp32", "bf16", "fp16"});
  one_of(train.pipeline(), "train.pipeline", {"", "1f1b", "gpipe"});
  one_of(train.evaluate(), "train.evaluate", {"", "epoch", "end"});
  one_of(train.optimizer().schedule().kind(), "train.optimizer.schedule.kind", {"", "constant", "step", "cosine", "linear"});
  const wire::Optimizer& optimizer = train.optimizer();
  for (double v : {optimizer.learning_rate(), optimizer.momentum(), optimizer.weight_decay(), optimizer.clip_norm(),
                   optimizer.schedule().warmup(), optimizer.schedule().step(), optimizer.schedule().gamma()})
    require(std::isfinite(v) && v >= 0, "train.optimizer", "finite numbers >= 0");
  require(std::isfinite(submit.checkpoint_every_seconds()) && submit.checkpoint_every_seconds() >= 0, "checkpoint.every", ">= 0");
  require(data.scale() > 0 && std::isfinite(data.scale()), "data.scale", "> 0");
  require(data.holdout() >= 0 && data.holdout() < 1, "data.holdout", "a share in [0, 1)");
  require(std::isfinite(submit.memory_bytes()) && submit.memory_bytes() >= 0, "resources.memory", ">= 0");
}

JobPlan PlanJob(const PlanRequest& request) {
  const wire::SubmitRequest& submit = request.submit;
  const wire::TrainSpec& train = submit.train();
  CheckSubmit(submit);
  const std::string data_name = train.data().name().empty() ? "data" : train.data().name();
  const worker::Dataset data = WithName(request.data_path, data_name, [&] {
    return WithName(request.labels_path, "labels of " + data_name,
                    [&] { return worker::ReadDataset(request.data_path, request.labels_path, train.data()); });
  });
  const std::int64_t train_samples = data.samples - worker::HeldOutSamples(data.samples, train.data().holdout());
  if (train.batch() > train_samples) {
    throw Invalid("{}: train.batch is {}, but only {} of {} samples train", data_name, train.batch(), train_samples,
                  data.samples);
  }

  OperatorGraph graph = Load(request, data.sample_shape);
  JobPlan plan;
  plan.sample_shape = CheckInput(graph, submit, data.sample_shape);
  CheckOutput(graph, submit, data);
  if (graph.TrainableElements() == 0) throw Invalid("{}: the model has no trainable parameter", submit.model_name());
  plan.graph_fingerprint = graph.Fingerprint();
  if (const auto bytes = CheckTrainable(request, plan.sample_shape, &plan)) UseMeasuredMemory(*bytes, &graph);
  plan.median_memory = request.median_memory;
  plan.largest_memory = request.largest_memory;
  plan.warnings.insert(plan.warnings.begin(), graph.warnings.begin(), graph.warnings.end());
  plan.spec.name = submit.name();
  plan.spec.micro_batches = train.micro_batches();
  plan.spec.iterations =
      static_cast<double>(worker::TotalIterations(train.iterations(), train.epochs(), train_samples, train.batch()));

  plan.spec.evaluation_share = EvaluationShare(train, data.samples, plan.spec.iterations);

  partitioner::CutOptions options;
  options.memory = MemoryOf(train);
  auto cut = [&](double memory) {
    options.max_part_memory_bytes = static_cast<std::int64_t>(std::min(memory, 9e18));
    return partitioner::PlanParts(graph, options);
  };
  partitioner::PartPlan parts = cut(request.median_memory);
  if (parts.partition.status != partitioner::Partition::Status::kOk && request.largest_memory > request.median_memory) {
    parts = cut(request.largest_memory);
  }
  if (parts.partition.status != partitioner::Partition::Status::kOk) {
    plan.why_not = parts.partition.reason;
    return plan;
  }
  plan.part_of = parts.partition.part_of;
  const double m = train.micro_batches();
  double total_memory = 0;
  for (const partitioner::PartSummary& part : parts.parts) {
    SubgraphSpec subgraph;
    subgraph.flop = std::max(1.0, m * (static_cast<double>(part.forward_flop) + static_cast<double>(part.backward_flop)) +
                                      static_cast<double>(part.optimizer_flop));
    subgraph.memory_bytes = std::max(1.0, static_cast<double>(part.memory_bytes));
    subgraph.param_bytes = static_cast<double>(part.parameter_bytes);
    total_memory += subgraph.memory_bytes;
    plan.spec.subgraphs.push_back(subgraph);
  }
  if (submit.memory_bytes() > total_memory) {
    for (SubgraphSpec& s : plan.spec.subgraphs) s.memory_bytes *= submit.memory_bytes() / total_memory;
  }
  for (const partitioner::PartArc& arc : partitioner::PartArcs(parts)) {
    plan.spec.arcs.push_back({arc.from, arc.to, m * static_cast<double>(arc.forward_bytes)});
    plan.cut_bytes += m * (static_cast<double>(arc.forward_bytes) + static_cast<double>(arc.backward_bytes));
  }
  return plan;
}

}  // namespace weir::coordinator
