// Predicted finishes by slot, least first: a binary heap that knows where each slot stands, so that one finish changes in O(log
// n). Slots are small integers. A plain value.
#ifndef WEIR_ENV_SIM_FINISH_QUEUE_H_
#define WEIR_ENV_SIM_FINISH_QUEUE_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "env/sim/spec.h"

namespace weir {

class FinishQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  SimTime least() const { return heap_.empty() ? kNever : heap_.front().time; }
  bool Contains(int slot) const { return static_cast<std::size_t>(slot) < at_.size() && at_[slot] >= 0; }
  SimTime Get(int slot) const { return heap_[at_[slot]].time; }  // REQUIRES: Contains(slot)

  // Enters the slot, or changes its time.
  void Set(int slot, SimTime time) {
    if (static_cast<std::size_t>(slot) >= at_.size()) at_.resize(slot + 1, -1);
    if (at_[slot] < 0) {
      at_[slot] = static_cast<int>(heap_.size());
      heap_.push_back({time, slot});
      Up(at_[slot]);
      return;
    }
    const int at = at_[slot];
    const SimTime before = heap_[at].time;
    heap_[at].time = time;
    if (time < before) {
      Up(at);
    } else {
      Down(at);
    }
  }
  void Erase(int slot) {
    const int at = at_[slot];
    at_[slot] = -1;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (at == static_cast<int>(heap_.size())) return;
    const SimTime before = heap_[at].time;
    heap_[at] = last;
    at_[last.slot] = at;
    if (last.time < before) {
      Up(at);
    } else {
      Down(at);
    }
  }
  // Calls visit(time, slot) for every slot with time <= limit, in no order. O(those).
  template <typename Visit>
  void ForEachUpTo(SimTime limit, Visit visit) const {
    if (!heap_.empty()) VisitFrom(0, limit, visit);
  }

 private:
  struct Entry {
    SimTime time;
    int slot;
  };
  void Up(int at) {
    const Entry entry = heap_[at];
    while (at > 0) {
      const int parent = (at - 1) / 2;
      if (heap_[parent].time <= entry.time) break;
      Put(at, heap_[parent]);
      at = parent;
    }
    Put(at, entry);
  }
  void Down(int at) {
    const Entry entry = heap_[at];
    const int size = static_cast<int>(heap_.size());
    while (true) {
      int child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && heap_[child + 1].time < heap_[child].time) ++child;
      if (entry.time <= heap_[child].time) break;
      Put(at, heap_[child]);
      at = child;
    }
    Put(at, entry);
  }
  void Put(int at, Entry entry) {
    heap_[at] = entry;
    at_[entry.slot] = at;
  }
  template <typename Visit>
  void VisitFrom(std::size_t at, SimTime limit, Visit& visit) const {
    if (heap_[at].time > limit) return;
    visit(heap_[at].time, heap_[at].slot);
    for (std::size_t child = 2 * at + 1; child <= 2 * at + 2 && child < heap_.size(); ++child) VisitFrom(child, limit, visit);
  }

  std::vector<Entry> heap_;
  std::vector<int> at_;  // by slot; -1: not in the heap
};

}  // namespace weir

#endif  // WEIR_ENV_SIM_FINISH_QUEUE_H_
