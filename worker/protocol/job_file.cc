#include "worker/protocol/job_file.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>

#include "env/core/error.h"
#include "env/core/file.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {
namespace {

std::string Resolve(const std::string& folder, const std::string& path) {
  const std::filesystem::path p(path);
  return p.is_absolute() || folder.empty() ? path : (std::filesystem::path(folder) / p).lexically_normal().string();
}

// "20%" or 0.2
double Share(const Yaml& value) {
  const std::string text = value.AsString();
  if (text.empty() || text.back() != '%') return value.AsDouble(0, 0.99);
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size() - 1, percent);
  if (error != std::errc() || end != text.data() + text.size() - 1 || !(percent >= 0 && percent <= 99)) {
    value.Fail("a share such as 20% or 0.2");
  }
  return percent / 100;
}

void ReadModel(const Yaml& root, const std::string& folder, JobFile* job) {
  const Yaml model = root.Required("model");
  const auto onnx = model.Optional("onnx"), torchscript = model.Optional("torchscript");
  if (onnx.has_value() == torchscript.has_value()) model.Fail("{onnx: FILE} or {torchscript: FILE}", onnx ? "both" : "neither");
  job->model_format = onnx ? "onnx" : "torchscript";
  job->model_path = Resolve(folder, (onnx ? *onnx : *torchscript).AsString());
  model.Finish();
}

void ReadData(const Yaml& root, const std::string& folder, JobFile* job) {
  const Yaml data = root.Required("data");
  std::optional<Yaml> file;
  for (const char* format : {"csv", "idx", "cifar", "pt", "tokens"}) {
    const auto found = data.Optional(format);
    if (!found) continue;
    if (file) data.Fail("one of csv, idx, cifar, pt and tokens", job->data_format + " and " + format);
    file = found;
    job->data_format = format;
  }
  if (!file)
    data.Fail("one of {csv: FILE, ...}, {idx: FILE, ...}, {cifar: FILE, ...}, {pt: FILE, ...}, {tokens: FILE, ...}", "none");
  const bool csv = job->data_format == "csv", tokens = job->data_format == "tokens", pt = job->data_format == "pt";
  if (job->data_format == "cifar" && file->IsList()) {
    for (const Yaml& part : file->Items()) job->data_parts.push_back(Resolve(folder, part.AsString()));
    if (job->data_parts.empty()) file->Fail("a file or a list of files", "an empty list");
    job->data_path = job->data_parts.front();
    if (job->data_parts.size() == 1) job->data_parts.clear();
  } else {
    job->data_path = Resolve(folder, file->AsString());
  }
  if (job->data_format == "idx") job->labels_path = Resolve(folder, data.Required("labels").AsString());
  if (job->data_format == "cifar") job->label_bytes = static_cast<int>(data.Int("label_bytes", 1, 1, 2));
  if (pt) {
    job->features_key = data.String("features", "features");
    job->labels_key = data.String("labels", "labels");
  }
  if (tokens) {
    static const std::vector<std::string> kTypes = {"uint8", "uint16", "int32"};
    if (auto type = data.Optional("type")) job->token_type = kTypes[type->AsEnum(kTypes)];
    job->sample_shape = {data.Required("length").AsInt(1, 1 << 20)};
  } else {
    const auto shape = csv ? std::optional<Yaml>(data.Required("shape")) : data.Optional("shape");
    if (shape) {
      for (const Yaml& d : shape->Items()) job->sample_shape.push_back(d.AsInt(1, 1 << 20));
      if (job->sample_shape.empty()) shape->Fail("a list such as [1, 8, 8]", "an empty list");
    }
  }
  const auto targets = csv ? data.Optional("targets") : std::nullopt, classes = data.Optional("classes");
  if (targets && classes) data.Fail("classes or targets", "both");
  if (targets) {
    job->targets = static_cast<int>(targets->AsInt(1, 1 << 20));
  } else if (classes || !pt) {  // a file of tensors may hold real targets
    job->num_classes = data.Required("classes").AsInt(2, 1 << 20);
  }
  job->scale = data.Double("scale", 1, 1e-12, 1e12);
  if (auto holdout = data.Optional("holdout")) job->holdout = Share(*holdout);
  data.Finish();
}

void ReadOptimizer(const Yaml& train, JobFile* job) {
  const auto section = train.Optional("optimizer");
  if (!section) return;
  static const std::vector<std::string> kKinds = {"sgd", "adam", "adamw"};
  job->optimizer = kKinds[section->Required("kind").AsEnum(kKinds)];
  job->learning_rate = section->Double("lr", job->optimizer == "sgd" ? 0.01 : 0.001, 0, 1e6);
  job->weight_decay = section->Double("weight_decay", job->optimizer == "adamw" ? 0.01 : 0, 0, 1e6);
  if (job->optimizer == "sgd") {
    job->momentum = section->Double("momentum", 0, 0, 1);
  } else {
    job->beta1 = section->Double("beta1", 0.9, 0, 0.999999);
    job->beta2 = section->Double("beta2", 0.999, 0, 0.999999);
    job->epsilon = section->Double("eps", 1e-8, 1e-16, 1);
  }
  job->clip_norm = section->Double("clip_norm", 0, 0, 1e12);
  if (const auto schedule = section->Optional("schedule")) {
    static const std::vector<std::string> kSchedules = {"constant", "step", "cosine", "linear"};
    job->schedule = kSchedules[schedule->Required("kind").AsEnum(kSchedules)];
    job->warmup = static_cast<double>(schedule->Int("warmup", 0, 0, 1'000'000'000));
    if (job->schedule == "step") {
      job->step = static_cast<double>(schedule->Required("step").AsInt(1, 1'000'000'000));
      job->gamma = schedule->Double("gamma", 0.1, 0, 1);
    } else if (job->schedule != "constant") {
      job->floor = schedule->Double("floor", 0, 0, 1);
    }
    schedule->Finish();
  }
  section->Finish();
}

void ReadTrain(const Yaml& root, JobFile* job) {
  const Yaml train = root.Required("train");
  for (const char* key : {"epochs", "iterations", "batch", "micro_batches", "optimizer", "loss", "seed", "replicas", "sync",
                          "precision", "wire", "pipeline", "evaluate"})
    train.Optional(key);
  train.Finish();  // a misspelt key first, then what is missing
  const auto epochs = train.Optional("epochs"), iterations = train.Optional("iterations");
  if (epochs.has_value() == iterations.has_value()) train.Fail("given epochs or iterations", epochs ? "both" : "neither");
  if (epochs) job->epochs = epochs->AsDouble(1e-6, 1e6);
  if (iterations) job->iterations = iterations->AsInt(1, 1'000'000'000);
  job->batch = train.Required("batch").AsInt(1, 1 << 20);
  job->micro_batches = static_cast<int>(train.Int("micro_batches", 1, 1, 1024));
  if (job->batch % job->micro_batches != 0) {
    throw Invalid("{}: train.batch must be a multiple of train.micro_batches ({}), got {}", train.where(), job->micro_batches,
                  job->batch);
  }
  ReadOptimizer(train, job);
  static const std::vector<std::string> kLosses = {"cross_entropy", "token_cross_entropy", "mse"};
  if (auto loss = train.Optional("loss")) {
    job->loss = kLosses[loss->AsEnum(kLosses)];
  } else {
    job->loss = job->data_format == "tokens" ? "token_cross_entropy" : job->targets > 0 ? "mse" : "cross_entropy";
  }
  const auto contradiction = [&](const char* expected) {
    throw Invalid("{}: train.loss must be {} for this data, got {}", train.where(), expected, job->loss);
  };
  if (job->data_format == "tokens" && job->loss != "token_cross_entropy") contradiction("token_cross_entropy");
  if (job->data_format != "tokens" && job->data_format != "pt" && job->loss == "token_cross_entropy")
    contradiction("cross_entropy or mse");
  if (job->targets > 0 && job->loss != "mse") contradiction("mse");
  static const std::vector<std::string> kTypes = {"fp32", "bf16", "fp16"}, kPipelines = {"1f1b", "gpipe"},
                                        kEvaluate = {"epoch", "end"};
  if (auto v = train.Optional("precision")) job->precision = kTypes[v->AsEnum(kTypes)];
  if (auto v = train.Optional("wire")) job->wire = kTypes[v->AsEnum(kTypes)];
  if (auto v = train.Optional("pipeline")) job->pipeline = kPipelines[v->AsEnum(kPipelines)];
  if (auto v = train.Optional("evaluate")) job->evaluate = kEvaluate[v->AsEnum(kEvaluate)];
  job->seed = static_cast<std::uint64_t>(train.Int("seed", 1, 0, INT64_MAX));
  job->replicas = static_cast<int>(train.Int("replicas", 1, 1, 256));
  static const std::vector<std::string> kSyncs = {"auto", "allreduce", "shuffle-exchange", "local-sgd"};
  if (auto sync = train.Optional("sync")) job->sync = kSyncs[sync->AsEnum(kSyncs)];
  if (job->replicas > 1) throw Invalid("{}: train.replicas must be 1 in this version, got {}", train.where(), job->replicas);
}

void ReadRest(const Yaml& root, JobFile* job) {
  if (auto s = root.Optional("resources")) {
    job->memory_bytes = s->Quantity("memory", 0, Unit::kBytes);
    job->gpus = static_cast<int>(s->Int("gpus", 0, 0, 1024));
    job->min_link = s->Quantity("min_link", 0, Unit::kBytesPerSecond);
    static const std::vector<std::string> kArchs = {"any", "x86_64", "aarch64"};
    if (auto arch = s->Optional("arch")) job->arch = kArchs[arch->AsEnum(kArchs)];
    s->Finish();
  }
  if (auto s = root.Optional("checkpoint")) {
    job->checkpoint_every_seconds = s->Quantity("every", 0, Unit::kSeconds);
    job->checkpoint_keep = static_cast<int>(s->Int("keep", 2, 1, 1000));
    job->checkpoint_peers = static_cast<int>(s->Int("peers", 0, 0, 1000));
    s->Finish();
  }
  if (auto s = root.Optional("retry")) {
    job->retry_infra = static_cast<int>(s->Int("infra", 5, 0, 1000));
    job->retry_job = static_cast<int>(s->Int("job", 0, 0, 1000));
    s->Finish();
  }
  if (auto s = root.Optional("disconnect")) {
    job->lost_after_seconds = s->Quantity("lost_after", 60, Unit::kSeconds);
    job->replace = s->Bool("replace", true);
    static const std::vector<std::string> kReconcile = {"keep_original", "keep_best"};
    if (auto r = s->Optional("reconcile")) job->reconcile = kReconcile[r->AsEnum(kReconcile)];
    s->Finish();
  }
  job->priority = static_cast<int>(root.Int("priority", 50, 0, 100));
  if (auto s = root.Optional("labels")) {
    for (const std::string& key : s->Keys()) job->labels[key] = s->Required(key).AsString();
  }
}

}  // namespace

JobFile ParseJobFile(const std::string& text, const std::string& source, const std::string& folder) {
  const Yaml root = Yaml::ParseText(text, source);
  JobFile job;
  job.text = text;
  job.name = root.Required("name").AsString();
  const bool plain =
      std::all_of(job.name.begin(), job.name.end(), [](unsigned char c) { return std::isalnum(c) || std::strchr("._-", c); });
  if (job.name.empty() || job.name.size() > 63 || !plain)
    root.Required("name").Fail("1 to 63 letters, digits, '.', '_' or '-'", "another");
  ReadModel(root, folder, &job);
  static const std::vector<std::string> kInits = {"keep", "kaiming"};
  if (auto init = root.Optional("init")) job.init = kInits[init->AsEnum(kInits)];
  ReadData(root, folder, &job);
  ReadTrain(root, &job);
  ReadRest(root, &job);
  root.Finish();
  return job;
}

JobFile ReadJobFile(const std::string& path) {
  return ParseJobFile(ReadFile(path, 4u << 20), path, std::filesystem::path(path).parent_path().string());
}

std::string JoinedData(const JobFile& job) {
  std::string all;
  for (const std::string& part : job.data_parts) all += ReadFile(part, std::size_t{8} << 30);
  return all;
}

wire::TrainSpec ToTrainSpec(const JobFile& job) {
  wire::TrainSpec spec;
  spec.set_iterations(static_cast<double>(job.iterations));
  spec.set_epochs(job.epochs);
  spec.set_batch(job.batch);
  spec.set_micro_batches(job.micro_batches);
  wire::Optimizer* optimizer = spec.mutable_optimizer();
  optimizer->set_kind(job.optimizer);
  optimizer->set_learning_rate(job.learning_rate);
  optimizer->set_momentum(job.momentum);
  optimizer->set_weight_decay(job.weight_decay);
  optimizer->set_beta1(job.beta1);
  optimizer->set_beta2(job.beta2);
  optimizer->set_epsilon(job.epsilon);
  optimizer->set_clip_norm(job.clip_norm);
  wire::Schedule* schedule = optimizer->mutable_schedule();
  schedule->set_kind(job.schedule);
  schedule->set_warmup(job.warmup);
  schedule->set_step(job.step);
  schedule->set_gamma(job.gamma);
  schedule->set_floor(job.floor);
  spec.set_precision(job.precision);
  spec.set_wire(job.wire);
  spec.set_pipeline(job.pipeline);
  spec.set_evaluate(job.evaluate);
  spec.set_loss(job.loss);
  spec.set_seed(job.seed);
  spec.set_replicas(job.replicas);
  spec.set_sync(job.sync);
  spec.set_init(job.init);
  wire::DataSpec* data = spec.mutable_data();
  data->set_format(job.data_format);
  for (std::int64_t d : job.sample_shape) data->add_sample_shape(d);
  data->set_num_classes(job.num_classes);
  data->set_scale(job.scale);
  data->set_targets(job.targets);
  if (job.data_format == "tokens") data->set_token_type(job.token_type);
  data->set_features_key(job.features_key);
  data->set_labels_key(job.labels_key);
  if (job.data_format == "cifar") data->set_label_bytes(job.label_bytes);
  data->set_holdout(job.holdout);
  return spec;
}

}  // namespace weir::worker
