// The job file: what a user submits. One schema for the whole project; configs/README.md lists every key, unit and default.
//   name: digits-cnn
//   model: {onnx: models/cnn.onnx}          # or {torchscript: FILE}; relative to the job file
//   init: keep                              # keep | kaiming
//   data: {csv: data/digits.csv.gz, shape: [1, 8, 8], classes: 10, scale: 16, holdout: 20%}
//   train: {epochs: 10, batch: 64, micro_batches: 2, optimizer: {kind: sgd, lr: 0.1, momentum: 0.9}, loss: cross_entropy, seed:
//   1}
#ifndef WEIR_WORKER_PROTOCOL_JOB_FILE_H_
#define WEIR_WORKER_PROTOCOL_JOB_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "env/core/yaml.h"

namespace weir::wire {
class TrainSpec;
}

namespace weir::worker {

struct JobFile {
  std::string name;
  std::string model_path;    // resolved against the job file's folder
  std::string model_format;  // onnx | torchscript
  std::string data_path;     // resolved
  std::string labels_path;   // idx labels, resolved; or empty
  std::string init = "keep";
  // data
  std::string data_format;                 // csv | idx | cifar | pt | tokens
  std::vector<std::string> data_parts;     // cifar: several files, resolved, one data set in this order; else empty
  std::vector<std::int64_t> sample_shape;  // csv: required; tokens: [length]; else from the file where empty
  std::int64_t num_classes = 0;            // 0 where there are real targets
  int targets = 0;                         // csv: columns of real targets
  std::string token_type = "uint8";
  std::string features_key, labels_key;  // pt
  int label_bytes = 1;                   // cifar
  double scale = 1;
  double holdout = 0.2;
  // train
  double epochs = 0;  // one of the two is > 0
  std::int64_t iterations = 0;
  std::int64_t batch = 0;
  int micro_batches = 1;
  std::string optimizer = "sgd";
  double learning_rate = 0.01, momentum = 0, weight_decay = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double clip_norm = 0;
  std::string schedule = "constant";
  double warmup = 0, step = 0, gamma = 0.1, floor = 0;
  std::string loss = "cross_entropy";
  std::string precision = "fp32", wire = "fp32", pipeline = "1f1b", evaluate = "epoch";
  std::uint64_t seed = 1;
  int replicas = 1;
  std::string sync = "auto";
  // the rest
  double memory_bytes = 0;   // resources.memory; 0: the cost model's figure
  int gpus = 0;              // resources.gpus
  double min_link = 0;       // resources.min_link, bytes/s
  std::string arch = "any";  // resources.arch
  double checkpoint_every_seconds = 0;
  int checkpoint_keep = 2;
  int checkpoint_peers = 0;  // other workers that keep a copy
  int retry_infra = 5, retry_job = 0;
  double lost_after_seconds = 60;
  bool replace = true;
  std::string reconcile = "keep_original";
  int priority = 50;
  std::map<std::string, std::string> labels;
  std::string text;  // the file itself
};

// Throws Error(kInvalid) with file:line and field for unknown keys, wrong units, contradictions.
JobFile ReadJobFile(const std::string& path);
JobFile ParseJobFile(const std::string& text, const std::string& source, const std::string& folder);

// Several cifar files as one, in memory; REQUIRES: data_parts isn't empty.
std::string JoinedData(const JobFile& job);

// The training half as it travels; the data's hashes are left empty for the submitter to fill.
wire::TrainSpec ToTrainSpec(const JobFile& job);

}  // namespace weir::worker

#endif  // WEIR_WORKER_PROTOCOL_JOB_FILE_H_
