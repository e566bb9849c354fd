#include "cli/remote.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "cli/verbs.h"
#include "worker/protocol/channel.h"

namespace weir::cli {
namespace {

worker::WakeUp& Stop() {
  static worker::WakeUp wake;
  return wake;
}

void OnSignal(int) {
  Stop().Set();
}

nlohmann::ordered_json Number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string DefaultCoordinator() {
  const char* address = std::getenv("WEIR_ADDR");
  return address && *address ? address : "tcp://127.0.0.1:7700";
}

void AddCoordinatorOption(CLI::App* verb, std::string* address) {
  *address = DefaultCoordinator();
  verb->add_option("--coordinator", *address, "Where the coordinator listens (environment: WEIR_ADDR)")->capture_default_str();
}

wire::JobInfo ShowJob(worker::Client* client, std::int64_t job) {
  wire::ShowRequest request;
  request.set_job(job);
  auto reply = client->Call<wire::ShowReply>(worker::MessageType::kShowRequest, request, worker::MessageType::kShowReply);
  if (!reply.error().empty()) throw Failure(ExitCode::kNotFound, "{}", reply.error());
  return std::move(*reply.mutable_job());
}

wire::JobInfo WaitForJob(worker::Client* client, std::int64_t job, double timeout, bool quiet) {
  const auto start = std::chrono::steady_clock::now();
  std::string last;
  while (true) {
    wire::JobInfo info = ShowJob(client, job);
    std::string line = fmt::format("job {}: {}", job, info.state());
    if (info.state() == "running") {
      const double percent = 100.0 * static_cast<double>(info.iterations_done()) /
                             static_cast<double>(std::max<std::int64_t>(info.iterations_total(), 1));
      line += fmt::format(" {:3.0f}% loss {:.4f}", std::floor(percent / 10) * 10, info.loss());
      if (last.rfind(fmt::format("job {}: running {:3.0f}%", job, std::floor(percent / 10) * 10), 0) == 0) line = last;
    } else if (info.state() == "waiting" && !info.reason().empty()) {
      line += ", " + info.reason();
    }
    if (!quiet && line != last) std::fprintf(stderr, "%s\n", line.c_str());
    last = line;
    if (info.state() == "finished" || info.state() == "failed" || info.state() == "cancelled") return info;
    if (timeout > 0 && std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > timeout) {
      throw Failure(ExitCode::kTimeout, "job {} is still {} after {:g} s", job, info.state(), timeout);
    }
    const timespec pause{0, 100'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

void RequireFinished(const wire::JobInfo& job) {
  if (job.state() == "finished") return;
  std::fprintf(stderr, "weir: job %lld (%s) %s: %s\n", static_cast<long long>(job.job()), job.name().c_str(), job.state().c_str(),
               job.reason().c_str());
  throw VerbExit{job.exit_code() == static_cast<int>(ExitCode::kInfrastructure) ? ExitCode::kInfrastructure
                                                                                : ExitCode::kJobFailed};
}

nlohmann::ordered_json ToJson(const wire::JobInfo& job, bool full) {
  nlohmann::ordered_json out = {{"job", job.job()},         {"name", job.name()},      {"model", job.model()},
                                {"format", job.format()},   {"state", job.state()},    {"reason", job.reason()},
                                {"attempt", job.attempt()}, {"arrival", job.arrival()}};
  out["start"] = job.start() >= 0 ? nlohmann::ordered_json(job.start()) : nullptr;
  out["finish"] = job.finish() >= 0 ? nlohmann::ordered_json(job.finish()) : nullptr;
  out["jct_seconds"] =
      job.finish() >= 0 && job.state() == "finished" ? nlohmann::ordered_json(job.finish() - job.arrival()) : nullptr;
  out["iterations_done"] = job.iterations_done();
  out["iterations_total"] = job.iterations_total();
  out["loss"] = Number(job.loss());
  out["accuracy"] = job.accuracy() >= 0 ? Number(job.accuracy()) : nullptr;
  out["workers"] = std::vector<std::string>(job.workers().begin(), job.workers().end());
  out["parts"] = job.parts();
  out["scheduler"] = job.scheduler();
  out["policy_hash"] = job.policy_hash();
  out["decision_seconds"] = job.decision_seconds();
  out["predicted_iteration_seconds"] = job.predicted_iteration_seconds();
  out["measured_iteration_seconds"] = job.measured_iteration_seconds();
  out["predicted_finish"] = job.predicted_finish() > 0 ? Number(job.predicted_finish()) : nullptr;
  out["predicted_overhead_seconds"] = job.predicted_overhead_seconds();
  out["measured_overhead_seconds"] = job.measured_overhead_seconds();
  out["correction"] = job.correction() > 0 ? Number(job.correction()) : nullptr;
  out["result_artifact"] = job.result_artifact();
  out["epoch"] = job.epoch();
  out["held_out_loss"] = job.epoch() > 0 ? Number(job.eval_loss()) : nullptr;
  if (!full) return out;
  out["onnx_artifact"] = job.onnx_artifact();
  out["resumed_from"] = job.resumed_from();
  out["job_failures"] = job.job_failures();
  out["peak_memory_bytes"] = job.peak_memory_bytes();
  out["epochs"] = nlohmann::ordered_json::array();
  for (int e = 0; e < job.epoch_losses_size(); ++e)
    out["epochs"].push_back(
        {{"held_out_loss", Number(job.epoch_losses(e))},
         {"accuracy",
          e < job.epoch_accuracies_size() && job.epoch_accuracies(e) >= 0 ? Number(job.epoch_accuracies(e)) : nullptr}});
  out["checkpoints"] = nlohmann::ordered_json::array();
  for (const auto& c : job.checkpoints())
    out["checkpoints"].push_back(
        {{"iteration", c.iteration()}, {"bytes", c.bytes()}, {"time", c.time()}, {"parts", c.artifacts_size()}});
  out["micro_batches"] = job.micro_batches();
  out["cut_bytes"] = job.cut_bytes();
  out["subgraphs"] = nlohmann::ordered_json::array();
  for (int k = 0; k < job.subgraph_flop_size(); ++k) {
    out["subgraphs"].push_back({{"flop", job.subgraph_flop(k)},
                                {"memory_bytes", job.subgraph_memory_bytes(k)},
                                {"param_bytes", job.subgraph_param_bytes(k)}});
  }
  out["arcs"] = nlohmann::ordered_json::array();
  for (int a = 0; a + 2 < job.arc_size(); a += 3) {
    out["arcs"].push_back(
        {{"from", static_cast<int>(job.arc(a))}, {"to", static_cast<int>(job.arc(a + 1))}, {"bytes", job.arc(a + 2)}});
  }
  out["warnings"] = std::vector<std::string>(job.warnings().begin(), job.warnings().end());
  out["job_yaml"] = job.job_yaml();
  return out;
}

nlohmann::ordered_json ToJson(const wire::WorkerInfo& worker) {
  const wire::Hello& spec = worker.spec();
  const wire::Telemetry& t = worker.telemetry();
  nlohmann::ordered_json seen = nlohmann::ordered_json::object();
  const auto add = [&](const char* name, bool known, double value) { seen[name] = known ? Number(value) : nullptr; };
  add("cpu_load", t.has_cpu_load(), t.cpu_load());
  add("memory_bytes", t.has_memory_bytes(), t.memory_bytes());
  add("memory_available_bytes", t.has_memory_available_bytes(), t.memory_available_bytes());
  add("temperature", t.has_temperature(), t.temperature());
  seen["gpu_source"] = t.gpu_source();
  add("gpu_load", t.has_gpu_load(), t.gpu_load());
  add("gpu_memory_bytes", t.has_gpu_memory_bytes(), t.gpu_memory_bytes());
  add("gpu_memory_used_bytes", t.has_gpu_memory_used_bytes(), t.gpu_memory_used_bytes());
  add("gpu_temperature", t.has_gpu_temperature(), t.gpu_temperature());
  add("power_watts", t.has_power_watts(), t.power_watts());
  add("power_limit_watts", t.has_power_limit_watts(), t.power_limit_watts());
  seen["throttle"] = t.throttle();
  nlohmann::ordered_json calibration = {
      {"flops", worker.calibration().flops() > 0 ? Number(worker.calibration().flops()) : nullptr},
      {"error", worker.calibration().error()}};
  calibration["classes"] = nlohmann::ordered_json::object();
  for (const auto& speed : worker.calibration().speed()) calibration["classes"][speed.name()] = Number(speed.flops());
  nlohmann::ordered_json links = nlohmann::ordered_json::array();
  for (const auto& link : worker.links())
    links.push_back({{"to", link.peer()}, {"bandwidth", link.bandwidth()}, {"latency", link.latency()}});
  return {{"worker_id", worker.worker_id()},
          {"name", worker.name()},
          {"state", worker.state()},
          {"device", spec.device()},
          {"flops", spec.flops()},
          {"memory_bytes", spec.memory_bytes()},
          {"bandwidth", spec.bandwidth()},
          {"latency", spec.latency()},
          {"corun_gain", spec.corun_gain()},
          {"max_residents", spec.max_residents()},
          {"emulated", spec.emulated()},
          {"jobs", std::vector<std::int64_t>(worker.jobs().begin(), worker.jobs().end())},
          {"seen_seconds_ago", worker.seen_seconds_ago()},
          {"measured", spec.measured()},
          {"telemetry", seen},
          {"calibration", calibration},
          {"links", links}};
}

int StopFd() {
  const int fd = Stop().fd();
  struct sigaction action {};
  action.sa_handler = OnSignal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return fd;
}

std::string RandomId() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

}  // namespace weir::cli
