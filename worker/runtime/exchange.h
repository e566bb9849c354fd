// How the stages of one job hand tensors to each other. Implementations: between processes over ZeroMQ (bulk_exchange.h), between
// threads in tests.
#ifndef WEIR_WORKER_RUNTIME_EXCHANGE_H_
#define WEIR_WORKER_RUNTIME_EXCHANGE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weir::worker {

enum class TensorKind { kForward, kBackward, kEvaluate, kWeights };

struct TensorMessage {
  TensorKind kind = TensorKind::kForward;
  int peer = 0;                // stage: to whom, or from whom
  std::int64_t iteration = 0;  // batch number for kEvaluate; 0 for kWeights
  int micro_batch = 0;
  std::vector<at::Tensor> tensors;  // undefined ones stay undefined; requires_grad travels
  std::vector<std::int64_t> ids;    // kWeights: weight ids, parallel to tensors
};

// Thrown by Receive and Send when the job was stopped from outside: not an error of the job.
struct Aborted {
  std::string reason;
};

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void Send(TensorMessage message) = 0;
  // Blocks until the message with this kind, peer, iteration and micro-batch is there.
  virtual TensorMessage Receive(TensorKind kind, int peer, std::int64_t iteration, int micro_batch) = 0;
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_EXCHANGE_H_
