// What the parts of a cut must keep to: work and memory of each, equal or not.
#ifndef WEIR_PARTITIONER_CUT_LIMITS_H_
#define WEIR_PARTITIONER_CUT_LIMITS_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "partitioner/cut/memory_model.h"
#include "partitioner/cut/units.h"

namespace weir::partitioner {

// Work and memory of a set of units, kept up to date as units join.
struct Load {
  std::int64_t work = 0, state_bytes = 0, saved_bytes = 0, workspace_bytes = 0;

  void Add(const UnitGraph::Unit& unit) {
    work += unit.work;
    state_bytes += unit.state_bytes;
    saved_bytes += unit.saved_bytes;
    workspace_bytes = std::max(workspace_bytes, unit.workspace_bytes);
  }
  std::int64_t Memory(int in_flight) const { return state_bytes + saved_bytes * in_flight + workspace_bytes; }
};

struct Limits {
  int num_parts = 1;
  std::vector<std::int64_t> max_work;    // by part
  std::vector<std::int64_t> max_memory;  // by part, bytes; 0: none; empty: none anywhere
  MemoryModel memory;

  static Limits Equal(int num_parts, std::int64_t max_work, std::int64_t max_memory = 0, MemoryModel memory = {}) {
    return {num_parts, std::vector<std::int64_t>(num_parts, max_work), std::vector<std::int64_t>(num_parts, max_memory), memory};
  }
  std::int64_t MaxMemory(int part) const { return max_memory.empty() ? 0 : max_memory[part]; }
  bool HasMemory() const {
    return std::any_of(max_memory.begin(), max_memory.end(), [](std::int64_t bytes) { return bytes > 0; });
  }
  bool Fits(const Load& load, int part) const {
    return load.work <= max_work[part] &&
           (MaxMemory(part) == 0 || load.Memory(memory.InFlight(part, num_parts)) <= MaxMemory(part));
  }
  // The work that parts [first, first + count) may hold together, at most int64's largest.
  std::int64_t WorkOf(int first, int count) const {
    __int128 sum = 0;
    for (int part = first; part < first + count; ++part) sum += max_work[part];
    return static_cast<std::int64_t>(std::min<__int128>(sum, std::numeric_limits<std::int64_t>::max()));
  }
};

}  // namespace weir::partitioner

#endif  // WEIR_PARTITIONER_CUT_LIMITS_H_
