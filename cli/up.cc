// weir up: a coordinator and a few workers on this machine, until Ctrl-C.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "cli/remote.h"
#include "cli/verbs.h"
#include "env/core/units.h"
#include "worker/daemon/child_process.h"

namespace weir::cli {
namespace {

struct Options {
  std::string listen = "tcp://127.0.0.1:7700", state = DefaultStateFolder(), scheduler = "greedy", policy, memory;
  std::vector<std::string> flops, emulate_flops;
  int workers = 0;
};

void Run(const Options& o) {
  if (!worker::IsLoopback(o.listen)) throw Invalid("{}: `weir up` listens on loopback only", o.listen);
  const auto check = [](const std::string& text, Unit unit, const char* flag) {
    if (!text.empty() && !ParseQuantity(text, unit)) throw Invalid("{} must be {}, got '{}'", flag, DescribeUnit(unit), text);
  };
  for (const std::string& text : o.flops) check(text, Unit::kFlopPerSecond, "--flops");
  for (const std::string& text : o.emulate_flops) check(text, Unit::kFlopPerSecond, "--emulate-flops");
  check(o.memory, Unit::kBytes, "--memory");
  const int stop = StopFd();
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const int count = o.workers > 0 ? o.workers : std::clamp<int>(static_cast<int>(std::thread::hardware_concurrency()), 1, 4);
  std::vector<std::string> command = {self, "coordinator", "--listen", o.listen, "--state", o.state, "--scheduler", o.scheduler};
  if (!o.policy.empty()) command.insert(command.end(), {"--policy", o.policy});
  worker::ChildProcess coordinator(command);
  const auto require_alive = [&] {
    if (const auto how = coordinator.HowItEnded()) {
      if (coordinator.exit_code() > 0) throw VerbExit{static_cast<ExitCode>(coordinator.exit_code())};  // it has said why
      throw Failure(ExitCode::kInfrastructure, "the coordinator ended with {}", *how);
    }
  };
  for (int attempt = 0;; ++attempt) {  // until it answers
    require_alive();
    try {
      worker::Client client(o.listen, worker::Milliseconds(500));
      worker::ArtifactAddress(&client);
      require_alive();  // not somebody else's
      break;
    } catch (const Error& e) {
      if (e.code() != ExitCode::kUnreachable || attempt > 40) throw;
    }
  }
  std::vector<std::unique_ptr<worker::ChildProcess>> workers;
  const auto start = [&](int i) {
    std::vector<std::string> c = {self, "worker", "--coordinator", o.listen, "--name", fmt::format("w{}", i)};
    const auto at = [&](const std::vector<std::string>& list) { return list[static_cast<std::size_t>(i) % list.size()]; };
    if (!o.emulate_flops.empty()) c.insert(c.end(), {"--emulate-flops", at(o.emulate_flops)});
    if (o.emulate_flops.empty() && !o.flops.empty()) c.insert(c.end(), {"--flops", at(o.flops)});
    if (!o.memory.empty()) c.insert(c.end(), {"--memory", o.memory});
    return std::make_unique<worker::ChildProcess>(c);
  };
  for (int i = 0; i < count; ++i) workers.push_back(start(i));
  std::printf("coordinator at %s with %d workers; state in %s; Ctrl-C ends it\n", o.listen.c_str(), count, o.state.c_str());
  std::fflush(stdout);
  while (true) {
    std::vector<worker::PollItem> items(1);
    items[0].fd = stop;
    worker::Poll(&items, worker::Milliseconds(500));
    if (items[0].readable) break;
    require_alive();
    for (int i = 0; i < count; ++i) {
      if (const auto how = workers[i]->HowItEnded()) {
        if (workers[i]->exit_code() == static_cast<int>(ExitCode::kInvalid))
          throw VerbExit{ExitCode::kInvalid};  // it has said why
        std::fprintf(stderr, "weir: worker w%d ended with %s; starting it again\n", i, how->c_str());
        workers[i] = start(i);
      }
    }
  }
  for (auto& w : workers) w->Signal(SIGTERM);
  for (auto& w : workers) w->Stop(5);
  coordinator.Signal(SIGTERM);
  coordinator.Stop(5);
}

}  // namespace

void AddUp(CLI::App& app) {
  static Options o;
  CLI::App* verb = app.add_subcommand("up", "Run a coordinator and workers on this machine until Ctrl-C");
  verb->add_option("--workers", o.workers, "How many (default: one a core, at most 4)")->check(CLI::Range(1, 256));
  verb->add_option("--listen", o.listen, "The coordinator's address")->capture_default_str();
  verb->add_option("--state", o.state, "Folder for jobs, files and the event log")->capture_default_str();
  verb->add_option("--scheduler", o.scheduler, "fifo, sjf, greedy, ... or policy")->capture_default_str();
  verb->add_option("--policy", o.policy, "Policy file; implies --scheduler policy");
  verb->add_option("--flops", o.flops, "Speed of the workers, in turn, e.g. 20GFLOP/s")->delimiter(',');
  verb->add_option("--emulate-flops", o.emulate_flops, "Emulated speed of the workers, in turn")->delimiter(',');
  verb->add_option("--memory", o.memory, "Of each worker");
  verb->callback([] { Run(o); });
}

}  // namespace weir::cli
