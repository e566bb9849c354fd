// Activations and gradients between executors over ZeroMQ: one PULL socket an executor, PUSH sockets to the peers, one sending
// thread a stage, so that transfers and computation overlap. A message is a BulkHeader frame followed by one raw frame a tensor,
// sent straight from the tensor's memory. Flow control: a receiver returns one credit for each message of samples that its stage
// has taken; a sender has at most kCredits of them under way to a peer, and the schedule of the pipeline bounds what waits behind
// them.
#ifndef WEIR_WORKER_RUNTIME_BULK_EXCHANGE_H_
#define WEIR_WORKER_RUNTIME_BULK_EXCHANGE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "worker/runtime/emulated_link.h"
#include "worker/runtime/exchange.h"
#include "worker/runtime/mailbox.h"

namespace weir::worker {

// The listening half, one a process. Messages for a stage that isn't there yet are kept until it is opened or its attempt is
// closed.
class BulkSocket {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    bool pinned = false;                // tensors arrive in page-locked memory, for copies to an accelerator
    double bandwidth = 0, latency = 0;  // of an emulated link; 0: none
  };
  // Listens on tcp://<host>:* . Throws Error(kInfrastructure) where the host can't be bound.
  explicit BulkSocket(Options options);
  ~BulkSocket();
  BulkSocket(const BulkSocket&) = delete;
  BulkSocket& operator=(const BulkSocket&) = delete;

  const std::string& address() const { return address_; }
  void* context() const { return context_; }
  EmulatedLink& link() { return link_; }
  std::shared_ptr<Mailbox> Open(std::int64_t job, int attempt, int stage);
  // The stage has ended: its mailbox goes.
  void Forget(std::int64_t job, int attempt, int stage);
  // Aborts the attempt's mailboxes and forgets them and whatever arrives for them later.
  void Close(std::int64_t job, int attempt, const std::string& reason);
  // Null where the attempt is closed.
  std::shared_ptr<Mailbox> Find(std::int64_t job, int attempt, int stage);

 private:
  void Loop();
  using Key = std::tuple<std::int64_t, int, int>;
  const Options options_;
  EmulatedLink link_;
  void* context_ = nullptr;
  void* socket_ = nullptr;
  std::string address_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Mailbox>> mailboxes_;
  std::map<std::int64_t, int> closed_;  // job -> highest closed attempt
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// The exchange of one stage. Send and Receive are called by that stage's thread alone.
class BulkExchange : public Exchange {
 public:
  static constexpr int kCredits = 4;

  // `peers`: bulk address by stage.
  BulkExchange(BulkSocket* socket, std::int64_t job, int attempt, int stage, std::vector<std::string> peers);
  ~BulkExchange() override;  // what was handed over still leaves, unless the attempt is aborted
  void Send(TensorMessage message) override;
  TensorMessage Receive(TensorKind kind, int peer, std::int64_t iteration, int micro_batch) override;
  bool IsLocal(int peer) const override { return peers_.at(peer) == socket_->address(); }
  Mailbox& mailbox() { return *mailbox_; }

 private:
  struct Outgoing {
    TensorMessage message;
    bool is_credit = false;
  };
  struct Peer {
    void* socket = nullptr;        // the sending thread's
    std::deque<Outgoing> samples;  // wait for credit
    std::deque<Outgoing> control;  // don't
    int under_way = 0;             // sent, not yet taken
  };
  void Loop();
  void Transmit(int peer, Peer* to, const Outgoing& outgoing);
  bool Empty() const;

  BulkSocket* socket_;
  std::int64_t job_;
  int attempt_, stage_;
  std::vector<std::string> peers_;
  std::shared_ptr<Mailbox> mailbox_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Peer> out_;
  bool stop_ = false;   // the stage has ended: send what there is
  bool ended_ = false;  // aborted or broken: drop what there is
  std::thread thread_;
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_BULK_EXCHANGE_H_
