// Jobs on disk: SQLite in WAL mode with synchronous=FULL, one writer. What was committed survives a crash of process and machine.
// Not thread-safe. Errors of the disk are Error(kInfrastructure).
#ifndef WEIR_COORDINATOR_JOB_STORE_H_
#define WEIR_COORDINATOR_JOB_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/protocol/wire.pb.h"

namespace weir::coordinator {

// One row. The columns state, name, attempt, arrival, start, finish repeat what `info` says, for people with sqlite3.
struct StoredJob {
  wire::SubmitRequest request;
  wire::JobInfo info;
  int infra_failures = 0;
};

class JobStore {
 public:
  // Opens or makes the file. Throws where another process holds it, or it is of another version.
  explicit JobStore(const std::string& path);
  ~JobStore();
  JobStore(const JobStore&) = delete;
  JobStore& operator=(const JobStore&) = delete;

  // Unix time in seconds of the first run: the zero of every time in the store and in the event log.
  double epoch() const;
  std::vector<StoredJob> Load() const;  // by id
  // All in one transaction; durable when it returns.
  void Save(const std::vector<const StoredJob*>& jobs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::coordinator

#endif  // WEIR_COORDINATOR_JOB_STORE_H_
