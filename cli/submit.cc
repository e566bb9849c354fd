// weir submit FILE: checks a job here, uploads its files, hands it to the coordinator and prints its number.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/remote.h"
#include "cli/submit_job.h"
#include "cli/verbs.h"
#include "coordinator/planning.h"
#include "env/core/file.h"
#include "env/core/units.h"
#include "partitioner/front_end.h"
#include "worker/protocol/dataset.h"
#include "worker/protocol/job_file.h"

namespace weir::cli {
namespace {

struct Options {
  std::string file, coordinator, request_id;
  bool wait = false, quiet = false, dry_run = false, json = false;
  double timeout = 0;
};

wire::SubmitRequest ToRequest(const worker::JobFile& job) {
  wire::SubmitRequest request;
  request.set_job_yaml(job.text);
  request.set_name(job.name);
  request.set_model_format(job.model_format);
  request.set_model_name(std::filesystem::path(job.model_path).filename().string());
  *request.mutable_train() = worker::ToTrainSpec(job);
  request.mutable_train()->mutable_data()->set_name(std::filesystem::path(job.data_path).filename().string());
  for (const auto& [key, value] : job.labels) (*request.mutable_labels())[key] = value;
  request.set_priority(job.priority);
  request.set_memory_bytes(job.memory_bytes);
  request.set_retry_infra(job.retry_infra);
  request.set_lost_after_seconds(job.lost_after_seconds);
  request.set_retry_job(job.retry_job);
  request.set_checkpoint_every_seconds(job.checkpoint_every_seconds);
  request.set_checkpoint_keep(job.checkpoint_keep);
  request.set_checkpoint_peers(job.checkpoint_peers);
  request.set_gpus(job.gpus);
  request.set_min_link(job.min_link);
  request.set_arch(job.arch);
  return request;
}

// Several data files as one temporary file; removed at the end.
class JoinedFile {
 public:
  explicit JoinedFile(const worker::JobFile& job) {
    if (job.data_parts.empty()) return;
    path_ = (std::filesystem::temp_directory_path() / ("weir-data-" + RandomId())).string();
    WriteFileAtomically(path_, worker::JoinedData(job));
  }
  ~JoinedFile() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);
  }
  JoinedFile(const JoinedFile&) = delete;
  JoinedFile& operator=(const JoinedFile&) = delete;
  const std::string& path() const { return path_; }  // empty where there is one file

 private:
  std::string path_;
};

void CheckFormat(const worker::JobFile& job) {
  const bool torchscript = partitioner::FormatOfFile(job.model_path) == partitioner::ModelFormat::kTorchScript;
  if (torchscript != (job.model_format == "torchscript")) {
    throw Invalid("{}: the job file says {}, but the file is {}", job.model_path, job.model_format,
                  torchscript ? "TorchScript" : "no TorchScript archive");
  }
}

// Everything the coordinator will check, checked here first: errors name the user's own files. TorchScript models are left to the
// coordinator (reading one takes 2 s) unless `full`.
std::optional<coordinator::JobPlan> CheckLocally(const worker::JobFile& job, const wire::SubmitRequest& request, bool full,
                                                 const WorkerMemory& memory = {}) {
  CheckFormat(job);
  if (job.model_format == "torchscript" && !full) {
    worker::ReadDataset(job.data_path, job.labels_path, request.train().data());
    return std::nullopt;
  }
  coordinator::PlanRequest plan;
  plan.submit = request;
  plan.median_memory = memory.median;
  plan.largest_memory = memory.largest;
  plan.submit.set_request_id("check");
  plan.submit.set_model_name(job.model_path);
  plan.submit.mutable_train()->mutable_data()->set_name(job.data_path);
  plan.model_path = job.model_path;
  plan.data_path = job.data_path;
  plan.labels_path = job.labels_path;
  return coordinator::PlanJob(plan);
}

void DryRun(const worker::JobFile& job, bool json) {
  const coordinator::JobPlan plan = PlanLocally(job, {});
  if (json) {
    std::printf("%s\n", nlohmann::ordered_json{{"schema_version", 1},
                                               {"name", job.name},
                                               {"iterations", plan.spec.iterations},
                                               {"flop_per_iteration", plan.spec.total_flop()},
                                               {"memory_bytes", plan.spec.total_memory_bytes()},
                                               {"warnings", plan.warnings}}
                            .dump()
                            .c_str());
  } else {
    std::printf("%s: ok, %.0f iterations of %sFLOP, %s\n", job.name.c_str(), plan.spec.iterations,
                FormatCount(plan.spec.total_flop()).c_str(), FormatBytes(plan.spec.total_memory_bytes()).c_str());
  }
}

void Run(const Options& o) {
  const worker::JobFile job = worker::ReadJobFile(o.file);
  if (o.dry_run) return DryRun(job, o.json);
  const std::int64_t id = SubmitJob(job, o.coordinator, o.request_id, o.quiet);
  if (!o.json) {
    std::printf("%lld\n", static_cast<long long>(id));
    std::fflush(stdout);
  } else if (!o.wait) {
    std::printf("%s\n", nlohmann::ordered_json{{"schema_version", 1}, {"job", id}}.dump().c_str());
  }
  if (!o.wait) return;
  worker::Client client(o.coordinator);
  const wire::JobInfo info = WaitForJob(&client, id, o.timeout, o.quiet);
  if (o.json) {
    nlohmann::ordered_json out = {{"schema_version", 1}};
    out.update(ToJson(info, false));
    std::printf("%s\n", out.dump().c_str());
  }
  RequireFinished(info);
}

}  // namespace

coordinator::JobPlan PlanLocally(const worker::JobFile& job, const WorkerMemory& memory) {
  const JoinedFile joined(job);
  worker::JobFile whole = job;
  if (!joined.path().empty()) whole.data_path = joined.path();
  return *CheckLocally(whole, ToRequest(job), /*full=*/true, memory);
}

wire::SubmitRequest UploadJob(const worker::JobFile& job, const std::string& coordinator, const std::string& request_id) {
  wire::SubmitRequest request = ToRequest(job);
  const JoinedFile joined(job);
  worker::JobFile whole = job;
  if (!joined.path().empty()) whole.data_path = joined.path();
  CheckLocally(whole, request, /*full=*/false);
  worker::Client client(coordinator);
  worker::ArtifactClient artifacts(worker::ArtifactAddress(&client));
  request.set_model_artifact(artifacts.PutFile(job.model_path));
  wire::DataSpec* data = request.mutable_train()->mutable_data();
  data->set_artifact(artifacts.PutFile(whole.data_path));
  if (!job.labels_path.empty()) data->set_labels(artifacts.PutFile(job.labels_path));
  request.set_request_id(request_id.empty() ? RandomId() : request_id);
  return request;
}

std::int64_t SubmitJob(const worker::JobFile& job, const std::string& coordinator, const std::string& request_id, bool quiet) {
  const wire::SubmitRequest request = UploadJob(job, coordinator, request_id);
  worker::Client patient(coordinator, worker::Milliseconds(120000));  // the answer comes once the model is read and cut
  const auto reply =
      patient.Call<wire::SubmitReply>(worker::MessageType::kSubmitRequest, request, worker::MessageType::kSubmitReply);
  if (!reply.error().empty()) throw Error(static_cast<ExitCode>(reply.exit_code()), reply.error());
  if (!quiet) {
    for (const std::string& warning : reply.warnings()) std::fprintf(stderr, "weir: warning: %s\n", warning.c_str());
  }
  return reply.job();
}

void AddSubmit(CLI::App& app) {
  static Options o;
  CLI::App* verb = app.add_subcommand("submit", "Check a job file, upload its model and data, queue the job; prints its number");
  verb->add_option("FILE", o.file, "Job file")->required();
  AddCoordinatorOption(verb, &o.coordinator);
  verb->add_flag("--wait", o.wait, "Wait until it ends; the exit code says how");
  verb->add_option("--timeout", o.timeout, "With --wait: seconds, 0 = none")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--request-id", o.request_id, "The same id again returns the same job");
  verb->add_flag("--dry-run", o.dry_run, "Only check the files");
  verb->add_flag("--quiet,-q", o.quiet, "No warnings, no progress");
  verb->add_flag("--json", o.json, "Print JSON");
  verb->callback([] { Run(o); });
}

}  // namespace weir::cli
