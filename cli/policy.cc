#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "agent/policy/policy.h"
#include "cli/verbs.h"

namespace weir::cli {

void AddPolicy(CLI::App& app) {
  struct Flags {
    std::string path;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand("policy", "Look at policy files");
  verb->require_subcommand(1);
  auto add = [&](const char* name, const char* help) {
    CLI::App* sub = verb->add_subcommand(name, help);
    sub->add_option("file", flags->path, "Policy file (default: $WEIR_POLICY, else the one that comes with weir)");
    sub->add_flag("--json", flags->json, "Print JSON");
    return sub;
  };
  add("hash", "Print the first 12 hex digits of the file's content hash, after checking it")->callback([flags] {
    const PolicyInfo info = ReadPolicyInfo(flags->path.empty() ? DefaultPolicyPath() : flags->path);
    if (flags->json) {
      std::printf("%s\n", nlohmann::ordered_json{{"schema_version", 1}, {"hash", info.hash}}.dump().c_str());
    } else {
      std::printf("%s\n", info.hash.c_str());
    }
  });
  add("info", "Print what the file says about itself")->callback([flags] {
    const std::string path = flags->path.empty() ? DefaultPolicyPath() : flags->path;
    const PolicyInfo info = ReadPolicyInfo(path);
    if (flags->json) {
      const nlohmann::ordered_json json = {
          {"schema_version", 1},
          {"path", path},
          {"hash", info.hash},
          {"format_version", info.format_version},
          {"feature_schema_version", info.schema_version},
          {"parameters", info.parameters},
          {"layers", {{"embed", info.sizes.embed}, {"hidden", info.sizes.hidden}, {"head", info.sizes.head}}},
          {"seed", info.seed},
          {"record", info.record},
          {"config", info.config}};
      std::printf("%s\n", json.dump().c_str());
      return;
    }
    std::printf("path %s\nhash %s\nformat %d, feature schema %d\n", path.c_str(), info.hash.c_str(), info.format_version,
                info.schema_version);
    std::printf("parameters %ld (embed %d, hidden %d, head %d)\nseed %llu\n%s\nconfig:\n%s", info.parameters, info.sizes.embed,
                info.sizes.hidden, info.sizes.head, static_cast<unsigned long long>(info.seed), info.record.c_str(),
                info.config.c_str());
  });
}

}  // namespace weir::cli
