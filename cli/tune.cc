// weir tune: searches the parameters of the ten-parameter rule on training episodes and writes them as a rule file.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "agent/baselines/rule_file.h"
#include "cli/verbs.h"
#include "env/core/file.h"

namespace weir::cli {
namespace {

struct TuneFlags {
  std::string config, out;
  int threads = 0;
  bool json = false;
};

void RunTune(const TuneFlags& flags) {
  if (flags.threads < 0) throw Invalid("tune: --threads must be >= 0, got {}", flags.threads);
  const TuneConfig config = ReadTuneConfig(flags.config);
  if (!flags.out.empty()) MakeParentFolders(flags.out);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto progress = [&](int generation, const CemGeneration& g) {
    if (!terminal) return;
    const int done = (generation + 1) * 30 / config.cem.generations;
    std::fprintf(stderr, "\rtune [%-30s] generation %d of %d, best %.4f", std::string(done, '#').c_str(), generation + 1,
                 config.cem.generations, g.best);
    if (generation + 1 == config.cem.generations) std::fputc('\n', stderr);
    std::fflush(stderr);
  };
  const CemResult result = TuneRule(config, flags.threads, progress);
  RuleFile file = config.base;
  SetRuleParameters(result.values, &file);
  const std::string text =
      FormatRuleFile(file, fmt::format("weir tune {}: {} episodes of {} jobs, seeds {} to {}, load {}\n"
                                       "mean JCT / {} there: {:.4f} ({} of the search, {} generations of {}, seed {})",
                                       flags.config, config.episodes, config.jobs, config.first_seed,
                                       config.first_seed + static_cast<std::uint64_t>(config.episodes) - 1, config.load,
                                       config.reference, result.score, result.is_centre ? "centre" : "best sample",
                                       config.cem.generations, config.cem.population, config.cem.seed));
  if (!flags.out.empty()) WriteFileAtomically(flags.out, text);
  if (!flags.json) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  nlohmann::ordered_json out = {{"schema_version", 1}, {"score", result.score}, {"is_centre", result.is_centre}};
  const std::vector<CemParameter> parameters = RuleParameters(file.preempt.has_value());
  const auto named = [&](const std::vector<double>& values) {
    nlohmann::ordered_json map;
    for (std::size_t i = 0; i < parameters.size(); ++i) map[parameters[i].name] = values[i];
    return map;
  };
  out["parameters"] = named(result.values);
  auto& list = out["generations"] = nlohmann::ordered_json::array();
  for (const CemGeneration& g : result.generations) {
    list.push_back({{"best", g.best}, {"median", g.median}, {"centre", named(g.centre)}});
  }
  std::printf("%s\n", out.dump().c_str());
}

}  // namespace

void AddTune(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("tune", "Tune the ten-parameter rule on training episodes by cross-entropy search");
  auto flags = std::make_shared<TuneFlags>();
  verb->add_option("config", flags->config, "What to tune on (configs/tune/*.yaml)")->required();
  verb->add_option("--out", flags->out, "Write the rule file, for --scheduler rule:FILE");
  verb->add_option("--threads", flags->threads, "0: one per core; the result doesn't depend on it")->capture_default_str();
  verb->add_flag("--json", flags->json, "Print JSON, every generation included");
  verb->callback([flags] { RunTune(*flags); });
}

}  // namespace weir::cli
