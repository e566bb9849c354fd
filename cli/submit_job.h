// Submitting a job file, as `weir submit` and `weir demo` do it, and asking about one, as `weir plan` does.
#ifndef WEIR_CLI_SUBMIT_JOB_H_
#define WEIR_CLI_SUBMIT_JOB_H_

#include <cstdint>
#include <string>

#include "coordinator/planning.h"
#include "worker/protocol/job_file.h"

namespace weir::cli {

// Of the workers that the job is cut for, bytes; 0: none, so that the model stays whole.
struct WorkerMemory {
  double median = 0, largest = 0;
};
// Checks and plans the job here, as a coordinator would. Throws Error naming the user's own files.
coordinator::JobPlan PlanLocally(const worker::JobFile& job, const WorkerMemory& memory);

// Checks the job's files here, uploads what the coordinator lacks, returns the request that submits it. An empty `request_id`: a
// fresh one. Throws Error.
wire::SubmitRequest UploadJob(const worker::JobFile& job, const std::string& coordinator, const std::string& request_id);

// Checks the job's files here, uploads what the coordinator lacks, submits, returns the job's number. The same `request_id` again
// returns the same job; empty: a fresh one. Warnings go to stderr unless `quiet`. Throws Error.
std::int64_t SubmitJob(const worker::JobFile& job, const std::string& coordinator, const std::string& request_id, bool quiet);

}  // namespace weir::cli

#endif  // WEIR_CLI_SUBMIT_JOB_H_
