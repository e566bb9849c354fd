#include "env/workload/profiles.h"

#include <algorithm>

#include "env/core/error.h"
#include "env/core/yaml.h"

namespace weir {
namespace {

constexpr double kMost = 1e30;  // FLOP and bytes

std::vector<double> Numbers(const Yaml& list, std::size_t count, const char* what) {
  std::vector<double> numbers;
  for (const Yaml& item : list.Items()) numbers.push_back(item.AsDouble(0, kMost));
  if (numbers.size() != count) list.Fail(what, fmt::format("a list of {}", numbers.size()));
  return numbers;
}

JobSpec JobFromYaml(const Yaml& item, const std::string& model, int batch) {
  JobSpec job;
  job.micro_batches = static_cast<int>(item.Required("micro_batches").AsInt(1, 1 << 20));
  for (const Yaml& entry : item.Required("subgraphs").Items()) {
    const std::vector<double> n = Numbers(entry, 3, "a list [FLOP, memory bytes, parameter bytes]");
    job.subgraphs.push_back({n[0], n[1], n[2]});
  }
  if (auto arcs = item.Optional("arcs")) {
    for (const Yaml& entry : arcs->Items()) {
      const std::vector<Yaml> parts = entry.Items();
      if (parts.size() != 3) entry.Fail("a list [from, to, bytes]", fmt::format("a list of {}", parts.size()));
      const int last = std::max(0, job.num_subgraphs() - 1);
      job.arcs.push_back(
          {static_cast<int>(parts[0].AsInt(0, last)), static_cast<int>(parts[1].AsInt(0, last)), parts[2].AsDouble(0, kMost)});
    }
  }
  item.Finish();
  job.name = fmt::format("{}-b{}-k{}-m{}", model, batch, job.num_subgraphs(), job.micro_batches);
  CheckSpec(job, item.where());
  return job;
}

// A double-quoted YAML scalar.
std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      if (c == '"' || c == '\\') out.push_back('\\');
      out.push_back(c);
    }
  }
  return out + "\"";
}

std::vector<ModelMix::Model> FromYaml(const Yaml& root) {
  std::vector<ModelMix::Model> models;
  root.String("name", "");
  const Yaml list = root.Required("profiles");
  for (const Yaml& item : list.Items()) {
    const std::string name = item.Required("model").AsString();
    const int batch = static_cast<int>(item.Required("batch").AsInt(1, 1 << 30));
    auto model = std::find_if(models.begin(), models.end(), [&](const ModelMix::Model& m) { return m.name == name; });
    if (model == models.end()) {
      models.emplace_back().name = name;
      model = models.end() - 1;
    }
    model->profiles.push_back(JobFromYaml(item, name, batch));
  }
  if (models.empty()) list.Fail("a list of at least one profile", "an empty list");
  root.Finish();
  return models;
}

}  // namespace

std::vector<ModelMix::Model> ReadProfiles(const std::string& path) {
  return FromYaml(Yaml::ParseFile(path));
}
std::vector<ModelMix::Model> ParseProfiles(const std::string& text, const std::string& source) {
  return FromYaml(Yaml::ParseText(text, source));
}

std::string FormatProfiles(const std::string& name, const std::vector<Profile>& profiles, const std::string& comment) {
  std::string out;
  for (std::size_t at = 0; at < comment.size();) {
    const std::size_t end = std::min(comment.find('\n', at), comment.size());
    out += "# " + comment.substr(at, end - at) + "\n";
    at = end + 1;
  }
  out += fmt::format("name: {}\nprofiles:\n", Quoted(name));
  for (const Profile& profile : profiles) {
    const JobSpec& job = profile.job;
    out += fmt::format("  - model: {}\n    batch: {}\n    micro_batches: {}\n", Quoted(profile.model), profile.batch,
                       job.micro_batches);
    std::vector<std::string> rows;
    for (const SubgraphSpec& s : job.subgraphs) {
      rows.push_back(fmt::format("[{:.17g}, {:.17g}, {:.17g}]", s.flop, s.memory_bytes, s.param_bytes));
    }
    out += fmt::format("    subgraphs: [{}]\n", fmt::join(rows, ", "));
    rows.clear();
    for (const ArcSpec& a : job.arcs) rows.push_back(fmt::format("[{}, {}, {:.17g}]", a.from, a.to, a.bytes));
    out += fmt::format("    arcs: [{}]\n", fmt::join(rows, ", "));
  }
  return out;
}

}  // namespace weir
