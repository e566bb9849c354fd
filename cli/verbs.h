// One function a verb: adds the subcommand with its options; its callback runs the verb. To add one: declare it here, write
// cli/<verb>.cc, list both in cli/CMakeLists.txt, call it in main.cc.
// A callback throws weir::Error for bad input; it returns normally for exit code 0 or throws VerbExit for another code.
#ifndef WEIR_CLI_VERBS_H_
#define WEIR_CLI_VERBS_H_

#include <string>

#include "env/core/error.h"

namespace CLI {
class App;
}

namespace weir::cli {

// Ends a verb that already printed its result, with this exit code.
struct VerbExit {
  ExitCode code;
};

void AddCalibrate(CLI::App& app);
void AddCompare(CLI::App& app);
void AddCoordinator(CLI::App& app);
void AddDemo(CLI::App& app);
void AddExecutor(CLI::App& app);
void AddInspect(CLI::App& app);
void AddProfile(CLI::App& app);
void AddJobVerbs(CLI::App& app);
void AddPartition(CLI::App& app);
void AddPlan(CLI::App& app);
void AddPolicy(CLI::App& app);
void AddReplay(CLI::App& app);
void AddSimulate(CLI::App& app);
void AddTrace(CLI::App& app);
void AddTrain(CLI::App& app);
void AddTune(CLI::App& app);
void AddSubmit(CLI::App& app);
void AddUp(CLI::App& app);
void AddVersion(CLI::App& app);
void AddWorker(CLI::App& app);
void AddWorkers(CLI::App& app);
void AddWorkload(CLI::App& app);

// $XDG_STATE_HOME/weir, else ~/.local/state/weir.
std::string DefaultStateFolder();

}  // namespace weir::cli

#endif  // WEIR_CLI_VERBS_H_
