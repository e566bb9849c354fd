// Loops over independent pieces of work on several threads.
#ifndef WEIR_ENV_CORE_PARALLEL_H_
#define WEIR_ENV_CORE_PARALLEL_H_

#include <functional>

namespace weir {

// Calls work(0) .. work(count-1), each once, on up to `threads` threads (0: all cores). Rethrows the first exception by index.
void ParallelFor(int threads, int count, const std::function<void(int)>& work);

}  // namespace weir

#endif  // WEIR_ENV_CORE_PARALLEL_H_
