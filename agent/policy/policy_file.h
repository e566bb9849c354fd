// Policy files (*.weirpolicy): the weights of a policy network with all that is needed to refuse a wrong one.
// Little-endian; a string is u32 length + bytes:
//
//   "WEIRPOL\n"  u32 format version  u32 feature schema version  u32 x 4 features (global, worker, job, candidate)
//   u32 x 3 sizes (embed, hidden, head)  u64 seed  string feature names  string config text  string training record
//   u64 number of weights  float32 x that  64 bytes: BLAKE2b-256 of everything before, in hex
#ifndef WEIR_AGENT_POLICY_POLICY_FILE_H_
#define WEIR_AGENT_POLICY_POLICY_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

inline constexpr std::uint32_t kPolicyFormatVersion = 1;

// Widths of the layers, see network.h.
struct NetworkSizes {
  int embed = 16;
  int hidden = 48;
  int head = 32;
  bool operator==(const NetworkSizes&) const = default;
};

struct PolicyInfo {
  std::string hash;  // first 12 hex digits of the content hash of the file
  int format_version = kPolicyFormatVersion;
  int schema_version = 0;
  NetworkSizes sizes;
  long parameters = 0;  // trained ones; the scales of the inputs don't count
  std::uint64_t seed = 0;
  std::string config;  // text of the training config
  std::string record;  // how training went, one key=value line a stage
};

struct PolicyFile {
  PolicyInfo info;
  std::vector<float> weights;  // in the order of network.h
};

std::string EncodePolicy(const PolicyFile& policy);  // `info.hash`, versions and parameters are not read
// `source` stands before errors. Throws Error(kInvalid) for anything that this build can't run.
PolicyFile DecodePolicy(std::string_view content, const std::string& source);

PolicyFile ReadPolicyFile(const std::string& path);
PolicyInfo ReadPolicyInfo(const std::string& path);
std::string WritePolicyFile(const std::string& path, const PolicyFile& policy);  // atomically; returns the hash

}  // namespace weir

#endif  // WEIR_AGENT_POLICY_POLICY_FILE_H_
