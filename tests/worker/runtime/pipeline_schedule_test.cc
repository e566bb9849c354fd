// The order of passes, against a simulation of all stages: no circle of waiting, the counts of the memory model, the makespan of
// a pipeline with equal stages.
#include "worker/runtime/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "partitioner/cut/memory_model.h"

namespace weir::worker {
namespace {

struct Timeline {
  int most_in_flight = 0;  // of any stage, less what MostInFlight says: at most 0
  int makespan = 0;        // forward pass 1, backward pass 2; transfers take no time
  bool complete = false;
};

// Every stage waits for the stage before it (forward) and after it (backward): the strictest graph.
Timeline Simulate(PipelineOrder order, int num_stages, int micro_batches) {
  std::vector<std::vector<PipelineStep>> steps;
  for (int s = 0; s < num_stages; ++s) steps.push_back(PipelineSteps(order, s, num_stages, micro_batches));
  std::vector<std::size_t> next(num_stages, 0);
  std::vector<int> free_at(num_stages, 0), in_flight(num_stages, 0);
  std::map<std::tuple<bool, int, int>, int> done;  // (forward, stage, micro-batch) -> when
  Timeline run;
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < num_stages; ++s) {
      while (next[s] < steps[s].size()) {
        const PipelineStep step = steps[s][next[s]];
        const int before = step.forward ? s - 1 : s + 1;
        int ready = 0;
        if (before >= 0 && before < num_stages) {
          const auto found = done.find({step.forward, before, step.micro_batch});
          if (found == done.end()) break;
          ready = found->second;
        }
        free_at[s] = std::max(free_at[s], ready) + (step.forward ? 1 : 2);
        done[{step.forward, s, step.micro_batch}] = free_at[s];
        in_flight[s] += step.forward ? 1 : -1;
        run.most_in_flight = std::max(run.most_in_flight, in_flight[s] - MostInFlight(order, s, num_stages, micro_batches));
        run.makespan = std::max(run.makespan, free_at[s]);
        ++next[s];
        moved = true;
      }
    }
  }
  run.complete = static_cast<int>(done.size()) == 2 * num_stages * micro_batches;
  return run;
}

TEST(PipelineScheduleTest, RunsEveryPassOnceInOrderWithoutWaitingInACircle) {
  for (const PipelineOrder order : {PipelineOrder::k1f1b, PipelineOrder::kGpipe}) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (int m = 1; m <= 12; ++m) {
        SCOPED_TRACE(::testing::Message() << stages << " stages, " << m << " micro-batches");
        const Timeline run = Simulate(order, stages, m);
        EXPECT_TRUE(run.complete);
        EXPECT_LE(run.most_in_flight, 0);
        // A synchronous pipeline of equal stages is as long as its bubble: (m + stages - 1) passes of both kinds.
        EXPECT_EQ(run.makespan, 3 * (m + stages - 1));
        for (int s = 0; s < stages; ++s) {
          std::vector<int> backward;
          for (const PipelineStep& step : PipelineSteps(order, s, stages, m)) {
            if (!step.forward) backward.push_back(step.micro_batch);
          }
          EXPECT_TRUE(std::is_sorted(backward.begin(), backward.end()));
        }
      }
    }
  }
}

TEST(PipelineScheduleTest, KeepsAsManyMicroBatchesAsTheMemoryModelCounts) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int m = 1; m <= 12; ++m) {
      const partitioner::MemoryModel memory{.micro_batches = m};
      for (int s = 0; s < stages; ++s)
        EXPECT_EQ(MostInFlight(PipelineOrder::k1f1b, s, stages, m), memory.InFlight(s, stages)) << s << " of " << stages;
    }
  }
}

}  // namespace
}  // namespace weir::worker
