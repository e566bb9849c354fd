#include "worker/runtime/mailbox.h"

#include <chrono>

#include "worker/runtime/emulated_link.h"

namespace weir::worker {

void Mailbox::Put(TensorMessage message, double deliver_at) {
  std::lock_guard lock(mutex_);
  const Key key{message.kind, message.peer, message.iteration, message.micro_batch};
  messages_.emplace(key, Waiting{std::move(message), deliver_at});
  changed_.notify_all();
}

void Mailbox::ThrowIfEnded() {
  if (error_) std::rethrow_exception(error_);
  if (aborted_) throw Aborted{reason_};
}

TensorMessage Mailbox::Take(TensorKind kind, int peer, std::int64_t iteration, int micro_batch) {
  std::unique_lock lock(mutex_);
  const Key key{kind, peer, iteration, micro_batch};
  while (true) {
    ThrowIfEnded();
    const auto found = messages_.find(key);
    if (found == messages_.end()) {
      changed_.wait(lock);
      continue;
    }
    const double wait = found->second.deliver_at > 0 ? found->second.deliver_at - EmulatedLink::Now() : 0;
    if (wait <= 0) {
      TensorMessage message = std::move(found->second.message);
      messages_.erase(found);
      return message;
    }
    changed_.wait_for(lock, std::chrono::duration<double>(wait));
  }
}

void Mailbox::End(std::string reason, std::exception_ptr error) {
  {
    std::lock_guard lock(mutex_);
    if (aborted_ || error_) return;
    aborted_ = !error;
    reason_ = std::move(reason);
    error_ = std::move(error);
    changed_.notify_all();
  }
  std::lock_guard lock(handlers_);
  if (on_end_) on_end_();
}

void Mailbox::Abort(std::string reason) {
  End(std::move(reason), nullptr);
}

void Mailbox::Fail(std::exception_ptr error) {
  End("", std::move(error));
}

void Mailbox::Check() {
  std::lock_guard lock(mutex_);
  ThrowIfEnded();
}

void Mailbox::OnCredit(std::function<void(int, int)> handler) {
  std::lock_guard lock(handlers_);
  on_credit_ = std::move(handler);
}

void Mailbox::AddCredit(int peer, int count) {
  std::lock_guard lock(handlers_);
  if (on_credit_) on_credit_(peer, count);
}

void Mailbox::OnEnd(std::function<void()> handler) {
  std::lock_guard lock(handlers_);
  on_end_ = std::move(handler);
}

}  // namespace weir::worker
