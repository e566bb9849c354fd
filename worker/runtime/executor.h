// The executor process: one per device, holds LibTorch, runs the stages that its daemon hands it (each in a thread of its own).
// Exchanges activations and gradients straight with the executors of other stages.
#ifndef WEIR_WORKER_RUNTIME_EXECUTOR_H_
#define WEIR_WORKER_RUNTIME_EXECUTOR_H_

#include <string>

namespace weir::worker {

struct ExecutorOptions {
  std::string control_address;          // ipc://... of the daemon, which binds a ROUTER; the executor connects a DEALER
  std::string bind_host = "127.0.0.1";  // where the bulk socket listens; a free port is taken
  // Emulated speed in FLOP/s shared by the residents, 0: the machine's own. Stages really compute; each iteration is then
  // stretched to the time that a device of this speed would take: iteration FLOP * residents / (flops * g(residents)).
  double emulated_flops = 0;
  double corun_gain = 0;
  // Emulated network interface: bytes/s and seconds; 0: the machine's own.
  double emulated_bandwidth = 0, emulated_latency = 0;
  std::string device = "cpu";  // or cuda:<index>
  double memory_bytes = 0;     // on an accelerator: the most that LibTorch allocates there; 0: no limit
  // What the stages may take together, by their plans: a stage that doesn't fit beside the others is refused. 0: no limit.
  double planned_memory_bytes = 0;
  int threads = 1;  // LibTorch's
};

// Conversation on the control socket (frames of worker/protocol/frame.h):
//   executor: ExecutorReady once its bulk socket listens
//   daemon:   RunStage, TakeCheckpoint, Stop    executor: Progress, StageCheckpoint (with path), StageDone (with result_path),
//                                                         StageFailed
// Runs until the daemon's process is gone (it is a child: PR_SET_PDEATHSIG) or it is sent Bye. Returns the exit code.
// Lives in libweir_torch.so as `extern "C" int weir_torch_run_executor(const weir::worker::ExecutorOptions*)`.
int RunExecutor(const ExecutorOptions& options);  // loads the library and calls it

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_EXECUTOR_H_
