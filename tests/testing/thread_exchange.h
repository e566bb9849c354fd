// The exchange between stages that are threads of one test process: a mailbox a stage, tensors copied as the wire would.
#ifndef WEIR_TESTS_TESTING_THREAD_EXCHANGE_H_
#define WEIR_TESTS_TESTING_THREAD_EXCHANGE_H_

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "worker/runtime/bulk_exchange.h"

namespace weir::testing {

class ThreadExchange : public worker::Exchange {
 public:
  using Boxes = std::vector<std::unique_ptr<worker::Mailbox>>;
  ThreadExchange(Boxes* boxes, int stage) : boxes_(boxes), stage_(stage) {}
  void Send(worker::TensorMessage message) override {
    while (message.produced && !message.produced->query()) std::this_thread::yield();
    message.produced = nullptr;
    for (at::Tensor& t : message.tensors) {
      if (!t.defined()) continue;
      const bool gradient = t.requires_grad();
      t = t.detach().clone();
      t.requires_grad_(gradient && t.is_floating_point());
    }
    const int to = message.peer;
    message.peer = stage_;
    (*boxes_)[to]->Put(std::move(message));
  }
  worker::TensorMessage Receive(worker::TensorKind kind, int peer, std::int64_t iteration, int micro_batch) override {
    return (*boxes_)[stage_]->Take(kind, peer, iteration, micro_batch);
  }

 private:
  Boxes* boxes_;
  int stage_;
};

}  // namespace weir::testing

#endif  // WEIR_TESTS_TESTING_THREAD_EXCHANGE_H_
