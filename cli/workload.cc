// weir workload: what goes into workload files.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/verbs.h"
#include "env/core/file.h"
#include "env/workload/profiles.h"
#include "partitioner/cut/part_plan.h"
#include "partitioner/front_end.h"

namespace weir::cli {
namespace {

struct ProfileFlags {
  std::vector<std::string> models;
  std::string out, name = "profiles";
  std::vector<int> batches = {16, 32, 64}, micro_batches = {1, 4}, parts = {1, 2, 3, 4};
  int optimizer_states = 1;
  std::vector<std::int64_t> input;
};

// Model files as given, folders as their ONNX files by name.
std::vector<std::string> ModelFiles(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      if (entry.path().extension() == ".onnx") found.push_back(entry.path().string());
    }
    if (found.empty()) throw Invalid("{}: no .onnx file in the folder", path);
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

// One iteration as the scheduler sees it, by the same sums as a job that is submitted (coordinator/planning.cc).
JobSpec JobOf(const partitioner::PartPlan& plan, int micro_batches) {
  JobSpec job;
  const double m = job.micro_batches = micro_batches;
  for (const partitioner::PartSummary& part : plan.parts) {
    const double flop = m * (static_cast<double>(part.forward_flop) + static_cast<double>(part.backward_flop)) +
                        static_cast<double>(part.optimizer_flop);
    job.subgraphs.push_back(
        {std::max(1.0, flop), std::max(1.0, static_cast<double>(part.memory_bytes)), static_cast<double>(part.parameter_bytes)});
  }
  for (const partitioner::PartArc& arc : partitioner::PartArcs(plan))
    job.arcs.push_back({arc.from, arc.to, m * static_cast<double>(arc.forward_bytes)});
  return job;
}

void RunProfiles(const ProfileFlags& flags) {
  auto check = [](const std::vector<int>& values, const char* flag, int most) {
    for (int value : values) {
      if (value < 1 || value > most) throw Invalid("workload profiles: {} must be from 1 to {}, got {}", flag, most, value);
    }
  };
  check(flags.batches, "--batches", 1 << 20);
  check(flags.micro_batches, "--micro-batches", 1 << 20);
  check(flags.parts, "--parts", 64);
  if (flags.optimizer_states < 0 || flags.optimizer_states > 16)
    throw Invalid("workload profiles: --optimizer-states must lie in 0..16, got {}", flags.optimizer_states);
  partitioner::LoadOptions load;
  if (!flags.input.empty()) load.input_shape = flags.input;
  std::vector<Profile> profiles;
  std::string sources;
  long skipped = 0;
  for (const std::string& file : ModelFiles(flags.models)) {
    const std::string name = std::filesystem::path(file).stem().string();
    sources += fmt::format("  {} {}\n", name, ContentHash(ReadFile(file)).substr(0, 12));
    std::map<std::int64_t, partitioner::OperatorGraph> graphs;  // by micro-batch size
    std::map<std::pair<std::int64_t, int>, partitioner::Partition> cuts;
    for (int batch : flags.batches) {
      for (int parts : flags.parts) {
        for (int m : flags.micro_batches) {
          if (batch % m != 0) {
            ++skipped;
            continue;
          }
          load.batch = batch / m;
          if (!graphs.count(load.batch)) graphs[load.batch] = partitioner::LoadModel(file, load);
          const partitioner::OperatorGraph& graph = graphs[load.batch];
          if (graph.measured) throw Invalid("{}: has times but no FLOP: expected an ONNX or TorchScript model", file);
          const partitioner::MemoryModel memory{m, flags.optimizer_states};
          const auto key = std::pair(load.batch, parts);
          // Without a limit of memory the cut depends on the micro-batch size and the number of parts alone.
          if (!cuts.count(key)) {
            partitioner::CutOptions cut;
            cut.num_parts = parts;
            cut.memory = memory;
            cuts[key] = partitioner::CutIntoParts(graph, cut);
          }
          if (cuts[key].status != partitioner::Partition::Status::kOk) {
            ++skipped;
            continue;
          }
          profiles.push_back({name, batch, JobOf(partitioner::Describe(graph, cuts[key], memory), m)});
        }
      }
    }
  }
  if (profiles.empty())
    throw Invalid("workload profiles: none of the combinations of batch, micro-batches and parts is possible");
  const std::string comment = fmt::format(
      "Written by `weir workload profiles`: batches {}, micro-batches {}, parts {}, {} optimiser state{} a parameter.\n"
      "Models, with the first 12 digits of their BLAKE2b:\n{}"
      "Per profile: subgraphs [FLOP, memory bytes, parameter bytes] and arcs [from, to, bytes forward], per iteration.",
      fmt::join(flags.batches, ","), fmt::join(flags.micro_batches, ","), fmt::join(flags.parts, ","), flags.optimizer_states,
      flags.optimizer_states == 1 ? "" : "s", sources);
  const std::string text = FormatProfiles(flags.name, profiles, comment);
  if (flags.out.empty()) {
    std::fputs(text.c_str(), stdout);
  } else {
    WriteFileAtomically(flags.out, text);
    std::printf("%s: %zu profiles", flags.out.c_str(), profiles.size());
    if (skipped > 0)
      std::printf(", %ld combinations left out (micro-batches that don't divide the batch, or too many parts)", skipped);
    std::printf("\n");
  }
}

}  // namespace

void AddWorkload(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("workload", "Make what workload files are built on");
  verb->require_subcommand(1);
  CLI::App* profiles = verb->add_subcommand("profiles", "Write what an iteration of each model costs, cut into parts");
  auto flags = std::make_shared<ProfileFlags>();
  profiles->add_option("models", flags->models, "Model files, or folders of .onnx files")->required();
  profiles->add_option("-o,--out", flags->out, "Profile file to write (default: standard output)");
  profiles->add_option("--name", flags->name, "Name in the file")->capture_default_str();
  profiles->add_option("--batches", flags->batches, "Samples an iteration")->delimiter(',')->capture_default_str();
  profiles->add_option("--micro-batches", flags->micro_batches, "Pieces of a batch")->delimiter(',')->capture_default_str();
  profiles->add_option("--parts", flags->parts, "Numbers of subgraphs")->delimiter(',')->capture_default_str();
  profiles->add_option("--optimizer-states", flags->optimizer_states, "Numbers the optimiser keeps per parameter (Adam: 2)")
      ->capture_default_str();
  profiles->add_option("--input", flags->input, "Shape of one sample, e.g. 3,224,224, for models that leave it open")
      ->delimiter(',');
  profiles->callback([flags] { RunProfiles(*flags); });
}

}  // namespace weir::cli
