// weir plan and weir get as processes: on a cluster file against closed forms; on a real coordinator and worker against what the
// job then does.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "env/core/file.h"
#include "worker/daemon/child_process.h"

namespace weir {
namespace {

using Json = nlohmann::json;
const std::string kRoot = WEIR_SOURCE_DIR;

class PlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/weir-plan-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    ::setenv("WEIR_LOG", "warning", 0);
  }
  void TearDown() override { [[maybe_unused]] int ignored = std::system(("rm -rf " + folder_).c_str()); }

  std::string Write(const std::string& name, const std::string& content) {
    WriteFileAtomically(folder_ + "/" + name, content);
    return folder_ + "/" + name;
  }
  std::string Job(const std::string& name, const std::string& model, const std::string& more = "") {
    return Write(name + ".yaml", "name: " + name + "\nmodel: " + model + "\ndata: {csv: " + kRoot +
                                     "/data/digits8x8/digits.csv.gz, shape: [1, 8, 8], classes: 10, scale: 16}\n"
                                     "train: {iterations: 12, batch: 32, micro_batches: 2}\n" +
                                     more);
  }
  // Exit code and standard output.
  std::pair<int, std::string> Weir(const std::string& arguments) {
    std::FILE* pipe = ::popen((WEIR_BINARY_DIR "/weir " + arguments + " 2>" + folder_ + "/stderr").c_str(), "r");
    std::string out;
    char buffer[4096];
    while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
    const int status = ::pclose(pipe);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out};
  }
  Json Ask(const std::string& arguments, int code) {
    const auto [found, out] = Weir(arguments + " --json");
    EXPECT_EQ(found, code) << arguments << "\n" << ReadFile(folder_ + "/stderr");
    return Json::parse(out, nullptr, /*allow_exceptions=*/false);
  }

  std::string folder_;
};

TEST_F(PlanTest, OnAClusterFileThePredictionIsTheModelsOwn) {
  const std::string job = Job("mlp", "{onnx: " + kRoot + "/models/mlp.onnx}");
  const std::string cluster = Write("c.yaml",
                                    "workers:\n  - {name: slow, flops: 1GFLOP/s, memory: 1GB, bandwidth: 1Gbit/s}\n"
                                    "  - {name: fast, flops: 4GFLOP/s, memory: 1GB, bandwidth: 1Gbit/s}\n");
  const Json plan = Ask("plan " + job + " --cluster " + cluster, 0);
  ASSERT_TRUE(plan.is_object());
  EXPECT_EQ(plan["starts_now"], true);
  EXPECT_EQ(plan["iterations"], 12);
  ASSERT_EQ(plan["parts"].size(), 1u);
  const double flop = plan["parts"][0]["flop"];
  EXPECT_GT(flop, 0);
  ASSERT_EQ(plan["choices"].size(), 3u);
  EXPECT_EQ(plan["choices"][0]["scheduler"], "greedy");
  EXPECT_EQ(plan["choices"][0]["workers"], Json({"fast"}));
  const auto finish = [&](double flops) {
    return plan["overhead_seconds"].get<double>() + 12 * flop / flops * (1 + plan["evaluation_share"].get<double>());
  };
  EXPECT_NEAR(plan["choices"][0]["iteration_seconds"], flop / 4e9, 1e-12);
  EXPECT_NEAR(plan["choices"][0]["finish_seconds"], finish(4e9), 1e-9);
  EXPECT_NEAR(plan["workers"][0]["iteration_seconds"], flop / 1e9, 1e-12);
  EXPECT_NEAR(plan["workers"][0]["finish_seconds"], finish(1e9), 1e-9);
  // The text says the same.
  const auto [code, text] = Weir("plan " + job + " --cluster " + cluster + " --scheduler fifo");
  EXPECT_EQ(code, 0);
  EXPECT_EQ(text.rfind("mlp would start now on ", 0), 0u) << text;
}

TEST_F(PlanTest, AModelThatFitsNoWorkerIsCutOrWaits) {
  const std::string job = Job("wide", "{onnx: " + kRoot + "/models/wide_mlp.onnx}");
  const auto cluster = [&](const std::string& memory) {
    return Write("c.yaml", "workers:\n  - {name: w, count: 4, flops: 1GFLOP/s, memory: " + memory + ", bandwidth: 1Gbit/s}\n");
  };
  const Json whole = Ask("plan " + job + " --cluster " + cluster("10GB"), 0);
  ASSERT_EQ(whole["parts"].size(), 1u);
  const double memory = whole["parts"][0]["memory_bytes"];
  const Json cut = Ask("plan " + job + " --cluster " + cluster(std::to_string(static_cast<long>(0.92 * memory)) + "B"), 0);
  ASSERT_GT(cut["parts"].size(), 1u);
  double flop = 0, crossing = 0;
  for (const Json& part : cut["parts"]) {
    EXPECT_LE(part["memory_bytes"].get<double>(), 0.92 * memory);
    flop += part["flop"].get<double>();
  }
  EXPECT_NEAR(flop, whole["parts"][0]["flop"].get<double>(), 1e-6 * flop);  // cutting makes no work and loses none
  for (const Json& arc : cut["arcs"]) crossing += 2 * arc["bytes"].get<double>();
  EXPECT_NEAR(crossing, cut["cut_bytes"].get<double>(), 1e-6 * crossing);
  EXPECT_EQ(cut["choices"][0]["workers"].size(), cut["parts"].size());
  EXPECT_NE(cut["workers"][0]["why_not"].get<std::string>().find("the whole job needs"), std::string::npos);

  const Json none = Ask("plan " + job + " --cluster " + cluster("1kB"), 3);
  EXPECT_EQ(none["starts_now"], false);
  EXPECT_NE(none["why_waits"], "");
  EXPECT_TRUE(none["choices"].empty());
  EXPECT_EQ(Weir("plan " + job + " --cluster " + cluster("1kB")).second.rfind("wide would wait: ", 0), 0u);

  const std::string picky = Job("picky", "{onnx: " + kRoot + "/models/mlp.onnx}", "resources: {min_link: 2Gbit/s}\n");
  const Json unsuited = Ask("plan " + picky + " --cluster " + cluster("1GB"), 3);
  EXPECT_EQ(unsuited["workers"][0]["why_not"], "needs a link of 2 Gbit/s, it has 1 Gbit/s");
}

TEST_F(PlanTest, ThePlanIsWhatTheJobDoesAndItsModelComesBackInEitherFormat) {
  const std::string address = "ipc://" + folder_ + "/coordinator", at = " --coordinator " + address + " ";
  worker::ChildProcess coordinator({WEIR_BINARY_DIR "/weir", "coordinator", "--listen", address, "--listen-artifacts",
                                    "ipc://" + folder_ + "/artifacts", "--state", folder_ + "/state"});
  const std::string onnx = Job("onnx", "{onnx: " + kRoot + "/models/mlp.onnx}"),
                    torchscript = Job("ts", "{torchscript: " + kRoot + "/models/cnn_ts.pt}");
  EXPECT_EQ(Ask("plan" + at + onnx, 3)["why_waits"], "no worker is connected");
  worker::ChildProcess process({WEIR_BINARY_DIR "/weir", "worker", "--coordinator", address, "--name", "w", "--emulate-flops",
                                "2GFLOP/s", "--memory", "1GB", "--work-folder", folder_ + "/w"});
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  Json plan;
  do {
    plan = Json::parse(Weir("plan" + at + onnx + " --json").second, nullptr, false);
  } while (!(plan.is_object() && plan["starts_now"] == true) && std::chrono::steady_clock::now() < end);
  ASSERT_EQ(plan["starts_now"], true) << plan.dump();
  EXPECT_EQ(plan["choices"][0]["workers"], Json({"w"}));
  EXPECT_NEAR(plan["choices"][0]["iteration_seconds"], plan["parts"][0]["flop"].get<double>() / 2e9, 1e-12);
  EXPECT_TRUE(Ask("ps" + at, 0)["jobs"].empty());  // asking has queued nothing

  ASSERT_EQ(Weir("submit --wait -q" + at + onnx).first, 0) << ReadFile(folder_ + "/stderr");
  ASSERT_EQ(Weir("submit --wait -q" + at + torchscript).first, 0) << ReadFile(folder_ + "/stderr");
  const Json job = Ask("show 1" + at, 0);
  EXPECT_EQ(job["workers"], plan["choices"][0]["workers"]);
  EXPECT_NEAR(job["predicted_iteration_seconds"], plan["choices"][0]["iteration_seconds"], 1e-12);

  const auto get = [&](const std::string& arguments, const std::string& file) {
    const Json got = Ask("get" + at + arguments + " -o " + folder_ + "/" + file, 0);
    EXPECT_EQ(got.value("file", ""), folder_ + "/" + file);
    return std::pair(got.value("format", ""), ReadFile(folder_ + "/" + file));
  };
  // By --format, whatever the file is called; without it by the file's name.
  const auto [format, trained] = get("1 --format onnx", "a.bin");
  EXPECT_EQ(format, "onnx");
  EXPECT_EQ(get("1", "b.onnx"), std::pair(std::string("onnx"), trained));
  const auto archive = get("1 --format torchscript", "c.onnx");
  EXPECT_EQ(archive.first, "torchscript");
  EXPECT_EQ(archive.second.substr(0, 2), "PK");  // a zip archive
  EXPECT_EQ(get("1", "d.pt"), archive);
  // The ONNX file is the model that was handed in with other weights: it reads as the same graph, and other bytes.
  EXPECT_NE(trained, ReadFile(kRoot + "/models/mlp.onnx"));
  const Json before = Ask("inspect " + kRoot + "/models/mlp.onnx", 0), after = Ask("inspect " + folder_ + "/a.bin", 0);
  ASSERT_TRUE(before.contains("fingerprint")) << before.dump().substr(0, 300);
  EXPECT_EQ(after["fingerprint"], before["fingerprint"]);
  // It trains on: the loss of the returned weights is below that of the first ones.
  ASSERT_EQ(Weir("submit --wait -q" + at + Job("on", "{onnx: " + folder_ + "/b.onnx}")).first, 0)
      << ReadFile(folder_ + "/stderr");
  EXPECT_LT(Ask("show 3" + at, 0)["held_out_loss"], job["held_out_loss"]);

  // A model that came as TorchScript has no ONNX file, and says so.
  EXPECT_EQ(get("2", "e.pt").first, "torchscript");
  EXPECT_EQ(Weir("get 2 --format onnx" + at + "-o " + folder_ + "/f.onnx").first, 6);
  EXPECT_NE(ReadFile(folder_ + "/stderr").find("job 2 has no ONNX file: its model came as torchscript"), std::string::npos);
  EXPECT_EQ(Weir("get 2 --format pt" + at + "-o " + folder_ + "/f.onnx").first, 2);
  EXPECT_EQ(Weir("get 9" + at + "-o " + folder_ + "/f.onnx").first, 6);
}

}  // namespace
}  // namespace weir
