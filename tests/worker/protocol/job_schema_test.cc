// docs/job.schema.json against the parser of job files, each as the other's oracle. Every kind of section that the schema knows
// (five of data, three of optimizer, ...) is put into an otherwise right job file; then
//   - the parser names the keys that it knows there: the same as the schema's,
//   - every key is given every value of a list of odd ones: the parser takes what the schema takes,
//   - every default is written out: the parser reads the same job as without.
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "env/core/error.h"
#include "env/core/file.h"
#include "tests/testing/json_schema.h"
#include "worker/protocol/job_file.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {
namespace {

using Json = nlohmann::json;
using Path = Json::json_pointer;

const testing::JsonSchema& Schema() {
  static const testing::JsonSchema schema(Json::parse(ReadFile(WEIR_SOURCE_DIR "/docs/job.schema.json")));
  return schema;
}

// The parser's verdict on a job as JSON, which is YAML too; "" where it takes it.
std::string ParserError(const Json& job) {
  try {
    ParseJobFile(job.dump(), "job.yaml", "/folder");
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInvalid) << job.dump();
    return e.what();
  }
}

// As the parser reads it: everything that a field of JobFile holds, but the text itself.
std::string Meaning(const Json& value) {
  const JobFile j = ParseJobFile(value.dump(), "job.yaml", "/folder");
  std::ostringstream out;
  out.precision(17);
  out << ToTrainSpec(j).SerializeAsString() << '|' << j.model_path << '|' << j.data_path << '|' << j.labels_path << '|'
      << j.memory_bytes << '|' << j.gpus << '|' << j.min_link << '|' << j.arch << '|' << j.checkpoint_every_seconds << '|'
      << j.checkpoint_keep << '|' << j.checkpoint_peers << '|' << j.retry_infra << '|' << j.retry_job << '|'
      << j.lost_after_seconds << '|' << j.replace << '|' << j.reconcile << '|' << j.priority << '|' << j.labels.size() << '|'
      << j.init << '|' << j.token_type << '|' << j.label_bytes;
  return out.str();
}

// `schema` with what its $ref names, and its own words over that.
Json Resolved(Json schema) {
  while (schema.contains("$ref")) {
    Json whole = Schema().Definition(schema["$ref"]);
    schema.erase("$ref");
    whole.update(schema);
    schema = whole;
  }
  return schema;
}

// A value that the schema takes, from its own examples.
Json Example(const Json& raw) {
  const Json schema = Resolved(raw);
  if (schema.contains("examples")) return schema["examples"][0];
  if (schema.contains("default")) return schema["default"];
  if (schema.contains("enum")) return schema["enum"][0];
  if (schema.contains("oneOf")) return Example(schema["oneOf"][0]);
  Json object = Json::object();
  for (const Json& key : schema.value("required", Json::array()))
    object[key.get<std::string>()] = Example(schema["properties"][key.get<std::string>()]);
  return object;
}

// A kind of section: a schema with `properties`, where it stands, and a job file that has it.
struct Section {
  Path path;
  Json schema;
  Json job;
  std::string name() const { return path.to_string() + " " + schema.value("title", ""); }
};

Json BaseJob() {
  return {{"name", "j"},
          {"model", {{"onnx", "m.onnx"}}},
          {"data", {{"pt", "d.pt"}}},  // goes with any loss
          {"train", {{"batch", 8}, {"epochs", 1}}}};
}

void Collect(const Json& raw, const Path& path, Json job, std::vector<Section>* out) {
  const Json schema = Resolved(raw);
  if (schema.contains("oneOf") && !schema.contains("properties")) {
    for (const Json& s : schema["oneOf"]) Collect(s, path, job, out);
    return;
  }
  if (!schema.contains("properties")) return;
  if (!job.contains(path)) job[path] = Json::object();
  const bool given = path.empty() || path == Path("/train");
  if (!given) {  // this kind of section in place of what the job has there
    job[path] = Json::object();
    for (const Json& key : schema.value("required", Json::array()))
      job[path][key.get<std::string>()] = Example(schema["properties"][key.get<std::string>()]);
    // Of keys that exclude each other, the first.
    if (schema.contains("oneOf")) {
      const std::string key = schema["oneOf"][0]["required"][0];
      job[path][key] = Example(schema["properties"][key]);
    }
  }
  out->push_back({path, schema, job});
  for (const auto& [key, child] : schema["properties"].items()) Collect(child, path / key, job, out);
}

std::vector<Section> Sections() {
  std::vector<Section> sections;
  Collect(Schema().root(), Path(), BaseJob(), &sections);
  return sections;
}

// The job with `value` under `key` of the section, without the key that it excludes.
Json With(const Section& section, const std::string& key, const Json& value) {
  Json job = section.job;
  static const std::map<std::string, std::string> kExcludes = {
      {"epochs", "iterations"}, {"iterations", "epochs"}, {"classes", "targets"}, {"targets", "classes"}};
  if (const auto found = kExcludes.find(key); found != kExcludes.end()) job[section.path].erase(found->second);
  job[section.path / key] = value;
  return job;
}

TEST(JobSchemaTest, HasEveryKindOfSection) {
  std::map<std::string, int> kinds;
  for (const Section& s : Sections()) {
    ++kinds[s.path.to_string()];
    EXPECT_EQ(ParserError(s.job), "") << s.name() << s.job.dump();
    EXPECT_EQ(Schema().WhyInvalid(s.job), "") << s.name() << s.job.dump();
  }
  EXPECT_EQ(kinds, (std::map<std::string, int>{{"", 1},
                                               {"/model", 2},
                                               {"/data", 5},
                                               {"/train", 1},
                                               {"/train/optimizer", 3},
                                               {"/train/optimizer/schedule", 9},  // three in each optimizer
                                               {"/resources", 1},
                                               {"/checkpoint", 1},
                                               {"/retry", 1},
                                               {"/disconnect", 1}}));
}

TEST(JobSchemaTest, KnowsTheKeysThatTheParserKnows) {
  const std::string unknown(40, 'z');  // near to no key, so the parser lists those it knows
  const std::regex known(R"(unknown key '[^']*' \(known: ([^)]*)\))");
  for (const Section& s : Sections()) {
    Json job = s.job;
    job[s.path / unknown] = 1;
    const std::string error = ParserError(job);
    std::smatch match;
    ASSERT_TRUE(std::regex_search(error, match, known)) << s.name() << ": " << error;
    std::set<std::string> of_parser, of_schema;
    std::istringstream words(std::regex_replace(match[1].str(), std::regex(","), ""));
    for (std::string word; words >> word;) of_parser.insert(word);
    for (const auto& [key, child] : s.schema["properties"].items()) of_schema.insert(key);
    // The parser has asked for the other formats' names before it knows which one is meant.
    if (s.path == Path("/data") || s.path == Path("/model")) {
      for (const char* format : {"csv", "idx", "cifar", "pt", "tokens", "onnx", "torchscript"}) {
        if (!of_schema.count(format)) of_parser.erase(format);
      }
    }
    EXPECT_EQ(of_parser, of_schema) << s.name();
    EXPECT_NE(Schema().WhyInvalid(job), "") << s.name() << ": an unknown key is taken";
  }
}

TEST(JobSchemaTest, TakesTheValuesThatTheParserTakes) {
  // Not here: 2.0 (an integer to JSON Schema, not to the parser), and numbers or booleans in place of text (taken by the parser
  // as text; in YAML they need quotes, as the schema says).
  std::vector<Json> values = {nullptr,
                              true,
                              false,
                              Json::array(),
                              Json::object(),
                              Json::array({1, 8}),
                              Json::array({0}),
                              Json::array({1.5}),
                              "",
                              "x",
                              "a b",
                              "20%",
                              "99%",
                              "99.5%",
                              "100%",
                              "-1%",
                              "%",
                              "1.5%",
                              "6GB",
                              "6 GB",
                              "6gb",
                              "4GiB",
                              "5TiB",
                              "1KB",
                              "1kB",
                              "B",
                              "12B",
                              "-3MB",
                              "30s",
                              "2m",
                              "1.5h",
                              "200ms",
                              "3us",
                              "7ns",
                              "1d",
                              "5min",
                              "5mins",
                              "20Mbit/s",
                              "20Mb/s",
                              "12.5MB/s",
                              "1GiB/s",
                              "3bit/s",
                              ".5s",
                              "5.GB",
                              "a.b_c-D9",
                              std::string(63, 'n'),
                              std::string(64, 'n')};
  for (const double v :
       {-1e-9, -0.5, 1e-20, 1e-16, 1e-13, 1e-12, 1e-7, 1e-6, 0.1, 0.5, 0.99, 0.999, 0.999999, 0.9999999, 1.5, 1e20})
    values.emplace_back(v);
  for (const std::int64_t v : {-1LL,      0LL,       1LL,       2LL,       3LL,          8LL,          16LL,
                               100LL,     101LL,     256LL,     1000LL,    1001LL,       1024LL,       1025LL,
                               1000000LL, 1000001LL, 1048576LL, 1048577LL, 1000000000LL, 1000000001LL, 9223372036854775807LL})
    values.emplace_back(v);
  int taken = 0, refused = 0;
  for (const Section& s : Sections()) {
    for (const auto& [key, raw] : s.schema["properties"].items()) {
      const Json schema = Resolved(raw);
      std::vector<Json> all = values;
      // Its own names, and those of every other list of names.
      for (const char* name : {"keep",
                               "kaiming",
                               "uint8",
                               "uint16",
                               "int32",
                               "sgd",
                               "adam",
                               "adamw",
                               "cross_entropy",
                               "mse",
                               "token_cross_entropy",
                               "fp32",
                               "bf16",
                               "fp16",
                               "1f1b",
                               "gpipe",
                               "epoch",
                               "end",
                               "auto",
                               "allreduce",
                               "shuffle-exchange",
                               "local-sgd",
                               "any",
                               "x86_64",
                               "aarch64",
                               "keep_original",
                               "keep_best",
                               "constant",
                               "step",
                               "cosine",
                               "linear"})
        all.emplace_back(name);
      for (const char* bound : {"minimum", "maximum"}) {
        if (!schema.contains(bound)) continue;
        const Json& v = schema[bound];
        all.push_back(v);
        if (v.is_number_integer() && v != 9223372036854775807) {
          all.emplace_back(v.get<std::int64_t>() - 1);
          all.emplace_back(v.get<std::int64_t>() + 1);
        } else if (v.is_number_float()) {
          all.emplace_back(v.get<double>() * 0.99);
          all.emplace_back(v.get<double>() * 1.01);
        }
      }
      for (const Json& value : schema.value("examples", Json::array())) all.push_back(value);
      for (const Json& value : all) {
        const bool text = schema.value("type", Json()) == "string" || schema.contains("enum") || key == "cifar";
        const Json& first = value.is_array() && !value.empty() ? value[0] : value;
        if (text && (first.is_number() || first.is_boolean())) continue;
        Json job = With(s, key, value);
        // What the schema can't say: the batch is a multiple of the micro-batches. Any of them goes with itself.
        if (key == "micro_batches" && value.is_number_integer()) job[s.path / "batch"] = value;
        const std::string by_schema = Schema().WhyInvalid(job), by_parser = ParserError(job);
        EXPECT_EQ(by_schema.empty(), by_parser.empty())
            << s.name() << " " << key << ": " << value.dump() << "\n  schema: " << by_schema << "\n  parser: " << by_parser;
        ++(by_parser.empty() ? taken : refused);
      }
      // A required key that is missing.
      Json job = s.job;
      job[s.path].erase(key);
      EXPECT_EQ(Schema().WhyInvalid(job).empty(), ParserError(job).empty()) << s.name() << " without " << key;
    }
  }
  EXPECT_GT(taken, 1000);
  EXPECT_GT(refused, 3000);
}

TEST(JobSchemaTest, KnowsWhichLossGoesWithWhichData) {
  for (const Section& s : Sections()) {
    if (s.path != Path("/data")) continue;
    for (const bool targets : {false, true}) {
      Json job = s.job;
      if (targets) {
        job["data"].erase("classes");
        job["data"]["targets"] = 2;
      }
      for (const char* loss : {"cross_entropy", "token_cross_entropy", "mse"}) {
        job["train"]["loss"] = loss;
        EXPECT_EQ(Schema().WhyInvalid(job).empty(), ParserError(job).empty()) << job.dump();
      }
    }
  }
}

TEST(JobSchemaTest, RefusesKeysThatExcludeEachOther) {
  Json both = BaseJob(), neither = BaseJob(), models = BaseJob(), formats = BaseJob();
  both["train"]["iterations"] = 3;
  neither["train"].erase("epochs");
  models["model"]["torchscript"] = "m.pt";
  formats["data"]["csv"] = "d.csv";
  for (const Json& job : {both, neither, models, formats}) {
    EXPECT_NE(Schema().WhyInvalid(job), "") << job.dump();
    EXPECT_NE(ParserError(job), "") << job.dump();
  }
}

TEST(JobSchemaTest, SaysTheDefaultsOfTheParser) {
  int defaults = 0;
  for (const Section& s : Sections()) {
    for (const auto& [key, raw] : s.schema["properties"].items()) {
      const Json schema = Resolved(raw);
      EXPECT_TRUE(schema.contains("description")) << s.name() << " " << key;
      if (!schema.contains("default")) continue;
      ++defaults;
      EXPECT_EQ(Meaning(With(s, key, schema["default"])), Meaning(s.job)) << s.name() << " " << key;
      // And another value means something else, where the meaning holds it.
      for (const Json& other : schema.value("enum", Json::array())) {
        if (other == schema["default"]) continue;
        EXPECT_NE(Meaning(With(s, key, other)), Meaning(s.job)) << key << " " << other;
      }
    }
  }
  EXPECT_GT(defaults, 30);
}

// YAML's own rules for what a plain word is.
Json FromYaml(const YAML::Node& node) {
  if (node.IsMap()) {
    Json object = Json::object();
    for (const auto& entry : node) object[entry.first.Scalar()] = FromYaml(entry.second);
    return object;
  }
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const YAML::Node& item : node) list.push_back(FromYaml(item));
    return list;
  }
  if (node.IsNull()) return nullptr;
  const std::string& text = node.Scalar();
  static const std::regex kNumber(R"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)"), kInteger("[-+]?[0-9]+");
  if (node.Tag() == "!") return text;  // quoted
  if (text == "true" || text == "false") return text == "true";
  if (std::regex_match(text, kInteger)) return std::stoll(text);
  if (std::regex_match(text, kNumber)) return std::stod(text);
  return text;
}

TEST(JobSchemaTest, TakesEveryJobFileOfTheProject) {
  int files = 0;
  for (const char* folder : {"/configs", "/tests/data"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(WEIR_SOURCE_DIR) + folder)) {
      if (entry.path().extension() != ".yaml") continue;
      const Json file = FromYaml(YAML::LoadFile(entry.path()));
      if (!file.contains("model") || !file.contains("train")) continue;  // no job file
      ++files;
      EXPECT_EQ(Schema().WhyInvalid(file), "") << entry.path();
    }
  }
  EXPECT_GE(files, 20);  // an empty search would prove nothing
}

// The section on job files of configs/README.md, up to the next section.
TEST(JobSchemaTest, EveryKeyStandsInTheReference) {
  const std::string page = ReadFile(WEIR_SOURCE_DIR "/configs/README.md");
  const std::size_t begin = page.find("## Job files");
  ASSERT_NE(begin, std::string::npos);
  const std::string section = page.substr(begin, page.find("\n## ", begin + 1) - begin);
  const auto holds = [&](const std::string& word) {
    return std::regex_search(section, std::regex("(^|[^A-Za-z0-9_])" + word + "($|[^A-Za-z0-9_])"));
  };
  for (const Section& s : Sections()) {
    for (const auto& [key, raw] : s.schema["properties"].items()) {
      EXPECT_TRUE(holds(key)) << s.name() << " " << key;
      for (const Json& name : Resolved(raw).value("enum", Json::array()))
        EXPECT_TRUE(holds(name.get<std::string>())) << s.name() << " " << key << ": " << name;
    }
  }
}

}  // namespace
}  // namespace weir::worker
