// A comparison as text: for terminals, JSON, CSV, the decision times, a page that stands alone.
#ifndef WEIR_CLI_COMPARE_OUTPUT_H_
#define WEIR_CLI_COMPARE_OUTPUT_H_

#include <string>
#include <vector>

#include "cli/compare/comparison.h"
#include "env/metrics/condition.h"

namespace weir::cli {

// One table a cell.
std::string FormatTable(const Comparison& comparison);
// One object on one line; a pure function of what repeats (no times, no paths). Schema: docs/compare.md.
std::string FormatJson(const Comparison& comparison);
// A row per cell, seed and scheduler.
std::string FormatCsv(const Comparison& comparison);
// Tables for documents: ratio to the reference of mean JCT, then of p95 JCT, schedulers by cells, +- one standard error; the
// reference's own figures in the first row.
std::string FormatMarkdown(const Comparison& comparison);
std::string FormatTimes(const Comparison& comparison);  // JSON
// A page without any outside request: the same JSON plus quantiles of JCT and the chosen episode, and the script that draws it.
std::string FormatReport(const Comparison& comparison);
// The chosen episode under one scheduler, for Perfetto. REQUIRES: `scheduler` is one of the comparison's.
std::string FormatEpisodeTrace(const Comparison& comparison, const std::string& scheduler);

// Conditions of --fail-if; names are checked against the schedulers and figures of the spec. Subjects: schedulers; metrics: those
// of CompareMetrics, ratio, ratio_low, ratio_high, p95_ratio(_low, _high), difference(_low, _high), p95_difference(_low, _high),
// won, lost. Variables: load, jobs, seeds, workers (numbers), cluster, workload (texts).
Condition ParseFailIf(const std::string& text, const CompareSpec& spec);
// The cells, by number, in which it holds.
std::vector<int> CellsWhere(const Condition& condition, const Comparison& comparison);
std::string NameOf(const CellResult& cell);  // "edge8, study, load 0.7"

}  // namespace weir::cli

#endif  // WEIR_CLI_COMPARE_OUTPUT_H_
