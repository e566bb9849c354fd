// The learning rate of each iteration: a pure function of the schedule and the iteration, so that a resumed job goes on with it.
#ifndef WEIR_WORKER_RUNTIME_LEARNING_RATE_H_
#define WEIR_WORKER_RUNTIME_LEARNING_RATE_H_

#include <cstdint>

namespace weir::wire {
class Schedule;
}

namespace weir::worker {

// What the learning rate is multiplied by at `iteration` (0-based) of `total`. With w = warmup iterations:
//   i < w       (i + 1) / (w + 1)
//   constant    1
//   step        gamma ^ floor((i - w) / step)
//   linear      1 + (floor - 1) t           t = (i - w) / max(1, total - 1 - w), at most 1
//   cosine      floor + (1 - floor) (1 + cos(pi t)) / 2       (Loshchilov, Hutter, ICLR'17, without restarts)
double LearningRateFactor(const wire::Schedule& schedule, std::int64_t iteration, std::int64_t total);

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_LEARNING_RATE_H_
