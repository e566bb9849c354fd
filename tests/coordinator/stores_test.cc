#include <gtest/gtest.h>

#include <algorithm>

#include "coordinator/artifact_store.h"
#include "coordinator/job_store.h"
#include "tests/testing/cluster.h"

namespace weir::coordinator {
namespace {

using testing_cluster::TemporaryFolder;

wire::ArtifactPut Chunk(const std::string& content, std::size_t offset, std::size_t size) {
  wire::ArtifactPut put;
  put.set_hash(ContentHash(content));
  put.set_total(content.size());
  put.set_offset(offset);
  put.set_data(content.substr(offset, size));
  return put;
}

TEST(ArtifactStoreTest, TakesChunksInOrderAndRepeatsChangeNothing) {
  TemporaryFolder folder;
  ArtifactStore store(folder.path());
  const std::string content = "0123456789", hash = ContentHash(content);
  EXPECT_EQ(store.Put(Chunk(content, 0, 4)).received(), 4u);
  EXPECT_EQ(store.Put(Chunk(content, 0, 4)).received(), 4u);
  EXPECT_EQ(store.Put(Chunk(content, 8, 2)).received(), 4u);  // a gap
  EXPECT_FALSE(store.Has(hash));
  ArtifactStore again(folder.path());  // goes on after a restart
  const auto last = again.Put(Chunk(content, 4, 6));
  EXPECT_TRUE(last.complete());
  EXPECT_TRUE(again.Has(hash));
  EXPECT_EQ(ReadFile(again.PathOf(hash)), content);
  EXPECT_TRUE(again.Put(Chunk(content, 0, 0)).complete());
  wire::ArtifactGet get;
  get.set_hash(hash);
  get.set_offset(3);
  get.set_max_bytes(4);
  EXPECT_EQ(again.Get(get).data(), "3456");
  EXPECT_EQ(again.Get(get).total(), 10u);
}

TEST(ArtifactStoreTest, RefusesContentThatDoesNotMatchItsHash) {
  TemporaryFolder folder;
  ArtifactStore store(folder.path());
  wire::ArtifactPut put = Chunk("good", 0, 4);
  put.set_data("evil");
  EXPECT_EQ(store.Put(put).error(), "the content doesn't match the hash");
  EXPECT_FALSE(store.Has(put.hash()));
  EXPECT_TRUE(store.Put(Chunk("good", 0, 4)).complete());  // nothing damaged stays behind
}

TEST(ArtifactStoreTest, NothingButAHashBecomesAPath) {
  TemporaryFolder folder;
  ArtifactStore store(folder.path() + "/inner");
  wire::ArtifactPut put = Chunk("x", 0, 1);
  for (const std::string& hash :
       {std::string("../../etc/passwd"), std::string(), std::string(64, 'G'), std::string(63, 'a') + "/"}) {
    put.set_hash(hash);
    EXPECT_NE(store.Put(put).error(), "");
    wire::ArtifactGet get;
    get.set_hash(hash);
    EXPECT_NE(store.Get(get).error(), "");
  }
}

TEST(ArtifactServerTest, FilesOfSeveralChunksSurviveTheRoundTrip) {
  TemporaryFolder folder;
  ArtifactStore store(folder.path());
  worker::Context context;
  ArtifactServer server(context, "tcp://127.0.0.1:*", &store);
  worker::ArtifactClient client(server.address(), testing_cluster::kPatience);
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20, (std::size_t{3} << 20) + 17}) {
    std::string content(size, 'a');
    for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 7919 >> 5);
    const std::string hash = client.PutContent(content);
    EXPECT_EQ(client.PutContent(content), hash);
    EXPECT_EQ(client.GetContent(hash), content);
  }
  try {
    client.GetContent(std::string(64, '0'));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kNotFound);
  }
}

StoredJob MakeJob(int id, const std::string& state) {
  StoredJob job;
  job.request.set_request_id("r" + std::to_string(id));
  job.request.set_name("n");
  job.info.set_job(id);
  job.info.set_state(state);
  job.info.set_attempt(3);
  job.infra_failures = 2;
  return job;
}

TEST(JobStoreTest, ReopenedStoreHasWhatWasSaved) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/state.db";
  double epoch = 0;
  {
    JobStore store(path);
    epoch = store.epoch();
    StoredJob a = MakeJob(1, "waiting"), b = MakeJob(2, "running");
    store.Save({&a, &b});
    a.info.set_state("finished");
    store.Save({&a});
  }
  JobStore store(path);
  EXPECT_EQ(store.epoch(), epoch);
  const auto jobs = store.Load();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].info.state(), "finished");
  EXPECT_EQ(jobs[1].request.request_id(), "r2");
  EXPECT_EQ(jobs[1].infra_failures, 2);
  EXPECT_EQ(jobs[1].info.attempt(), 3);
}

TEST(JobStoreTest, ARequestIdBelongsToOneJob) {
  TemporaryFolder folder;
  JobStore store(folder.path() + "/state.db");
  StoredJob a = MakeJob(1, "waiting"), b = MakeJob(2, "waiting");
  b.request.set_request_id("r1");
  store.Save({&a});
  StoredJob c = MakeJob(3, "waiting");
  EXPECT_THROW(store.Save({&c, &b}), Error);  // one transaction: all or nothing
  EXPECT_EQ(store.Load().size(), 1u);
}

TEST(JobStoreTest, ADamagedFileIsAnErrorThatNamesIt) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/state.db";
  WriteFileAtomically(path, std::string(5000, 'x'));
  try {
    JobStore store(path);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInfrastructure);
    EXPECT_EQ(std::string(e.what()).rfind(path, 0), 0u) << e.what();
  }
}

}  // namespace
}  // namespace weir::coordinator
