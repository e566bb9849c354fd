#include "env/workload/trace_import.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "env/core/error.h"
#include "env/core/yaml.h"
#include "env/workload/csv.h"

namespace weir {
namespace {

// "2017-10-09 07:01:55" or with a T, a fraction or a Z: seconds since 1970, UTC.
double Timestamp(const CsvTable& table, int row, int column) {
  const std::string& text = table.Text(row, column);
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, used = 0;
  double second = 0;
  char separator = 0;
  const int read =
      std::sscanf(text.c_str(), "%4d-%2d-%2d%c%2d:%2d:%lf%n", &year, &month, &day, &separator, &hour, &minute, &second, &used);
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  const std::string rest = read == 7 ? text.substr(static_cast<std::size_t>(used)) : "";
  if (read != 7 || (separator != ' ' && separator != 'T') || !(rest.empty() || rest == "Z") || !date.ok() || hour < 0 ||
      hour > 23 || minute < 0 || minute > 59 || !(second >= 0 && second < 61)) {
    table.Fail(row, column, "a time such as 2017-10-09 07:01:55");
  }
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return static_cast<double>(days) * 86400 + hour * 3600 + minute * 60 + second;
}

void ImportPhilly(const CsvTable& table, Trace* trace) {
  const int time = table.Column("timestamp"), duration = table.Column("duration"), gpus = table.Column("num_gpus");
  const std::optional<int> group = table.FindColumn("cluster");
  for (int row = 0; row < table.num_rows(); ++row) {
    TraceJob job;
    job.arrival = Timestamp(table, row, time);
    job.duration = table.Number(row, duration, 0, kMostSeconds);
    job.gpus = static_cast<int>(table.Integer(row, gpus, 1, kMostGpus));
    if (group) job.group = table.Text(row, *group);
    trace->jobs.push_back(std::move(job));
  }
}

void ImportMuri(const CsvTable& table, Trace* trace) {
  const int time = table.Column("submit_time"), duration = table.Column("duration"), gpus = table.Column("num_gpu"),
            iterations = table.Column("iterations"), model = table.Column("model_name");
  const std::optional<int> name = table.FindColumn("job_id");
  for (int row = 0; row < table.num_rows(); ++row) {
    TraceJob job;
    job.arrival = table.Number(row, time, 0, 1000 * kMostSeconds) / 1000;
    job.duration = table.Number(row, duration, 0, 1000 * kMostSeconds) / 1000;
    job.gpus = static_cast<int>(table.Integer(row, gpus, 1, kMostGpus));
    job.iterations = table.Number(row, iterations, 1, kMostIterations);
    job.model = table.Text(row, model);
    if (name) job.name = table.Text(row, *name);
    trace->jobs.push_back(std::move(job));
  }
}

void ImportPollux(const CsvTable& table, Trace* trace) {
  const int time = table.Column("time"), model = table.Column("application"), gpus = table.Column("num_replicas");
  const std::optional<int> name = table.FindColumn("name");
  for (int row = 0; row < table.num_rows(); ++row) {
    TraceJob job;
    job.arrival = table.Number(row, time, 0, kMostSeconds);
    job.gpus = static_cast<int>(table.Integer(row, gpus, 1, kMostGpus));
    job.model = table.Text(row, model);
    if (name) job.name = table.Text(row, *name);
    trace->jobs.push_back(std::move(job));
  }
}

void ImportCsv(const CsvTable& table, Trace* trace) {
  for (TraceJob& job : ReadTraceTable(table, TimeOrder::kAny).jobs) trace->jobs.push_back(std::move(job));
}

// One line of SWF: numbers separated by blanks, from field 1.
void ImportSwf(const TraceFile& file, Trace* trace) {
  constexpr int kFields = 18;
  long long unknown = 0;
  int line = 0;
  for (std::size_t at = 0; at < file.text.size();) {
    const std::size_t end = std::min(file.text.find('\n', at), file.text.size());
    std::string_view rest = std::string_view(file.text).substr(at, end - at);
    at = end + 1;
    ++line;
    rest = rest.substr(0, rest.find(';'));
    std::vector<double> fields;
    while (true) {
      const std::size_t begin = rest.find_first_not_of(" \t\r");
      if (begin == std::string_view::npos) break;
      const std::size_t stop = std::min(rest.find_first_of(" \t\r", begin), rest.size());
      const std::string_view word = rest.substr(begin, stop - begin);
      double value = 0;
      const auto [tail, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (error != std::errc() || tail != word.data() + word.size() || !std::isfinite(value))
        throw Invalid("{}:{}: field {} must be a number, got '{}'", file.path, line, fields.size() + 1, word.substr(0, 60));
      fields.push_back(value);
      rest = rest.substr(stop);
    }
    if (fields.empty()) continue;
    if (fields.size() != kFields)
      throw Invalid("{}:{}: expected {} fields (Standard Workload Format), got {}", file.path, line, kFields, fields.size());
    auto field = [&](int number, const char* what, double least, double most) {
      const double value = fields[number - 1];
      if (value < least || value > most)
        throw Invalid("{}:{}: field {} ({}) must be from {:g} to {:g}, got {:g}", file.path, line, number, what, least, most,
                      value);
      return value;
    };
    TraceJob job;
    job.name = fmt::format("{:.0f}", field(1, "job number", 0, 1e15));
    job.arrival = field(2, "submit time", 0, kMostSeconds);
    job.duration = field(4, "run time", -1, kMostSeconds);
    const double allocated = field(5, "allocated processors", -1, kMostGpus),
                 requested = field(8, "requested processors", -1, kMostGpus), processors = allocated > 0 ? allocated : requested;
    job.estimate = field(9, "requested time", -1, kMostSeconds);
    const double user = field(12, "user", -1, 1e15);
    if (user >= 0) job.group = fmt::format("{:.0f}", user);
    if (job.duration < 0 || processors < 1) {
      ++unknown;
      continue;
    }
    job.gpus = static_cast<int>(processors);
    trace->jobs.push_back(std::move(job));
  }
  if (unknown > 0)
    trace->notices.push_back(fmt::format("{}: {} jobs without a run time or processors (-1) left out", file.path, unknown));
}

}  // namespace

const std::vector<std::string>& TraceFormats() {
  static const std::vector<std::string> kFormats = {"philly", "muri", "pollux", "swf", "csv"};
  return kFormats;
}

Trace ImportTrace(const std::string& format, const std::vector<TraceFile>& files) {
  Trace trace;
  for (const TraceFile& file : files) {
    if (format == "swf") {
      ImportSwf(file, &trace);
      continue;
    }
    const CsvTable table = CsvTable::Parse(file.text, file.path);
    if (format == "philly") {
      ImportPhilly(table, &trace);
    } else if (format == "muri") {
      ImportMuri(table, &trace);
    } else if (format == "pollux") {
      ImportPollux(table, &trace);
    } else if (format == "csv") {
      ImportCsv(table, &trace);
    } else {
      const std::string nearest = NearestName(format, TraceFormats());
      throw Invalid("unknown trace format '{}'{} (known: {}, gavel)", format,
                    nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest), fmt::join(TraceFormats(), ", "));
    }
  }
  if (trace.jobs.empty()) throw Invalid("{}: no job in the file", files.empty() ? "trace" : files.front().path);
  SortByArrival(&trace);
  return trace;
}

namespace {

// "('ResNet-18 (batch size 16)', 1)" -> name and GPUs.
std::pair<std::string, int> GavelJob(const std::string& text, const std::string& where) {
  const std::size_t quote = text.rfind("', ");
  int gpus = 0;
  if (text.starts_with("('") && quote != std::string::npos && text.ends_with(")")) {
    const char* begin = text.data() + quote + 3;
    const char* stop = text.data() + text.size() - 1;
    const auto [end, error] = std::from_chars(begin, stop, gpus);
    if (error == std::errc() && end == stop && gpus >= 1) return {text.substr(2, quote - 2), gpus};
  }
  throw Invalid("{}: a job type must look like ('ResNet-18 (batch size 16)', 1), got '{}'", where, text.substr(0, 60));
}

double Rate(const nlohmann::json& value, const std::string& where) {
  if (!value.is_number()) throw Invalid("{}: must be a number of steps a second, got {}", where, value.dump().substr(0, 60));
  const double rate = value.get<double>();
  if (!(rate >= 0) || !std::isfinite(rate)) throw Invalid("{}: steps a second must be >= 0, got {}", where, rate);
  return rate;
}

}  // namespace

GavelTable ImportGavel(const TraceFile& file) {
  nlohmann::json root;
  try {
    root = nlohmann::json::parse(file.text);
  } catch (const nlohmann::json::exception& e) {
    // The parser knows the byte; a line is what an editor can go to.
    const auto* parse = dynamic_cast<const nlohmann::json::parse_error*>(&e);
    const std::size_t byte = parse ? std::min<std::size_t>(parse->byte, file.text.size()) : 0;
    throw Invalid("{}:{}: not a JSON document", file.path,
                  1 + std::count(file.text.begin(), file.text.begin() + static_cast<std::ptrdiff_t>(byte), '\n'));
  }
  auto require_object = [&](const nlohmann::json& value, const std::string& where) {
    if (!value.is_object()) throw Invalid("{}: must be an object, got {}", where, value.type_name());
  };
  require_object(root, file.path);
  GavelTable table;
  long long idle = 0, apart = 0;
  for (const auto& [device, jobs] : root.items()) {
    const std::string at = fmt::format("{}: {}", file.path, device);
    require_object(jobs, at);
    std::vector<std::pair<std::string, double>> alone;
    auto alone_of = [&](const std::string& job) {
      for (const auto& [name, rate] : alone) {
        if (name == job) return rate;
      }
      return 0.0;
    };
    for (const auto& [job, rates] : jobs.items()) {
      const std::string where = fmt::format("{}: {}", at, job);
      require_object(rates, where);
      const auto [name, gpus] = GavelJob(job, where);
      if (!rates.contains("null")) throw Invalid("{}: 'null' (steps a second alone) is missing", where);
      const double rate = Rate(rates["null"], where + ": null");
      alone.emplace_back(job, rate);
      if (rate > 0) {
        table.speeds.push_back({device, name, gpus, rate});
      } else {
        ++idle;
      }
    }
    for (const auto& [job, rates] : jobs.items()) {
      const std::string where = fmt::format("{}: {}", at, job);
      const auto [name_a, gpus] = GavelJob(job, where);
      for (const auto& [other, together] : rates.items()) {
        if (other == "null" || other < job) continue;  // each pair once
        const auto [name_b, gpus_b] = GavelJob(other, where);
        if (!together.is_array() || together.size() != 2)
          throw Invalid("{}: {}: must be [own, other's] steps a second, got {}", where, other, together.dump().substr(0, 60));
        PairGain pair{
            device, name_a, name_b, gpus, alone_of(job), alone_of(other), Rate(together[0], where), Rate(together[1], where)};
        if (pair.alone_a <= 0 || pair.alone_b <= 0 || pair.together_a + pair.together_b <= 0) {
          ++apart;
          continue;
        }
        table.pairs.push_back(std::move(pair));
      }
    }
  }
  if (idle > 0) table.notices.push_back(fmt::format("{} job types at 0 steps a second (don't run there) left out", idle));
  if (apart > 0) table.notices.push_back(fmt::format("{} pairs that don't run together left out", apart));
  return table;
}

std::string FormatPairGains(const std::vector<PairGain>& pairs) {
  std::string out = "device,gpus,job_a,job_b,alone_a,alone_b,together_a,together_b,normalised_sum,gamma\n";
  for (const PairGain& p : pairs) {
    out += fmt::format("{},{},{},{},{},{},{},{},{:.6g},{:.6g}\n", CsvField(p.device), p.gpus, CsvField(p.job_a),
                       CsvField(p.job_b), p.alone_a, p.alone_b, p.together_a, p.together_b, p.normalised_sum(), p.gamma());
  }
  return out;
}

std::string FormatCorunGains(const std::vector<PairGain>& pairs, const std::string& device) {
  std::string out = fmt::format("# Gains of pairs of jobs on {}: paste into a cluster file.\ncorun_gain:\n", device);
  std::set<std::string> devices;
  bool any = false;
  for (const PairGain& p : pairs) {
    devices.insert(p.device);
    if (p.device != device || p.gpus != 1) continue;
    any = true;
    out += fmt::format("  - {{classes: [\"{}\", \"{}\"], gain: {:.6g}}}\n", p.job_a, p.job_b, std::clamp(p.gamma(), -0.99, 10.0));
  }
  if (!any) throw Invalid("no pairs on one '{}', expected one of {}", device, fmt::join(devices, ", "));
  return out;
}

std::string FormatDeviceSpeeds(const std::vector<DeviceSpeed>& speeds) {
  std::string out = "device,gpus,job,steps_per_second\n";
  for (const DeviceSpeed& s : speeds) {
    out += fmt::format("{},{},{},{}\n", CsvField(s.device), s.gpus, CsvField(s.job), s.steps_per_second);
  }
  return out;
}

}  // namespace weir
