// Job id -> slot, for the live jobs: a hash table with linear probing. A plain value whose copy costs O(live jobs).
#ifndef WEIR_ENV_SIM_SLOT_MAP_H_
#define WEIR_ENV_SIM_SLOT_MAP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "env/sim/spec.h"

namespace weir {

class SlotMap {
 public:
  std::size_t size() const { return size_; }
  int Find(JobId id) const {  // -1: none
    if (size_ == 0) return -1;
    for (std::size_t at = Home(id);; at = (at + 1) & mask_) {
      if (entries_[at].slot < 0) return -1;
      if (entries_[at].id == id) return entries_[at].slot;
    }
  }
  // REQUIRES: the id isn't there.
  void Insert(JobId id, int slot) {
    if (entries_.size() < 2 * (size_ + 1)) Grow();
    Put(id, slot);
    ++size_;
  }
  // REQUIRES: the id is there.
  void Erase(JobId id) {
    std::size_t hole = Home(id);
    while (entries_[hole].id != id || entries_[hole].slot < 0) hole = (hole + 1) & mask_;
    // Later entries of the run move up, unless that would put them before their home.
    for (std::size_t at = (hole + 1) & mask_; entries_[at].slot >= 0; at = (at + 1) & mask_) {
      const std::size_t home = Home(entries_[at].id);
      if (((at - home) & mask_) < ((at - hole) & mask_)) continue;
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole].slot = -1;
    --size_;
  }

 private:
  struct Entry {
    JobId id = -1;
    int slot = -1;  // -1: free
  };
  // Ids are mostly consecutive: their low bits spread them perfectly.
  std::size_t Home(JobId id) const { return static_cast<std::uint32_t>(id) & mask_; }
  void Put(JobId id, int slot) {
    std::size_t at = Home(id);
    while (entries_[at].slot >= 0) at = (at + 1) & mask_;
    entries_[at] = {id, slot};
  }
  void Grow() {
    std::vector<Entry> old;
    old.swap(entries_);
    entries_.resize(old.empty() ? 16 : 2 * old.size());
    mask_ = entries_.size() - 1;
    for (const Entry& entry : old) {
      if (entry.slot >= 0) Put(entry.id, entry.slot);
    }
  }
  std::vector<Entry> entries_;
  std::size_t size_ = 0, mask_ = 0;
};

}  // namespace weir

#endif  // WEIR_ENV_SIM_SLOT_MAP_H_
