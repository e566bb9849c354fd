// Whole files in and out. Errors name the path and are Error(kInvalid) for inputs, Error(kInfrastructure) for outputs.
#ifndef WEIR_ENV_CORE_FILE_H_
#define WEIR_ENV_CORE_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace weir {

// Throws Error(kInvalid): missing, a folder, unreadable, or larger than `max_bytes`.
std::string ReadFile(const std::string& path, std::size_t max_bytes = std::size_t{8} << 30);
// Writes beside the target, syncs, renames: a reader sees the old content or the new, never a part. Follows links; writes into a
// device or pipe in place of replacing it.
void WriteFileAtomically(const std::string& path, std::string_view content);

// Creates the folders above `path` where they are missing. Throws Error(kInvalid) naming the one that can't be.
void MakeParentFolders(const std::string& path);

// BLAKE2b-256 of the content as 64 hex digits: the name of an artifact, a model or a policy.
std::string ContentHash(std::string_view content);

}  // namespace weir

#endif  // WEIR_ENV_CORE_FILE_H_
