// Files named by the hash of their content, under one folder. A file appears under its name only once its hash was checked.
// ArtifactStore: the folder; one writer (the server's thread), any number of readers of complete files.
// ArtifactServer: its own ROUTER in its own thread, so that a large upload never delays a heartbeat.
#ifndef WEIR_COORDINATOR_ARTIFACT_STORE_H_
#define WEIR_COORDINATOR_ARTIFACT_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "worker/protocol/channel.h"

namespace weir::wire {
class ArtifactPut;
class ArtifactPutReply;
class ArtifactGet;
class ArtifactGetReply;
}  // namespace weir::wire

namespace weir::coordinator {

class ArtifactStore {
 public:
  // Makes the folder. Throws Error(kInfrastructure) where it can't.
  explicit ArtifactStore(std::string folder);
  bool Has(const std::string& hash) const;
  std::string PathOf(const std::string& hash) const;  // REQUIRES: IsHash(hash)
  // 64 lower-case hex digits: nothing else becomes part of a path.
  static bool IsHash(const std::string& hash);

  // Nobody needs it any more, or its content is damaged.
  void Remove(const std::string& hash);

  // A chunk that doesn't continue what is there changes nothing; the reply says how much is there.
  wire::ArtifactPutReply Put(const wire::ArtifactPut& put);
  wire::ArtifactGetReply Get(const wire::ArtifactGet& get) const;

 private:
  std::string folder_;
};

class ArtifactServer {
 public:
  // Listens at `address`. Throws like Router.
  ArtifactServer(const worker::Context& context, const std::string& address, ArtifactStore* store);
  ~ArtifactServer();  // ends the thread
  const std::string& address() const { return address_; }

 private:
  void Run();

  ArtifactStore* store_;
  std::unique_ptr<worker::Router> router_;
  std::string address_;
  worker::WakeUp stop_;
  std::thread thread_;
};

}  // namespace weir::coordinator

#endif  // WEIR_COORDINATOR_ARTIFACT_STORE_H_
