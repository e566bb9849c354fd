// weir workers ls, bench: what the cluster's devices are, how they do, and how fast they really are.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/remote.h"
#include "cli/verbs.h"
#include "env/core/units.h"

namespace weir::cli {
namespace {

using worker::MessageType;

struct Options {
  std::string coordinator;
  std::vector<std::string> names;
  double timeout = 180;
  bool json = false;
};

wire::ListReply List(worker::Client* client) {
  return client->Call<wire::ListReply>(MessageType::kListRequest, wire::ListRequest(), MessageType::kListReply);
}

void PrintJson(const wire::ListReply& reply, const std::vector<std::string>& names) {
  nlohmann::ordered_json out = {{"schema_version", 1}, {"workers", nlohmann::ordered_json::array()}};
  for (const auto& worker : reply.workers()) {
    if (names.empty() || std::count(names.begin(), names.end(), worker.name())) out["workers"].push_back(ToJson(worker));
  }
  std::printf("%s\n", out.dump().c_str());
}

std::string Degrees(const wire::Telemetry& t) {
  if (t.has_gpu_temperature()) return fmt::format("{:.0f} C", t.gpu_temperature());
  return t.has_temperature() ? fmt::format("{:.0f} C", t.temperature()) : "-";
}

std::string Power(const wire::Telemetry& t) {
  if (!t.has_power_watts()) return "-";
  return t.has_power_limit_watts() ? fmt::format("{:.0f}/{:.0f} W", t.power_watts(), t.power_limit_watts())
                                   : fmt::format("{:.0f} W", t.power_watts());
}

std::string Load(const wire::Telemetry& t) {
  if (t.has_gpu_load()) return fmt::format("{:.0f} %", 100 * t.gpu_load());
  return t.has_cpu_load() ? fmt::format("{:.0f} %", 100 * t.cpu_load()) : "-";
}

std::string MemoryUsed(const wire::Telemetry& t) {
  if (t.has_gpu_memory_used_bytes()) return FormatBytes(t.gpu_memory_used_bytes());
  return t.has_memory_available_bytes() && t.has_memory_bytes() ? FormatBytes(t.memory_bytes() - t.memory_available_bytes())
                                                                : "-";
}

void Ls(const Options& o) {
  worker::Client client(o.coordinator);
  const wire::ListReply reply = List(&client);
  if (o.json) return PrintJson(reply, {});
  std::printf("%-20s %-18s %-8s %-20s %-10s %-10s %-6s %-6s %-10s %-8s %s\n", "WORKER", "STATE", "DEVICE", "SPEED", "MEMORY",
              "USED", "LOAD", "TEMP", "POWER", "SEEN", "JOBS");
  for (const auto& worker : reply.workers()) {
    const wire::Telemetry& t = worker.telemetry();
    const wire::Hello& spec = worker.spec();
    std::string state = worker.state(), jobs;
    if (!t.throttle().empty() && state == "ready") state = "throttled:" + t.throttle();
    for (std::int64_t job : worker.jobs()) jobs += (jobs.empty() ? "" : ",") + std::to_string(job);
    const std::string speed = FormatCount(spec.flops()) + "FLOP/s" + (spec.emulated() ? " emu" : spec.measured() ? " meas" : "");
    std::printf("%-20s %-18s %-8s %-20s %-10s %-10s %-6s %-6s %-10s %-8s %s\n", worker.name().c_str(), state.c_str(),
                spec.device().c_str(), speed.c_str(), FormatBytes(spec.memory_bytes()).c_str(), MemoryUsed(t).c_str(),
                Load(t).c_str(), Degrees(t).c_str(), Power(t).c_str(), fmt::format("{:.1f}s", worker.seen_seconds_ago()).c_str(),
                jobs.c_str());
  }
  bool first = true;
  for (const auto& worker : reply.workers()) {
    for (const auto& link : worker.links()) {
      if (link.peer() < worker.name()) continue;  // both ends have it
      if (first) std::printf("\n%-20s %-20s %-14s %s\n", "LINK", "", "BANDWIDTH", "LATENCY");
      first = false;
      std::printf("%-20s %-20s %-14s %.3f ms\n", worker.name().c_str(), link.peer().c_str(),
                  fmt::format("{:.1f} Mbit/s", 8e-6 * link.bandwidth()).c_str(), 1e3 * link.latency());
    }
  }
}

// Sets the idle workers measuring, waits for all of them, prints what they found.
void Bench(const Options& o) {
  worker::Client client(o.coordinator);
  wire::BenchRequest request;
  for (const std::string& name : o.names) request.add_workers(name);
  const auto started = client.Call<wire::BenchReply>(MessageType::kBenchRequest, request, MessageType::kBenchReply);
  for (const std::string& why : started.refused()) std::fprintf(stderr, "weir: not measured: %s\n", why.c_str());
  if (started.started_size() == 0) throw Failure(ExitCode::kNotFound, "workers bench: no worker was measured");
  const auto begin = std::chrono::steady_clock::now();
  wire::ListReply reply;
  while (true) {
    reply = List(&client);
    int open = 0;
    for (const auto& worker : reply.workers()) {
      if (!std::count(started.started().begin(), started.started().end(), worker.name())) continue;
      open += worker.benching();
    }
    if (open == 0) break;
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > o.timeout)
      throw Failure(ExitCode::kTimeout, "workers bench: {} of {} are still measuring after {:g} s", open, started.started_size(),
                    o.timeout);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  const std::vector<std::string> names(started.started().begin(), started.started().end());
  bool failed = false;
  if (!o.json) std::printf("%-20s %-14s %-14s %s\n", "WORKER", "SCHEDULED AS", "MEASURED", "BY OPERATOR CLASS, FLOP/s");
  for (const auto& worker : reply.workers()) {
    if (!std::count(names.begin(), names.end(), worker.name())) continue;
    const wire::Calibration& c = worker.calibration();
    failed |= !c.error().empty() || c.flops() <= 0;
    if (o.json) continue;
    std::string classes;
    for (const auto& speed : c.speed())
      classes += fmt::format("{}{} {}", classes.empty() ? "" : ", ", speed.name(), FormatCount(speed.flops()));
    std::printf("%-20s %-14s %-14s %s\n", worker.name().c_str(),
                (FormatCount(worker.spec().flops()) + (worker.spec().emulated() ? " (emulated)" : "")).c_str(),
                c.flops() > 0 ? FormatCount(c.flops()).c_str() : "-", c.error().empty() ? classes.c_str() : c.error().c_str());
  }
  if (o.json) PrintJson(reply, names);
  if (failed) throw VerbExit{ExitCode::kInfrastructure};
}

}  // namespace

void AddWorkers(CLI::App& app) {
  static Options o;
  CLI::App* verb = app.add_subcommand("workers", "The cluster's devices: list, measure");
  verb->require_subcommand(1);
  CLI::App* ls = verb->add_subcommand("ls", "State, device, speed, memory, load, temperature, power of each worker");
  AddCoordinatorOption(ls, &o.coordinator);
  ls->add_flag("--json", o.json, "Print JSON");
  ls->callback([] { Ls(o); });
  CLI::App* bench = verb->add_subcommand("bench", "Measure the training speed of idle workers, by class of operator");
  bench->add_option("WORKER", o.names, "Names (default: all that are idle)");
  AddCoordinatorOption(bench, &o.coordinator);
  bench->add_option("--timeout", o.timeout, "Seconds")->capture_default_str()->check(CLI::PositiveNumber);
  bench->add_flag("--json", o.json, "Print JSON");
  bench->callback([] { Bench(o); });
}

}  // namespace weir::cli
