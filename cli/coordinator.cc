// weir coordinator: the process that takes jobs and decides where they run.
#include "coordinator/coordinator.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "agent/policy/policy_file.h"
#include "cli/remote.h"
#include "cli/schedulers.h"
#include "cli/verbs.h"
#include "coordinator/planning.h"
#include "env/core/file.h"

namespace weir::cli {

std::string DefaultStateFolder() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && *state) return std::string(state) + "/weir";
  if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.local/state/weir";
  return "weir-state";
}

void AddCoordinator(CLI::App& app) {
  struct Options {
    std::string listen = "tcp://127.0.0.1:7700", artifacts, state = DefaultStateFolder(), scheduler = "greedy", policy;
    double lost_after = 60;
    std::uint64_t seed = 1;
    bool insecure = false, no_corrections = false;
  };
  static Options o;
  CLI::App* verb = app.add_subcommand("coordinator", "Take jobs and decide which worker runs what");
  verb->add_option("--listen", o.listen, "Address for workers and clients")->capture_default_str();
  verb->add_option("--listen-artifacts", o.artifacts, "Address for files (default: the next port)");
  verb->add_option("--state", o.state, "Folder for jobs, files and the event log")->capture_default_str();
  verb->add_option("--scheduler", o.scheduler, "fifo, sjf, greedy, ... or policy")->capture_default_str();
  verb->add_option("--policy", o.policy, "Policy file; implies --scheduler policy");
  verb->add_option("--lost-after", o.lost_after, "Seconds of silence until a worker is given up")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  verb->add_option("--seed", o.seed, "Of schedulers that draw random numbers")->capture_default_str();
  verb->add_flag("--no-corrections", o.no_corrections, "Predict without what earlier runs taught");
  verb->add_flag("--insecure", o.insecure, "Listen beyond loopback without keys: only on a network where everybody is trusted");
  verb->callback([] {
    worker::CheckAddress(o.listen);
    if (!(std::isfinite(o.lost_after) && o.lost_after > 0))
      throw Invalid("--lost-after must be a number of seconds > 0, got {}", o.lost_after);
    if (!worker::IsLoopback(o.listen) && !o.insecure) {
      throw Invalid("{}: isn't loopback; connections carry no keys in this version, so this needs --insecure", o.listen);
    }
    coordinator::CoordinatorOptions options;
    options.listen = o.listen;
    options.artifact_listen = o.artifacts;
    options.state_folder = o.state;
    options.lost_after = o.lost_after;
    options.corrections = !o.no_corrections;
    options.version = WEIR_VERSION;
    options.plan = coordinator::PlanJob;
    SchedulerOptions scheduler;
    scheduler.seed = o.seed;
    scheduler.policy_path = o.policy;
    const std::string name = o.policy.empty() ? o.scheduler : "policy";
    scheduler.libtorch = true;
    if (name == "policy") options.policy_hash = ReadPolicyInfo(PolicyPath(scheduler)).hash;
    options.make_scheduler = [&] { return MakeScheduler(name, scheduler); };
    options.stop_fd = StopFd();
    coordinator::RunCoordinator(options);
  });
}

}  // namespace weir::cli
