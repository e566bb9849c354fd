// Bad input on the command line: exactly one line on stderr that names what is wrong, and the exit code of its kind.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "env/core/file.h"

namespace weir {
namespace {

struct Result {
  int code = -1;
  std::string err;
};

class BadInputTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/weir-bad-input-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { [[maybe_unused]] int ignored = std::system(("rm -rf " + folder_).c_str()); }

  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ + "/" + name) << content;
    return folder_ + "/" + name;
  }
  // The words after `weir`; stdout goes to `out`.
  Result Weir(const std::string& arguments, const std::string& out = "/dev/null") {
    const std::string err = folder_ + "/stderr";
    const std::string command = "timeout 60 " WEIR_BINARY_DIR "/weir " + arguments + " >" + out + " 2>" + err + " </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadFile(err)};
  }
  void Expect(const std::string& arguments, int code, const std::string& words, const std::string& out = "/dev/null") {
    const Result r = Weir(arguments, out);
    EXPECT_EQ(r.code, code) << arguments << "\n" << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << arguments << "\n" << r.err;
    EXPECT_NE(r.err.find(words), std::string::npos) << arguments << "\n" << r.err;
  }
  // A job file that is right but for `line`, which replaces the line with the same key.
  std::string Job(const std::string& key, const std::string& line) {
    const std::string root = WEIR_SOURCE_DIR;
    std::string text;
    for (const std::string& l : std::vector<std::string>{
             "name: j", "model: {onnx: " + root + "/models/mlp.onnx}",
             "data: {csv: " + root + "/data/digits8x8/digits.csv.gz, shape: [1, 8, 8], classes: 10, scale: 16}",
             std::string("train: {epochs: 1, batch: 32}")}) {
      text += (l.rfind(key + ":", 0) == 0 ? line : l) + "\n";
    }
    return Write("job.yaml", text);
  }

  std::string folder_;
};

TEST_F(BadInputTest, Partitions) {
  const std::string model = WEIR_SOURCE_DIR "/models/cnn.onnx", cluster = WEIR_SOURCE_DIR "/configs/clusters/small.yaml";
  Expect("partition " + model + " --objective time", 2, "needs --workers");
  Expect("partition " + model + " --objective speed", 2, "--objective must be one of");
  Expect("partition " + model + " -k 5 --workers " + cluster, 3, "5 parts asked of 4 workers");
  Expect("partition " + model + " -k 0", 2, "-k must be >= 1");
  Expect("partition " + model + " -k 2 --json --dot", 2, "give one");
  const std::string study = " --cluster " + cluster + " --workload " WEIR_SOURCE_DIR "/configs/workloads/study.yaml --load ";
  Expect("simulate --scheduler greedy" + study + "1e300", 2, "load must lie in");
  Expect("compare --quiet --seeds 1" + study + "1e-300", 2, "load must lie in");
  Expect("partition " + model + " -k 2 --optimizer-states 2147483647", 2, "must lie in 0..16");
  Expect("partition " + model + " --max-parts 100000000 --memory 1kB", 2, "--max-parts must lie in");
  Expect("simulate --scheduler greedy --jobs 1000000000" + study + "0.5", 2, "--jobs must lie in");
  Expect("inspect /dev/zero", 2, "is a device");
  Expect("partition " + model + " -k 500", 3, "500 parts asked of");
  Expect("partition " + model + " -k 2 --memory 1kB", 3, "more than the 1 kB of a part");
  Expect("partition " + model + " --workers " + folder_ + "/none.yaml", 2, "none.yaml");
  Expect("partition " + model + " --times " + Write("t.yaml", "schema_version: 1\ndevice: x\n"), 2, "peak_flops");
  const std::string fields = " -- forward_compute_time=1, backward_compute_time=1, activation_size=1, parameter_size=1\n";
  Expect("partition " + Write("cycle.txt", "a -- A" + fields + "b -- B" + fields + "\ta -- b\n\tb -- a\n") + " -k 2", 2,
         "a cycle of 2 nodes");
  Expect("inspect " + Write("bad.txt", "a -- A -- forward_compute_time=x\n"), 2, "bad.txt:1: forward_compute_time is 'x'");
  Expect("profile " + model + " --runs 0", 2, "--runs must be >= 1");
  Expect("profile " + model + " --device cuda:9", 2, "device 'cuda:9' isn't here");
  Expect("profile " + Write("p.txt", "a -- A" + fields), 2, "p.txt");
}

TEST_F(BadInputTest, Models) {
  Expect("inspect " + folder_ + "/none.onnx", 2, "none.onnx: no such file");
  Expect("inspect " + folder_, 2, "is a folder, expected a model file");
  Expect("inspect " + Write("empty.onnx", ""), 2, "empty");
  Expect("inspect " + Write("text.onnx", "hello, this is no model\n"), 2, "text.onnx: not an ONNX model");
  Expect("inspect " + Write("zip.pt", "PK\x03\x04 no archive"), 2, "zip.pt: not a TorchScript model");
  Expect("inspect " WEIR_SOURCE_DIR "/models/cnn_ts.pt --input 1x200000x200000", 2, "is more than can be measured");
  Expect("inspect " WEIR_SOURCE_DIR "/models/cnn_ts.pt --input 3x8x8", 2, "doesn't fit the model: operator 0");
}

TEST_F(BadInputTest, JobFiles) {
  Expect("submit --dry-run " + Job("train", "train: {epohcs: 1, batch: 32}"), 2,
         "unknown key 'train.epohcs', did you mean 'epochs'?");
  Expect("submit --dry-run " + Job("train", "train: {epochs: 1, batch: 32, bacth: 3}"), 2, "did you mean 'batch'?");
  Expect("submit --dry-run " + Job("name", "name: \"a\\nb\""), 2, "job.yaml:1: name must be 1 to 63 letters");
  Expect("submit --dry-run " + Job("name", "name: j\nresources: {memory: 6}"), 2,
         "job.yaml:2: resources.memory must be a size such as");
  Expect("submit --dry-run " + Job("name", "name: j\ndisconnect: {lost_after: 60GB}"), 2, "lost_after must be a time such as");
  Expect("submit --dry-run " + Job("data", "data: {csv: none.csv, shape: [1, 8, 8], classes: 10}"), 2, "none.csv: can't be read");
  const std::string digits = "data: {csv: " WEIR_SOURCE_DIR "/data/digits8x8/digits.csv.gz, ";
  Expect("submit --dry-run " + Job("data", digits + "shape: [1, 8, 9], classes: 10}"), 2, "digits.csv.gz:1: expected 73 columns");
  Expect("submit --dry-run " + Job("data", digits + "shape: [4, 4, 4], classes: 10}"), 2,
         "has 1 in dimension 0 of a sample, got 4");
  Expect("submit --dry-run " + Job("data", digits + "shape: [1, 8, 8], classes: 11}"), 2, "classes");
  Expect("submit --dry-run " + Job("train", "train: {epochs: 1, batch: 99999}"), 2, "train.batch");
}

// What only the files themselves tell. Every one is said before anything is uploaded: no coordinator is there.
TEST_F(BadInputTest, ModelsAndDataThatDoNotGoTogether) {
  const std::string submit = "submit --coordinator tcp://127.0.0.1:1 ", plan = "plan --coordinator tcp://127.0.0.1:1 ",
                    on_file = "plan --cluster " WEIR_SOURCE_DIR "/configs/clusters/cpu4.yaml ";
  const auto expect = [&](const std::string& job, const std::string& words) {
    for (const std::string& verb : {submit, plan, on_file, std::string("submit --dry-run ")}) Expect(verb + job, 2, words);
  };
  expect(Job("train", "train: {epochs: 1, batch: 32, loss: hinge}"),
         "job.yaml:4: train.loss must be one of cross_entropy, token_cross_entropy, mse, got 'hinge'");
  expect(Job("train", "train: {epochs: 1, batch: 32, loss: token_cross_entropy}"),
         "train.loss must be cross_entropy or mse for this data, got token_cross_entropy");

  std::string rows;
  for (int i = 0; i < 10; ++i) {
    for (int c = 0; c < 64; ++c) rows += "1,";
    rows += std::to_string(i) + "\n";
  }
  const std::string shape = ", shape: [1, 8, 8], classes: 10, holdout: 20%}";
  expect(Job("data", "data: {csv: " + Write("short.csv", rows) + shape),
         "short.csv: train.batch is 32, but only 8 of 10 samples train");
  // The seventh row's class.
  std::string wrong = rows;
  wrong.replace(wrong.find(",6\n"), 3, ",10\n");
  expect(Job("data", "data: {csv: " + Write("label.csv", wrong) + shape),
         "label.csv:7: column 65: expected a label from 0 to 9, found 10");
  wrong.replace(wrong.find(",10\n"), 4, ",-1\n");
  expect(Job("data", "data: {csv: " + Write("label.csv", wrong) + shape),
         "label.csv:7: column 65: expected a label from 0 to 9, found -1");

  // Characters beyond the vocabulary: the euro sign's first byte is 226.
  Write("euro.txt", std::string(5000, 'a') + "\u20ac" + std::string(5000, 'b'));
  const auto tokens = [&](const std::string& classes) {
    return Write("tokens.yaml", "name: t\nmodel: {onnx: " WEIR_SOURCE_DIR
                                "/models/transformer.onnx}\n"
                                "data: {tokens: euro.txt, length: 64, classes: " +
                                    classes +
                                    "}\n"
                                    "train: {iterations: 1, batch: 16}\n");
  };
  expect(tokens("128"), "euro.txt: token 5000: expected a number from 0 to 127, found 226");

  // An operator that no worker can execute: known before the job is queued, by its node's name.
  std::string model = ReadFile(WEIR_SOURCE_DIR "/models/mlp.onnx");
  const std::string relu = "\x22\x04Relu";  // field op_type
  ASSERT_NE(model.find(relu), std::string::npos);
  model.replace(model.find(relu), relu.size(), "\x22\x04Xelu");
  expect(Job("model", "model: {onnx: " + Write("odd.onnx", model) + "}"),
         "node '/layers/layers.1/Relu' can't be executed: no rule for operator Xelu");
}

TEST_F(BadInputTest, Plans) {
  const std::string job = Job("", ""), cluster = WEIR_SOURCE_DIR "/configs/clusters/cpu4.yaml";
  Expect("plan " + job + " --coordinator tcp://127.0.0.1:1", 4, "no answer within");
  Expect("plan " + job + " --cluster " + folder_ + "/none.yaml", 2, "none.yaml");
  Expect("plan " + job + " --cluster " + cluster + " --scheduler foo", 2, "unknown scheduler 'foo'");
  Expect("plan " + job + " --scheduler sjf", 2, "--cluster");
  Expect("plan " + folder_ + "/none.yaml", 2, "none.yaml");
}

TEST_F(BadInputTest, Commands) {
  Expect("foo", 2, "unknown verb 'foo'");
  Expect("simulaet", 2, "did you mean 'simulate'?");
  Expect("ps --state foo", 2, "foo");
  Expect("ps --coordinator tcp://127.0.0.1:99999", 2, "a port from 1 to 65535");
  Expect("ps --coordinator tcp://127.0.0.1:1", 4, "no answer within");
  Expect("coordinator --listen tcp://127.0.0.1:99999 --state " + folder_ + "/s", 2, "a port from 1 to 65535");
  Expect("coordinator --listen foo --state " + folder_ + "/s", 2, "expected an address");
  Expect("coordinator --lost-after nan --state " + folder_ + "/s", 2, "lost-after");
  Expect("worker --max-residents 0", 2, "max-residents");
  Expect("worker --name w --flops 1GFLOP/s --bind-host 203.0.113.9", 2, "can't listen on host '203.0.113.9'");
  Expect("up --flops abc --state " + folder_ + "/u", 2, "--flops must be a rate");
  Expect("demo --scheduler foo", 2, "unknown scheduler 'foo'");
  Expect("demo --output /proc/x", 7, "/proc/x: can't be made");
  Expect("simulate --cluster " + Write("c.yaml", "workers:\n  - {flops: 1e308TFLOP/s, memory: 1GB, bandwidth: 1Gbit/s}\n") +
             " --workload " WEIR_SOURCE_DIR "/configs/workloads/study.yaml --scheduler greedy --jobs 5",
         2, "c.yaml:2: workers[0].flops must be a rate");
  Expect("train " WEIR_SOURCE_DIR "/configs/train/default.yaml --out /none/x.weirpolicy", 7,
         "/none/x.weirpolicy: can't be written");
}

TEST_F(BadInputTest, OutputThatCannotBeWritten) {
  Expect("version", 7, "standard output", "/dev/full");
  // A link is followed, a device is written into: neither is replaced.
  const std::string target = Write("target", "old"), link = folder_ + "/link";
  ASSERT_EQ(::symlink(target.c_str(), link.c_str()), 0);
  WriteFileAtomically(link, "new");
  EXPECT_EQ(ReadFile(target), "new");
  struct stat info {};
  ASSERT_EQ(::lstat(link.c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
  WriteFileAtomically("/dev/null", "nothing");
  ASSERT_EQ(::stat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
}

}  // namespace
}  // namespace weir
