// How the stages of one job hand tensors to each other. Implementations: between processes over ZeroMQ (bulk_exchange.h), between
// threads in tests.
#ifndef WEIR_WORKER_RUNTIME_EXCHANGE_H_
#define WEIR_WORKER_RUNTIME_EXCHANGE_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weir::worker {

enum class TensorKind {
  kForward,   // activations of a micro-batch
  kBackward,  // their gradients
  kEvaluate,  // activations of held-out samples; iteration = iterations done, micro_batch = number of the held-out batch
  kWeights,   // trained weights, to the stage that owns the output
  kNorm,      // squared gradient norms to the owner of the output, and what to multiply gradients by from it
  kControl,   // from the owner of the output to all others, once an iteration: ids = {flags}
};

struct TensorMessage {
  TensorKind kind = TensorKind::kForward;
  int peer = 0;                // stage: to whom, or from whom
  std::int64_t iteration = 0;  // 0 for kWeights
  int micro_batch = 0;
  std::vector<at::Tensor> tensors;  // undefined ones stay undefined; requires_grad travels
  std::vector<std::int64_t> ids;    // kWeights, kNorm: weight ids, parallel to tensors (kNorm: to the elements of the first)
  std::vector<at::ScalarType>
      restore;  // parallel to tensors, or empty: the type that they had before they were narrowed to travel
  std::shared_ptr<c10::Event> produced =
      nullptr;  // on an accelerator: the tensors are there once it has happened; null: they are
};

// Thrown by Receive and Send when the job was stopped from outside: not an error of the job.
struct Aborted {
  std::string reason;
};

class Exchange {
 public:
  virtual ~Exchange() = default;
  // Doesn't wait for the tensors to leave; they must not change afterwards. Blocks only while too many held-out batches are under
  // way.
  virtual void Send(TensorMessage message) = 0;
  // Blocks until the message with this kind, peer, iteration and micro-batch is there.
  virtual TensorMessage Receive(TensorKind kind, int peer, std::int64_t iteration, int micro_batch) = 0;
  // The peer is a stage of this process: tensors may stay on the device.
  virtual bool IsLocal(int peer) const { return false; }
};

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_EXCHANGE_H_
