// ./run bench executor: the pipeline executor over shaped links. Each part runs in a process and a network namespace of its own;
// the namespaces hang on a bridge by veth pairs with a token bucket (tbf) in each direction. One worker, the whole model, is
// measured first; from its time, the cut and the link's figures the model of DESIGN (env/sim/iteration_time.h, physical) says
// what 2 and 4 parts can reach. On few cores parts of full speed would fight for them: every part is stretched to an emulated
// speed, and the output says so.
//   executor [key=value...]          keys: flops (of a part, 0: a tenth of the core's), iterations, batch, micro
//   executor part ...                 what it starts in the namespaces
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ATen/Parallel.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "env/core/error.h"
#include "env/core/file.h"
#include "env/sim/iteration_time.h"
#include "partitioner/cut/part_plan.h"
#include "worker/protocol/dataset.h"
#include "worker/runtime/bulk_exchange.h"
#include "worker/runtime/load_model.h"
#include "worker/runtime/stage_trainer.h"

extern char** environ;

namespace {

using namespace weir;
using namespace weir::worker;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kWarm = 3, kLength = 64, kClasses = 128;

struct Options {
  std::map<std::string, double> number = {{"flops", 0}, {"iterations", 12}, {"batch", 32}, {"micro", 8}};
  double operator[](const char* key) const { return number.at(key); }
};

std::string ModelPath() {
  return std::string(WEIR_SOURCE_DIR) + "/models/transformer.onnx";
}

Dataset Text() {
  return ReadDataset(std::string(WEIR_SOURCE_DIR) + "/data/text/us-constitution.txt", "", "tokens", {kLength}, kClasses, 1);
}

struct Cut {
  JobSpec job;
  std::vector<int> part_of;
};

Cut CutModel(const std::string& content, const Options& o, int parts) {
  const auto model = LoadLoweredModel(content, "transformer.onnx", static_cast<std::int64_t>(o["batch"] / o["micro"]), {kLength});
  partitioner::CutOptions options;
  options.num_parts = parts;
  options.balance_slack = 0.1;
  options.memory.micro_batches = static_cast<int>(o["micro"]);
  partitioner::Partition partition;
  if (parts == 1) {
    partition.num_parts = 1;
    partition.part_of.assign(model.operators.size(), 0);
  } else {
    partition = partitioner::CutIntoParts(model.operator_graph, options);
    if (partition.status != partitioner::Partition::Status::kOk) throw Invalid("no {} parts: {}", parts, partition.reason);
  }
  Cut cut;
  cut.part_of = partition.part_of;
  const auto plan = partitioner::Describe(model.operator_graph, partition, options.memory);
  const double m = o["micro"];
  cut.job.micro_batches = static_cast<int>(m);
  for (const auto& part : plan.parts) {
    const double flop =
        m * static_cast<double>(part.forward_flop + part.backward_flop) + static_cast<double>(part.optimizer_flop);
    cut.job.subgraphs.push_back({flop, 1, 0});
  }
  for (const auto& arc : partitioner::PartArcs(plan))
    cut.job.arcs.push_back({arc.from, arc.to, m * static_cast<double>(arc.forward_bytes)});
  return cut;
}

// ---- In a namespace

// Waits until the other parts have written their addresses.
std::vector<std::string> Addresses(const std::string& folder, int parts) {
  std::vector<std::string> addresses;
  const auto start = Clock::now();
  for (int p = 0; p < parts; ++p) {
    const std::string path = folder + "/address" + std::to_string(p);
    while (!fs::exists(path)) {
      if (Clock::now() - start > std::chrono::seconds(60)) throw Failure(ExitCode::kTimeout, "part {} doesn't come up", p);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    addresses.push_back(ReadFile(path));
  }
  return addresses;
}

void RunPart(const std::string& folder, int part, int parts, const std::string& host, const Options& o) {
  at::set_num_threads(1);
  const std::string content = ReadFile(ModelPath());
  const Cut cut = CutModel(content, o, parts);
  const Dataset data = Text();
  BulkSocket socket({.host = host});
  WriteFileAtomically(folder + "/address" + std::to_string(part), socket.address());
  wire::Assign assign;
  assign.mutable_key()->set_job(1);
  assign.mutable_key()->set_attempt(1);
  assign.mutable_key()->set_stage(part);
  assign.set_model_name("transformer.onnx");
  assign.set_num_stages(parts);
  for (int p : cut.part_of) assign.add_stage_of(p);
  assign.set_iteration_flop(cut.job.subgraphs[part].flop);
  wire::TrainSpec* train = assign.mutable_train();
  train->set_batch(static_cast<std::int64_t>(o["batch"]));
  train->set_micro_batches(static_cast<int>(o["micro"]));
  train->set_iterations(o["iterations"] + kWarm);
  train->set_seed(1);
  train->set_init("kaiming");
  train->set_evaluate("end");
  train->set_loss("token_cross_entropy");
  train->mutable_data()->set_num_classes(kClasses);
  train->mutable_data()->set_scale(1);
  train->mutable_optimizer()->set_kind("sgd");
  train->mutable_optimizer()->set_learning_rate(0.01);
  BulkExchange exchange(&socket, 1, 1, part, Addresses(folder, parts));
  TrainerHooks hooks;
  double computed = 0;
  if (o["flops"] > 0) {
    hooks.pace = [&](double flop, double seconds) {
      const double rest = flop / o["flops"] - seconds;
      if (rest > 0) std::this_thread::sleep_for(std::chrono::duration<double>(rest));
    };
  }
  Clock::time_point start;
  hooks.progress = [&](const TrainerProgress& p) {
    if (p.iteration == kWarm) start = Clock::now();
    if (p.iteration == p.total)
      computed = std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(p.total - kWarm);
  };
  TrainStage(assign, content, data, &exchange, hooks);
  if (computed > 0) WriteFileAtomically(folder + "/result", fmt::format("{:.9f}", computed));
}

// ---- Outside

int System(const std::string& command) {
  const int status = std::system((command + " 2>>\"$WEIR_BENCH_LOG\"").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

// Namespaces <prefix>0, <prefix>1, ... with addresses 10.77.0.<1 + i> on one bridge.
class Namespaces {
 public:
  Namespaces(int count, const std::string& rate) : prefix_(fmt::format("weirb{}-", ::getpid())), count_(count) {
    const std::string hub = prefix_ + "hub";
    Must("ip netns add " + hub);
    Must("ip -n " + hub + " link add br0 type bridge");
    Must("ip -n " + hub + " link set br0 up");
    for (int i = 0; i < count; ++i) {
      const std::string ns = name(i), inner = fmt::format("wi{}-{}", ::getpid() % 10000, i),
                        outer = fmt::format("wo{}-{}", ::getpid() % 10000, i);
      Must("ip netns add " + ns);
      Must(fmt::format("ip -n {} link add {} type veth peer name {} netns {}", hub, outer, inner, ns));
      Must(fmt::format("ip -n {} link set {} master br0 up", hub, outer));
      Must(fmt::format("ip -n {} addr add {}/24 dev {}", ns, host(i), inner));
      Must(fmt::format("ip -n {} link set {} up", ns, inner));
      Must(fmt::format("ip -n {} link set lo up", ns));
      for (const auto& [where, device] : {std::pair(ns, inner), std::pair(hub, outer)})
        Must(fmt::format("tc -n {} qdisc add dev {} root tbf rate {} burst 64kb latency 400ms", where, device, rate));
    }
  }
  ~Namespaces() {
    for (int i = 0; i < count_; ++i) System("ip netns del " + name(i));
    System("ip netns del " + prefix_ + "hub");
  }
  std::string name(int i) const { return prefix_ + std::to_string(i); }
  static std::string host(int i) { return fmt::format("10.77.0.{}", i + 1); }

 private:
  void Must(const std::string& command) {
    if (System(command) == 0) return;
    const std::string why = "`" + command + "` failed";
    for (int i = 0; i < count_; ++i) System("ip netns del " + name(i));
    System("ip netns del " + prefix_ + "hub");
    throw Failure(ExitCode::kRefused, "{}", why);
  }
  const std::string prefix_;
  const int count_;
};

std::string Self() {
  return fs::read_symlink("/proc/self/exe").string();
}

// Seconds an iteration of `parts` parts, each in its namespace.
double Measure(int parts, const std::string& rate, const Options& o) {
  std::string folder = (fs::temp_directory_path() / "weir-bench-XXXXXX").string();
  if (!::mkdtemp(folder.data())) throw Failure(ExitCode::kInfrastructure, "{}: can't be made", folder);
  struct Remove {
    std::string path;
    ~Remove() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } remove{folder};
  const Namespaces spaces(parts, rate);
  std::vector<pid_t> children;
  for (int p = 0; p < parts; ++p) {
    std::vector<std::string> words = {"ip",
                                      "netns",
                                      "exec",
                                      spaces.name(p),
                                      Self(),
                                      "part",
                                      folder,
                                      std::to_string(p),
                                      std::to_string(parts),
                                      Namespaces::host(p)};
    for (const auto& [key, value] : o.number) words.push_back(fmt::format("{}={}", key, value));
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    pid_t pid = -1;
    if (::posix_spawnp(&pid, "ip", nullptr, nullptr, argv.data(), environ) != 0)
      throw Failure(ExitCode::kInfrastructure, "ip can't be started");
    children.push_back(pid);
  }
  bool good = true;
  for (pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    good &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  if (!good || !fs::exists(folder + "/result")) throw Failure(ExitCode::kInfrastructure, "a part of {} failed", parts);
  return std::stod(ReadFile(folder + "/result"));
}

// Speed of one core on the whole model, unpaced, in FLOP/s: what emulated speeds must stay well below.
double CoreSpeed(Options o, const JobSpec& whole) {
  o.number["flops"] = 0;
  o.number["iterations"] = 4;
  return whole.total_flop() / Measure(1, "10gbit", o);
}

void Bench(Options o) {
  const std::string whole_model = fs::path(Self()).parent_path() / "whole_model";
  std::printf(
      "One worker, the whole model, against the plain LibTorch loop over the same file (batch, weights, threads alike):\n");
  std::fflush(stdout);
  const std::string root = WEIR_SOURCE_DIR;
  for (const auto& [model, data] : {std::pair("cnn_ts.pt", "csv:" + root + "/data/digits8x8/digits.csv.gz"),
                                    std::pair("resnet_tiny_ts.pt", "csv:" + root + "/data/digits8x8/digits.csv.gz"),
                                    std::pair("transformer_ts.pt", "tokens:" + root + "/data/text/us-constitution.txt")}) {
    if (System(fmt::format(
            "OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 {} throughput cpu {}/models/{} {} batch=32 iterations=40 runs=5",
            whole_model, root, model, data)) != 0)
      throw Failure(ExitCode::kInfrastructure, "whole_model failed on {}", model);
  }
  const std::string content = ReadFile(ModelPath());
  const JobSpec whole = CutModel(content, o, 1).job;
  double core = 0;
  try {
    core = CoreSpeed(o, whole);
  } catch (const Error& e) {
    if (e.code() != ExitCode::kRefused) throw;
    std::printf("\nParts over shaped links are left out: network namespaces with tbf aren't permitted here (%s); run as root.\n",
                e.what());
    return;
  }
  const unsigned cores = std::thread::hardware_concurrency();
  if (o["flops"] == 0) o.number["flops"] = core * cores / 10;
  std::printf(
      "\nEqual parts of transformer.onnx, batch %.0f in %.0f micro-batches, each in a network namespace. %u cores reach %.2f "
      "GFLOP/s each:\n"
      "parts are emulated at %.2f GFLOP/s, so that four fit beside each other. Allowed: env/sim/iteration_time.h, physical, from "
      "the\n"
      "measured time of one worker.\n",
      o["batch"], o["micro"], cores, core / 1e9, o["flops"] / 1e9);
  std::printf("%-10s %5s %12s %12s %10s %10s\n", "LINK", "PARTS", "MEASURED", "ALLOWED", "REACHED", "SPEED-UP");
  for (const auto& [rate, bytes] : {std::pair("100mbit", 12.5e6), std::pair("1gbit", 125e6)}) {
    const double one = Measure(1, rate, o);
    const double speed = whole.total_flop() / one;
    std::printf("%-10s %5d %9.1f ms %12s %10s %10s\n", rate, 1, 1e3 * one, "-", "-", "1.00");
    for (int parts : {2, 4}) {
      const JobSpec job = CutModel(content, o, parts).job;
      const std::vector<WorkerSpec> workers(parts, {"w", speed, 1e9, bytes, 5e-5, 0, 1});
      Placement placement;
      for (int p = 0; p < parts; ++p) placement.push_back(p);
      const double allowed = IterationTimeAlone(job, placement, workers, {.physical = true});
      const double measured = Measure(parts, rate, o);
      std::printf("%-10s %5d %9.1f ms %9.1f ms %10.3f %10.2f\n", rate, parts, 1e3 * measured, 1e3 * allowed, allowed / measured,
                  one / measured);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool part = argc > 5 && std::string(argv[1]) == "part";
    Options o;
    for (int i = part ? 6 : 1; i < argc; ++i) {
      const std::string text = argv[i];
      const std::size_t at = text.find('=');
      if (at == std::string::npos || !o.number.count(text.substr(0, at))) throw weir::Invalid("unknown option '{}'", text);
      o.number[text.substr(0, at)] = std::stod(text.substr(at + 1));
    }
    if (part) {
      RunPart(argv[2], std::stoi(argv[3]), std::stoi(argv[4]), argv[5], o);
      return 0;
    }
    ::setenv("OMP_NUM_THREADS", "1", 1);
    ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
    ::setenv("WEIR_BENCH_LOG", "/dev/null", 0);
    Bench(o);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "executor: %s\n", e.what());
    return 2;
  }
}
