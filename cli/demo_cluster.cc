#include "cli/demo_cluster.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cli/remote.h"
#include "env/core/error.h"

namespace weir::cli {
namespace {

// A port that was free a moment ago.
int FreePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool good = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (fd >= 0) ::close(fd);
  if (!good) throw Failure(ExitCode::kInfrastructure, "no free port on 127.0.0.1");
  return ntohs(address.sin_port);
}

}  // namespace

DemoCluster::DemoCluster(const std::vector<WorkerSpec>& workers, const std::string& state_folder, const std::string& scheduler,
                         const std::string& policy, bool emulate_link) {
  ::setenv("WEIR_LOG", "warning", 0);  // the children's; the user's own choice wins
  address_ = fmt::format("tcp://127.0.0.1:{}", FreePort());
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> command = {
      self,      "coordinator", "--listen",    address_, "--listen-artifacts", "tcp://127.0.0.1:*",
      "--state", state_folder,  "--scheduler", scheduler};
  if (!policy.empty()) command.insert(command.end(), {"--policy", policy});
  coordinator_ = std::make_unique<worker::ChildProcess>(command);
  for (const WorkerSpec& w : workers) {
    std::vector<std::string> c = {self, "worker", "--coordinator", address_, "--name", w.name};
    const auto add = [&](const char* flag, const std::string& value) { c.insert(c.end(), {flag, value}); };
    add("--emulate-flops", fmt::format("{:.0f}FLOP/s", w.flops));
    add("--memory", fmt::format("{:.0f}B", w.memory_bytes));
    add("--bandwidth", fmt::format("{:.0f}B/s", w.bandwidth));
    add("--latency", fmt::format("{:.9f}s", w.latency));
    add("--corun-gain", fmt::format("{}", w.corun_gain));
    add("--max-residents", std::to_string(w.max_residents));
    if (emulate_link) c.push_back("--emulate-link");
    add("--work-folder", state_folder + "/worker-" + w.name);
    workers_.push_back(std::make_unique<worker::ChildProcess>(c));
  }
  try {
    WaitForAll(workers.size());
  } catch (...) {
    Stop();
    throw;
  }
}

void DemoCluster::WaitForAll(std::size_t count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (true) {
    RequireAlive();
    try {
      worker::Client client(address_, worker::Milliseconds(1000));
      const auto reply =
          client.Call<wire::ListReply>(worker::MessageType::kListRequest, wire::ListRequest(), worker::MessageType::kListReply);
      const auto ready =
          std::count_if(reply.workers().begin(), reply.workers().end(), [](const auto& w) { return w.state() == "ready"; });
      if (ready == static_cast<long>(count)) return;
    } catch (const Error& e) {
      if (e.code() != ExitCode::kUnreachable) throw;
    }
    if (std::chrono::steady_clock::now() > deadline)
      throw Failure(ExitCode::kInfrastructure, "not all workers joined within 60 s");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

DemoCluster::~DemoCluster() {
  Stop();
}

void DemoCluster::Stop() {
  coordinator_->Signal(SIGTERM);  // first, so that it doesn't report its workers as lost
  coordinator_->Stop(5);
  for (auto& w : workers_) w->Signal(SIGTERM);
  for (auto& w : workers_) w->Stop(5);
}

void DemoCluster::RequireAlive() {
  if (const auto how = coordinator_->HowItEnded())
    throw Failure(ExitCode::kInfrastructure, "the coordinator ended with {}", *how);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (const auto how = workers_[i]->HowItEnded()) throw Failure(ExitCode::kInfrastructure, "worker {} ended with {}", i, *how);
  }
}

}  // namespace weir::cli
