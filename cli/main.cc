// The one executable. Parses the command line, runs a verb, turns errors into one line on stderr and an exit code.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "cli/verbs.h"
#include "env/core/error.h"
#include "env/core/yaml.h"

namespace weir::cli {
namespace {

// One line whatever the text holds: names in files may contain anything.
std::string OneLine(std::string text) {
  text = text.substr(0, text.find_last_not_of('\n') + 1);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

// What a library threw: its first line, without a stack trace.
std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

int Run(int argc, char** argv) {
  CLI::App app{"weir: an online scheduler for training deep networks on unequal edge GPUs"};
  app.name("weir");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every verb");
  AddCalibrate(app);
  AddCompare(app);
  AddCoordinator(app);
  AddDemo(app);
  AddExecutor(app);
  AddInspect(app);
  AddProfile(app);
  AddJobVerbs(app);
  AddPartition(app);
  AddPlan(app);
  AddPolicy(app);
  AddReplay(app);
  AddSimulate(app);
  AddTrace(app);
  AddTrain(app);
  AddTune(app);
  AddSubmit(app);
  AddUp(app);
  AddVersion(app);
  AddWorker(app);
  AddWorkers(app);
  AddWorkload(app);
  try {
    std::vector<std::string> verbs;
    for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
    if (argc > 1 && argv[1][0] != '-' && std::find(verbs.begin(), verbs.end(), argv[1]) == verbs.end()) {
      const std::string nearest = NearestName(argv[1], verbs);
      throw Invalid("unknown verb '{}'{} (see weir --help)", argv[1],
                    nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest));
    }
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "weir: %s (see weir --help)\n", OneLine(e.what()).c_str());
    return static_cast<int>(ExitCode::kInvalid);
  } catch (const VerbExit& e) {
    return static_cast<int>(e.code);
  } catch (const Error& e) {
    std::fprintf(stderr, "weir: %s\n", OneLine(e.what()).c_str());
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weir: unexpected error: %s\n", OneLine(FirstLine(e.what())).c_str());
    return static_cast<int>(ExitCode::kInfrastructure);
  }
}

}  // namespace
}  // namespace weir::cli

int main(int argc, char** argv) {
  const int code = weir::cli::Run(argc, argv);
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  std::fprintf(stderr, "weir: the result can't be written to standard output: %s\n", std::strerror(errno));
  return code != 0 ? code : static_cast<int>(weir::ExitCode::kInfrastructure);
}
