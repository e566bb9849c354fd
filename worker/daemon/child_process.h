// A child process that dies with its parent's thread.
#ifndef WEIR_WORKER_DAEMON_CHILD_PROCESS_H_
#define WEIR_WORKER_DAEMON_CHILD_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace weir::worker {

class ChildProcess {
 public:
  // Forks and executes command[0] (a path). Throws Error(kInfrastructure) where it can't.
  // The child gets SIGKILL when the calling *thread* ends: call it from one that lives as long as the process should.
  explicit ChildProcess(const std::vector<std::string>& command);
  ~ChildProcess();  // kills it where it still runs
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // nullopt while it runs, then for ever how it ended: "exit code 3", "signal 9 (Killed)".
  std::optional<std::string> HowItEnded();
  // Of a child that has exited by itself; -1: it runs, or a signal ended it.
  int exit_code() const { return exit_code_; }
  // Sends the signal; nothing where it has ended.
  void Signal(int signal);
  // Waits up to `seconds` for the end, then kills.
  void Stop(double seconds);

 private:
  pid_t pid_ = -1;
  std::optional<std::string> ended_;
  int exit_code_ = -1;
};

// "exit code 3" or "signal 9 (Killed)" from a wait status.
std::string DescribeStatus(int status);

}  // namespace weir::worker

#endif  // WEIR_WORKER_DAEMON_CHILD_PROCESS_H_
