#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "agent/train/train.h"
#include "cli/verbs.h"

namespace weir::cli {

void AddTrain(CLI::App& app) {
  struct Flags {
    std::string config, out, tensorboard;
    bool resume = false, json = false, quiet = false;
    double minutes = 0;
    int threads = 0, stop_after = 0;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand("train", "Train a policy in the simulator");
  verb->add_option("config", flags->config, "Training config (configs/train/*.yaml)")->required();
  verb->add_option("--out", flags->out, "Policy file to write; checkpoints go beside it (default: <config>.weirpolicy here)");
  verb->add_flag("--resume", flags->resume, "Go on from the checkpoint beside --out");
  verb->add_option("--minutes", flags->minutes, "Stop after about that much wall time")->check(CLI::PositiveNumber);
  verb->add_option("--stop-after", flags->stop_after, "Stop after that many updates in all, on the schedules of the whole run")
      ->check(CLI::PositiveNumber);
  verb->add_option("--threads", flags->threads, "Threads; results don't depend on it (default: all cores)")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--tensorboard", flags->tensorboard, "Write TensorBoard event files into this folder");
  verb->add_flag("--quiet", flags->quiet, "No progress lines");
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->callback([flags] {
    TrainOptions options;
    options.config = ReadTrainConfig(flags->config);
    options.out = flags->out.empty() ? std::filesystem::path(flags->config).stem().string() + ".weirpolicy" : flags->out;
    const std::string folder = std::filesystem::absolute(options.out).parent_path().string();
    if (::access(folder.c_str(), W_OK) != 0) {  // told now, not after the first minutes of training
      throw Failure(ExitCode::kInfrastructure, "{}: can't be written: {}: {}", options.out, folder, std::strerror(errno));
    }
    options.resume = flags->resume;
    options.minutes = flags->minutes;
    options.threads = flags->threads;
    options.stop_after = flags->stop_after;
    options.tensorboard = flags->tensorboard;
    options.progress = !flags->quiet;
    const TrainReport report = Train(options);
    if (flags->json) {
      nlohmann::ordered_json json = {{"schema_version", 1},
                                     {"policy", options.out},
                                     {"hash", report.hash},
                                     {"seed", options.config.seed},
                                     {"updates", report.updates},
                                     {"best_update", report.best_update},
                                     {"imitation_agreement", report.imitation_agreement},
                                     {"imitation_score", report.imitation_score},
                                     {"best_score", report.best_score},
                                     {"out_of_time", report.out_of_time},
                                     {"seconds", report.seconds}};
      for (const auto& cell : report.cells) json["validation"][cell.name] = cell.policy_over_teacher;
      std::printf("%s\n", json.dump().c_str());
      return;
    }
    std::printf("policy %s hash %s\n", options.out.c_str(), report.hash.c_str());
    std::printf("updates %d, best at %d%s, %.0f s\n", report.updates, report.best_update,
                report.out_of_time ? " (time limit)" : "", report.seconds);
    std::printf("validation, mean JCT over the teacher's (%s):\n", options.config.imitation.teacher.c_str());
    for (const auto& cell : report.cells) std::printf("  %-20s %.3f\n", cell.name.c_str(), cell.policy_over_teacher);
  });
}

}  // namespace weir::cli
