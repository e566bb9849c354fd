// Messages that wait for one stage. Thread-safe.
#ifndef WEIR_WORKER_RUNTIME_MAILBOX_H_
#define WEIR_WORKER_RUNTIME_MAILBOX_H_

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "worker/runtime/exchange.h"

namespace weir::worker {

class Mailbox {
 public:
  // `deliver_at`: Take gives it out from then on (EmulatedLink::Now); 0: at once.
  void Put(TensorMessage message, double deliver_at = 0);
  // Throws Aborted, or what Fail was given.
  TensorMessage Take(TensorKind kind, int peer, std::int64_t iteration, int micro_batch);
  void Abort(std::string reason);
  // The exchange broke: whoever waits gets this exception.
  void Fail(std::exception_ptr error);
  void Check();  // throws as Take does

  // What AddCredit calls; null: credits are dropped.
  void OnCredit(std::function<void(int peer, int count)> handler);
  void AddCredit(int peer, int count);
  // Called once, when Abort or Fail is.
  void OnEnd(std::function<void()> handler);

 private:
  using Key = std::tuple<TensorKind, int, std::int64_t, int>;
  struct Waiting {
    TensorMessage message;
    double deliver_at = 0;
  };
  void ThrowIfEnded();
  void End(std::string reason, std::exception_ptr error);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, Waiting> messages_;
  bool aborted_ = false;
  std::string reason_;
  std::exception_ptr error_;
  std::mutex handlers_;
  std::function<void(int, int)> on_credit_;
  std::function<void()> on_end_;
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_MAILBOX_H_
