// One thread that runs slow work (file transfers, planning) in order, for a loop that must not block. The loop polls fd() and
// calls RunFinished(), which runs each job's second half in the loop's own thread.
#ifndef WEIR_WORKER_PROTOCOL_BACKGROUND_H_
#define WEIR_WORKER_PROTOCOL_BACKGROUND_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "worker/protocol/channel.h"

namespace weir::worker {

class Background {
 public:
  Background();
  ~Background();  // drops what hasn't started, waits for what has

  // `work` runs in the thread and must not throw; `finish` then runs inside RunFinished.
  void Post(std::function<void()> work, std::function<void()> finish);
  int fd() const { return wake_.fd(); }
  void RunFinished();

 private:
  void Run();

  WakeUp wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::deque<std::pair<std::function<void()>, std::function<void()>>> queue_;
  std::deque<std::function<void()>> finished_;
  std::thread thread_;
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_PROTOCOL_BACKGROUND_H_
