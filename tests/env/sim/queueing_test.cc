// One worker as a queue. Exact: FIFO by Lindley's recursion, processor sharing by a fluid clock of the test's own. In the mean:
// the M/M/1 formula, 1/(mu - lambda) for both. WEIR_QUEUE_JOBS sets the number of jobs, from 4,000,000 on within 1 % of theory
// (./run proof queueing); the short form allows four standard errors, of which the closed form is known.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "env/core/parallel.h"
#include "env/core/rng.h"
#include "env/sim/simulator.h"

namespace weir {
namespace {

struct Customer {
  double arrival, size;
};
std::vector<Customer> Customers(double load, int count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<Customer> customers;
  double now = 0;
  for (int i = 0; i < count; ++i) {
    now += rng.Exponential(1 / load);
    customers.push_back({now, std::max(1e-9, rng.Exponential(1.0))});
  }
  return customers;
}

// Sum of JCT; one worker with so many residencies, jobs placed in order of arrival.
double SumOfJct(const std::vector<Customer>& customers, int residents, std::vector<JobRecord>* records) {
  std::vector<JobSpec> jobs;
  for (std::size_t i = 0; i < customers.size(); ++i) {
    JobSpec job;
    job.id = static_cast<int>(i);
    job.arrival = customers[i].arrival;
    job.subgraphs = {{customers[i].size, 0, 0}};
    jobs.push_back(std::move(job));
  }
  Simulator simulator({{"w", 1, 1, 1, 0, 0, residents}}, MakeWorkload(std::move(jobs)));
  simulator.set_keep_actions(false);
  while (simulator.Advance()) {
    while (simulator.state().AnyFreeResidency() && !simulator.state().waiting().empty()) {
      simulator.Apply(Action::Place(simulator.state().waiting().front(), {0}));
    }
  }
  EXPECT_TRUE(simulator.Done());
  if (records) *records = simulator.records();
  return simulator.job_seconds();
}

TEST(QueueingTest, FifoIsLindleysRecursion) {
  for (const double load : {0.5, 0.8}) {
    const std::vector<Customer> customers = Customers(load, 20000, 1);
    std::vector<JobRecord> records;
    SumOfJct(customers, 1, &records);
    double finish = 0;
    for (std::size_t i = 0; i < customers.size(); ++i) {
      finish = std::max(finish, customers[i].arrival) + customers[i].size;
      ASSERT_NEAR(records[i].finish, finish, 1e-8 * finish);
    }
  }
}

TEST(QueueingTest, ProcessorSharingIsAFluidClock) {
  const std::vector<Customer> customers = Customers(0.8, 5000, 2);
  std::vector<JobRecord> records;
  SumOfJct(customers, 1000, &records);
  std::vector<std::pair<double, std::size_t>> left;
  double now = 0;
  std::size_t next = 0;
  while (next < customers.size() || !left.empty()) {
    double until = next < customers.size() ? customers[next].arrival : kNever;
    const auto first = std::min_element(left.begin(), left.end());
    const bool completes = first != left.end() && now + first->first * double(left.size()) <= until;
    if (completes) until = now + first->first * double(left.size());
    const double share = left.empty() ? 0 : (until - now) / double(left.size());
    for (auto& [size, id] : left) size -= share;
    now = until;
    if (completes) {
      ASSERT_NEAR(records[first->second].finish, now, 1e-7 * now);
      left.erase(first);
    } else {
      left.emplace_back(customers[next].size, next);
      ++next;
    }
  }
}

TEST(QueueingTest, MeansAreThoseOfTheory) {
  const char* wanted = std::getenv("WEIR_QUEUE_JOBS");
  const int total = wanted ? std::atoi(wanted) : 400000;
  constexpr int kChunk = 100000;
  const int chunks = std::max(1, total / kChunk);
  for (const double load : {0.5, 0.8}) {
    for (const int residents : {1, 1000}) {
      std::vector<double> sums(chunks);
      ParallelFor(0, chunks, [&](int i) {
        sums[i] = SumOfJct(Customers(load, kChunk, Mix64(static_cast<std::uint64_t>(i), 12345)), residents, nullptr);
      });
      double mean = 0;
      for (double sum : sums) mean += sum / kChunk / chunks;
      const double theory = 1 / (1 - load);
      // Asymptotic variance of the mean of n waiting times (Whitt, Management Science 35(11), 1989); processor sharing has less.
      const double variance = load * (2 + 5 * load - 4 * load * load + load * load * load) / std::pow(1 - load, 4);
      const double error = std::sqrt(variance / (double(chunks) * kChunk));
      const double allowed = chunks * kChunk >= 4000000 ? 0.01 * theory : std::max(0.01 * theory, 4 * error);
      EXPECT_NEAR(mean, theory, allowed) << "load " << load << ", residents " << residents;
      std::printf("load %.1f, %s: mean JCT %.4f, theory %.4f (%+.2f %%)\n", load, residents == 1 ? "FIFO" : "sharing", mean,
                  theory, 100 * (mean / theory - 1));
    }
  }
}

}  // namespace
}  // namespace weir
