#include "worker/daemon/daemon.h"

#include <signal.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "env/core/file.h"
#include "env/core/log.h"
#include "env/core/rng.h"
#include "env/core/units.h"
#include "env/core/yaml.h"
#include "worker/daemon/calibration.h"
#include "worker/daemon/child_process.h"
#include "worker/daemon/link_probe.h"
#include "worker/daemon/telemetry.h"
#include "worker/daemon/telemetry_wire.h"
#include "worker/protocol/background.h"
#include "worker/protocol/channel.h"
#include "worker/protocol/client.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kHeartbeatSeconds = 1;
constexpr double kRepeatSeconds = 2;              // of what wasn't acknowledged
constexpr double kSilenceSeconds = 5;             // of the coordinator, until Hello is said again
constexpr double kRefusedSeconds = 6;             // a predecessor under the same name may take that long to be noticed
constexpr Milliseconds kTransferPatience(10000);  // a chunk
constexpr int kMostEarlyDeaths = 5;               // executors that die before they are ready

double SecondsSince(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

using Key = std::tuple<std::int64_t, int, int>;  // job, attempt, stage
Key ToKey(const wire::StageKey& key) {
  return {key.job(), key.attempt(), key.stage()};
}
wire::StageKey FromKey(const Key& key) {
  wire::StageKey out;
  out.set_job(std::get<0>(key));
  out.set_attempt(std::get<1>(key));
  out.set_stage(std::get<2>(key));
  return out;
}

std::string Architecture() {
  utsname name{};
  return ::uname(&name) == 0 ? name.machine : "unknown";
}

std::string RandomHex() {
  std::uint64_t seed = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  seed = Mix64(
      seed, static_cast<std::uint64_t>(::getpid()) << 32 ^ static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&seed)));
  return fmt::format("{:016x}", seed);
}

// A folder of our own under the system's temporary one; removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "weir-worker-XXXXXX").string();
    if (pattern.size() > 80) pattern = "/tmp/weir-worker-XXXXXX";  // the address of an ipc socket has at most 107 bytes
    if (!::mkdtemp(pattern.data())) throw Failure(ExitCode::kInfrastructure, "{}: can't be made", pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct RunningStage {
  wire::Assign assign;
  bool handed_over = false;  // to the executor
  bool ended = false;        // it has reported; the report waits for its acknowledgement
  // Files of its last ones, and of the one that it went on from, in the artifacts: deleted with the stage.
  std::vector<std::string> checkpoints = {};
};

// A file of a resume point that can't be had whole.
struct DamagedArtifact {
  std::string hash, reason;
};

struct Report {
  std::string frame;
  Clock::time_point sent;
};

class Daemon {
 public:
  ~Daemon() { stopping_ = true; }
  explicit Daemon(const DaemonOptions& options)
      : options_(options),
        incarnation_(RandomHex()),
        work_(options.work_folder.empty() ? temporary_.path() + "/work" : options.work_folder),
        control_(context_, "ipc://" + temporary_.path() + "/control"),
        coordinator_(std::make_unique<Dealer>(context_, options.coordinator)) {
    if (!options.emulate && !options.emulate_link) responder_ = std::make_unique<LinkResponder>(context_, options.bind_host);
    std::error_code error;
    for (const char* folder : {"/artifacts", "/results"}) {
      fs::create_directories(work_ + folder, error);
      if (error) throw Failure(ExitCode::kInfrastructure, "{}{}: can't be made: {}", work_, folder, error.message());
    }
  }

  void Run() {
    if (options_.flops <= 0 && !MeasureBeforeJoining()) return;
    StartExecutor();
    started_ = Clock::now();
    while (true) {
      std::vector<PollItem> items(options_.stop_fd >= 0 ? 4 : 3);
      items[0].socket = control_.get();
      items[1].socket = coordinator_->get();
      items[2].fd = transfers_.fd();
      probes_.RunFinished();  // seldom: the time of a poll is soon enough
      if (options_.stop_fd >= 0) items[3].fd = options_.stop_fd;
      Poll(&items, Milliseconds(100));
      if (options_.stop_fd >= 0 && items[3].readable) break;
      while (auto envelope = control_.Receive(Milliseconds(0))) OnExecutorFrame(*envelope);
      for (int i = 0; i < 1000; ++i) {
        auto bytes = coordinator_->Receive(Milliseconds(0));
        if (!bytes) break;
        OnCoordinatorFrame(*bytes);
      }
      transfers_.RunFinished();
      WatchExecutor();
      WatchCalibration();
      Keep();
    }
    Shutdown();
  }

 private:
  // ---- Executor

  void StartExecutor() {
    std::vector<std::string> command = options_.executor_command;
    if (command.empty()) command = {fs::read_symlink("/proc/self/exe").string(), "executor"};
    for (std::string a :
         {std::string("--control"), control_.address(), std::string("--bind"), options_.bind_host, std::string("--threads"),
          fmt::format("{}", options_.threads), std::string("--corun-gain"), fmt::format("{}", options_.corun_gain)}) {
      command.push_back(std::move(a));
    }
    const auto add = [&](const char* flag, const std::string& value) {
      command.push_back(flag);
      command.push_back(value);
    };
    add("--device", options_.device);
    add("--memory", fmt::format("{}", options_.memory_bytes));
    add("--planned-memory", fmt::format("{}", OfferedMemory()));
    if (options_.emulate) add("--emulate-flops", fmt::format("{}", flops_));
    if (options_.emulate_link) {
      add("--emulate-bandwidth", fmt::format("{}", options_.bandwidth));
      add("--emulate-latency", fmt::format("{}", options_.latency));
    }
    executor_peer_.clear();
    bulk_address_.clear();
    executor_ = std::make_unique<ChildProcess>(command);
  }

  void OnExecutorFrame(const Envelope& envelope) {
    std::string error;
    const auto frame = DecodeFrame(envelope.bytes, &error);
    if (!frame) {
      WEIR_LOG(Error, "event=bad_frame from=executor error=\"{}\"", error);
      return;
    }
    switch (frame->type) {
      case MessageType::kExecutorReady: {
        wire::ExecutorReady ready;
        if (!ready.ParseFromString(frame->body) || ready.pid() != executor_->pid()) return;  // of one that has died since
        executor_peer_ = envelope.peer;
        bulk_address_ = ready.bulk_address();
        early_deaths_ = 0;
        WEIR_LOG(Info, "event=executor_ready pid={} bulk={} torch={}", ready.pid(), bulk_address_, ready.torch_version());
        SayHello();
        return;
      }
      case MessageType::kProgress: {
        wire::Progress progress;
        if (envelope.peer == executor_peer_ && progress.ParseFromString(frame->body) && Live(progress.key())) {
          coordinator_->Send(envelope.bytes);  // the next one makes a lost one good
        }
        return;
      }
      case MessageType::kStageDone: {
        wire::StageDone done;
        if (envelope.peer == executor_peer_ && done.ParseFromString(frame->body) && Live(done.key()))
          OnStageDone(std::move(done));
        return;
      }
      case MessageType::kStageCheckpoint: {
        wire::StageCheckpoint checkpoint;
        if (envelope.peer == executor_peer_ && checkpoint.ParseFromString(frame->body) && Live(checkpoint.key()))
          OnStageCheckpoint(std::move(checkpoint));
        return;
      }
      case MessageType::kStageFailed: {
        wire::StageFailed failed;
        if (envelope.peer == executor_peer_ && failed.ParseFromString(frame->body) && Live(failed.key())) {
          Fail(ToKey(failed.key()), failed.infrastructure(), failed.error(), failed.damaged_artifact());
        }
        return;
      }
      default:
        WEIR_LOG(Warning, "event=unexpected_frame from=executor type={}", static_cast<int>(frame->type));
    }
  }

  bool Live(const wire::StageKey& key) const {
    const auto found = stages_.find(ToKey(key));
    return found != stages_.end() && !found->second.ended;
  }

  // Uploads the file, keeps it for a resumption here, and tells; a stage that ended with it has reported.
  void OnStageCheckpoint(wire::StageCheckpoint checkpoint) {
    const Key key = ToKey(checkpoint.key());
    if (checkpoint.stopped()) stages_[key].ended = true;
    struct Upload {
      std::string hash, error;
    };
    auto upload = std::make_shared<Upload>();
    transfers_.Post(
        [this, upload, path = checkpoint.path(), address = artifact_address_, folder = work_ + "/artifacts/"] {
          try {
            upload->hash = ArtifactClient(address, kTransferPatience, &stopping_).PutFile(path);
            if (::rename(path.c_str(), (folder + upload->hash).c_str()) != 0) ::unlink(path.c_str());
          } catch (const std::exception& e) {
            upload->error = e.what();
            ::unlink(path.c_str());
          }
        },
        [this, upload, key, checkpoint]() mutable {
          const auto found = stages_.find(key);
          if (found == stages_.end()) return;  // stopped meanwhile
          if (!upload->error.empty()) {
            WEIR_LOG(Warning, "event=checkpoint_lost job={} iteration={} error=\"{}\"", checkpoint.key().job(),
                     checkpoint.iteration(), upload->error);
            if (checkpoint.stopped()) Fail(key, true, "the checkpoint can't be uploaded: " + upload->error);
            return;
          }
          // The one before stays until here: the coordinator may not have this one from all stages yet.
          std::vector<std::string>& kept = found->second.checkpoints;
          kept.push_back(upload->hash);
          while (kept.size() > 2) {
            if (kept.front() != upload->hash) ::unlink((work_ + "/artifacts/" + kept.front()).c_str());
            kept.erase(kept.begin());
          }
          checkpoint.clear_path();
          checkpoint.set_artifact(upload->hash);
          Report& report = checkpoint_reports_[{key, checkpoint.iteration()}];
          report.frame = Encode(MessageType::kStageCheckpoint, checkpoint);
          report.sent = Clock::now();
          coordinator_->Send(report.frame);
        });
  }

  void OnStageDone(wire::StageDone done) {
    const Key key = ToKey(done.key());
    stages_[key].ended = true;
    if (done.result_path().empty()) return Tell(key, MessageType::kStageDone, done);
    struct Upload {
      std::string hash, onnx, error;
    };
    auto upload = std::make_shared<Upload>();
    transfers_.Post(
        [this, upload, path = done.result_path(), address = artifact_address_] {
          try {
            ArtifactClient client(address, kTransferPatience, &stopping_);
            upload->hash = client.PutFile(path);
            ::unlink(path.c_str());
            if (const std::string onnx = path + ".onnx"; fs::exists(onnx)) {
              upload->onnx = client.PutFile(onnx);
              ::unlink(onnx.c_str());
            }
          } catch (const std::exception& e) {
            upload->error = e.what();
          }
        },
        [this, upload, key, done]() mutable {
          if (!stages_.count(key)) return;  // stopped meanwhile
          if (!upload->error.empty()) return Fail(key, true, "the result can't be uploaded: " + upload->error);
          done.clear_result_path();
          done.set_result_artifact(upload->hash);
          done.set_onnx_artifact(upload->onnx);
          Tell(key, MessageType::kStageDone, done);
        });
  }

  void Fail(const Key& key, bool infrastructure, const std::string& error, const std::string& damaged_artifact = "") {
    if (!stages_.count(key)) return;
    stages_[key].ended = true;
    wire::StageFailed failed;
    *failed.mutable_key() = FromKey(key);
    failed.set_infrastructure(infrastructure);
    failed.set_error(error);
    failed.set_damaged_artifact(damaged_artifact);
    if (!damaged_artifact.empty()) ::unlink((work_ + "/artifacts/" + damaged_artifact).c_str());
    Tell(key, MessageType::kStageFailed, failed);
  }

  void WatchExecutor() {
    const auto how = executor_->HowItEnded();
    if (!how) return;
    const std::string what = fmt::format("the executor ended with {}", *how);
    WEIR_LOG(Error, "event=executor_died {}", what);
    const bool early = executor_peer_.empty();
    executor_peer_.clear();
    bulk_address_.clear();
    SayHello();  // without a bulk address: not ready for more, and before the failures, which make room for new jobs
    for (auto& [key, stage] : stages_) {
      if (!stage.ended) Fail(key, true, what);
    }
    if (early && ++early_deaths_ >= kMostEarlyDeaths) {
      throw Failure(ExitCode::kInfrastructure, "worker {}: {} before it was ready, {} times", options_.name, what, early_deaths_);
    }
    StartExecutor();
  }

  // ---- Calibration

  std::unique_ptr<CalibrationRun> StartCalibration() {
    return std::make_unique<CalibrationRun>(options_.calibrate_command, options_.device, options_.threads, temporary_.path());
  }

  // False: asked to stop meanwhile. Throws where there is no figure: a worker without a speed can't join.
  bool MeasureBeforeJoining() {
    calibrating_ = StartCalibration();
    while (true) {
      std::vector<PollItem> items(options_.stop_fd >= 0 ? 1 : 0);
      if (options_.stop_fd >= 0) items[0].fd = options_.stop_fd;
      Poll(&items, Milliseconds(50));
      if (options_.stop_fd >= 0 && items[0].readable) return false;
      const auto calibration = calibrating_->Result();
      if (!calibration) continue;
      calibrating_.reset();
      if (calibration->flops() <= 0)
        throw Failure(ExitCode::kInfrastructure, "worker {}: its speed can't be measured ({}): give --flops", options_.name,
                      calibration->error());
      TakeCalibration(*calibration);
      return true;
    }
  }

  void TakeCalibration(const wire::Calibration& calibration) {
    calibration_ = calibration;
    if (!options_.emulate) {  // an emulated device has the speed that it was given
      flops_ = calibration.flops();
      measured_ = true;
    }
    WEIR_LOG(Info, "event=calibrated flops={} seconds={:.1f}", FormatCount(calibration.flops()), calibration.seconds());
  }

  void OnCalibrate(std::uint64_t sequence) {
    if (calibrating_) return;  // a repeat
    calibrate_sequence_ = sequence;
    wire::Calibrated refused;
    refused.set_sequence(sequence);
    if (!stages_.empty()) {  // measuring beside a job would disturb it, and measure half a device
      refused.mutable_calibration()->set_error("a job runs here");
      coordinator_->Send(Encode(MessageType::kCalibrated, refused));
      return;
    }
    calibrating_ = StartCalibration();
  }

  void WatchCalibration() {
    if (!calibrating_) return;
    const auto calibration = calibrating_->Result();
    if (!calibration) return;
    calibrating_.reset();
    if (calibration->flops() > 0) {
      TakeCalibration(*calibration);
      SayHello();  // with the new figures
    }
    wire::Calibrated done;
    done.set_sequence(calibrate_sequence_);
    *done.mutable_calibration() = *calibration;
    coordinator_->Send(Encode(MessageType::kCalibrated, done));
  }

  void OnProbeLink(const wire::ProbeLink& probe) {
    auto report = std::make_shared<wire::LinkReport>();
    report->set_peer(probe.peer());
    report->set_sequence(probe.sequence());
    probes_.Post(
        [this, report, address = probe.address()] {
          try {
            const LinkFigures figures = ProbeLink(address, &stopping_);
            report->set_bandwidth(figures.bandwidth);
            report->set_latency(figures.latency);
            if (figures.bandwidth <= 0) report->set_error("too fast to be measured");
          } catch (const std::exception& e) {
            report->set_error(e.what());
          }
        },
        [this, report] { coordinator_->Send(Encode(MessageType::kLinkReport, *report)); });
  }

  // ---- Coordinator

  template <typename Message>
  void Tell(const Key& key, MessageType type, const Message& message) {
    Report& report = reports_[key];
    report.frame = Encode(type, message);
    report.sent = Clock::now();
    coordinator_->Send(report.frame);
  }

  double OfferedMemory() const {
    if (options_.device.rfind("cuda", 0) != 0) return options_.memory_bytes;
    return std::max(1.0, kPlannedShareOfDevice * (options_.memory_bytes - kDeviceWorkspaceBytes));
  }

  void SayHello() {
    wire::Hello hello;
    hello.set_worker(options_.name);
    hello.set_incarnation(incarnation_);
    hello.set_version(options_.version);
    hello.set_flops(flops_);
    hello.set_measured(measured_);
    if (calibration_.flops() > 0) *hello.mutable_calibration() = calibration_;
    hello.set_emulated_link(options_.emulate_link);
    if (responder_) hello.set_probe_address(responder_->address());
    hello.set_memory_bytes(OfferedMemory());
    hello.set_bandwidth(options_.bandwidth);
    hello.set_latency(options_.latency);
    hello.set_corun_gain(options_.corun_gain);
    hello.set_max_residents(options_.max_residents);
    hello.set_bulk_address(bulk_address_);
    hello.set_emulated(options_.emulate);
    hello.set_device(options_.device);
    hello.set_arch(Architecture());
    hello.set_gpus(options_.device.rfind("cuda", 0) == 0 ? 1 : 0);
    for (const auto& [key, stage] : stages_) *hello.add_running() = FromKey(key);
    coordinator_->Send(Encode(MessageType::kHello, hello));
    hello_sent_ = Clock::now();
  }

  void Keep() {
    if (!known_) {
      if (SecondsSince(hello_sent_) >= 1 && !executor_peer_.empty()) SayHello();
      if (!ever_known_ && SecondsSince(started_) > options_.connect_timeout && !executor_peer_.empty()) {
        if (!refused_.empty()) throw Failure(ExitCode::kNotFound, "coordinator at {}: {}", options_.coordinator, refused_);
        throw Failure(ExitCode::kUnreachable, "coordinator at {}: no answer within {:g} s", options_.coordinator,
                      options_.connect_timeout);
      }
      return;
    }
    if (SecondsSince(heard_) > kSilenceSeconds) {
      WEIR_LOG(Warning, "event=coordinator_silent seconds={:.1f}", SecondsSince(heard_));
      known_ = false;
      return;
    }
    if (SecondsSince(beat_sent_) >= kHeartbeatSeconds) {
      wire::Heartbeat beat;
      beat.set_sequence(++sequence_);
      for (const auto& [key, stage] : stages_) *beat.add_running() = FromKey(key);
      ToWire(telemetry_.Sample(), beat.mutable_telemetry());
      coordinator_->Send(Encode(MessageType::kHeartbeat, beat));
      beat_sent_ = Clock::now();
    }
    for (auto& [key, report] : checkpoint_reports_) {
      if (SecondsSince(report.sent) < kRepeatSeconds) continue;
      coordinator_->Send(report.frame);
      report.sent = Clock::now();
    }
    for (auto& [key, report] : reports_) {
      if (SecondsSince(report.sent) < kRepeatSeconds) continue;
      coordinator_->Send(report.frame);
      report.sent = Clock::now();
    }
  }

  void OnCoordinatorFrame(const std::string& bytes) {
    std::string error;
    const auto frame = DecodeFrame(bytes, &error);
    if (!frame) {
      WEIR_LOG(Error, "event=bad_frame from=coordinator error=\"{}\"", error);
      return;
    }
    heard_ = Clock::now();
    switch (frame->type) {
      case MessageType::kHelloAck: {
        wire::HelloAck ack;
        if (ack.ParseFromString(frame->body)) OnHelloAck(ack);
        return;
      }
      case MessageType::kHeartbeatAck: {
        wire::HeartbeatAck ack;
        if (ack.ParseFromString(frame->body) && ack.unknown() && known_) {
          known_ = false;
          SayHello();
        }
        return;
      }
      case MessageType::kAssign: {
        wire::Assign assign;
        if (assign.ParseFromString(frame->body)) OnAssign(std::move(assign));
        return;
      }
      case MessageType::kTakeCheckpoint: {
        wire::TakeCheckpoint take;
        if (take.ParseFromString(frame->body) && Live(take.key()) && !executor_peer_.empty())
          control_.Send(executor_peer_, bytes);
        return;
      }
      case MessageType::kStop: {
        wire::Stop stop;
        if (stop.ParseFromString(frame->body)) OnStop(stop);
        return;
      }
      case MessageType::kStageAck: {
        wire::StageAck ack;
        if (!ack.ParseFromString(frame->body)) return;
        if (ack.checkpoint() > 0) return OnCheckpointAck(ToKey(ack.key()), ack.checkpoint());
        if (const auto ended = stages_.find(ToKey(ack.key())); ended != stages_.end()) {  // fetched again where they are needed
          for (const std::string& hash : ended->second.checkpoints) ::unlink((work_ + "/artifacts/" + hash).c_str());
        }
        reports_.erase(ToKey(ack.key()));
        checkpoint_reports_.erase(checkpoint_reports_.lower_bound({ToKey(ack.key()), 0}),
                                  checkpoint_reports_.upper_bound({ToKey(ack.key()), INT64_MAX}));
        stages_.erase(ToKey(ack.key()));
        return;
      }
      case MessageType::kProbeLink: {
        wire::ProbeLink probe;
        if (probe.ParseFromString(frame->body)) OnProbeLink(probe);
        return;
      }
      case MessageType::kCalibrate: {
        wire::Calibrate request;
        if (request.ParseFromString(frame->body)) OnCalibrate(request.sequence());
        return;
      }
      case MessageType::kErrorReply: {
        wire::ErrorReply reply;
        if (reply.ParseFromString(frame->body)) WEIR_LOG(Error, "event=coordinator_error error=\"{}\"", reply.error());
        return;
      }
      default:
        WEIR_LOG(Warning, "event=unexpected_frame from=coordinator type={}", static_cast<int>(frame->type));
    }
  }

  void OnCheckpointAck(const Key& key, std::int64_t iteration) {
    checkpoint_reports_.erase({key, iteration});
    const auto found = stages_.find(key);
    const bool waits = found != stages_.end() && found->second.ended && !reports_.count(key);
    if (waits && checkpoint_reports_.lower_bound({key, 0}) == checkpoint_reports_.upper_bound({key, INT64_MAX}))
      stages_.erase(found);
  }

  void OnHelloAck(const wire::HelloAck& ack) {
    if (!ack.refused().empty()) {
      refused_ = ack.refused();
      if (ever_known_ || SecondsSince(started_) > kRefusedSeconds) {
        throw Failure(ExitCode::kNotFound, "coordinator at {}: {}", options_.coordinator, ack.refused());
      }
      return;
    }
    if (!known_) WEIR_LOG(Info, "event=connected coordinator={} worker_id={}", options_.coordinator, ack.worker_id());
    known_ = ever_known_ = true;
    artifact_address_ = ReachableFrom(ack.artifact_address(), options_.coordinator);
  }

  void OnAssign(wire::Assign assign) {
    const Key key = ToKey(assign.key());
    wire::AssignAck ack;
    *ack.mutable_key() = assign.key();
    coordinator_->Send(Encode(MessageType::kAssignAck, ack));
    RunningStage begun{.assign = assign};
    begun.checkpoints.assign(assign.resume().artifacts().begin(), assign.resume().artifacts().end());
    if (!stages_.emplace(key, std::move(begun)).second) return;  // a repeat
    WEIR_LOG(Info, "event=assigned job={} attempt={} stage={} of={}", assign.key().job(), assign.key().attempt(),
             assign.key().stage(), assign.num_stages());
    auto error = std::make_shared<std::string>();
    auto damaged = std::make_shared<DamagedArtifact>();
    const wire::DataSpec& data = assign.train().data();
    const std::vector<std::string> resume(assign.resume().artifacts().begin(), assign.resume().artifacts().end());
    std::vector<std::string> hashes = {assign.model_artifact(), data.artifact()};
    if (!data.labels().empty()) hashes.push_back(data.labels());
    transfers_.Post(
        [this, error, damaged, hashes, resume, address = artifact_address_, folder = work_ + "/artifacts/"] {
          try {
            std::optional<ArtifactClient> client;
            for (const std::string& hash : hashes) {
              if (fs::exists(folder + hash)) continue;  // complete: files appear under their name once checked
              if (!client) client.emplace(address, kTransferPatience, &stopping_);
              client->GetFile(hash, folder + hash);
            }
            for (const std::string& hash : resume) {
              // Read again each time: a checkpoint may lie for long.
              if (fs::exists(folder + hash)) {
                if (ContentHash(ReadFile(folder + hash, std::size_t{1} << 40)) == hash) continue;
                ::unlink((folder + hash).c_str());
              }
              if (!client) client.emplace(address, kTransferPatience, &stopping_);
              try {
                client->GetFile(hash, folder + hash);
              } catch (const Error& e) {
                const std::string what = e.what();
                const bool gone = e.code() == ExitCode::kNotFound || what.find("match its hash") != std::string::npos;
                if (!gone) throw;
                *damaged = {hash, what};
                return;
              }
            }
          } catch (const std::exception& e) {
            *error = e.what();
          }
        },
        [this, key, error, damaged] {
          const auto found = stages_.find(key);
          if (found == stages_.end() || found->second.ended) return;
          if (!damaged->hash.empty()) return Fail(key, true, damaged->reason, damaged->hash);
          if (!error->empty()) return Fail(key, true, *error);
          HandOver(key, &found->second);
        });
  }

  void HandOver(const Key& key, RunningStage* stage) {
    if (executor_peer_.empty()) return Fail(key, true, "the executor isn't there");
    const wire::Assign& assign = stage->assign;
    const wire::DataSpec& data = assign.train().data();
    wire::RunStage run;
    *run.mutable_assign() = assign;
    run.set_model_path(work_ + "/artifacts/" + assign.model_artifact());
    run.set_data_path(work_ + "/artifacts/" + data.artifact());
    if (!data.labels().empty()) run.set_labels_path(work_ + "/artifacts/" + data.labels());
    for (const std::string& hash : assign.resume().artifacts()) run.add_resume_paths(work_ + "/artifacts/" + hash);
    run.set_checkpoint_prefix(fmt::format("{}/results/checkpoint-job{}-attempt{}-stage{}-", work_, assign.key().job(),
                                          assign.key().attempt(), assign.key().stage()));
    run.set_result_path(fmt::format("{}/results/job{}-attempt{}-stage{}.pt", work_, assign.key().job(), assign.key().attempt(),
                                    assign.key().stage()));
    stage->handed_over = true;
    if (control_.Send(executor_peer_, Encode(MessageType::kRunStage, run)) != SendResult::kSent)
      Fail(key, true, "the executor doesn't answer");
  }

  void OnStop(const wire::Stop& stop) {
    bool handed_over = false, any = false;
    for (auto it = stages_.begin(); it != stages_.end();) {
      if (std::get<0>(it->first) == stop.key().job() && std::get<1>(it->first) == stop.key().attempt()) {
        any = true;
        handed_over |= it->second.handed_over && !it->second.ended;
        reports_.erase(it->first);
        checkpoint_reports_.erase(checkpoint_reports_.lower_bound({it->first, 0}),
                                  checkpoint_reports_.upper_bound({it->first, INT64_MAX}));
        it = stages_.erase(it);
      } else {
        ++it;
      }
    }
    if (any) WEIR_LOG(Info, "event=stop job={} attempt={} reason=\"{}\"", stop.key().job(), stop.key().attempt(), stop.reason());
    if (handed_over && !executor_peer_.empty()) control_.Send(executor_peer_, Encode(MessageType::kStop, stop));
  }

  void Shutdown() {
    WEIR_LOG(Info, "event=stopping");
    stopping_ = true;
    wire::Bye bye;
    bye.set_reason("shut down");
    const std::string frame = Encode(MessageType::kBye, bye);
    coordinator_->Send(frame);
    if (!executor_peer_.empty()) control_.Send(executor_peer_, frame);
    executor_->Stop(executor_peer_.empty() ? 0 : 3);
  }

  const DaemonOptions& options_;
  const std::string incarnation_;
  TelemetrySampler telemetry_{options_.device};
  TemporaryFolder temporary_;
  const std::string work_;
  Context context_;
  Router control_;
  std::unique_ptr<Dealer> coordinator_;
  std::unique_ptr<LinkResponder> responder_;  // null where figures are emulated: there is nothing to measure
  std::unique_ptr<ChildProcess> executor_;
  std::string executor_peer_;  // empty until it is ready
  std::string bulk_address_;
  int early_deaths_ = 0;
  double flops_ = options_.flops;  // given, or measured
  bool measured_ = false;
  wire::Calibration calibration_;
  std::unique_ptr<CalibrationRun> calibrating_;
  std::uint64_t calibrate_sequence_ = 0;
  std::map<Key, RunningStage> stages_;
  std::map<Key, Report> reports_;                                      // not acknowledged
  std::map<std::pair<Key, std::int64_t>, Report> checkpoint_reports_;  // likewise, by iteration
  std::string artifact_address_;
  bool known_ = false;  // the coordinator has answered our Hello and knows us since
  bool ever_known_ = false;
  std::string refused_;  // why the coordinator last said no; empty: it did not
  std::uint64_t sequence_ = 0;
  Clock::time_point started_, hello_sent_, beat_sent_, heard_ = Clock::now();
  std::atomic<bool> stopping_ = false;  // ends transfers
  Background probes_;                   // of links
  Background transfers_;                // last: their threads end first
};

}  // namespace

void ReadDaemonConfig(const std::string& path, DaemonOptions* options) {
  const Yaml root = Yaml::ParseFile(path);
  options->name = root.String("name", options->name);
  options->coordinator = root.String("coordinator", options->coordinator);
  options->flops = root.Quantity("flops", options->flops, Unit::kFlopPerSecond);
  options->memory_bytes = root.Quantity("memory", options->memory_bytes, Unit::kBytes);
  options->bandwidth = root.Quantity("bandwidth", options->bandwidth, Unit::kBytesPerSecond);
  options->latency = root.Quantity("latency", options->latency, Unit::kSeconds);
  options->corun_gain = root.Double("corun_gain", options->corun_gain, 0, 10);
  options->max_residents = static_cast<int>(root.Int("max_residents", options->max_residents, 1, 64));
  options->emulate = root.Bool("emulate", options->emulate);
  options->emulate_link = root.Bool("emulate_link", options->emulate_link);
  options->device = root.String("device", options->device);
  options->threads = static_cast<int>(root.Int("threads", options->threads, 1, 1024));
  options->work_folder = root.String("work_folder", options->work_folder);
  options->bind_host = root.String("bind_host", options->bind_host);
  root.Finish();
}

void RunDaemon(const DaemonOptions& options) {
  const auto require = [](bool ok, const char* what, double got) {
    if (!ok) throw Invalid("worker: {}, got {:g}", what, got);
  };
  if (options.name.empty() || options.name.size() > 100)
    throw Invalid("worker: its name must have 1 to 100 characters, got '{}'", options.name);
  require(std::isfinite(options.flops) && options.flops >= 0, "flops must be > 0, or 0 to measure them", options.flops);
  require(!options.emulate || options.flops > 0, "an emulated speed must be > 0", options.flops);
  require(std::isfinite(options.memory_bytes) && options.memory_bytes > 0, "memory must be > 0", options.memory_bytes);
  require(std::isfinite(options.bandwidth) && options.bandwidth > 0, "bandwidth must be > 0", options.bandwidth);
  require(std::isfinite(options.latency) && options.latency >= 0, "latency must be >= 0", options.latency);
  require(options.max_residents >= 1, "max_residents must be >= 1", options.max_residents);
  if (!IsLoopback(options.coordinator) && IsLoopback("tcp://" + options.bind_host + ":1")) {
    throw Invalid(
        "worker: the coordinator {} is another machine: bind_host must be an address at which other workers reach this one, got "
        "{}",
        options.coordinator, options.bind_host);
  }
  {  // so that a wrong host is told here, not by an executor that dies
    const Context context;
    try {
      Router probe(context, fmt::format("tcp://{}:*", options.bind_host));
    } catch (const Error& e) {
      throw Invalid("worker: can't listen on host '{}' (bind_host): {}", options.bind_host, e.what());
    }
  }
  Daemon(options).Run();
}

}  // namespace weir::worker
