#include <gtest/gtest.h>

#include <map>

#include "env/core/rng.h"
#include "env/sim/finish_queue.h"
#include "env/sim/slot_map.h"

namespace weir {
namespace {

TEST(FinishQueueTest, MatchesAMapUnderRandomChanges) {
  Rng rng(1);
  FinishQueue queue;
  std::map<int, double> model;
  for (int step = 0; step < 20000; ++step) {
    const int slot = static_cast<int>(rng.Below(60));
    if (model.contains(slot) && rng.Uniform() < 0.3) {
      queue.Erase(slot);
      model.erase(slot);
    } else {
      const double time = rng.Uniform() < 0.05 ? kNever : double(rng.Below(40));
      queue.Set(slot, time);
      model[slot] = time;
    }
    ASSERT_EQ(queue.size(), model.size());
    double least = kNever;
    for (const auto& [s, t] : model) {
      least = std::min(least, t);
      ASSERT_EQ(queue.Get(s), t);
    }
    ASSERT_EQ(queue.least(), least);
    const double limit = double(rng.Below(40));
    std::map<int, double> expected, found;
    for (const auto& [s, t] : model) {
      if (t <= limit) expected[s] = t;
    }
    queue.ForEachUpTo(limit, [&](double t, int s) { found[s] = t; });
    ASSERT_EQ(found, expected);
  }
}

TEST(SlotMapTest, MatchesAMapUnderRandomChanges) {
  for (const int spread : {40, 100000}) {
    Rng rng(2);
    SlotMap map;
    std::map<int, int> model;
    for (int step = 0; step < 20000; ++step) {
      const int id = static_cast<int>(rng.Below(40)) * (spread / 40) + static_cast<int>(rng.Below(2)) * 64;
      if (model.contains(id)) {
        map.Erase(id);
        model.erase(id);
      } else {
        map.Insert(id, step);
        model[id] = step;
      }
      ASSERT_EQ(map.size(), model.size());
      for (const auto& [i, slot] : model) ASSERT_EQ(map.Find(i), slot);
      ASSERT_EQ(map.Find(id + 1), model.contains(id + 1) ? model[id + 1] : -1);
    }
  }
}

}  // namespace
}  // namespace weir
