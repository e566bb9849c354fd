// The one executable. Parses the command line, runs a verb, turns errors into one line on stderr and an exit code.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cli/verbs.h"
#include "env/core/error.h"

namespace weir::cli {
namespace {

int Run(int argc, char** argv) {
  CLI::App app{"weir: an online scheduler for training deep networks on unequal edge GPUs"};
  app.name("weir");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every verb");
  AddCompare(app);
  AddCoordinator(app);
  AddExecutor(app);
  AddInspect(app);
  AddJobVerbs(app);
  AddPartition(app);
  AddPolicy(app);
  AddSimulate(app);
  AddTrain(app);
  AddSubmit(app);
  AddUp(app);
  AddVersion(app);
  AddWorker(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "weir: %s (see weir --help)\n", e.what());
    return static_cast<int>(ExitCode::kInvalid);
  } catch (const VerbExit& e) {
    return static_cast<int>(e.code);
  } catch (const Error& e) {
    std::fprintf(stderr, "weir: %s\n", e.what());
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weir: unexpected error: %s\n", e.what());
    return static_cast<int>(ExitCode::kInfrastructure);
  }
}

}  // namespace
}  // namespace weir::cli

int main(int argc, char** argv) {
  return weir::cli::Run(argc, argv);
}
