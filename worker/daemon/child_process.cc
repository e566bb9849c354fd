#include "worker/daemon/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "env/core/error.h"

namespace weir::worker {

std::string DescribeStatus(int status) {
  if (WIFSIGNALED(status)) return fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

ChildProcess::ChildProcess(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  int report[2];  // closed by a successful exec; otherwise carries errno
  if (::pipe2(report, O_CLOEXEC) != 0) throw Failure(ExitCode::kInfrastructure, "no more pipes: {}", std::strerror(errno));
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {  // only async-signal-safe calls from here
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGINT, SIG_IGN);  // Ctrl-C goes to the whole group: the parent decides when this one ends
    ::signal(SIGTERM, SIG_DFL);
    ::execv(arguments[0], arguments.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t n = ::write(report[1], &error, sizeof error);
    ::_exit(127);
  }
  const int fork_error = errno;
  ::close(report[1]);
  if (pid_ < 0) {
    ::close(report[0]);
    throw Failure(ExitCode::kInfrastructure, "{}: can't be started: {}", command[0], std::strerror(fork_error));
  }
  int error = 0;
  ssize_t n;
  while ((n = ::read(report[0], &error, sizeof error)) < 0 && errno == EINTR) {
  }
  ::close(report[0]);
  if (n == sizeof error) {
    ::waitpid(pid_, nullptr, 0);
    throw Failure(ExitCode::kInfrastructure, "{}: can't be started: {}", command[0], std::strerror(error));
  }
}

ChildProcess::~ChildProcess() {
  Stop(0);
}

std::optional<std::string> ChildProcess::HowItEnded() {
  if (ended_) return ended_;
  int status = 0;
  const pid_t result = ::waitpid(pid_, &status, WNOHANG);
  if (result == pid_) {
    ended_ = DescribeStatus(status);
    if (WIFEXITED(status)) exit_code_ = WEXITSTATUS(status);
  }
  if (result < 0 && errno == ECHILD) ended_ = "unknown";
  return ended_;
}

void ChildProcess::Signal(int signal) {
  if (!HowItEnded()) ::kill(pid_, signal);
}

void ChildProcess::Stop(double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!HowItEnded() && std::chrono::steady_clock::now() < deadline) {
    const timespec pause{0, 10'000'000};
    ::nanosleep(&pause, nullptr);
  }
  if (HowItEnded()) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  pid_t result;
  while ((result = ::waitpid(pid_, &status, 0)) < 0 && errno == EINTR) {
  }
  ended_ = result == pid_ ? DescribeStatus(status) : "unknown";
}

}  // namespace weir::worker
