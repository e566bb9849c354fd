#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/verbs.h"

namespace weir::cli {

void AddVersion(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("version", "Print the version");
  static bool json = false;
  verb->add_flag("--json", json, "Print JSON");
  verb->callback([] { std::printf(json ? "{\"schema_version\":1,\"version\":\"%s\"}\n" : "weir %s\n", WEIR_VERSION); });
}

}  // namespace weir::cli
