// weir ps, show, cancel, wait, get: one request to the coordinator each.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/remote.h"
#include "cli/verbs.h"
#include "env/core/units.h"

namespace weir::cli {
namespace {

using worker::MessageType;

struct Options {
  std::string coordinator, state, output, format;
  std::int64_t job = 0;
  double timeout = 0;
  bool json = false, quiet = false;
};

void PrintJson(nlohmann::ordered_json body) {
  nlohmann::ordered_json out = {{"schema_version", 1}};
  out.update(body);
  std::printf("%s\n", out.dump().c_str());
}

std::string Join(const google::protobuf::RepeatedPtrField<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ",") + item;
  return text;
}

void Ps(const Options& o) {
  worker::Client client(o.coordinator);
  wire::ListRequest request;
  request.set_state(o.state);
  const auto reply = client.Call<wire::ListReply>(MessageType::kListRequest, request, MessageType::kListReply);
  if (o.json) {
    nlohmann::ordered_json out = {{"now", reply.now()}, {"scheduler", reply.scheduler()}, {"policy_hash", reply.policy_hash()}};
    out["jobs"] = nlohmann::ordered_json::array();
    for (const auto& job : reply.jobs()) out["jobs"].push_back(ToJson(job, false));
    out["workers"] = nlohmann::ordered_json::array();
    for (const auto& worker : reply.workers()) out["workers"].push_back(ToJson(worker));
    return PrintJson(out);
  }
  std::printf("%5s  %-20s %-10s %9s  %9s  %5s  %-20s %s\n", "JOB", "NAME", "STATE", "PROGRESS", "LOSS", "PARTS", "WORKERS",
              "REASON");
  for (const auto& job : reply.jobs()) {
    const double percent = job.iterations_total() > 0
                               ? 100.0 * static_cast<double>(job.iterations_done()) / static_cast<double>(job.iterations_total())
                               : 0;
    std::printf("%5lld  %-20s %-10s %8.0f%%  %9s  %5d  %-20s %s\n", static_cast<long long>(job.job()), job.name().c_str(),
                job.state().c_str(), percent, std::isfinite(job.loss()) ? fmt::format("{:.4f}", job.loss()).c_str() : "-",
                job.parts(), Join(job.workers()).c_str(), job.reason().c_str());
  }
  std::printf("\n%-20s %-10s %12s %10s  %s\n", "WORKER", "STATE", "SPEED", "MEMORY", "JOBS");
  for (const auto& worker : reply.workers()) {
    std::string jobs;
    for (std::int64_t job : worker.jobs()) jobs += (jobs.empty() ? "" : ",") + std::to_string(job);
    std::printf("%-20s %-10s %9sFLOP/s %7s  %s\n", worker.name().c_str(), worker.state().c_str(),
                FormatCount(worker.spec().flops()).c_str(), FormatBytes(worker.spec().memory_bytes()).c_str(), jobs.c_str());
  }
}

void Show(const Options& o) {
  worker::Client client(o.coordinator);
  const wire::JobInfo job = ShowJob(&client, o.job);
  if (o.json) return PrintJson(ToJson(job, true));
  const auto line = [](const char* name, const std::string& value) { std::printf("%-22s %s\n", name, value.c_str()); };
  line("job", fmt::format("{} ({})", job.job(), job.name()));
  line("model", fmt::format("{} ({})", job.model(), job.format()));
  line("state", job.state() + (job.reason().empty() ? "" : ": " + job.reason()));
  line("attempt", std::to_string(job.attempt()));
  line("arrival", fmt::format("{:.3f} s", job.arrival()));
  if (job.start() >= 0)
    line("start", fmt::format("{:.3f} s (waited {})", job.start(), FormatSeconds(job.start() - job.arrival())));
  if (job.finish() >= 0)
    line("finish", fmt::format("{:.3f} s (completion time {})", job.finish(), FormatSeconds(job.finish() - job.arrival())));
  line("progress", fmt::format("{} of {} iterations", job.iterations_done(), job.iterations_total()));
  if (std::isfinite(job.loss())) line("loss", fmt::format("{:.6f}", job.loss()));
  if (job.accuracy() >= 0) line("accuracy (held out)", fmt::format("{:.2f} %", 100 * job.accuracy()));
  if (job.epoch() > 0) line("held-out loss", fmt::format("{:.6f} after epoch {}", job.eval_loss(), job.epoch()));
  if (job.resumed_from() > 0) line("resumed", fmt::format("from the checkpoint of iteration {}", job.resumed_from()));
  for (const auto& c : job.checkpoints())
    line("checkpoint", fmt::format("iteration {}, {} in {} file(s), at {:.3f} s", c.iteration(), FormatBytes(c.bytes()),
                                   c.artifacts_size(), c.time()));
  if (job.peak_memory_bytes() > 0) line("peak memory", FormatBytes(job.peak_memory_bytes()) + " of the largest process");
  if (!job.scheduler().empty()) {
    line("scheduler", job.scheduler());
    if (!job.policy_hash().empty()) line("policy", job.policy_hash());
    line("decision", fmt::format("{:.3f} ms", 1e3 * job.decision_seconds()));
    line("workers (by stage)", Join(job.workers()));
    line("iteration, predicted", fmt::format("{:.3f} ms", 1e3 * job.predicted_iteration_seconds()));
  }
  if (job.measured_iteration_seconds() > 0)
    line("iteration, measured", fmt::format("{:.3f} ms", 1e3 * job.measured_iteration_seconds()));
  if (job.correction() > 0)
    line("correction", fmt::format("{:.3f} (measured / modelled iteration of earlier runs)", job.correction()));
  if (job.predicted_finish() > 0)
    line("finish, predicted",
         fmt::format("{:.3f} s, {:.2f} s of it start-up and end", job.predicted_finish(), job.predicted_overhead_seconds()));
  if (job.measured_overhead_seconds() > 0)
    line("start-up and end", fmt::format("{:.3f} s, measured", job.measured_overhead_seconds()));
  line("parts", std::to_string(job.parts()));
  for (int k = 0; k < job.subgraph_flop_size(); ++k) {
    line(fmt::format("  part {}", k).c_str(),
         fmt::format("{}FLOP an iteration, memory {}, parameters {}", FormatCount(job.subgraph_flop(k)),
                     FormatBytes(job.subgraph_memory_bytes(k)), FormatBytes(job.subgraph_param_bytes(k))));
  }
  if (job.parts() > 1) line("cut", FormatBytes(job.cut_bytes()) + " an iteration");
  if (!job.result_artifact().empty()) line("result", job.result_artifact());
  for (const std::string& warning : job.warnings()) line("warning", warning);
}

void Cancel(const Options& o) {
  worker::Client client(o.coordinator);
  wire::CancelRequest request;
  request.set_job(o.job);
  request.set_request_id(RandomId());
  const auto reply = client.Call<wire::CancelReply>(MessageType::kCancelRequest, request, MessageType::kCancelReply);
  if (!reply.error().empty()) throw Failure(ExitCode::kNotFound, "{}", reply.error());
  if (o.json) return PrintJson({{"job", o.job}, {"state", reply.state()}});
  std::printf("%s\n", reply.state().c_str());
}

void Wait(const Options& o) {
  worker::Client client(o.coordinator);
  const wire::JobInfo job = WaitForJob(&client, o.job, o.timeout, o.quiet);
  if (o.json) PrintJson(ToJson(job, false));
  RequireFinished(job);
}

void Get(const Options& o) {
  worker::Client client(o.coordinator);
  const wire::JobInfo job = ShowJob(&client, o.job);
  if (job.result_artifact().empty())
    throw Failure(ExitCode::kNotFound, "job {} is {}: it has no trained model", o.job, job.state());
  worker::ArtifactClient artifacts(worker::ArtifactAddress(&client));
  // By what was asked for, else by the name of the file.
  const bool onnx =
      o.format == "onnx" || (o.format.empty() && o.output.size() > 5 && o.output.substr(o.output.size() - 5) == ".onnx");
  if (onnx && job.onnx_artifact().empty()) {
    throw Failure(
        ExitCode::kNotFound, "job {} has no ONNX file: {}", o.job,
        job.format() == "onnx" ? "a weight has no place of its own in the model's graph" : "its model came as " + job.format());
  }
  const std::string& artifact = onnx ? job.onnx_artifact() : job.result_artifact();
  artifacts.GetFile(artifact, o.output);
  if (o.json) PrintJson({{"job", o.job}, {"file", o.output}, {"format", onnx ? "onnx" : "torchscript"}, {"artifact", artifact}});
}

}  // namespace

void AddJobVerbs(CLI::App& app) {
  static Options o;  // one verb runs a process, so they may share it
  const auto add = [&](const char* name, const char* help, void (*run)(const Options&), bool needs_job) {
    CLI::App* verb = app.add_subcommand(name, help);
    if (needs_job) verb->add_option("JOB", o.job, "Number of the job")->required();
    AddCoordinatorOption(verb, &o.coordinator);
    verb->add_flag("--json", o.json, "Print JSON");
    verb->callback([run] { run(o); });
    return verb;
  };
  add("ps", "List jobs and workers", Ps, false)
      ->add_option("--state", o.state, "Only jobs in this state")
      ->check(CLI::IsMember({"waiting", "starting", "running", "finished", "failed", "cancelled"}));
  add("show", "All about one job: parts, workers, decision, progress", Show, true);
  add("cancel", "End a job", Cancel, true);
  CLI::App* wait = add("wait", "Wait until a job ends; the exit code says how", Wait, true);
  wait->add_option("--timeout", o.timeout, "Seconds, 0 = none")->capture_default_str()->check(CLI::NonNegativeNumber);
  wait->add_flag("--quiet,-q", o.quiet, "No progress");
  CLI::App* get = add("get", "Fetch the trained model", Get, true);
  get->add_option("-o,--output", o.output, "File to write")->required();
  get->add_option("--format", o.format, "torchscript, or onnx where the model came as ONNX (default: by the file's name)")
      ->check(CLI::IsMember({"torchscript", "onnx"}));
}

}  // namespace weir::cli
