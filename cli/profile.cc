// weir profile MODEL: measures each operator on a device and keeps what it learned in a table, from which other models' times are
// predicted.
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/model_options.h"
#include "cli/verbs.h"
#include "env/core/error.h"
#include "env/core/file.h"
#include "env/core/units.h"
#include "partitioner/profile/time_table.h"
#include "worker/runtime/profile_model.h"

namespace weir::cli {
namespace {

using partitioner::OperatorSeconds;
using partitioner::TimeTable;
using partitioner::TotalSeconds;

struct Options {
  ModelOptions model;
  std::string device = "cpu", table;
  int threads = 0, runs = 5;
  bool json = false, operators = false;
};

struct KindRow {
  int operators = 0;
  double seconds = 0, predicted = 0;
};

void Run(const Options& options) {
  if (options.runs < 1) throw Invalid("--runs must be >= 1, got {}", options.runs);
  if (options.threads < 0) throw Invalid("--threads must be >= 0, got {}", options.threads);
  if (options.model.batch < 1) throw Invalid("--batch must be >= 1, got {}", options.model.batch);
  worker::ProfileRequest request{options.model.path, options.model.batch, {}, options.device, options.threads, options.runs};
  if (const auto shape = options.model.ToLoadOptions().input_shape) request.sample_shape = *shape;
  if (!options.table.empty()) MakeParentFolders(options.table);
  struct stat info {};
  const bool known = !options.table.empty() && ::stat(options.table.c_str(), &info) == 0;
  TimeTable before;
  if (known) before = partitioner::ReadTimeTable(options.table);
  const worker::ModelProfile profile = worker::ProfileModel(request);
  if (known && before.device != profile.device.device) {
    throw Invalid("{}: is of device '{}', this one is '{}': give each its own table", options.table, before.device,
                  profile.device.device);
  }
  if (!known) before = profile.device;
  // Predicted before this model is learned: what the table is worth for a model that it hasn't seen.
  const std::vector<OperatorSeconds> predicted = before.Predict(profile.graph);
  TimeTable after = before;
  after.Learn(profile.graph, profile.operators, profile.pass_seconds);
  if (!options.table.empty()) WriteFileAtomically(options.table, partitioner::ToYaml(after));
  const std::vector<OperatorSeconds> fitted = after.Predict(profile.graph);

  std::map<std::string, KindRow> rows;
  for (std::size_t i = 0; i < profile.operators.size(); ++i) {
    KindRow& row = rows[profile.graph.operators[i].kind];
    ++row.operators;
    row.seconds += profile.operators[i].forward + profile.operators[i].backward;
    row.predicted += predicted[i].forward + predicted[i].backward;
  }
  const double sum = TotalSeconds(profile.operators), guess = TotalSeconds(predicted) * before.overhead(),
               fit = TotalSeconds(fitted) * after.overhead();
  auto ms = [](double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); };
  auto error = [&](double seconds) { return 100 * (seconds - profile.pass_seconds) / profile.pass_seconds; };
  if (options.json) {
    nlohmann::ordered_json out = {{"schema_version", 1},
                                  {"model", profile.graph.name},
                                  {"batch", profile.graph.batch},
                                  {"device", profile.device.device},
                                  {"peak_flops", before.peak_flops},
                                  {"bandwidth", before.bandwidth},
                                  {"launch_seconds", before.launch_seconds},
                                  {"pass_seconds", profile.pass_seconds},
                                  {"sum_of_operators_seconds", sum},
                                  {"predicted_before_seconds", guess},
                                  {"predicted_before_error_percent", error(guess)},
                                  {"predicted_after_seconds", fit},
                                  {"predicted_after_error_percent", error(fit)},
                                  {"models_in_table_before", known ? before.models.size() : 0}};
    for (const auto& [kind, row] : rows) {
      out["kinds"].push_back(
          {{"kind", kind}, {"operators", row.operators}, {"seconds", row.seconds}, {"predicted_before_seconds", row.predicted}});
    }
    if (options.operators) {
      for (std::size_t i = 0; i < profile.operators.size(); ++i) {
        out["operator_list"].push_back({{"name", profile.graph.operators[i].name},
                                        {"kind", profile.graph.operators[i].kind},
                                        {"forward_seconds", profile.operators[i].forward},
                                        {"backward_seconds", profile.operators[i].backward}});
      }
    }
    std::printf("%s\n", out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
    return;
  }
  std::printf("%s, batch %lld on %s: %s a pass forward and backward (%s over the operators alone)\n", profile.graph.name.c_str(),
              static_cast<long long>(profile.graph.batch), profile.device.device.c_str(), ms(profile.pass_seconds).c_str(),
              ms(sum).c_str());
  std::printf("device: %sFLOP/s, %s/s, %s a launch\n", FormatCount(before.peak_flops).c_str(),
              FormatBytes(before.bandwidth).c_str(), fmt::format("{:.2f} us", before.launch_seconds * 1e6).c_str());
  std::printf(
      "predicted %s (%+.1f %%) from %s; after learning this model %s (%+.1f %%)\n\n", ms(guess).c_str(), error(guess),
      known ? fmt::format("{} model{} in {}", before.models.size(), before.models.size() == 1 ? "" : "s", options.table).c_str()
            : "the device's roofline alone",
      ms(fit).c_str(), error(fit));
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [kind, row] : rows) order.emplace_back(-row.seconds, kind);
  std::sort(order.begin(), order.end());
  std::printf("%-24s %9s %12s %12s %7s\n", "kind", "operators", "measured", "predicted", "share");
  for (const auto& [negative, kind] : order) {
    const KindRow& row = rows[kind];
    std::printf("%-24s %9d %12s %12s %6.1f%%\n", kind.c_str(), row.operators, ms(row.seconds).c_str(), ms(row.predicted).c_str(),
                100 * row.seconds / sum);
  }
  for (std::size_t i = 0; options.operators && i < profile.operators.size(); ++i) {
    if (i == 0) std::printf("\n%5s %-24s %12s %12s  %s\n", "#", "operator", "forward", "backward", "name");
    std::printf("%5zu %-24s %12s %12s  %s\n", i, profile.graph.operators[i].kind.c_str(),
                ms(profile.operators[i].forward).c_str(), ms(profile.operators[i].backward).c_str(),
                profile.graph.operators[i].name.c_str());
  }
  if (!options.table.empty()) std::printf("\nlearned into %s\n", options.table.c_str());
}

}  // namespace

void AddProfile(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("profile", "Time a model's operators on a device; predict those of others");
  static Options options;
  options.model.AddTo(verb);
  verb->add_option("--device", options.device, "cpu or cuda:N")->capture_default_str();
  verb->add_option("--threads", options.threads, "Of the CPU (0: all cores)")->capture_default_str();
  verb->add_option("--runs", options.runs, "Medians of so many runs")->capture_default_str();
  verb->add_option("-t,--table", options.table,
                   "Table of the device: read where it exists, then written with this model learned");
  verb->add_flag("--operators", options.operators, "List the operators");
  verb->add_flag("--json", options.json, "Print JSON");
  verb->callback([] { Run(options); });
}

}  // namespace weir::cli
