#include "coordinator/job_store.h"

#include <sqlite3.h>

#include <chrono>
#include <cstdlib>

#include "env/core/error.h"

namespace weir::coordinator {

struct JobStore::Impl {
  std::string path;
  sqlite3* db = nullptr;

  ~Impl() { sqlite3_close(db); }
  [[noreturn]] void Fail(const std::string& what) const {
    const int code = sqlite3_errcode(db);
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
      throw Failure(ExitCode::kNotFound, "{}: another coordinator uses this state folder", path);
    }
    throw Failure(ExitCode::kInfrastructure, "{}: {}: {}", path, what, sqlite3_errmsg(db));
  }
  void Execute(const char* sql) {
    if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) Fail(sql);
  }
};

namespace {

constexpr int kSchemaVersion = 1;

// A prepared statement, finalized at the end of its scope.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) { status_ = sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr); }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  bool ok() const { return status_ == SQLITE_OK; }
  sqlite3_stmt* get() const { return statement_; }
  void Bind(int i, std::int64_t value) { sqlite3_bind_int64(statement_, i, value); }
  void Bind(int i, double value) { sqlite3_bind_double(statement_, i, value); }
  void BindText(int i, const std::string& value) {
    sqlite3_bind_text(statement_, i, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
  }
  void BindBlob(int i, const std::string& value) {
    sqlite3_bind_blob(statement_, i, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
  }
  std::string Blob(int column) const {
    const void* data = sqlite3_column_blob(statement_, column);
    return data ? std::string(static_cast<const char*>(data), sqlite3_column_bytes(statement_, column)) : std::string();
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int status_;
};

}  // namespace

JobStore::JobStore(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  if (sqlite3_open_v2(path.c_str(), &impl_->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr) !=
      SQLITE_OK) {
    impl_->Fail("can't be opened");
  }
  sqlite3_busy_timeout(impl_->db, 1000);
  impl_->Execute("PRAGMA journal_mode=WAL");
  impl_->Execute("PRAGMA synchronous=FULL");
  impl_->Execute("BEGIN IMMEDIATE");
  impl_->Execute("CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value REAL NOT NULL) STRICT");
  impl_->Execute(
      "CREATE TABLE IF NOT EXISTS jobs(id INTEGER PRIMARY KEY, request_id TEXT UNIQUE NOT NULL, name TEXT NOT NULL, state TEXT "
      "NOT NULL, "
      "attempt INTEGER NOT NULL, infra_failures INTEGER NOT NULL, arrival REAL NOT NULL, start REAL NOT NULL, finish REAL NOT "
      "NULL, "
      "request BLOB NOT NULL, info BLOB NOT NULL) STRICT");
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  {
    Statement insert(impl_->db, "INSERT OR IGNORE INTO meta VALUES('epoch', ?1), ('schema_version', ?2)");
    if (!insert.ok()) impl_->Fail("meta");
    insert.Bind(1, now);
    insert.Bind(2, static_cast<double>(kSchemaVersion));
    if (sqlite3_step(insert.get()) != SQLITE_DONE) impl_->Fail("meta");
  }
  impl_->Execute("COMMIT");
  Statement version(impl_->db, "SELECT value FROM meta WHERE key = 'schema_version'");
  if (!version.ok() || sqlite3_step(version.get()) != SQLITE_ROW) impl_->Fail("meta");
  if (const int found = static_cast<int>(sqlite3_column_double(version.get(), 0)); found != kSchemaVersion) {
    throw Failure(ExitCode::kInfrastructure, "{}: schema version {}, expected {}", path, found, kSchemaVersion);
  }
}

JobStore::~JobStore() = default;

double JobStore::epoch() const {
  Statement select(impl_->db, "SELECT value FROM meta WHERE key = 'epoch'");
  if (!select.ok() || sqlite3_step(select.get()) != SQLITE_ROW) impl_->Fail("epoch");
  return sqlite3_column_double(select.get(), 0);
}

std::vector<StoredJob> JobStore::Load() const {
  Statement select(impl_->db, "SELECT id, infra_failures, request, info FROM jobs ORDER BY id");
  if (!select.ok()) impl_->Fail("load");
  std::vector<StoredJob> jobs;
  int status;
  while ((status = sqlite3_step(select.get())) == SQLITE_ROW) {
    StoredJob job;
    job.infra_failures = sqlite3_column_int(select.get(), 1);
    if (!job.request.ParseFromString(select.Blob(2)) || !job.info.ParseFromString(select.Blob(3))) {
      throw Failure(ExitCode::kInfrastructure, "{}: job {} can't be read", impl_->path, sqlite3_column_int64(select.get(), 0));
    }
    jobs.push_back(std::move(job));
  }
  if (status != SQLITE_DONE) impl_->Fail("load");
  return jobs;
}

void JobStore::Save(const std::vector<const StoredJob*>& jobs) {
  if (jobs.empty()) return;
  impl_->Execute("BEGIN IMMEDIATE");
  try {
    for (const StoredJob* job : jobs) {
      Statement upsert(
          impl_->db,
          "INSERT INTO jobs VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT(id) DO UPDATE SET state=?4, "
          "attempt=?5, infra_failures=?6, start=?8, finish=?9, info=?11");
      if (!upsert.ok()) impl_->Fail("save");
      const wire::JobInfo& info = job->info;
      upsert.Bind(1, static_cast<std::int64_t>(info.job()));
      upsert.BindText(2, job->request.request_id());
      upsert.BindText(3, info.name());
      upsert.BindText(4, info.state());
      upsert.Bind(5, std::int64_t{info.attempt()});
      upsert.Bind(6, std::int64_t{job->infra_failures});
      upsert.Bind(7, info.arrival());
      upsert.Bind(8, info.start());
      upsert.Bind(9, info.finish());
      upsert.BindBlob(10, job->request.SerializeAsString());
      upsert.BindBlob(11, info.SerializeAsString());
      if (sqlite3_step(upsert.get()) != SQLITE_DONE) impl_->Fail("save");
    }
    impl_->Execute("COMMIT");
  } catch (...) {
    sqlite3_exec(impl_->db, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

}  // namespace weir::coordinator
