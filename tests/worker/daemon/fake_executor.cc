// Stands in for the executor process: no LibTorch. What it does with a stage is the stage's job name:
//   done  two reports, then a result    die  ends by signal 9    fail  the job's own failure    hang  waits for Stop
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "env/core/file.h"
#include "worker/protocol/channel.h"
#include "worker/protocol/wire.pb.h"

int main(int argc, char** argv) {
  using namespace weir;
  using namespace weir::worker;
  std::string control;
  for (int i = 1; i + 1 < argc; ++i) {
    if (!std::strcmp(argv[i], "--control")) control = argv[i + 1];
  }
  if (control.empty()) return 3;
  Context context;
  Dealer dealer(context, control);
  wire::ExecutorReady ready;
  ready.set_bulk_address("tcp://127.0.0.1:" + std::to_string(::getpid()));
  ready.set_torch_version("none");
  ready.set_pid(::getpid());
  dealer.Send(Encode(MessageType::kExecutorReady, ready), Milliseconds(10000));
  while (true) {
    const auto bytes = dealer.Receive(Milliseconds(1000));
    std::string error;
    const auto frame = bytes ? DecodeFrame(*bytes, &error) : std::nullopt;
    if (!frame) continue;
    if (frame->type == MessageType::kBye) return 0;
    wire::RunStage run;
    if (frame->type != MessageType::kRunStage || !run.ParseFromString(frame->body)) continue;
    const wire::StageKey& key = run.assign().key();
    const std::string& what = run.assign().job_name();
    if (what == "die") ::raise(SIGKILL);
    if (what == "fail") {
      wire::StageFailed failed;
      *failed.mutable_key() = key;
      failed.set_error("loss is NaN");
      dealer.Send(Encode(MessageType::kStageFailed, failed), Milliseconds(10000));
    }
    if (what == "done") {
      wire::Progress progress;
      *progress.mutable_key() = key;
      for (int i = 1; i <= 2; ++i) {
        progress.set_iteration(50 * i);
        progress.set_loss(1.0 / i);
        progress.set_iteration_seconds(0.001);
        dealer.Send(Encode(MessageType::kProgress, progress), Milliseconds(10000));
      }
      WriteFileAtomically(run.result_path(), "trained from " + ReadFile(run.model_path()) + " and " + ReadFile(run.data_path()));
      wire::StageDone done;
      *done.mutable_key() = key;
      done.set_result_path(run.result_path());
      done.set_final_loss(0.5);
      done.set_accuracy(0.75);
      dealer.Send(Encode(MessageType::kStageDone, done), Milliseconds(10000));
    }
  }
}
