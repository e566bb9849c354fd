// ./run bench partition: bytes cut, time and memory of the partitioner, beside its own parts and METIS.
//   1. The models and profiles of a folder (default ../shared/data/models, where it exists) for K = 2, 4, 8: hop volume in MB,
//      forward bytes, work = forward MACs or roofline (profiles: forward time), cap 1.1 W / K widened to the largest operator.
//   2. Synthetic graphs from 1,000 to 100,000 operators.
// Times are wall clock, medians of several runs in one process; peak memory is of a process of its own.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <random>

#ifdef WEIR_HAVE_METIS
#include <metis.h>
#endif

#include "env/core/error.h"
#include "partitioner/cut/flow_partition.h"
#include "partitioner/cut/order_dp.h"
#include "partitioner/cut/partition.h"
#include "partitioner/front_end.h"

namespace weir::partitioner {
namespace {

double Milliseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

CutOptions StudyOptions(int k, Work work) {
  CutOptions options;
  options.num_parts = k;
  options.objective = CutObjective::kHops;
  options.measure = {Pass::kForward, work};
  return options;
}

// The cheapest of the orders alone, within the window that the whole portfolio used.
std::int64_t OrderDpBytes(const UnitGraph& units, int k) {
  for (double scale = 1; scale < 64; scale *= 1.05) {
    const double cap = 1.1 * scale * static_cast<double>(units.total_work) / k;
    const Limits limits = Limits::Equal(k, std::max(units.max_work, static_cast<std::int64_t>(cap)));
    std::int64_t best = -1;
    for (const auto& order : TopologicalOrders(units)) {
      const auto parts = CutOrder(units, order, limits, CutObjective::kHops);
      if (!parts) continue;
      const std::int64_t bytes = UnitCutBytes(units, *parts, CutObjective::kHops);
      if (best < 0 || bytes < best) best = bytes;
    }
    if (best >= 0) return best;
  }
  return -1;
}

#ifdef WEIR_HAVE_METIS
// METIS by communication volume on the undirected graph, and whether its parts can run in some order at all.
std::string Metis(const UnitGraph& units, int k) {
  const int n = units.size();
  std::vector<std::vector<idx_t>> near(n);
  std::vector<std::int64_t> out(n, 0);
  for (const auto& tensor : units.tensors) {
    out[tensor.producer] += tensor.capacity;
    for (int reader : tensor.readers) {
      near[tensor.producer].push_back(reader);
      near[reader].push_back(tensor.producer);
    }
  }
  std::vector<idx_t> xadj = {0}, adjncy, weight, size;
  for (int u = 0; u < n; ++u) {
    std::sort(near[u].begin(), near[u].end());
    near[u].erase(std::unique(near[u].begin(), near[u].end()), near[u].end());
    adjncy.insert(adjncy.end(), near[u].begin(), near[u].end());
    xadj.push_back(static_cast<idx_t>(adjncy.size()));
    weight.push_back(static_cast<idx_t>(static_cast<double>(units.units[u].work) / static_cast<double>(units.total_work) * 1e6));
    size.push_back(static_cast<idx_t>(out[u] / 64));
  }
  idx_t vertices = n, constraints = 1, parts = k, cut = 0, options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_OBJTYPE] = METIS_OBJTYPE_VOL;
  options[METIS_OPTION_SEED] = 1;
  real_t slack = std::max(1.1, static_cast<double>(units.max_work) * k / static_cast<double>(units.total_work));
  std::vector<idx_t> part(n);
  if (METIS_PartGraphKway(&vertices, &constraints, xadj.data(), adjncy.data(), weight.data(), size.data(), nullptr, &parts,
                          nullptr, &slack, options, &cut, part.data()) != METIS_OK) {
    return "failed";
  }
  std::vector<int> part_of(part.begin(), part.end());
  // Acyclic: parts can be peeled off one by one.
  std::vector<std::vector<char>> arc(k, std::vector<char>(k, 0));
  for (const auto& tensor : units.tensors) {
    for (int reader : tensor.readers) arc[part_of[tensor.producer]][part_of[reader]] = 1;
  }
  std::vector<char> gone(k, 0);
  int left = k;
  for (bool moved = true; moved;) {
    moved = false;
    for (int p = 0; p < k; ++p) {
      bool free = !gone[p];
      for (int q = 0; q < k && free; ++q) free = gone[q] || q == p || !arc[q][p];
      if (!free) continue;
      gone[p] = 1;
      --left;
      moved = true;
    }
  }
  return fmt::format("{:.3f}{}", static_cast<double>(UnitCutBytes(units, part_of, CutObjective::kVolume)) / 1e6,
                     left == 0 ? "" : " cyclic");
}
#else
std::string Metis(const UnitGraph&, int) {
  return "-";
}
#endif

void ModelTable(const std::string& folder, Work work) {
  std::vector<std::string> files;
  for (const char* sub : {"onnx", "profiles"}) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/" + sub, error)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    std::printf("no model files in %s\n", folder.c_str());
    return;
  }
  std::printf("%-28s %6s %2s %12s %12s %12s %8s %18s %9s\n", "graph", "units", "K", "weir MB", "order DP", "bound", "optimal",
              "METIS (volume)", "ms");
  for (const std::string& file : files) {
    const OperatorGraph graph = LoadModel(file, {});
    const UnitGraph units = Contract(graph, {}, {Pass::kForward, work});
    for (int k : {2, 4, 8}) {
      const CutOptions options = StudyOptions(k, work);
      Partition partition;
      std::vector<double> times;
      for (int run = 0; run < 5; ++run) {
        times.push_back(Milliseconds([&] { partition = CutIntoParts(graph, options); }));
        if (times.back() > 2000) break;
      }
      std::sort(times.begin(), times.end());
      auto mb = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
      std::printf("%-28s %6d %2d %12.3f %12.3f %12.3f %8s %18s %9.1f\n", graph.name.c_str(), units.size(), k,
                  mb(partition.cut_bytes), mb(OrderDpBytes(units, k)), mb(partition.lower_bound), partition.optimal ? "yes" : "-",
                  Metis(units, k).c_str(), times[times.size() / 2]);
      std::fflush(stdout);
    }
  }
}

// Layers of blocks with parallel branches and skips, shapes shrinking with depth.
OperatorGraph Synthetic(int operators) {
  std::mt19937_64 rng(1);
  OperatorGraph graph;
  graph.name = fmt::format("synthetic-{}", operators);
  auto add = [&](std::vector<int> inputs) {
    Operator op;
    const int i = static_cast<int>(graph.operators.size());
    op.name = fmt::format("op{}", i);
    op.kind = "Conv";
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    op.inputs = inputs;
    op.outputs = {i};
    op.macs = 1'000'000 + static_cast<std::int64_t>(rng() % 9'000'000);
    op.forward_flop = 2 * op.macs;
    op.backward_flop = 4 * op.macs;
    op.saved_bytes = 1000;
    Tensor tensor;
    tensor.name = fmt::format("t{}", i);
    tensor.bytes = 4096 * (1 + static_cast<std::int64_t>(rng() % 64));
    tensor.has_gradient = true;
    graph.operators.push_back(std::move(op));
    graph.tensors.push_back(std::move(tensor));
    return i;
  };
  int head = add({});
  while (static_cast<int>(graph.operators.size()) < operators) {
    const int branches = 1 + static_cast<int>(rng() % 4);
    std::vector<int> ends = {head};
    for (int b = 0; b < branches; ++b) {
      int at = head;
      const int depth = 1 + static_cast<int>(rng() % 5);
      for (int d = 0; d < depth; ++d) at = add({at});
      ends.push_back(at);
    }
    head = add(ends);
  }
  graph.Finalize();
  return graph;
}

void ScalingTable() {
  std::printf("\n%-20s %2s %12s %10s %10s\n", "synthetic", "K", "hops MB", "ms", "peak MB");
  for (int operators : {1'000, 3'000, 10'000, 30'000, 100'000}) {
    for (int k : {2, 8}) {
      std::fflush(stdout);
      const pid_t child = fork();  // its own peak
      if (child == 0) {
        const OperatorGraph graph = Synthetic(operators);
        CutOptions options;
        options.num_parts = k;
        options.objective = CutObjective::kHops;
        Partition partition;
        std::vector<double> times;
        for (int run = 0; run < (operators > 10'000 ? 1 : 3); ++run) {
          times.push_back(Milliseconds([&] { partition = CutIntoParts(graph, options); }));
        }
        std::sort(times.begin(), times.end());
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        std::printf("%-20s %2d %12.1f %10.0f %10.0f\n", graph.name.c_str(), k, static_cast<double>(partition.cut_bytes) / 1e6,
                    times[times.size() / 2], static_cast<double>(usage.ru_maxrss) / 1024);
        std::fflush(stdout);
        _exit(0);
      }
      int status = 0;
      waitpid(child, &status, 0);
    }
  }
}

}  // namespace
}  // namespace weir::partitioner

int main(int argc, char** argv) {
  using namespace weir::partitioner;  // NOLINT
  try {
    const std::string folder = argc > 1 ? argv[1] : WEIR_SOURCE_DIR "/../shared/data/models";
    for (Work work : {Work::kMacs, Work::kRoofline}) {
      std::printf("\nwork = %s\n", work == Work::kMacs ? "forward MACs" : "roofline, 20 FLOP a byte");
      ModelTable(folder, work);
    }
    ScalingTable();
  } catch (const weir::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
