#include "env/workload/run_replay.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "env/core/check.h"
#include "env/core/error.h"

namespace weir {
namespace {

double RelativeError(double predicted, double measured) {
  return measured > 0 ? std::abs(predicted - measured) / measured : 0;
}

// Position ceil(p * n), counted from 1; for the median of an even number the next one, so that it is never flattered.
double Rank(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double n = static_cast<double>(values.size());
  const auto rank = static_cast<std::size_t>(std::floor(p * n)) + 1;
  return values[std::min(rank, values.size()) - 1];
}

}  // namespace

Simulator SimulatorOf(const RecordedRun& run) {
  std::vector<JobSpec> jobs;
  for (const RecordedJob& job : run.jobs) {
    if (job.placed()) jobs.push_back(job.spec);
  }
  return Simulator({}, MakeWorkload(std::move(jobs)), run.model, run.worker_events);
}

void ReplayDecisions(const RecordedRun& run, Simulator* simulator) {
  // Walks the log: an arrival, end or change of a worker is passed once it has happened in the simulator.
  for (const RecordedEvent& event : run.events) {
    const RecordedJob* job = event.job >= 0 ? run.Find(event.job) : nullptr;
    if (event.job >= 0 && (!job || !job->placed())) continue;
    const std::string where = fmt::format("{}:{}", run.source, event.line);
    const auto until = [&](auto happened) {
      while (!happened()) {
        if (!simulator->Advance())
          throw Invalid("{}: job {} can't end in the simulator: it was never placed again", where, event.job);
      }
    };
    switch (event.kind) {
      case RecordedEvent::Kind::kArrival:
      case RecordedEvent::Kind::kWorker:
        if (event.time > simulator->state().now()) simulator->AdvanceTo(event.time);
        break;
      case RecordedEvent::Kind::kFinish:
        until([&] { return !simulator->state().HasJob(event.job); });
        break;
      case RecordedEvent::Kind::kPreempt: {
        if (event.time > simulator->state().now()) simulator->AdvanceTo(event.time);
        if (!simulator->state().HasJob(event.job)) break;  // the simulator had it finished by then
        if (simulator->state().job(event.job).running()) simulator->Apply({Action::Kind::kPreempt, event.job, {}});
        simulator->SetIterationsDone(event.job, event.iterations);
        break;
      }
      case RecordedEvent::Kind::kPlace: {
        if (!simulator->state().HasJob(event.job)) break;  // an attempt after one that the simulator had finished
        Action action{Action::Kind::kPlace, event.job, event.placement};
        if (const auto why = simulator->state().WhyIllegal(action)) throw Invalid("{}: {}", where, *why);
        simulator->Apply(action);
        break;
      }
    }
  }
  while (simulator->Advance()) {
  }
}

double JobPrediction::iteration_error() const {
  return RelativeError(predicted_iteration, measured_iteration);
}
double JobPrediction::jct_error() const {
  return RelativeError(predicted_jct, measured_jct);
}

std::vector<JobPrediction> ComparePredictions(const RecordedRun& run, const std::vector<JobRecord>& records) {
  std::vector<JobPrediction> predictions;
  for (const JobRecord& record : records) {
    const RecordedJob* job = run.Find(record.id);
    WEIR_CHECK(job != nullptr) << record.id;
    if (job->end != RecordedJob::End::kFinished || !record.finished()) continue;
    JobPrediction p;
    p.id = record.id;
    p.measured_jct = job->finish - job->spec.arrival;
    p.predicted_jct = record.jct();
    const bool one_piece = record.preemptions == 0 && record.migrations == 0;
    if (job->iteration_seconds > 0 && one_piece) {
      p.measured_iteration = job->iteration_seconds;
      p.predicted_iteration =
          (record.finish - record.start - job->spec.overhead_seconds) / (job->spec.iterations * (1 + job->spec.evaluation_share));
    }
    predictions.push_back(p);
  }
  return predictions;
}

PredictionErrors ErrorsOf(const std::vector<JobPrediction>& predictions) {
  PredictionErrors errors;
  std::vector<double> iteration, jct;
  for (const JobPrediction& p : predictions) {
    jct.push_back(p.jct_error());
    errors.mean_measured_jct += p.measured_jct;
    errors.mean_predicted_jct += p.predicted_jct;
    if (p.measured_iteration > 0) iteration.push_back(p.iteration_error());
  }
  errors.jobs = static_cast<int>(jct.size());
  errors.with_iterations = static_cast<int>(iteration.size());
  if (errors.jobs > 0) {
    errors.mean_measured_jct /= errors.jobs;
    errors.mean_predicted_jct /= errors.jobs;
  }
  errors.median_iteration = Rank(iteration, 0.5);
  errors.p90_iteration = Rank(iteration, 0.9);
  errors.median_jct = Rank(jct, 0.5);
  errors.p90_jct = Rank(jct, 0.9);
  return errors;
}

}  // namespace weir
