#include "worker/protocol/background.h"

namespace weir::worker {

Background::Background() : thread_([this] { Run(); }) {}

Background::~Background() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Background::Post(std::function<void()> work, std::function<void()> finish) {
  {
    std::lock_guard lock(mutex_);
    queue_.emplace_back(std::move(work), std::move(finish));
  }
  changed_.notify_all();
}

void Background::RunFinished() {
  wake_.Clear();
  std::deque<std::function<void()>> finished;
  {
    std::lock_guard lock(mutex_);
    finished.swap(finished_);
  }
  for (auto& finish : finished) finish();
}

void Background::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    auto [work, finish] = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    finished_.push_back(std::move(finish));
    wake_.Set();
  }
}

}  // namespace weir::worker
