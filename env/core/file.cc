#include "env/core/file.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "env/core/check.h"
#include "env/core/error.h"

namespace weir {

std::string ReadFile(const std::string& path, std::size_t max_bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Invalid("{}: can't be read: {}", path, std::strerror(errno));
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    ::close(fd);
    throw Invalid("{}: expected a file, found a folder", path);
  }
  std::string content;
  if (S_ISREG(info.st_mode)) content.reserve(static_cast<std::size_t>(info.st_size));
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      ::close(fd);
      throw Invalid("{}: can't be read: {}", path, std::strerror(error));
    }
    if (n == 0) break;
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > max_bytes) {
      ::close(fd);
      throw Invalid("{}: larger than {} bytes", path, max_bytes);
    }
  }
  ::close(fd);
  return content;
}

void WriteFileAtomically(const std::string& wanted, std::string_view content) {
  // A link is followed; what is no regular file (a device, a pipe) is written into, never replaced.
  std::string path = wanted;
  struct stat info {};
  if (char* resolved = ::realpath(wanted.c_str(), nullptr)) {
    path = resolved;
    std::free(resolved);
  }
  const bool direct = ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
  const std::string temporary = direct ? path : fmt::format("{}.tmp{}", path, ::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CLOEXEC | (direct ? 0 : O_CREAT | O_TRUNC), 0644);
  if (fd < 0) throw Failure(ExitCode::kInfrastructure, "{}: can't be written: {}", path, std::strerror(errno));
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      ::close(fd);
      if (!direct) ::unlink(temporary.c_str());
      throw Failure(ExitCode::kInfrastructure, "{}: can't be written: {}", path, std::strerror(error));
    }
    done += static_cast<std::size_t>(n);
  }
  const bool written =
      direct ? ::close(fd) == 0 : ::fsync(fd) == 0 && ::close(fd) == 0 && ::rename(temporary.c_str(), path.c_str()) == 0;
  if (!written) {
    const int error = errno;
    if (!direct) ::unlink(temporary.c_str());
    throw Failure(ExitCode::kInfrastructure, "{}: can't be written: {}", path, std::strerror(error));
  }
}

void MakeParentFolders(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    struct stat info {};
    if (::stat(folder.c_str(), &info) == 0) {
      if (!S_ISDIR(info.st_mode)) throw Invalid("{}: '{}' is no folder", path, folder);
      continue;
    }
    if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
      throw Invalid("{}: the folder '{}' can't be made: {}", path, folder, std::strerror(errno));
  }
}

std::string ContentHash(std::string_view content) {
  unsigned char digest[32];
  WEIR_CHECK_EQ(crypto_generichash(digest, sizeof digest, reinterpret_cast<const unsigned char*>(content.data()), content.size(),
                                   nullptr, 0),
                0);
  std::string hex(64, '0');
  for (std::size_t i = 0; i < sizeof digest; ++i) {
    hex[2 * i] = "0123456789abcdef"[digest[i] >> 4];
    hex[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

}  // namespace weir
