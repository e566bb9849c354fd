#include "coordinator/coordinator.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "coordinator/artifact_store.h"
#include "coordinator/corrections.h"
#include "coordinator/decision_loop.h"
#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/event_log.h"
#include "env/core/file.h"
#include "env/core/log.h"
#include "worker/protocol/background.h"

namespace weir::coordinator {
namespace {

// Held for the life of the process: one coordinator a state folder.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw Failure(ExitCode::kInfrastructure, "{}: can't be made: {}", folder, error.message());
    const std::string path = folder + "/lock";
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd_ < 0) throw Failure(ExitCode::kInfrastructure, "{}: can't be written: {}", path, std::strerror(errno));
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      ::close(fd_);
      throw Failure(ExitCode::kNotFound, "{}: another coordinator uses this state folder", folder);
    }
  }
  ~FolderLock() { ::close(fd_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

// tcp://host:7700 -> tcp://host:7701; tcp://host:* stays.
std::string NextPort(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return address;
  const std::string port = address.substr(colon + 1);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos) return address;
  return fmt::format("{}:{}", address.substr(0, colon), std::stoi(port) + 1);
}

struct LateReply {
  std::string peer, frame;
  JobId new_job;
};

}  // namespace

void RunCoordinator(const CoordinatorOptions& options) {
  WEIR_CHECK(options.make_scheduler && options.plan);
  const FolderLock lock(options.state_folder);
  JobStore store(options.state_folder + "/state.db");
  ArtifactStore artifacts(options.state_folder + "/artifacts");
  worker::Context context;
  worker::Router router(context, options.listen);
  ArtifactServer artifact_server(context, options.artifact_listen.empty() ? NextPort(options.listen) : options.artifact_listen,
                                 &artifacts);

  // Wall time at start, steady from then on: seconds since the store's epoch never go back within a run.
  const auto steady_start = std::chrono::steady_clock::now();
  const double wall_start =
      std::max(0.0, std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() - store.epoch());
  const auto now = [&] {
    return wall_start + std::chrono::duration<double>(std::chrono::steady_clock::now() - steady_start).count();
  };

  std::vector<LateReply> late;
  struct Planned {
    std::optional<JobPlan> plan;
    ExitCode code = ExitCode::kOk;
    std::string error;
  };
  std::unique_ptr<DecisionLoop> loop;
  worker::Background planner;  // after `loop`: it ends before the loop does

  LoopOptions loop_options;
  loop_options.model = options.model;
  loop_options.suspect_after = options.suspect_after;
  loop_options.lost_after = options.lost_after;
  loop_options.policy_hash = options.policy_hash;
  loop_options.corrections = options.corrections;
  loop_options.artifact_address = artifact_server.address();
  loop_options.version = options.version;
  LoopHooks hooks;
  hooks.send = [&](const std::string& peer, const std::string& frame) { return router.Send(peer, frame); };
  hooks.reply_after_commit = [&](const std::string& peer, const std::string& frame, JobId job) {
    late.push_back({peer, frame, job});
  };
  hooks.artifact_path = [&](const std::string& hash) { return artifacts.Has(hash) ? artifacts.PathOf(hash) : std::string(); };
  hooks.plan = [&](const std::string& token, PlanRequest request) {
    auto result = std::make_shared<Planned>();
    planner.Post(
        [result, request = std::move(request), &options] {
          try {
            result->plan = options.plan(request);
          } catch (const Error& e) {
            result->code = e.code();
            result->error = e.what();
          } catch (const std::exception& e) {
            result->code = ExitCode::kInfrastructure;
            result->error = e.what();
          }
        },
        [result, token, &loop, &now] { loop->OnPlanned(token, std::move(result->plan), result->code, result->error, now()); });
  };
  hooks.background = [&](std::function<void()> work, std::function<void()> finish) {
    planner.Post(std::move(work), std::move(finish));
  };
  hooks.make_scheduler = options.make_scheduler;
  loop = std::make_unique<DecisionLoop>(loop_options, hooks, options.make_scheduler(),
                                        EventLog(options.state_folder + "/events.jsonl"), now());

  const std::string corrections_path = options.state_folder + "/corrections.json";
  if (std::filesystem::exists(corrections_path)) {
    try {
      loop->SetCorrections(Corrections::Parse(ReadFile(corrections_path, 64 << 20), corrections_path));
    } catch (const Error& e) {  // it only makes predictions better
      WEIR_LOG(Warning, "event=corrections_dropped error=\"{}\"", e.what());
    }
  }
  const auto commit = [&] {
    const std::vector<const StoredJob*> dirty = loop->TakeDirty();
    std::string failure;
    try {
      store.Save(dirty);
      if (const auto learned = loop->TakeCorrections()) WriteFileAtomically(corrections_path, learned->Format());
    } catch (const Error& e) {
      failure = e.what();
      WEIR_LOG(Error, "event=store_failed error=\"{}\"", failure);
      loop->GiveBackDirty(dirty);
    }
    if (failure.empty()) {
      for (const std::string& hash : loop->TakeGarbage()) artifacts.Remove(hash);
    }
    std::vector<LateReply> replies;
    replies.swap(late);
    for (const LateReply& reply : replies) {
      if (failure.empty()) {
        router.Send(reply.peer, reply.frame);
        continue;
      }
      if (reply.new_job >= 0) loop->Forget(reply.new_job);
      wire::ErrorReply error;
      error.set_error(fmt::format("the coordinator can't save its state: {}", failure));
      error.set_exit_code(static_cast<int>(ExitCode::kInfrastructure));
      router.Send(reply.peer, worker::Encode(worker::MessageType::kErrorReply, error));
    }
  };

  loop->Restore(store.Load());
  commit();
  WEIR_LOG(Info, "event=coordinator_ready listen={} artifacts={} state={} jobs={}", router.address(), artifact_server.address(),
           options.state_folder, loop->state().num_jobs());
  if (options.on_ready) options.on_ready(router.address());

  while (!loop->shutdown_requested()) {
    std::vector<worker::PollItem> items(options.stop_fd >= 0 ? 3 : 2);
    items[0].socket = router.get();
    items[1].fd = planner.fd();
    if (options.stop_fd >= 0) items[2].fd = options.stop_fd;
    worker::Poll(&items, worker::Milliseconds(250));
    if (options.stop_fd >= 0 && items[2].readable) break;
    for (int i = 0; i < 1000; ++i) {
      const auto envelope = router.Receive(worker::Milliseconds(0));
      if (!envelope) break;
      std::string error;
      const auto frame = worker::DecodeFrame(envelope->bytes, &error);
      if (!frame) {
        WEIR_LOG(Warning, "event=bad_frame error=\"{}\"", error);
        wire::ErrorReply reply;
        reply.set_error("coordinator: bad frame: " + error);
        reply.set_exit_code(static_cast<int>(ExitCode::kInvalid));
        router.Send(envelope->peer, worker::Encode(worker::MessageType::kErrorReply, reply));
        continue;
      }
      try {
        loop->OnFrame(envelope->peer, *frame, now());
      } catch (const std::exception& e) {
        WEIR_LOG(Error, "event=message_failed type={} error=\"{}\"", static_cast<int>(frame->type), e.what());
      }
    }
    try {
      planner.RunFinished();
      loop->OnTick(now());
      commit();  // before anything is placed: an attempt number must be on disk before a worker hears of it
      loop->Decide(now());
    } catch (const std::exception& e) {
      WEIR_LOG(Error, "event=loop_failed error=\"{}\"", e.what());
    }
    commit();
  }
  commit();
  WEIR_LOG(Info, "event=coordinator_stopped");
}

}  // namespace weir::coordinator
