// The executor process's main loop (in libweir_torch.so): control socket in this thread, one thread a stage.
#include "worker/runtime/executor.h"

#include <ATen/Parallel.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <torch/version.h>
#include <unistd.h>
#include <zmq.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/file.h"
#include "env/core/log.h"
#include "env/core/units.h"
#include "worker/protocol/dataset.h"
#include "worker/protocol/frame.h"
#include "worker/protocol/wire.pb.h"
#include "worker/runtime/bulk_exchange.h"
#include "worker/runtime/device_memory.h"
#include "worker/runtime/model_device.h"
#include "worker/runtime/snapshot.h"
#include "worker/runtime/stage_trainer.h"

namespace weir::worker {
namespace {

using Clock = std::chrono::steady_clock;
using Key = std::tuple<std::int64_t, int, int>;  // job, attempt, stage

class Executor {
 public:
  explicit Executor(const ExecutorOptions& options)
      : options_(options),
        device_(DeviceOf(options.device)),
        bulk_({options.bind_host, !device_.is_cpu(), options.emulated_bandwidth, options.emulated_latency}) {
    PrepareDevice(device_, options.memory_bytes);
    notify_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    WEIR_CHECK_GE(notify_, 0);
    control_ = zmq_socket(bulk_.context(), ZMQ_DEALER);
    const int linger = 1000;
    zmq_setsockopt(control_, ZMQ_LINGER, &linger, sizeof linger);
    if (zmq_connect(control_, options.control_address.c_str()) != 0) {
      throw Failure(ExitCode::kInfrastructure, "executor: can't connect to {}: {}", options.control_address,
                    zmq_strerror(zmq_errno()));
    }
  }

  ~Executor() {
    std::vector<Key> keys;
    {
      std::lock_guard lock(mutex_);
      for (auto& [key, stage] : stages_) keys.push_back(key);
    }
    for (const Key& key : keys) bulk_.Close(std::get<0>(key), std::get<1>(key), "executor ends");
    for (auto& [key, stage] : stages_) stage.thread.join();
    zmq_close(control_);
    ::close(notify_);
  }

  int Run() {
    wire::ExecutorReady ready;
    ready.set_bulk_address(bulk_.address());
    ready.set_torch_version(TORCH_VERSION);
    ready.set_pid(::getpid());
    Send(Encode(MessageType::kExecutorReady, ready));
    const pid_t parent = ::getppid();
    while (::getppid() == parent) {
      zmq_pollitem_t items[2] = {{control_, 0, ZMQ_POLLIN, 0}, {nullptr, notify_, ZMQ_POLLIN, 0}};
      zmq_poll(items, 2, 1000);
      if (items[1].revents) Drain();
      if (items[0].revents && !HandleControl()) return 0;
    }
    return 0;
  }

 private:
  struct RunningStage {
    std::thread thread;
    bool finished = false;
    double memory_bytes = 0;  // planned
    CheckpointWish wish;      // of the coordinator, for the next iteration
  };

  void Send(const std::string& frame) { zmq_send(control_, frame.data(), frame.size(), 0); }

  // From any thread: hands a frame to the main loop, which owns the socket.
  void Post(std::string frame) {
    std::lock_guard lock(mutex_);
    outbox_.push_back(std::move(frame));
    const std::uint64_t one = 1;
    [[maybe_unused]] ssize_t n = ::write(notify_, &one, sizeof one);
  }

  void Drain() {
    std::uint64_t count = 0;
    [[maybe_unused]] ssize_t n = ::read(notify_, &count, sizeof count);
    std::deque<std::string> out;
    std::vector<std::thread> ended;
    {
      std::lock_guard lock(mutex_);
      out.swap(outbox_);
      for (auto it = stages_.begin(); it != stages_.end();) {
        if (it->second.finished) {
          ended.push_back(std::move(it->second.thread));
          it = stages_.erase(it);
        } else {
          ++it;
        }
      }
    }
    for (const std::string& frame : out) Send(frame);
    for (std::thread& thread : ended) thread.join();
  }

  // False: time to end.
  bool HandleControl() {
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, control_, 0) < 0) return true;
    std::string error;
    auto frame = DecodeFrame({static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message)}, &error);
    zmq_msg_close(&message);
    if (!frame) {
      WEIR_LOG(Warning, "event=frame_refused reason=\"{}\"", error);
      return true;
    }
    if (frame->type == MessageType::kBye) return false;
    if (frame->type == MessageType::kStop) {
      wire::Stop stop;
      if (stop.ParseFromString(frame->body)) bulk_.Close(stop.key().job(), stop.key().attempt(), stop.reason());
    }
    if (frame->type == MessageType::kTakeCheckpoint) {
      wire::TakeCheckpoint take;
      if (take.ParseFromString(frame->body)) {
        std::lock_guard lock(mutex_);
        const auto found = stages_.find({take.key().job(), take.key().attempt(), take.key().stage()});
        if (found != stages_.end()) {
          found->second.wish.take = true;
          found->second.wish.stop |= take.stop();
        }
      }
    }
    if (frame->type == MessageType::kRunStage) {
      auto run = std::make_shared<wire::RunStage>();
      if (run->ParseFromString(frame->body)) Start(std::move(run));
    }
    return true;
  }

  void Start(std::shared_ptr<wire::RunStage> run) {
    const wire::StageKey& k = run->assign().key();
    const Key key{k.job(), k.attempt(), k.stage()};
    std::lock_guard lock(mutex_);
    if (stages_.count(key)) return;  // a repeated message
    const double wanted = run->assign().memory_bytes();
    double taken = 0;
    for (const auto& [other, stage] : stages_) taken += stage.finished ? 0 : stage.memory_bytes;
    if (options_.planned_memory_bytes > 0 && taken + wanted > options_.planned_memory_bytes) {
      wire::StageFailed failed;
      *failed.mutable_key() = k;
      failed.set_infrastructure(true);
      failed.set_error(fmt::format("needs {}, but {} of {} are taken", FormatBytes(wanted), FormatBytes(taken),
                                   FormatBytes(options_.planned_memory_bytes)));
      Send(Encode(MessageType::kStageFailed, failed));
      return;
    }
    stages_[key].memory_bytes = wanted;
    stages_[key].thread = std::thread([this, key, run] {
      RunStage(*run);
      std::lock_guard inner(mutex_);
      stages_[key].finished = true;
      const std::uint64_t one = 1;
      [[maybe_unused]] ssize_t n = ::write(notify_, &one, sizeof one);
    });
  }

  int Residents() {
    std::lock_guard lock(mutex_);
    std::set<std::int64_t> jobs;
    for (const auto& [key, stage] : stages_) {
      if (!stage.finished) jobs.insert(std::get<0>(key));
    }
    return std::max<int>(1, static_cast<int>(jobs.size()));
  }

  // Whether the stage takes a checkpoint at the end of its next iteration: asked for, or due.
  CheckpointWish Wish(const wire::StageKey& key, double every, Clock::time_point* last) {
    CheckpointWish wish;
    {
      std::lock_guard lock(mutex_);
      const auto found = stages_.find({key.job(), key.attempt(), key.stage()});
      if (found != stages_.end()) std::swap(wish, found->second.wish);
    }
    const auto now = Clock::now();
    wish.take |= every > 0 && std::chrono::duration<double>(now - *last).count() >= every;
    if (wish.take) *last = now;
    return wish;
  }

  // Stretches what took `seconds` to the time that the emulated device would need with its present residents.
  void Pace(double flop, double seconds) {
    const int n = Residents();
    const double speed = options_.emulated_flops * (1 + options_.corun_gain * (1 - 1.0 / n)) / n;
    const double rest = flop / speed - seconds;
    if (rest > 0) std::this_thread::sleep_for(std::chrono::duration<double>(rest));
  }

  void RunStage(const wire::RunStage& run) {
    const wire::Assign& assign = run.assign();
    const wire::StageKey& key = assign.key();
    at::set_num_threads(options_.threads);
    auto fail = [&](bool infrastructure, const std::string& error) {
      wire::StageFailed failed;
      *failed.mutable_key() = key;
      failed.set_infrastructure(infrastructure);
      failed.set_error(error.substr(0, error.find('\n')));
      Post(Encode(MessageType::kStageFailed, failed));
    };
    try {
      BulkExchange exchange(&bulk_, key.job(), key.attempt(), key.stage(), {assign.peers().begin(), assign.peers().end()});
      const Dataset data = ReadDataset(run.data_path(), run.labels_path(), assign.train().data());
      const std::string model = ReadFile(run.model_path());
      TrainerHooks hooks;
      hooks.check = [&] { exchange.mailbox().Check(); };
      // Null at full speed: the trainer replays recorded iterations only where nothing paces it.
      if (options_.emulated_flops > 0) hooks.pace = [&](double flop, double seconds) { Pace(flop, seconds); };
      auto last_report = Clock::now();
      auto last_checkpoint = last_report;
      std::int64_t last_iteration = assign.resume().iteration(), last_epoch = 0;
      // Time inside iterations alone: evaluations and checkpoints lie between the end of one and the start of the next.
      const auto handed_over = last_report;
      auto iteration_began = last_report;
      double iterating = 0, startup = -1;
      hooks.wish = [&] {
        iteration_began = Clock::now();
        if (startup < 0) startup = std::chrono::duration<double>(iteration_began - handed_over).count();
        return Wish(key, assign.checkpoint_every_seconds(), &last_checkpoint);
      };
      hooks.checkpoint = [&](std::int64_t iteration, const std::string& file, bool stopped, double seconds) {
        wire::StageCheckpoint checkpoint;
        *checkpoint.mutable_key() = key;
        checkpoint.set_iteration(iteration);
        checkpoint.set_path(run.checkpoint_prefix() + std::to_string(iteration));
        checkpoint.set_bytes(static_cast<double>(file.size()));
        checkpoint.set_stopped(stopped);
        checkpoint.set_seconds(seconds);
        WriteFileAtomically(checkpoint.path(), file);
        Post(Encode(MessageType::kStageCheckpoint, checkpoint));
      };
      hooks.progress = [&](const TrainerProgress& p) {
        const auto now = Clock::now();
        const double elapsed = std::chrono::duration<double>(now - last_report).count();
        iterating += std::chrono::duration<double>(now - iteration_began).count();
        iteration_began = now;
        if (elapsed < 0.2 && p.iteration < p.total && p.epoch == last_epoch) return;
        wire::Progress progress;
        *progress.mutable_key() = key;
        progress.set_iteration(p.iteration);
        progress.set_iterations_total(p.total);
        progress.set_loss(p.loss);
        progress.set_iteration_seconds(iterating / static_cast<double>(std::max<std::int64_t>(1, p.iteration - last_iteration)));
        progress.set_startup_seconds(startup);
        iterating = 0;
        progress.set_epoch(p.epoch);
        progress.set_eval_loss(p.eval_loss);
        progress.set_eval_accuracy(p.eval_accuracy);
        Post(Encode(MessageType::kProgress, progress));
        last_report = now;
        last_iteration = p.iteration;
        last_epoch = p.epoch;
      };
      TrainerResult result =
          TrainStage(assign, model, data, &exchange, hooks, {device_, {run.resume_paths().begin(), run.resume_paths().end()}});
      if (result.stopped) return;
      wire::StageDone done;
      *done.mutable_key() = key;
      done.set_final_loss(result.final_loss);
      for (std::size_t i = result.losses.size() > 20 ? result.losses.size() - 20 : 0; i < result.losses.size(); ++i) {
        done.add_last_losses(result.losses[i]);
      }
      done.set_accuracy(result.accuracy);
      done.set_held_out_samples(result.held_out_samples);
      done.set_eval_loss(result.eval_loss);
      for (double v : result.epoch_losses) done.add_epoch_losses(v);
      for (double v : result.epoch_accuracies) done.add_epoch_accuracies(v);
      done.set_peak_device_bytes(PeakDeviceBytes(device_));
      done.set_compute_seconds(result.compute_seconds);
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      done.set_peak_memory_bytes(static_cast<double>(usage.ru_maxrss) * 1024);
      if (!result.torchscript.empty()) {
        WriteFileAtomically(run.result_path(), result.torchscript);
        if (!result.onnx.empty()) WriteFileAtomically(run.result_path() + ".onnx", result.onnx);
        done.set_result_path(run.result_path());
      }
      Post(Encode(MessageType::kStageDone, done));
    } catch (const DamagedSnapshot& e) {
      wire::StageFailed failed;
      *failed.mutable_key() = key;
      failed.set_infrastructure(true);
      failed.set_error("checkpoint: " + e.reason);
      for (int i = 0; i < run.resume_paths_size() && i < assign.resume().artifacts_size(); ++i) {
        if (run.resume_paths(i) == e.path) failed.set_damaged_artifact(assign.resume().artifacts(i));
      }
      Post(Encode(MessageType::kStageFailed, failed));
    } catch (const Aborted&) {
      // Stopped from outside: whoever stopped it knows.
    } catch (const Error& e) {
      fail(e.code() == ExitCode::kInfrastructure || e.code() == ExitCode::kUnreachable, e.what());
    } catch (const std::bad_alloc&) {
      fail(true, "out of memory");
    } catch (const std::exception& e) {
      fail(false, e.what());
    }
  }

  const ExecutorOptions options_;
  const at::Device device_;
  BulkSocket bulk_;
  void* control_ = nullptr;
  int notify_ = -1;
  std::mutex mutex_;
  std::deque<std::string> outbox_;
  std::map<Key, RunningStage> stages_;
};

}  // namespace
}  // namespace weir::worker

extern "C" int weir_torch_run_executor(const weir::worker::ExecutorOptions* options) {
  return weir::worker::Executor(*options).Run();
}
