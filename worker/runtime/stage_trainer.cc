#include "worker/runtime/stage_trainer.h"

#include <ATen/Functions.h>
#include <torch/optim.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/rng.h"
#include "worker/runtime/batches.h"
#include "worker/runtime/export_model.h"
#include "worker/runtime/load_model.h"
#include "worker/runtime/optimizer.h"
#include "worker/runtime/stage.h"

namespace weir::worker {

using partitioner::LoweredModel;
using partitioner::Mode;

namespace {

class Trainer {
 public:
  Trainer(const wire::Assign& assign, const std::string& content, const Dataset& data, Exchange* exchange,
          const TrainerHooks& hooks)
      : assign_(assign),
        train_(assign.train()),
        content_(content),
        exchange_(exchange),
        hooks_(hooks),
        rows_(train_.batch() / train_.micro_batches()),
        model_(LoadLoweredModel(content, assign.model_name(), rows_, data.sample_shape)),
        batches_(data, train_.batch(), train_.data().holdout(), train_.seed()),
        sample_shape_(data.sample_shape),
        stage_(MakeStage()) {
    for (std::size_t i = 0; i < stage_.imports().size(); ++i) imports_from_[stage_.imports()[i].from_stage].push_back(i);
    for (std::size_t i = 0; i < stage_.exports().size(); ++i) exports_to_[stage_.exports()[i].to_stage].push_back(i);
    std::vector<at::Tensor> trainable;
    for (int id : stage_.weight_ids()) {
      if (model_.weights[id].trainable) trainable.push_back(stage_.weight(id));
    }
    if (!trainable.empty()) optimizer_ = MakeOptimizer(train_.optimizer(), trainable);
    total_ = TotalIterations(train_.iterations(), train_.epochs(), batches_.train_samples(), train_.batch());
  }

  TrainerResult Run() {
    TrainerResult result;
    for (std::int64_t iteration = 0; iteration < total_; ++iteration) {
      const double loss = Iterate(iteration);
      if (!stage_.has_output()) continue;
      if (!std::isfinite(loss)) {
        throw Failure(ExitCode::kJobFailed, "loss is {} at iteration {} (stage {})", loss, iteration + 1, assign_.key().stage());
      }
      result.losses.push_back(loss);
      if (hooks_.progress) hooks_.progress(iteration + 1, total_, loss);
    }
    if (stage_.has_output()) {
      const std::size_t tail = std::min<std::size_t>(result.losses.size(), batches_.per_epoch());
      result.final_loss = std::accumulate(result.losses.end() - tail, result.losses.end(), 0.0) / static_cast<double>(tail);
    }
    Evaluate(&result);
    CollectWeights(&result);
    result.compute_seconds = compute_seconds_;
    return result;
  }

 private:
  Stage MakeStage() {
    if (!assign_.graph_fingerprint().empty() && assign_.graph_fingerprint() != model_.operator_graph.Fingerprint()) {
      throw Failure(
          ExitCode::kInfrastructure, "{}: operator graph {} expected, this worker reads {}: another version of LibTorch or weir",
          assign_.model_name(), assign_.graph_fingerprint().substr(0, 12), model_.operator_graph.Fingerprint().substr(0, 12));
    }
    std::vector<int> stage_of(assign_.stage_of().begin(), assign_.stage_of().end());
    if (stage_of.empty()) stage_of.assign(model_.operators.size(), 0);
    if (stage_of.size() != model_.operators.size()) {
      throw Failure(ExitCode::kInfrastructure, "{}: a plan for {} operators, the model has {}", assign_.model_name(),
                    stage_of.size(), model_.operators.size());
    }
    const auto& shape = model_.operator_graph.tensors[model_.operator_graph.outputs.front()].shape;
    if (shape) CheckModelFits(train_, assign_.model_name(), *shape);
    std::vector<int> ids;
    const int own = assign_.key().stage();
    for (std::size_t w = 0; w < model_.weights.size(); ++w) {
      const auto& readers = model_.operator_graph.parameters[w].readers;
      const bool mine = std::any_of(readers.begin(), readers.end(), [&](int r) { return stage_of[r] == own; });
      if (mine) ids.push_back(static_cast<int>(w));
    }
    const Init init = train_.init() == "kaiming" ? Init::kKaiming : Init::kKeep;
    auto weights = InitialWeights(model_, ids, init, train_.seed());
    return Stage(model_, std::move(stage_of), own, std::move(weights));
  }

  std::uint64_t Seed(std::int64_t iteration, int micro_batch) const {
    return Mix64(Mix64(train_.seed(), static_cast<std::uint64_t>(iteration)), static_cast<std::uint64_t>(micro_batch));
  }

  template <typename Work>
  void Timed(double share, Work work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    compute_seconds_ += seconds;
    if (hooks_.pace) hooks_.pace(assign_.iteration_flop() * share, seconds);
  }

  std::vector<at::Tensor> ReceiveImports(TensorKind kind, std::int64_t iteration, int micro_batch) {
    std::vector<at::Tensor> received(stage_.imports().size());
    for (const auto& [peer, indices] : imports_from_) {
      TensorMessage message = exchange_->Receive(kind, peer, iteration, micro_batch);
      WEIR_CHECK_EQ(message.tensors.size(), indices.size());
      for (std::size_t i = 0; i < indices.size(); ++i) received[indices[i]] = message.tensors[i];
    }
    return received;
  }

  void SendExports(TensorKind kind, std::int64_t iteration, int micro_batch, const std::vector<at::Tensor>& exports) {
    for (const auto& [peer, indices] : exports_to_) {
      TensorMessage message{kind, peer, iteration, micro_batch, {}, {}};
      for (std::size_t i : indices) message.tensors.push_back(exports[i]);
      exchange_->Send(std::move(message));
    }
  }

  at::Tensor Loss(const at::Tensor& output, const at::Tensor& labels) {
    if (train_.loss() == "cross_entropy") return at::cross_entropy_loss(output, labels);
    return at::mse_loss(output, at::one_hot(labels, train_.data().num_classes()).to(output.scalar_type()));
  }

  double Iterate(std::int64_t iteration) {
    const int micro_batches = train_.micro_batches();
    std::vector<at::Tensor> losses(micro_batches);
    for (int m = 0; m < micro_batches; ++m) {
      if (hooks_.check) hooks_.check();
      const std::vector<at::Tensor> received = ReceiveImports(TensorKind::kForward, iteration, m);
      const at::Tensor input = stage_.reads_input() ? batches_.Features(iteration, m * rows_, (m + 1) * rows_) : at::Tensor();
      Stage::Forwarded forwarded;
      Timed(1.0 / 3 / micro_batches, [&] {
        forwarded = stage_.Forward(m, Mode::kTrain, Seed(iteration, m), received, input);
        if (stage_.has_output()) {
          losses[m] =
              Loss(forwarded.output, batches_.Labels(iteration, m * rows_, (m + 1) * rows_)) / static_cast<double>(micro_batches);
        }
      });
      SendExports(TensorKind::kForward, iteration, m, forwarded.exports);
    }
    if (optimizer_) optimizer_->zero_grad();
    double loss = 0;
    for (int m = 0; m < micro_batches; ++m) {
      if (hooks_.check) hooks_.check();
      std::vector<Stage::Gradients> from_readers = ReceiveGradients(iteration, m);
      std::vector<Stage::Gradients> to_producers;
      Timed(2.0 / 3 / micro_batches, [&] {
        to_producers = stage_.Backward(m, from_readers, losses[m]);
        if (m + 1 == micro_batches && optimizer_) optimizer_->step();
      });
      SendGradients(iteration, m, to_producers);
      if (losses[m].defined()) loss += losses[m].item<double>();
    }
    return loss;
  }

  std::vector<Stage::Gradients> ReceiveGradients(std::int64_t iteration, int micro_batch) {
    std::vector<Stage::Gradients> result(stage_.exports().size());
    for (const auto& [peer, indices] : exports_to_) {
      bool any = false;
      for (std::size_t i : indices) any |= stage_.NeedsGradient(micro_batch, i);
      if (!any) continue;
      TensorMessage message = exchange_->Receive(TensorKind::kBackward, peer, iteration, micro_batch);
      std::size_t next = 0;
      for (std::size_t i : indices) {
        for (std::size_t r = 0; r < stage_.exports()[i].readers.size(); ++r) {
          if (stage_.NeedsGradient(micro_batch, i)) result[i].push_back(message.tensors.at(next++));
        }
      }
    }
    return result;
  }

  void SendGradients(std::int64_t iteration, int micro_batch, const std::vector<Stage::Gradients>& gradients) {
    for (const auto& [peer, indices] : imports_from_) {
      TensorMessage message{TensorKind::kBackward, peer, iteration, micro_batch, {}, {}};
      for (std::size_t i : indices) {
        if (!stage_.ImportNeedsGradient(i)) continue;
        message.tensors.insert(message.tensors.end(), gradients[i].begin(), gradients[i].end());
      }
      if (!message.tensors.empty()) exchange_->Send(std::move(message));
    }
  }

  void Evaluate(TrainerResult* result) {
    result->held_out_samples = batches_.held_out();
    if (batches_.held_out() == 0) return;
    std::int64_t correct = 0;
    for (std::int64_t first = 0, batch = 0; first < batches_.held_out(); first += rows_, ++batch) {
      if (hooks_.check) hooks_.check();
      const std::vector<at::Tensor> received = ReceiveImports(TensorKind::kEvaluate, batch, 0);
      const at::Tensor input = stage_.reads_input() ? batches_.HeldOutFeatures(first, rows_) : at::Tensor();
      Stage::Forwarded forwarded;
      Timed(1.0 / 3 / train_.micro_batches(), [&] { forwarded = stage_.Forward(0, Mode::kEvaluate, 0, received, input); });
      SendExports(TensorKind::kEvaluate, batch, 0, forwarded.exports);
      if (!stage_.has_output()) continue;
      const std::int64_t valid = std::min(rows_, batches_.held_out() - first);
      const at::Tensor hits = forwarded.output.argmax(1).eq(batches_.HeldOutLabels(first, rows_)).narrow(0, 0, valid);
      correct += hits.sum().item<std::int64_t>();
    }
    if (stage_.has_output()) result->accuracy = static_cast<double>(correct) / static_cast<double>(batches_.held_out());
  }

  void CollectWeights(TrainerResult* result) {
    result->weights.resize(model_.weights.size());
    for (int id : stage_.weight_ids()) result->weights[id] = stage_.weight(id).detach();
    if (!stage_.has_output()) {
      const int owner = OutputStage();
      TensorMessage message{TensorKind::kWeights, owner, 0, 0, {}, {}};
      for (int id : stage_.weight_ids()) {
        message.tensors.push_back(result->weights[id]);
        message.ids.push_back(id);
      }
      exchange_->Send(std::move(message));
      return;
    }
    for (int peer = 0; peer < assign_.num_stages(); ++peer) {
      if (peer == assign_.key().stage()) continue;
      TensorMessage message = exchange_->Receive(TensorKind::kWeights, peer, 0, 0);
      for (std::size_t i = 0; i < message.ids.size(); ++i) result->weights.at(message.ids[i]) = message.tensors[i];
    }
    result->torchscript = ExportTorchScript(model_, content_, result->weights, sample_shape_);
  }

  int OutputStage() const {
    const int producer = model_.operator_graph.tensors[model_.operator_graph.outputs.front()].producer;
    return assign_.stage_of(producer);
  }

  const wire::Assign& assign_;
  const wire::TrainSpec& train_;
  const std::string& content_;
  Exchange* exchange_;
  const TrainerHooks& hooks_;
  const std::int64_t rows_;  // samples a micro-batch
  LoweredModel model_;
  Batches batches_;
  std::vector<std::int64_t> sample_shape_;
  Stage stage_;
  std::map<int, std::vector<std::size_t>> imports_from_, exports_to_;  // by peer stage: indices into imports(), exports()
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::int64_t total_ = 0;
  double compute_seconds_ = 0;
};

}  // namespace

void CheckModelFits(const wire::TrainSpec& train, const std::string& model_name, const std::vector<std::int64_t>& output_shape) {
  const std::int64_t classes = train.data().num_classes();
  if (output_shape.size() != 2 || output_shape[1] != classes) {
    throw Invalid("{}: expected an output of shape [batch, {}] for {} classes, the model gives [{}]", model_name, classes,
                  classes, fmt::join(output_shape, ", "));
  }
}

TrainerResult TrainStage(const wire::Assign& assign, const std::string& model_content, const Dataset& data, Exchange* exchange,
                         const TrainerHooks& hooks) {
  try {
    return Trainer(assign, model_content, data, exchange, hooks).Run();
  } catch (const c10::Error& e) {
    const std::string what = e.what_without_backtrace();
    throw Failure(ExitCode::kJobFailed, "LibTorch: {}", what.substr(0, what.find('\n')));
  }
}

}  // namespace weir::worker
