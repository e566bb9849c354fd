// What the verbs that talk to a coordinator share: where it is, how long to wait, how its answers are printed.
#ifndef WEIR_CLI_REMOTE_H_
#define WEIR_CLI_REMOTE_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "worker/protocol/client.h"
#include "worker/protocol/wire.pb.h"

namespace CLI {
class App;
}

namespace weir::cli {

// The environment's WEIR_ADDR, else tcp://127.0.0.1:7700.
std::string DefaultCoordinator();
void AddCoordinatorOption(CLI::App* verb, std::string* address);  // --coordinator

// Throws Error(kNotFound) where there is no such job.
wire::JobInfo ShowJob(worker::Client* client, std::int64_t job);
// Polls until the job has ended; `timeout` in seconds, 0: none. Prints progress on stderr unless quiet. Throws Error(kTimeout).
wire::JobInfo WaitForJob(worker::Client* client, std::int64_t job, double timeout, bool quiet);
// Returns where the job finished; otherwise prints why on stderr and throws VerbExit.
void RequireFinished(const wire::JobInfo& job);

nlohmann::ordered_json ToJson(const wire::JobInfo& job, bool full);
nlohmann::ordered_json ToJson(const wire::WorkerInfo& worker);

// SIGINT and SIGTERM make the descriptor readable in place of ending the process. The same one for every call.
int StopFd();
// A fresh random id for idempotent requests and names.
std::string RandomId();

}  // namespace weir::cli

#endif  // WEIR_CLI_REMOTE_H_
