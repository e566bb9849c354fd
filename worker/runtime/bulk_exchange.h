// Activations and gradients between executors over ZeroMQ: one PULL socket an executor, PUSH sockets to the peers (PUSH blocks at
// the high-water mark and drops nothing). A message is a BulkHeader frame followed by one raw frame a tensor.
#ifndef WEIR_WORKER_RUNTIME_BULK_EXCHANGE_H_
#define WEIR_WORKER_RUNTIME_BULK_EXCHANGE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "worker/runtime/exchange.h"

namespace weir::worker {

// Messages that wait for one stage. Thread-safe.
class Mailbox {
 public:
  void Put(TensorMessage message);
  // Throws Aborted.
  TensorMessage Take(TensorKind kind, int peer, std::int64_t iteration, int micro_batch);
  void Abort(std::string reason);
  void Check();  // throws Aborted where Abort was called

 private:
  using Key = std::tuple<TensorKind, int, std::int64_t, int>;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, TensorMessage> messages_;
  bool aborted_ = false;
  std::string reason_;
};

// The listening half, one a process. Messages for a stage that isn't there yet are kept until it is opened or its attempt is
// closed.
class BulkSocket {
 public:
  // Listens on tcp://<host>:* . Throws Error(kInfrastructure) where the host can't be bound.
  explicit BulkSocket(const std::string& host);
  ~BulkSocket();
  BulkSocket(const BulkSocket&) = delete;
  BulkSocket& operator=(const BulkSocket&) = delete;

  const std::string& address() const { return address_; }
  void* context() const { return context_; }
  std::shared_ptr<Mailbox> Open(std::int64_t job, int attempt, int stage);
  // The stage has ended: its mailbox goes.
  void Forget(std::int64_t job, int attempt, int stage);
  // Aborts the attempt's mailboxes and forgets them and whatever arrives for them later.
  void Close(std::int64_t job, int attempt, const std::string& reason);

 private:
  void Loop();
  using Key = std::tuple<std::int64_t, int, int>;
  void* context_ = nullptr;
  void* socket_ = nullptr;
  std::string address_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Mailbox>> mailboxes_;
  std::map<std::int64_t, int> closed_;  // job -> highest closed attempt
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// The exchange of one stage. Used by that stage's thread alone.
class BulkExchange : public Exchange {
 public:
  // `peers`: bulk address by stage.
  BulkExchange(BulkSocket* socket, std::int64_t job, int attempt, int stage, std::vector<std::string> peers);
  ~BulkExchange() override;
  void Send(TensorMessage message) override;
  TensorMessage Receive(TensorKind kind, int peer, std::int64_t iteration, int micro_batch) override;
  Mailbox& mailbox() { return *mailbox_; }

 private:
  BulkSocket* socket_;
  std::int64_t job_;
  int attempt_, stage_;
  std::vector<std::string> peers_;
  std::map<int, void*> out_;  // PUSH socket by peer
  std::shared_ptr<Mailbox> mailbox_;
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_BULK_EXCHANGE_H_
