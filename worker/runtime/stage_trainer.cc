#include "worker/runtime/stage_trainer.h"

#include <ATen/Functions.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/optim.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <optional>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/log.h"
#include "env/core/rng.h"
#include "partitioner/front_end.h"
#include "partitioner/torchscript/dropout.h"
#include "worker/runtime/autocast.h"
#include "worker/runtime/batches.h"
#include "worker/runtime/device_graph.h"
#include "worker/runtime/export_model.h"
#include "worker/runtime/export_onnx.h"
#include "worker/runtime/gradient_scale.h"
#include "worker/runtime/learning_rate.h"
#include "worker/runtime/load_model.h"
#include "worker/runtime/loss.h"
#include "worker/runtime/model_device.h"
#include "worker/runtime/optimizer.h"
#include "worker/runtime/pipeline_schedule.h"
#include "worker/runtime/snapshot.h"
#include "worker/runtime/stage.h"
#include "worker/runtime/staging.h"

namespace weir::worker {

using partitioner::LoweredModel;
using partitioner::Mode;

namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

PipelineOrder OrderOf(const std::string& name) {
  if (name.empty() || name == "1f1b") return PipelineOrder::k1f1b;
  if (name == "gpipe") return PipelineOrder::kGpipe;
  throw Invalid("train.pipeline must be 1f1b or gpipe, got '{}'", name);
}

// Flags of kControl.
constexpr std::int64_t kTakeCheckpoint = 1, kStopThere = 2;

class Trainer {
 public:
  Trainer(const wire::Assign& assign, const std::string& content, const Dataset& data, Exchange* exchange,
          const TrainerHooks& hooks, const TrainerSetup& setup)
      : assign_(assign),
        train_(assign.train()),
        content_(content),
        exchange_(exchange),
        hooks_(hooks),
        staging_(setup.device, PrecisionOf(train_.wire())),
        loss_(LossOf(train_.loss())),
        precision_(PrecisionOf(train_.precision())),
        rows_(train_.batch() / train_.micro_batches()),
        model_(LoadLoweredModel(content, assign.model_name(), rows_, data.sample_shape)),
        batches_(data, train_.batch(), train_.data().holdout(), train_.seed(), staging_.on_device()),
        sample_shape_(data.sample_shape),
        scale_(train_.optimizer().clip_norm(), precision_ == at::kHalf),
        stage_(MakeStage(data)),
        steps_(PipelineSteps(OrderOf(train_.pipeline()), assign.key().stage(), std::max(1, assign.num_stages()),
                             train_.micro_batches())) {
    if (train_.evaluate() != "" && train_.evaluate() != "epoch" && train_.evaluate() != "end")
      throw Invalid("train.evaluate must be epoch or end, got '{}'", train_.evaluate());
    for (std::size_t i = 0; i < stage_.imports().size(); ++i) imports_from_[stage_.imports()[i].from_stage].push_back(i);
    for (std::size_t i = 0; i < stage_.exports().size(); ++i) exports_to_[stage_.exports()[i].to_stage].push_back(i);
    for (int id : stage_.weight_ids()) {
      if (model_.weights[id].trainable) trainable_.push_back(id);
    }
    std::vector<at::Tensor> trainable;
    for (int id : trainable_) trainable.push_back(stage_.weight(id));
    if (!trainable.empty()) optimizer_ = MakeOptimizer(train_.optimizer(), trainable);
    total_ = TotalIterations(train_.iterations(), train_.epochs(), batches_.train_samples(), train_.batch());
    if (!setup.resume_paths.empty()) Resume(setup.resume_paths);
    may_record_ = setup.graphs && staging_.on_device() && num_stages() == 1 && scale_.loss_scale() == 1 && !hooks_.pace &&
                  !stage_.draws_from_generator();
  }

  TrainerResult Run() {
    TrainerResult result;
    for (std::int64_t iteration = begin_; iteration < total_; ++iteration) {
      const std::int64_t flags = Iterate(iteration);
      const std::int64_t done = iteration + 1;
      const bool epoch_ends = done % batches_.per_epoch() == 0;
      if (done == total_ || (epoch_ends && train_.evaluate() != "end")) Evaluate(done);
      if ((flags & kTakeCheckpoint) && done < total_) {
        TakeCheckpoint(done, flags & kStopThere);
        if (flags & kStopThere) {
          result.stopped = true;
          break;
        }
      }
    }
    ReadLosses(0);
    result.losses.assign(losses_.begin() + std::min(before_, static_cast<std::int64_t>(losses_.size())), losses_.end());
    if (begin_ >= total_ && !result.stopped) Evaluate(total_);  // resumed at its end
    result.compute_seconds = compute_seconds_;
    if (result.stopped) {
      OwnWeights(&result);
      return result;
    }
    if (stage_.has_output() && !losses_.empty()) {
      const std::size_t tail = std::min<std::size_t>(losses_.size(), batches_.per_epoch());
      result.final_loss = std::accumulate(losses_.end() - tail, losses_.end(), 0.0) / static_cast<double>(tail);
    }
    result.held_out_samples = batches_.held_out();
    result.accuracy = last_evaluation_.accuracy();
    result.eval_loss = last_evaluation_.loss();
    result.epoch_losses = epoch_losses_;
    result.epoch_accuracies = epoch_accuracies_;
    CollectWeights(&result);
    return result;
  }

 private:
  Stage MakeStage(const Dataset& data) {
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
    const auto& output = model_.operator_graph.tensors[model_.operator_graph.outputs.front()];
    if (output.shape) CheckModelFits(train_, assign_.model_name(), *output.shape, data);
    owner_ = stage_of[output.producer];
    MoveConstants(model_, staging_.device());
    std::vector<int> ids;
    const int own = assign_.key().stage();
    for (std::size_t w = 0; w < model_.weights.size(); ++w) {
      const auto& readers = model_.operator_graph.parameters[w].readers;
      const bool mine = std::any_of(readers.begin(), readers.end(), [&](int r) { return stage_of[r] == own; });
      if (mine) ids.push_back(static_cast<int>(w));
    }
    const Init init = train_.init() == "kaiming" ? Init::kKaiming : Init::kKeep;
    auto weights = InitialWeights(model_, ids, init, train_.seed());
    if (staging_.on_device()) {
      for (int id : ids) {
        const bool trainable = weights[id].requires_grad();
        weights[id] = weights[id].detach().to(staging_.device());
        weights[id].requires_grad_(trainable);
      }
    }
    return Stage(model_, std::move(stage_of), own, std::move(weights));
  }

  std::uint64_t Seed(std::int64_t iteration, int micro_batch) const {
    return Mix64(Mix64(train_.seed(), static_cast<std::uint64_t>(iteration)), static_cast<std::uint64_t>(micro_batch));
  }

  template <typename Work>
  void Timed(double share, Work work) {
    const auto start = Clock::now();
    work();
    const double seconds = SecondsSince(start);
    compute_seconds_ += seconds;
    if (hooks_.pace) hooks_.pace(assign_.iteration_flop() * share, seconds);
  }

  // ---- Exchange

  void Send(TensorMessage message) {
    const bool local = exchange_->IsLocal(message.peer);
    exchange_->Send(staging_.Outgoing(std::move(message), local));
  }

  TensorMessage Receive(TensorKind kind, int peer, std::int64_t iteration, int micro_batch) {
    return staging_.Incoming(exchange_->Receive(kind, peer, iteration, micro_batch));
  }

  std::vector<at::Tensor> ReceiveImports(TensorKind kind, std::int64_t iteration, int micro_batch) {
    std::vector<at::Tensor> received(stage_.imports().size());
    for (const auto& [peer, indices] : imports_from_) {
      TensorMessage message = Receive(kind, peer, iteration, micro_batch);
      WEIR_CHECK_EQ(message.tensors.size(), indices.size());
      for (std::size_t i = 0; i < indices.size(); ++i) received[indices[i]] = message.tensors[i];
    }
    return received;
  }

  void SendExports(TensorKind kind, std::int64_t iteration, int micro_batch, const std::vector<at::Tensor>& exports) {
    for (const auto& [peer, indices] : exports_to_) {
      TensorMessage message{kind, peer, iteration, micro_batch, {}, {}, {}};
      for (std::size_t i : indices) message.tensors.push_back(exports[i]);
      Send(std::move(message));
    }
  }

  std::vector<Stage::Gradients> ReceiveGradients(std::int64_t iteration, int micro_batch) {
    std::vector<Stage::Gradients> result(stage_.exports().size());
    for (const auto& [peer, indices] : exports_to_) {
      bool any = false;
      for (std::size_t i : indices) any |= stage_.NeedsGradient(micro_batch, i);
      if (!any) continue;
      TensorMessage message = Receive(TensorKind::kBackward, peer, iteration, micro_batch);
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
      TensorMessage message{TensorKind::kBackward, peer, iteration, micro_batch, {}, {}, {}};
      for (std::size_t i : indices) {
        if (!stage_.ImportNeedsGradient(i)) continue;
        message.tensors.insert(message.tensors.end(), gradients[i].begin(), gradients[i].end());
      }
      if (!message.tensors.empty()) Send(std::move(message));
    }
  }

  int num_stages() const { return std::max(1, assign_.num_stages()); }
  bool owns_output() const { return assign_.key().stage() == owner_; }

  // ---- One iteration

  // Returns the flags of this iteration.
  std::int64_t Iterate(std::int64_t iteration) {
    std::int64_t flags = 0;
    if (owns_output() && hooks_.wish) {
      const CheckpointWish wish = hooks_.wish();
      flags = (wish.take ? kTakeCheckpoint : 0) | (wish.stop ? kStopThere : 0);
    }
    if (owns_output()) {
      for (int peer = 0; peer < num_stages(); ++peer) {
        if (peer != owner_) exchange_->Send({TensorKind::kControl, peer, iteration, 0, {}, {flags}, {}});
      }
    }
    if (optimizer_) {
      SetLearningRate(optimizer_.get(),
                      train_.optimizer().learning_rate() * LearningRateFactor(train_.optimizer().schedule(), iteration, total_));
      if (!graph_) ResetGradients();
    }
    std::vector<at::Tensor> losses(train_.micro_batches());
    constexpr std::int64_t kEager = 3;  // iterations before one is recorded: libraries set themselves up
    if (may_record_ && iteration >= begin_ + kEager) {
      if (!graph_ && !Record(iteration)) may_record_ = false;
    }
    if (graph_) {
      if (hooks_.check) hooks_.check();
      LoadStatic(iteration);
      graph_->Replay();
      losses = static_losses_;
    }
    for (const PipelineStep& step : steps_) {
      if (graph_) break;
      if (hooks_.check) hooks_.check();
      if (step.forward) {
        Forward(iteration, step.micro_batch, &losses[step.micro_batch]);
      } else {
        Backward(iteration, step.micro_batch, losses[step.micro_batch]);
      }
    }
    if (scale_.needs_norm()) {
      StepByNorm(iteration);
    } else if (graph_ && optimizer_) {
      optimizer_->step();
    }
    if (stage_.has_output()) {
      pending_losses_.push_back({iteration, Sum(losses), staging_.on_device() ? staging_.Record() : nullptr});
      // The CPU may run one iteration ahead of the device.
      ReadLosses(staging_.on_device() ? 1 : 0);
    }
    if (!owns_output()) flags = exchange_->Receive(TensorKind::kControl, owner_, iteration, 0).ids.at(0);
    return flags;
  }

  void ResetGradients() {
    for (int id : trainable_) at::Tensor(stage_.weight(id)).mutable_grad().reset();
  }

  // ---- A recorded iteration: the passes of all micro-batches, from static inputs into static losses and gradients

  void LoadStatic(std::int64_t iteration) {
    torch::NoGradGuard no_grad;
    if (static_seeds_.defined()) {
      const std::vector<std::uint64_t> seeds = MaskSeeds(iteration);
      at::Tensor host = staging_.EmptyHost({static_cast<std::int64_t>(seeds.size())}, at::kLong);
      std::memcpy(host.data_ptr(), seeds.data(), seeds.size() * sizeof(std::uint64_t));
      static_seeds_.copy_(host, /*non_blocking=*/true);
    }
    for (int m = 0; m < train_.micro_batches(); ++m) {
      static_inputs_[m].copy_(batches_.Features(iteration, m * rows_, (m + 1) * rows_), /*non_blocking=*/true);
      static_labels_[m].copy_(batches_.Labels(iteration, m * rows_, (m + 1) * rows_), /*non_blocking=*/true);
    }
  }

  // Of all dropout masks of an iteration.
  std::vector<std::uint64_t> MaskSeeds(std::int64_t iteration) const {
    std::vector<std::uint64_t> seeds;
    for (int m = 0; m < train_.micro_batches(); ++m) {
      const auto more = stage_.MaskSeeds(Seed(iteration, m));
      seeds.insert(seeds.end(), more.begin(), more.end());
    }
    return seeds;
  }

  bool Record(std::int64_t iteration) {
    const int micro_batches = train_.micro_batches();
    static_inputs_.clear();
    static_labels_.clear();
    for (int m = 0; m < micro_batches; ++m) {
      static_inputs_.push_back(batches_.Features(iteration, m * rows_, (m + 1) * rows_).to(staging_.device()));
      static_labels_.push_back(batches_.Labels(iteration, m * rows_, (m + 1) * rows_).to(staging_.device()));
    }
    static_losses_.assign(micro_batches, at::Tensor());
    const std::vector<std::uint64_t> seeds = MaskSeeds(iteration);
    partitioner::RecordedSeeds recorded;
    if (!seeds.empty()) {
      static_seeds_ =
          at::empty({static_cast<std::int64_t>(seeds.size())}, at::TensorOptions(at::kLong).device(staging_.device()));
      recorded.device_seeds = reinterpret_cast<const std::uint64_t*>(static_seeds_.data_ptr<std::int64_t>());
      for (std::size_t i = 0; i < seeds.size(); ++i) recorded.slot[seeds[i]] = static_cast<std::int64_t>(i);
      partitioner::SetRecordedSeeds(&recorded);
    }
    ResetGradients();  // so that the first recorded pass writes them and the others add
    std::string why;
    graph_ = RecordGraph(
        staging_.device(),
        [&] {
          for (const PipelineStep& step : steps_) {
            const int m = step.micro_batch;
            if (step.forward) {
              const Autocast autocast(staging_.device(), precision_);
              const Stage::Forwarded forwarded = stage_.Forward(m, Mode::kTrain, Seed(iteration, m), {}, static_inputs_[m]);
              static_losses_[m] = Loss(loss_, forwarded.output, static_labels_[m], train_.data().num_classes()) /
                                  static_cast<double>(micro_batches);
            } else {
              stage_.Backward(m, {}, static_losses_[m]);
              static_losses_[m] = static_losses_[m].detach();
            }
          }
        },
        &why);
    partitioner::SetRecordedSeeds(nullptr);
    if (!graph_) {
      WEIR_LOG(Info, "event=not_recorded model={} reason=\"{}\"", assign_.model_name(), why);
      stage_.Forget();
      ResetGradients();
    }
    return graph_ != nullptr;
  }

  void Forward(std::int64_t iteration, int m, at::Tensor* loss) {
    const std::vector<at::Tensor> received = ReceiveImports(TensorKind::kForward, iteration, m);
    at::Tensor input, labels;
    if (stage_.reads_input()) input = staging_.ToDevice(batches_.Features(iteration, m * rows_, (m + 1) * rows_));
    if (stage_.has_output()) labels = staging_.ToDevice(batches_.Labels(iteration, m * rows_, (m + 1) * rows_));
    Stage::Forwarded forwarded;
    Timed(1.0 / 3 / train_.micro_batches(), [&] {
      const Autocast autocast(staging_.device(), precision_);
      forwarded = stage_.Forward(m, Mode::kTrain, Seed(iteration, m), received, input);
      if (stage_.has_output()) {
        *loss = Loss(loss_, forwarded.output, labels, train_.data().num_classes()) / static_cast<double>(train_.micro_batches());
      }
    });
    SendExports(TensorKind::kForward, iteration, m, forwarded.exports);
  }

  void Backward(std::int64_t iteration, int m, at::Tensor& loss) {
    const std::vector<Stage::Gradients> from_readers = ReceiveGradients(iteration, m);
    std::vector<Stage::Gradients> to_producers;
    Timed(2.0 / 3 / train_.micro_batches(), [&] {
      at::Tensor root = loss;
      if (root.defined() && scale_.loss_scale() != 1) root = root * scale_.loss_scale();
      to_producers = stage_.Backward(m, from_readers, root);
      if (m + 1 == train_.micro_batches() && optimizer_ && !scale_.needs_norm()) optimizer_->step();
    });
    SendGradients(iteration, m, to_producers);
    if (loss.defined()) loss = loss.detach();
  }

  // Gradients of all parts together: norms to the owner of the output, its answer back, then the step.
  void StepByNorm(std::int64_t iteration) {
    torch::NoGradGuard no_grad;
    std::vector<at::Tensor> parts;
    std::vector<std::int64_t> ids;
    for (int id : trainable_) {
      const at::Tensor gradient = stage_.weight(id).grad();
      if (!gradient.defined()) continue;
      parts.push_back(gradient.detach().to(at::kDouble).square().sum());
      ids.push_back(id);
    }
    const at::Tensor mine = parts.empty() ? at::zeros({0}, at::kDouble) : at::stack(parts).cpu();
    at::Tensor answer;
    if (owns_output()) {
      std::map<int, double> squares;
      const auto add = [&](const std::vector<std::int64_t>& keys, const at::Tensor& values) {
        WEIR_CHECK_EQ(static_cast<std::int64_t>(keys.size()), values.numel());
        for (std::size_t i = 0; i < keys.size(); ++i) squares[static_cast<int>(keys[i])] = values.data_ptr<double>()[i];
      };
      add(ids, mine);
      for (int peer = 0; peer < num_stages(); ++peer) {
        if (peer == owner_) continue;
        const TensorMessage message = exchange_->Receive(TensorKind::kNorm, peer, iteration, 0);
        add(message.ids, message.tensors.at(0));
      }
      const GradientScale::Step step = scale_.Next(squares);
      answer = at::empty({3}, at::kDouble);
      answer.data_ptr<double>()[0] = step.factor;
      answer.data_ptr<double>()[1] = step.skip ? 1 : 0;
      answer.data_ptr<double>()[2] = scale_.loss_scale();
      for (int peer = 0; peer < num_stages(); ++peer) {
        if (peer != owner_) exchange_->Send({TensorKind::kNorm, peer, iteration, 0, {answer.clone()}, {}, {}});
      }
    } else {
      exchange_->Send({TensorKind::kNorm, owner_, iteration, 0, {mine}, ids, {}});
      answer = exchange_->Receive(TensorKind::kNorm, owner_, iteration, 0).tensors.at(0);
    }
    const double factor = answer.data_ptr<double>()[0];
    if (!optimizer_ || answer.data_ptr<double>()[1] != 0) return;
    Timed(0, [&] {
      for (int id : trainable_) {
        at::Tensor gradient = stage_.weight(id).grad();
        if (gradient.defined() && factor != 1) gradient.mul_(factor);
      }
      optimizer_->step();
    });
  }

  // ---- Losses

  struct PendingLoss {
    std::int64_t iteration = 0;
    at::Tensor values;  // [micro-batches] on the CPU, once the event has happened
    std::shared_ptr<c10::Event> event;
  };

  at::Tensor Sum(const std::vector<at::Tensor>& losses) {
    torch::NoGradGuard no_grad;
    const at::Tensor all = at::stack(losses);
    if (!staging_.on_device()) return all;
    at::Tensor host = staging_.EmptyHost(all.sizes(), all.scalar_type());
    return host.copy_(all, /*non_blocking=*/true);
  }

  // Takes in the losses of all iterations but the last `behind`.
  void ReadLosses(std::size_t behind) {
    while (pending_losses_.size() > behind) {
      const PendingLoss pending = std::move(pending_losses_.front());
      pending_losses_.pop_front();
      while (pending.event && !pending.event->query()) std::this_thread::sleep_for(std::chrono::microseconds(20));
      double loss = 0;
      for (std::int64_t m = 0; m < pending.values.numel(); ++m) loss += pending.values[m].item<double>();
      if (!std::isfinite(loss)) {
        throw Failure(ExitCode::kJobFailed, "loss is {} at iteration {} (stage {})", loss, pending.iteration + 1,
                      assign_.key().stage());
      }
      losses_.push_back(loss);
      if (!hooks_.progress) continue;
      TrainerProgress progress{pending.iteration + 1, total_, loss};
      progress.epoch = epoch_;
      progress.eval_loss = last_evaluation_.loss();
      progress.eval_accuracy = last_evaluation_.accuracy();
      hooks_.progress(progress);
    }
  }

  // ---- Held-out samples

  void Evaluate(std::int64_t done) {
    if (batches_.held_out() == 0) return;
    Evaluation evaluation;
    int batch = 0;
    for (std::int64_t first = 0; first < batches_.held_out(); first += rows_, ++batch) {
      if (hooks_.check) hooks_.check();
      const std::vector<at::Tensor> received = ReceiveImports(TensorKind::kEvaluate, done, batch);
      const at::Tensor input = stage_.reads_input() ? staging_.ToDevice(batches_.HeldOutFeatures(first, rows_)) : at::Tensor();
      Stage::Forwarded forwarded;
      Timed(1.0 / 3 / train_.micro_batches(), [&] {
        const Autocast autocast(staging_.device(), precision_);
        forwarded = stage_.Forward(0, Mode::kEvaluate, 0, received, input);
      });
      SendExports(TensorKind::kEvaluate, done, batch, forwarded.exports);
      if (!stage_.has_output()) continue;
      torch::NoGradGuard no_grad;
      evaluation.Add(loss_, forwarded.output, staging_.ToDevice(batches_.HeldOutLabels(first, rows_)),
                     train_.data().num_classes(), std::min(rows_, batches_.held_out() - first));
    }
    if (!stage_.has_output()) return;
    last_evaluation_ = evaluation;
    epoch_ = std::max<std::int64_t>(1, done / batches_.per_epoch());
    epoch_losses_.push_back(evaluation.loss());
    epoch_accuracies_.push_back(evaluation.accuracy());
  }

  // ---- Checkpoints

  void TakeCheckpoint(std::int64_t done, bool stop) {
    if (!hooks_.checkpoint) return;
    const auto start = Clock::now();
    ReadLosses(0);
    Snapshot snapshot;
    snapshot.header.set_fingerprint(model_.operator_graph.Fingerprint());
    snapshot.header.set_iteration(done);
    for (int id : stage_.weight_ids()) {
      Snapshot::WeightState& state = snapshot.weights[id];
      state.name = model_.weights[id].names.front();
      state.value = stage_.weight(id).detach();
      if (optimizer_ && model_.weights[id].trainable) SaveState(optimizer_.get(), train_.optimizer(), stage_.weight(id), &state);
    }
    if (stage_.has_output()) {
      snapshot.header.set_has_history(true);
      const std::size_t kept =
          std::min(losses_.size(), static_cast<std::size_t>(std::max<std::int64_t>(batches_.per_epoch(), 20)));
      for (auto it = losses_.end() - kept; it != losses_.end(); ++it) snapshot.header.add_losses(*it);
      for (double v : epoch_losses_) snapshot.header.add_epoch_losses(v);
      for (double v : epoch_accuracies_) snapshot.header.add_epoch_accuracies(v);
      if (scale_.loss_scale() != 1) snapshot.header.set_loss_scale(scale_.loss_scale());
      snapshot.header.set_steps_since_scale(scale_.steps_since_change());
    }
    std::string file = EncodeSnapshot(snapshot);
    hooks_.checkpoint(done, std::move(file), stop, SecondsSince(start));
  }

  void Resume(const std::vector<std::string>& paths) {
    Snapshot snapshot;
    for (const std::string& path : paths)
      ReadSnapshot(path, model_.operator_graph.Fingerprint(), assign_.resume().iteration(), &snapshot);
    torch::NoGradGuard no_grad;
    for (int id : stage_.weight_ids()) {
      const auto found = snapshot.weights.find(id);
      at::Tensor weight = stage_.weight(id).detach();
      if (found == snapshot.weights.end() || !found->second.value.defined() || found->second.value.sizes() != weight.sizes())
        throw DamagedSnapshot{paths.front(), fmt::format("weight '{}' is missing", model_.weights[id].names.front())};
      weight.copy_(found->second.value);
      if (optimizer_ && model_.weights[id].trainable)
        LoadState(optimizer_.get(), train_.optimizer(), stage_.weight(id), found->second);
    }
    begin_ = assign_.resume().iteration();
    losses_.assign(snapshot.header.losses().begin(), snapshot.header.losses().end());
    if (!stage_.has_output()) losses_.clear();
    before_ = static_cast<std::int64_t>(losses_.size());
    epoch_losses_.assign(snapshot.header.epoch_losses().begin(), snapshot.header.epoch_losses().end());
    epoch_accuracies_.assign(snapshot.header.epoch_accuracies().begin(), snapshot.header.epoch_accuracies().end());
    scale_.Restore(snapshot.header.loss_scale(), snapshot.header.steps_since_scale());
  }

  // ---- Weights

  void OwnWeights(TrainerResult* result) {
    result->weights.resize(model_.weights.size());
    for (int id : stage_.weight_ids()) result->weights[id] = stage_.weight(id).detach().cpu();
  }

  void CollectWeights(TrainerResult* result) {
    OwnWeights(result);
    if (!owns_output()) {
      TensorMessage message{TensorKind::kWeights, owner_, 0, 0, {}, {}, {}};
      for (int id : stage_.weight_ids()) {
        message.tensors.push_back(result->weights[id]);
        message.ids.push_back(id);
      }
      exchange_->Send(std::move(message));
      return;
    }
    for (int peer = 0; peer < num_stages(); ++peer) {
      if (peer == owner_) continue;
      TensorMessage message = exchange_->Receive(TensorKind::kWeights, peer, 0, 0);
      for (std::size_t i = 0; i < message.ids.size(); ++i) result->weights.at(message.ids[i]) = message.tensors[i];
    }
    MoveConstants(model_, at::Device(at::kCPU));
    result->torchscript = ExportTorchScript(model_, content_, result->weights, sample_shape_);
    if (partitioner::FormatOfContent(content_) == partitioner::ModelFormat::kOnnx)
      result->onnx = ExportOnnx(model_, content_, result->weights);
  }

  const wire::Assign& assign_;
  const wire::TrainSpec& train_;
  const std::string& content_;
  Exchange* exchange_;
  const TrainerHooks& hooks_;
  Staging staging_;
  const LossKind loss_;
  const at::ScalarType precision_;
  const std::int64_t rows_;  // samples a micro-batch
  LoweredModel model_;
  Batches batches_;
  std::vector<std::int64_t> sample_shape_;
  GradientScale scale_;
  int owner_ = 0;  // the stage that produces the output
  Stage stage_;
  const std::vector<PipelineStep> steps_;
  std::map<int, std::vector<std::size_t>> imports_from_, exports_to_;  // by peer stage: indices into imports(), exports()
  std::vector<int> trainable_;                                         // ids of this stage's
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  bool may_record_ = false;
  std::vector<at::Tensor> static_inputs_, static_labels_, static_losses_;  // by micro-batch
  at::Tensor static_seeds_;                                                // of the dropout masks; undefined where there are none
  std::unique_ptr<DeviceGraph> graph_;                                     // null: passes run one operator at a time
  std::int64_t total_ = 0, begin_ = 0;                                     // iterations: all, and where this run begins
  std::deque<PendingLoss> pending_losses_;
  std::vector<double> losses_;  // by iteration; a resumed run begins with the last ones of the run before
  std::int64_t before_ = 0;     // how many of them
  std::int64_t epoch_ = 0;
  Evaluation last_evaluation_;
  std::vector<double> epoch_losses_, epoch_accuracies_;
  double compute_seconds_ = 0;
};

}  // namespace

void CheckModelFits(const wire::TrainSpec& train, const std::string& model_name, const std::vector<std::int64_t>& output,
                    const Dataset& data) {
  const std::int64_t classes = train.data().num_classes();
  const LossKind loss = LossOf(train.loss());
  if (loss == LossKind::kTokenCrossEntropy) {
    if (data.label_shape.size() != 1)
      throw Invalid("{}: token_cross_entropy needs a label for each token of a window", model_name);
    const std::int64_t rows = train.batch() / train.micro_batches(), length = data.label_shape[0];
    const bool windows = output.size() == 3 && output[1] == length && output[2] == classes;
    const bool flat = output.size() == 2 && output[0] == rows * length && output[1] == classes;
    if (windows || flat) return;
    throw Invalid("{}: expected an output of shape [batch, {}, {}] for windows of {} tokens out of {}, the model gives [{}]",
                  model_name, length, classes, length, classes, fmt::join(output, ", "));
  }
  const std::int64_t columns = data.targets.empty() ? classes
                                                    : std::accumulate(data.label_shape.begin(), data.label_shape.end(),
                                                                      std::int64_t{1}, std::multiplies<>());
  if (!data.targets.empty() && loss == LossKind::kCrossEntropy)
    throw Invalid("{}: cross_entropy needs classes, the data has real targets: use mse", model_name);
  if (output.size() != 2 || output[1] != columns) {
    throw Invalid("{}: expected an output of shape [batch, {}] for {} {}, the model gives [{}]", model_name, columns, columns,
                  data.targets.empty() ? "classes" : "targets", fmt::join(output, ", "));
  }
}

TrainerResult TrainStage(const wire::Assign& assign, const std::string& model_content, const Dataset& data, Exchange* exchange,
                         const TrainerHooks& hooks, const TrainerSetup& setup) {
  try {
    // Jobs that share an accelerator have a stream each.
    std::optional<c10::StreamGuard> stream;
    if (!setup.device.is_cpu())
      stream.emplace(c10::impl::VirtualGuardImpl(setup.device.type()).getStreamFromGlobalPool(setup.device));
    return Trainer(assign, model_content, data, exchange, hooks, setup).Run();
  } catch (const c10::Error& e) {
    const std::string what = e.what_without_backtrace();
    const std::string line = what.substr(0, what.find('\n'));
    const bool memory =
        line.find("out of memory") != std::string::npos || line.find("can't allocate memory") != std::string::npos;
    if (memory) throw Failure(ExitCode::kInfrastructure, "out of memory: {}", line);
    throw Failure(ExitCode::kJobFailed, "LibTorch: {}", line);
  }
}

}  // namespace weir::worker
