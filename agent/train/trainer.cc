// The training loop. Gradients are taken in kShards fixed parts of each minibatch, on any number of threads, and added in order.
#include <dlfcn.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <sstream>

#include "agent/policy/torch_network.h"
#include "agent/train/episodes.h"
#include "agent/train/rollout.h"
#include "agent/train/tensorboard.h"
#include "agent/train/train.h"
#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/file.h"
#include "env/core/rng.h"

namespace weir {
namespace {

constexpr int kShards = 8;
constexpr std::uint64_t kImitationStream = 1, kSequenceStream = 2, kDrawStream = 3, kShuffleStream = 4;

// What a gradient step minimises.
struct Loss {
  bool imitation = false;
  double clip = 0, entropy = 0, value_weight = 0;
};
struct StepStats {
  double loss = 0, entropy = 0, kl = 0, agreement = 0, value_loss = 0;  // sums over samples
  double gradient_norm = 0;
  double samples = 0;
  void Add(const StepStats& o) {
    loss += o.loss, entropy += o.entropy, kl += o.kl, agreement += o.agreement, value_loss += o.value_loss, samples += o.samples;
  }
};

struct TrainBatch {
  TorchBatch observations;
  torch::Tensor chosen, log_probs, advantages, targets;
};

TrainBatch MakeBatch(const SampleStore& store, const int* index, int count) {
  int64_t a_max = 1, j_max = 1, w_max = 1;
  for (int i = 0; i < count; ++i) {
    const SampleStore::Sample& s = store.samples[index[i]];
    a_max = std::max<int64_t>(a_max, s.num_actions);
    j_max = std::max<int64_t>(j_max, s.num_jobs);
    w_max = std::max<int64_t>(w_max, s.num_workers);
  }
  TrainBatch b;
  TorchBatch& o = b.observations;
  const int64_t n = count;
  o.globals = torch::zeros({n, kGlobalFeatures});
  o.workers = torch::zeros({n, w_max, kWorkerFeatures});
  o.worker_weights = torch::zeros({n, w_max});
  o.jobs = torch::zeros({n, j_max, kJobFeatures});
  o.job_weights = torch::zeros({n, j_max});
  o.actions = torch::zeros({n, a_max, kCandidateFeatures});
  o.action_weights = torch::zeros({n, a_max});
  o.action_jobs = torch::zeros({n, a_max, j_max});
  o.action_workers = torch::zeros({n, a_max, w_max});
  b.chosen = torch::zeros({n}, torch::kInt64);
  b.log_probs = torch::zeros({n});
  b.advantages = torch::zeros({n});
  b.targets = torch::zeros({n});
  float* action_jobs = o.action_jobs.data_ptr<float>();
  float* action_workers = o.action_workers.data_ptr<float>();
  for (int64_t i = 0; i < n; ++i) {
    const SampleStore::Sample& s = store.samples[index[i]];
    auto rows = [&](const std::vector<float>& from, std::size_t first, int number, int features, torch::Tensor* to,
                    int64_t most) {
      std::copy_n(from.begin() + static_cast<long>(first) * features, static_cast<long>(number) * features,
                  to->data_ptr<float>() + i * most * features);
    };
    rows(store.global_features, static_cast<std::size_t>(index[i]), 1, kGlobalFeatures, &o.globals, 1);
    rows(store.worker_features, s.workers, s.num_workers, kWorkerFeatures, &o.workers, w_max);
    rows(store.job_features, s.jobs, s.num_jobs, kJobFeatures, &o.jobs, j_max);
    rows(store.action_features, s.actions, s.num_actions, kCandidateFeatures, &o.actions, a_max);
    std::fill_n(o.worker_weights.data_ptr<float>() + i * w_max, s.num_workers,
                1.0f / static_cast<float>(std::max(1, s.num_workers)));
    std::fill_n(o.job_weights.data_ptr<float>() + i * j_max, s.num_jobs, 1.0f / static_cast<float>(std::max(1, s.num_jobs)));
    std::fill_n(o.action_weights.data_ptr<float>() + i * a_max, s.num_actions, 1.0f / static_cast<float>(s.num_actions));
    std::vector<int> pairs(static_cast<std::size_t>(s.num_actions), 0);
    for (int p = 0; p < s.num_pairs; ++p) ++pairs[store.pair_actions[s.pairs + p]];
    for (int p = 0; p < s.num_pairs; ++p) {
      const int a = store.pair_actions[s.pairs + p];
      action_workers[(i * a_max + a) * w_max + store.pair_workers[s.pairs + p]] = 1.0f / static_cast<float>(pairs[a]);
    }
    for (int a = 0; a < s.num_actions; ++a) {
      const int job = store.action_jobs[s.actions + a];
      if (job >= 0) action_jobs[(i * a_max + a) * j_max + job] = 1.0f;
    }
    b.chosen.data_ptr<int64_t>()[i] = s.chosen;
    b.log_probs.data_ptr<float>()[i] = s.log_prob;
    b.advantages.data_ptr<float>()[i] = s.advantage;
    b.targets.data_ptr<float>()[i] = s.target;
  }
  return b;
}

// One thread inside every kernel: the shards are what runs in parallel, and sums keep their order.
void UseOneThread() {
  torch::set_num_threads(1);
  static const auto set_blas_threads = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  static const bool done = set_blas_threads ? (set_blas_threads(1), true) : false;
  static_cast<void>(done);
}

class Trainer {
 public:
  Trainer(const TrainOptions& options, TrainReport* report)
      : options_(options),
        config_(options.config),
        report_(*report),
        episodes_(TrainingEpisodes(config_)),
        cells_(ValidationCells(config_)),
        master_(config_.sizes) {
    UseOneThread();
    master_->Import(InitialWeights(config_.sizes, config_.seed));
    for (int i = 0; i < kShards; ++i) shards_.emplace_back(config_.sizes);
    if (!options_.tensorboard.empty()) board_ = std::make_unique<TensorBoardWriter>(options_.tensorboard);
  }

  void Run() {
    bool resumed = false;
    if (options_.resume) resumed = LoadCheckpoint();
    if (!resumed) {
      Imitate();
      MakeOptimizer(config_.ppo.learning_rate);
      report_.imitation_score = Validate(0);
      SaveCheckpoint();
    }
    while (update_ < config_.ppo.updates && since_best_ < config_.validation.patience) {
      if (OutOfTime()) {
        report_.out_of_time = true;
        break;
      }
      PpoUpdate();
      ++update_;
      if (update_ % config_.validation.every == 0 || update_ == config_.ppo.updates) Validate(update_);
      SaveCheckpoint();
    }
    if (validated_update_ != update_) Validate(update_);
    report_.updates = update_;
    report_.best_update = best_update_;
    report_.best_score = best_score_;
    report_.imitation_agreement = agreement_;
    report_.imitation_score = imitation_score_;
    report_.cells = best_cells_;
    report_.seconds = Seconds();
    PolicyFile policy;
    policy.info.sizes = config_.sizes;
    policy.info.seed = config_.seed;
    policy.info.config = config_.text;
    policy.info.record = fmt::format(
        "imitation teacher={} agreement={:.4f} validation={:+.4f}\nppo updates={} best_update={} validation={:+.4f}\n",
        config_.imitation.teacher, agreement_, imitation_score_, update_, best_update_, best_score_);
    policy.weights = best_weights_;
    report_.hash = WritePolicyFile(options_.out, policy);
  }

 private:
  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  bool OutOfTime() const { return options_.minutes > 0 && Seconds() > 60 * options_.minutes; }
  std::uint64_t Stream(std::uint64_t stream, std::uint64_t counter) const { return Mix64(Mix64(config_.seed, stream), counter); }
  void Progress(const std::string& line) const {
    if (options_.progress) std::fprintf(stderr, "I train seconds=%.0f %s\n", Seconds(), line.c_str());
  }
  void Plot(const std::string& tag, int step, double value) {
    if (board_) board_->Add(tag, step, static_cast<float>(value));
  }

  void MakeOptimizer(double learning_rate) {
    optimizer_ = std::make_unique<torch::optim::Adam>(master_->parameters(), torch::optim::AdamOptions(learning_rate));
  }

  void SetLearningRate(double rate) {
    for (auto& group : optimizer_->param_groups()) static_cast<torch::optim::AdamOptions&>(group.options()).lr(rate);
  }

  // Sums over the shards of one minibatch; with `step` also a step of the optimiser.
  StepStats Minibatch(const SampleStore& store, std::vector<int> index, const Loss& loss, bool step) {
    std::stable_sort(index.begin(), index.end(),
                     [&](int a, int b) { return store.samples[a].num_actions < store.samples[b].num_actions; });
    const int n = static_cast<int>(index.size());
    std::vector<StepStats> stats(kShards);
    ParallelFor(options_.threads, kShards, [&](int shard) {
      const int begin = static_cast<int>(static_cast<long>(n) * shard / kShards);
      const int end = static_cast<int>(static_cast<long>(n) * (shard + 1) / kShards);
      torch::set_num_threads(1);
      PolicyNet& net = shards_[shard];
      const auto from = master_->parameters(), to = net->parameters();
      {
        torch::NoGradGuard no_grad;
        for (std::size_t p = 0; p < from.size(); ++p) to[p].copy_(from[p]);
        const auto from_buffers = master_->buffers(), to_buffers = net->buffers();
        for (std::size_t p = 0; p < from_buffers.size(); ++p) to_buffers[p].copy_(from_buffers[p]);
      }
      for (const torch::Tensor& p : to) p.mutable_grad() = torch::zeros_like(p);
      if (begin == end) return;
      const TrainBatch batch = MakeBatch(store, index.data() + begin, end - begin);
      torch::AutoGradMode grad(step);
      const PolicyNetImpl::Output out = net->forward(batch.observations);
      const torch::Tensor log_probs = torch::log_softmax(out.scores, 1);
      const torch::Tensor own = log_probs.gather(1, batch.chosen.unsqueeze(1)).squeeze(1);
      const torch::Tensor entropy = -(log_probs.exp() * log_probs).sum(1);
      torch::Tensor total;
      StepStats& s = stats[shard];
      if (loss.imitation) {
        total = -own.sum();
        s.agreement = (out.scores.argmax(1) == batch.chosen).sum().item<double>();
      } else {
        const torch::Tensor difference = own - batch.log_probs;
        const torch::Tensor ratio = difference.exp();
        const torch::Tensor gain =
            torch::min(ratio * batch.advantages, ratio.clamp(1 - loss.clip, 1 + loss.clip) * batch.advantages);
        const torch::Tensor value_loss = 0.5 * (out.values - batch.targets).square();
        total = (-gain - loss.entropy * entropy + loss.value_weight * value_loss).sum();
        s.kl = (ratio - 1 - difference).sum().item<double>();
        s.value_loss = value_loss.sum().item<double>();
      }
      s.samples = end - begin;
      s.loss = total.item<double>();
      s.entropy = entropy.sum().item<double>();
      if (step) (total / n).backward();
    });
    StepStats sum;
    for (const StepStats& s : stats) sum.Add(s);
    if (step) {
      torch::NoGradGuard no_grad;
      const auto parameters = master_->parameters();
      // The value head is clipped apart, so that its error doesn't shrink the policy's step.
      double square[2] = {0, 0};
      const auto names = master_->named_parameters();
      auto group = [&](std::size_t p) { return names[p].key().starts_with("value") ? 1 : 0; };
      std::vector<std::vector<torch::Tensor>> shard_parameters;
      for (PolicyNet& net : shards_) shard_parameters.push_back(net->parameters());
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        torch::Tensor gradient = shard_parameters[0][p].grad().clone();
        for (int i = 1; i < kShards; ++i) gradient += shard_parameters[i][p].grad();
        parameters[p].mutable_grad() = gradient;
        square[group(p)] += gradient.square().sum().item<double>();
      }
      sum.gradient_norm = std::sqrt(square[0]);
      if (!std::isfinite(square[0] + square[1]))
        throw Failure(ExitCode::kInfrastructure, "training diverged: the gradient is not finite");
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        const double norm = std::sqrt(square[group(p)]);
        if (norm > config_.ppo.gradient_norm) parameters[p].mutable_grad() *= config_.ppo.gradient_norm / norm;
      }
      optimizer_->step();
    }
    return sum;
  }

  // One pass over the samples in shuffled minibatches. Stops early where the mean KL of a minibatch exceeds `kl_stop`.
  StepStats Pass(const SampleStore& store, std::uint64_t shuffle_seed, int minibatch, const Loss& loss, double kl_stop,
                 bool* stopped) {
    std::vector<int> order(store.samples.size());
    std::iota(order.begin(), order.end(), 0);
    Rng rng(shuffle_seed);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.Below(i)]);
    const int parts = std::max(1, static_cast<int>((order.size() + minibatch / 2) / minibatch));
    StepStats sum;
    double norm = 0;
    int steps = 0;
    for (int part = 0; part < parts; ++part) {
      const auto begin = order.begin() + static_cast<long>(order.size()) * part / parts;
      const auto end = order.begin() + static_cast<long>(order.size()) * (part + 1) / parts;
      if (begin == end) continue;
      const StepStats s = Minibatch(store, std::vector<int>(begin, end), loss, true);
      sum.Add(s);
      norm += s.gradient_norm;
      ++steps;
      if (s.kl / static_cast<double>(end - begin) > kl_stop) {
        *stopped = true;
        break;
      }
    }
    sum.gradient_norm = norm / std::max(1, steps);
    return sum;
  }

  // Means and scales of the inputs, from samples.
  void FitScales(const SampleStore& store) {
    std::vector<float> weights = master_->Export();
    const WeightLayout layout(config_.sizes);
    const struct {
      int block;
      const std::vector<float>& rows;
      const std::vector<std::string>& names;
    } blocks[] = {{WeightLayout::kGlobal, store.global_features, GlobalFeatureNames()},
                  {WeightLayout::kWorker, store.worker_features, WorkerFeatureNames()},
                  {WeightLayout::kJob, store.job_features, JobFeatureNames()},
                  {WeightLayout::kCandidate, store.action_features, CandidateFeatureNames()}};
    for (const auto& block : blocks) {
      const int features = layout.blocks[block.block].out;
      const std::size_t rows = block.rows.size() / features;
      for (int f = 0; f < features; ++f) {
        double sum = 0, square = 0;
        for (std::size_t r = 0; r < rows; ++r) {
          const double x = block.rows[r * features + f];
          sum += x;
          square += x * x;
        }
        const double mean = rows ? sum / static_cast<double>(rows) : 0;
        const double deviation = rows ? std::sqrt(std::max(0.0, square / static_cast<double>(rows) - mean * mean)) : 0;
        const bool ignored = std::find(config_.ignored.begin(), config_.ignored.end(), block.names[f]) != config_.ignored.end();
        float* at = weights.data() + layout.blocks[block.block].begin;
        at[f] = static_cast<float>(mean);
        at[features + f] = ignored || deviation < 1e-4 ? 0.0f : static_cast<float>(1 / std::max(deviation, 0.05));
      }
    }
    master_->Import(weights);
  }

  void Imitate() {
    const auto& c = config_.imitation;
    SampleStore store;
    MakeOptimizer(c.learning_rate);
    for (int round = 0; round < c.rounds; ++round) {
      std::vector<Rollout> rollouts(static_cast<std::size_t>(c.episodes));
      const std::vector<float> weights = master_->Export();
      ParallelFor(options_.threads, c.episodes, [&](int i) {
        const std::uint64_t counter =
            static_cast<std::uint64_t>(round) * static_cast<std::uint64_t>(c.episodes) + static_cast<std::uint64_t>(i);
        FloatNetwork student(config_.sizes, weights);
        rollouts[i] = PlayTeacher(episodes_, Stream(kImitationStream, counter), c.teacher, round == 0 ? nullptr : &student,
                                  Stream(kDrawStream, counter), true);
      });
      // The last tenth of a round is tested on before it is learned from.
      SampleStore fresh;
      long unmatched = 0;
      for (std::size_t i = 0; i < rollouts.size(); ++i) {
        unmatched += rollouts[i].unmatched;
        (i * 10 >= rollouts.size() * 9 ? fresh : store).Append(rollouts[i].store);
      }
      if (round == 0) FitScales(store);
      const double share = static_cast<double>(unmatched) / static_cast<double>(store.samples.size() + fresh.samples.size() + 1);
      StepStats stats;
      bool stopped = false;
      // The learning rate falls to a tenth over all passes.
      for (int pass = 0; pass < c.passes; ++pass) {
        const double done = (round * c.passes + pass) / static_cast<double>(c.rounds * c.passes);
        SetLearningRate(c.learning_rate * std::pow(0.1, done));
        const std::uint64_t shuffle = Stream(kShuffleStream, static_cast<std::uint64_t>(round * c.passes + pass));
        stats = Pass(store, shuffle, c.minibatch, Loss{true}, 1e30, &stopped);
      }
      if (!fresh.samples.empty()) {
        std::vector<int> all(fresh.samples.size());
        std::iota(all.begin(), all.end(), 0);
        agreement_ = Minibatch(fresh, all, Loss{true}, false).agreement / static_cast<double>(all.size());
      }
      const double n = std::max(1.0, stats.samples);
      Progress(fmt::format("imitation round={}/{} samples={} unmatched={:.4f} loss={:.4f} agreement={:.4f} entropy={:.4f}",
                           round + 1, c.rounds, store.samples.size(), share, stats.loss / n, agreement_, stats.entropy / n));
      Plot("imitation/loss", round, stats.loss / n);
      Plot("imitation/agreement", round, agreement_);
      store.Append(fresh);
    }
  }

  void PpoUpdate() {
    const auto& c = config_.ppo;
    const int total = c.sequences * c.rollouts;
    std::vector<std::vector<Rollout>> rollouts(static_cast<std::size_t>(c.sequences),
                                               std::vector<Rollout>(static_cast<std::size_t>(c.rollouts)));
    const std::vector<float> weights = master_->Export();
    ParallelFor(options_.threads, total, [&](int i) {
      const auto sequence = static_cast<std::uint64_t>(update_) * static_cast<std::uint64_t>(c.sequences) +
                            static_cast<std::uint64_t>(i / c.rollouts);
      const std::uint64_t draw = (std::uint64_t{1} << 40) +
                                 static_cast<std::uint64_t>(update_) * static_cast<std::uint64_t>(total) +
                                 static_cast<std::uint64_t>(i);
      FloatNetwork network(config_.sizes, weights);
      rollouts[i / c.rollouts][i % c.rollouts] =
          PlayPolicy(episodes_, Stream(kSequenceStream, sequence), &network, Mode::kSample, Stream(kDrawStream, draw), true);
    });
    SampleStore store;
    double mean_jct = 0;
    for (std::vector<Rollout>& siblings : rollouts) {
      const double gap = siblings[0].last_arrival / std::max(1, siblings[0].jobs);
      SetAdvantages(&siblings, c.horizon_gaps * std::max(gap, 1e-9));
      for (const Rollout& rollout : siblings) {
        store.Append(rollout.store);
        mean_jct += rollout.mean_jct / total;
      }
    }
    double square = 0;
    for (const SampleStore::Sample& s : store.samples) square += static_cast<double>(s.advantage) * s.advantage;
    const double scale = std::sqrt(square / static_cast<double>(std::max<std::size_t>(1, store.samples.size()))) + 1e-9;
    for (SampleStore::Sample& s : store.samples) s.advantage = std::clamp(static_cast<float>(s.advantage / scale), -4.0f, 4.0f);
    const double rollout_seconds = Seconds();
    const double done = config_.ppo.updates > 1 ? update_ / static_cast<double>(config_.ppo.updates - 1) : 0;
    Loss loss;
    loss.clip = c.clip;
    loss.entropy = c.entropy_start + (c.entropy_end - c.entropy_start) * done;
    loss.value_weight = c.value_weight;
    SetLearningRate(c.learning_rate * (1 - 0.9 * done));
    StepStats stats;
    bool stopped = false;
    int passes = 0;
    for (; passes < c.passes && !stopped && !store.samples.empty(); ++passes) {
      const std::uint64_t shuffle = (std::uint64_t{1} << 40) + static_cast<std::uint64_t>(update_ * c.passes + passes);
      stats = Pass(store, Stream(kShuffleStream, shuffle), c.minibatch, loss, c.kl_stop, &stopped);
    }
    const double n = std::max(1.0, stats.samples);
    Progress(fmt::format(
        "ppo update={}/{} samples={} mean_jct={:.1f} advantage={:.4f} kl={:.5f} entropy={:.4f} value_loss={:.4f} gradient={:.3f} "
        "passes={} learn_seconds={:.1f}",
        update_ + 1, c.updates, store.samples.size(), mean_jct, scale, stats.kl / n, stats.entropy / n, stats.value_loss / n,
        stats.gradient_norm, passes, Seconds() - rollout_seconds));
    Plot("charts/mean_jct", update_ + 1, mean_jct);
    Plot("losses/approx_kl", update_ + 1, stats.kl / n);
    Plot("losses/entropy", update_ + 1, stats.entropy / n);
    Plot("losses/value_loss", update_ + 1, stats.value_loss / n);
  }

  // Score of the present weights; keeps them where they are the best so far.
  double Validate(int update) {
    const int episodes = config_.validation.episodes;
    const int count = static_cast<int>(cells_.size()) * episodes;
    if (teacher_jct_.empty()) {
      teacher_jct_.resize(count);
      ParallelFor(options_.threads, count, [&](int i) {
        teacher_jct_[i] = PlayTeacher(cells_[i / episodes].episodes, static_cast<std::uint64_t>(i % episodes),
                                      config_.imitation.teacher, nullptr, 0, false)
                              .mean_jct;
      });
    }
    const std::vector<float> weights = master_->Export();
    std::vector<double> logs(static_cast<std::size_t>(count));
    ParallelFor(options_.threads, count, [&](int i) {
      FloatNetwork network(config_.sizes, weights);
      const Rollout rollout =
          PlayPolicy(cells_[i / episodes].episodes, static_cast<std::uint64_t>(i % episodes), &network, Mode::kBest, 0, false);
      logs[i] = std::log(rollout.mean_jct / teacher_jct_[i]);
    });
    std::vector<TrainReport::Cell> cells;
    double score = 0;
    std::string text;
    for (std::size_t k = 0; k < cells_.size(); ++k) {
      double mean = 0;
      for (int i = 0; i < episodes; ++i)
        mean += logs[k * static_cast<std::size_t>(episodes) + static_cast<std::size_t>(i)] / episodes;
      score += mean / static_cast<double>(cells_.size());
      cells.push_back({cells_[k].name, std::exp(mean)});
      text += fmt::format(" \"{}\"={:.4f}", cells_[k].name, std::exp(mean));
      Plot("validation/" + cells_[k].name, update, std::exp(mean));
    }
    Plot("validation/score", update, score);
    validated_update_ = update;
    if (update == 0) imitation_score_ = score;
    const bool best = best_weights_.empty() || score < best_score_;
    if (best) {
      best_weights_ = weights;
      best_score_ = score;
      best_update_ = update;
      best_cells_ = cells;
      since_best_ = 0;
    } else {
      ++since_best_;
    }
    Progress(fmt::format("validation update={} score={:+.4f}{} best={}", update, score, text, best ? "yes" : "no"));
    return score;
  }

  std::string CheckpointPath() const { return options_.out + ".ckpt"; }

  static torch::Tensor ToTensor(const std::vector<float>& values) {
    return torch::from_blob(const_cast<float*>(values.data()), {static_cast<int64_t>(values.size())}, torch::kFloat32).clone();
  }
  static std::vector<float> ToVector(const torch::Tensor& tensor) {
    return {tensor.data_ptr<float>(), tensor.data_ptr<float>() + tensor.numel()};
  }

  void SaveCheckpoint() {
    torch::serialize::OutputArchive archive, optimizer;
    optimizer_->save(optimizer);
    archive.write("config", c10::IValue(config_.text));
    archive.write("optimizer", optimizer);
    archive.write("weights", ToTensor(master_->Export()));
    archive.write("best_weights", ToTensor(best_weights_));
    archive.write("numbers", torch::tensor({static_cast<double>(update_), static_cast<double>(best_update_), best_score_,
                                            static_cast<double>(since_best_), static_cast<double>(validated_update_), agreement_,
                                            imitation_score_},
                                           torch::kFloat64));
    std::vector<double> ratios;
    for (const auto& cell : best_cells_) ratios.push_back(cell.policy_over_teacher);
    archive.write("best_cells", torch::tensor(ratios, torch::kFloat64));
    std::ostringstream out;
    archive.save_to(out);
    WriteFileAtomically(CheckpointPath(), out.str());
  }

  // False where there is none yet.
  bool LoadCheckpoint() {
    std::string content;
    try {
      content = ReadFile(CheckpointPath(), std::size_t{1} << 30);
    } catch (const Error&) {
      Progress("event=no_checkpoint path=" + CheckpointPath());
      return false;
    }
    torch::serialize::InputArchive archive;
    try {
      std::istringstream in(content);
      archive.load_from(in);
    } catch (const std::exception&) {
      throw Invalid("{}: damaged checkpoint", CheckpointPath());
    }
    c10::IValue text;
    archive.read("config", text);
    if (text.toStringRef() != config_.text) {
      throw Invalid("{}: belongs to another config: resume with the one it was made with, or train anew without --resume",
                    CheckpointPath());
    }
    torch::Tensor weights, best, numbers, ratios;
    archive.read("weights", weights);
    archive.read("best_weights", best);
    archive.read("numbers", numbers);
    archive.read("best_cells", ratios);
    const WeightLayout layout(config_.sizes);
    if (weights.numel() != static_cast<int64_t>(layout.total) || best.numel() != weights.numel() || numbers.numel() != 7 ||
        ratios.numel() != static_cast<int64_t>(cells_.size())) {
      throw Invalid("{}: damaged checkpoint", CheckpointPath());
    }
    master_->Import(ToVector(weights));
    best_weights_ = ToVector(best);
    const double* n = numbers.data_ptr<double>();
    update_ = static_cast<int>(n[0]);
    best_update_ = static_cast<int>(n[1]);
    best_score_ = n[2];
    since_best_ = static_cast<int>(n[3]);
    validated_update_ = static_cast<int>(n[4]);
    agreement_ = n[5];
    imitation_score_ = n[6];
    for (std::size_t k = 0; k < cells_.size(); ++k) best_cells_.push_back({cells_[k].name, ratios.data_ptr<double>()[k]});
    MakeOptimizer(config_.ppo.learning_rate);
    torch::serialize::InputArchive optimizer;
    archive.read("optimizer", optimizer);
    optimizer_->load(optimizer);
    Progress(fmt::format("event=resumed update={}", update_));
    return true;
  }

  const TrainOptions& options_;
  const TrainConfig& config_;
  TrainReport& report_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  EpisodeSource episodes_;
  std::vector<ValidationCell> cells_;
  PolicyNet master_;
  std::vector<PolicyNet> shards_;
  std::unique_ptr<torch::optim::Adam> optimizer_;
  std::unique_ptr<TensorBoardWriter> board_;
  std::vector<double> teacher_jct_;
  int update_ = 0, best_update_ = 0, since_best_ = 0, validated_update_ = -1;
  double best_score_ = 0, agreement_ = 0, imitation_score_ = 0;
  std::vector<float> best_weights_;
  std::vector<TrainReport::Cell> best_cells_;
};

}  // namespace
}  // namespace weir

// Called through env/core/plugin.h.
extern "C" void weir_torch_train(const weir::TrainOptions& options, weir::TrainReport* report) {
  weir::Trainer(options, report).Run();
}
