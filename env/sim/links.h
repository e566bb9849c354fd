// Overrides of the link between two workers. Without one, traffic between u and v goes at min(b_u/c_u, b_v/c_v), NIC to NIC,
// with latency l_u + l_v. An override gives the pair a bandwidth in place of both NICs', shared in the same way (so the arc gets
// b_uv/max(c_u, c_v), and counts in the bottleneck of w with 2*bytes/(b_uv/c_w)), and a latency in place of the sum.
// Immutable once shared; a lookup is O(1).
#ifndef WEIR_ENV_SIM_LINKS_H_
#define WEIR_ENV_SIM_LINKS_H_

#include <bit>
#include <cstdint>
#include <unordered_map>

#include "env/core/rng.h"
#include "env/sim/spec.h"

namespace weir {

struct LinkOverride {
  double bandwidth = 0;  // bytes/s, > 0; 0: as without an override
  double latency = -1;   // seconds one way, >= 0; < 0: as without an override
};

class LinkTable {
 public:
  // Both directions; a second call for a pair replaces the first. REQUIRES: a != b.
  void Set(WorkerId a, WorkerId b, LinkOverride link) {
    links_[Key(a, b)] = link;
    touched_[a] = touched_[b] = true;
  }
  const LinkOverride* Find(WorkerId a, WorkerId b) const {
    const auto found = links_.find(Key(a, b));
    return found == links_.end() ? nullptr : &found->second;
  }
  // Some pair with this worker has an override.
  bool Touches(WorkerId w) const { return touched_.contains(w); }
  // Equal tables, equal hash.
  std::uint64_t hash() const;

 private:
  static std::uint64_t Key(WorkerId a, WorkerId b) {
    const auto low = static_cast<std::uint32_t>(a < b ? a : b), high = static_cast<std::uint32_t>(a < b ? b : a);
    return std::uint64_t{low} << 32 | high;
  }
  std::unordered_map<std::uint64_t, LinkOverride> links_;
  std::unordered_map<WorkerId, bool> touched_;
};

inline std::uint64_t LinkTable::hash() const {
  std::uint64_t sum = 0;  // the order of the table doesn't matter
  for (const auto& [key, link] : links_) {
    sum += Mix64(Mix64(key, std::bit_cast<std::uint64_t>(link.bandwidth)), std::bit_cast<std::uint64_t>(link.latency));
  }
  return sum;
}

}  // namespace weir

#endif  // WEIR_ENV_SIM_LINKS_H_
