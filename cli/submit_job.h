// Submitting a job file, as `weir submit` and `weir demo` do it.
#ifndef WEIR_CLI_SUBMIT_JOB_H_
#define WEIR_CLI_SUBMIT_JOB_H_

#include <cstdint>
#include <string>

#include "worker/protocol/job_file.h"

namespace weir::cli {

// Checks the job's files here, uploads what the coordinator lacks, submits, returns the job's number. The same `request_id` again
// returns the same job; empty: a fresh one. Warnings go to stderr unless `quiet`. Throws Error.
std::int64_t SubmitJob(const worker::JobFile& job, const std::string& coordinator, const std::string& request_id, bool quiet);

}  // namespace weir::cli

#endif  // WEIR_CLI_SUBMIT_JOB_H_
