#include "worker/runtime/bulk_exchange.h"

#include <ATen/Functions.h>
#include <zmq.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "env/core/check.h"
#include "env/core/error.h"
#include "env/core/log.h"
#include "worker/protocol/frame.h"
#include "worker/protocol/wire.pb.h"
#include "worker/runtime/fan_out.h"

namespace weir::worker {
namespace {

void ReleaseTensor(void*, void* hint) {
  delete static_cast<at::Tensor*>(hint);
}

wire::BulkHeader_Kind ToWire(TensorKind kind) {
  switch (kind) {
    case TensorKind::kForward:
      return wire::BulkHeader::FORWARD;
    case TensorKind::kBackward:
      return wire::BulkHeader::BACKWARD;
    case TensorKind::kEvaluate:
      return wire::BulkHeader::EVALUATE;
    case TensorKind::kWeights:
      return wire::BulkHeader::WEIGHTS;
    case TensorKind::kNorm:
      return wire::BulkHeader::NORM;
    case TensorKind::kControl:
      return wire::BulkHeader::CONTROL;
  }
  return wire::BulkHeader::ABORT;
}

std::optional<TensorKind> FromWire(wire::BulkHeader_Kind kind) {
  switch (kind) {
    case wire::BulkHeader::FORWARD:
      return TensorKind::kForward;
    case wire::BulkHeader::BACKWARD:
      return TensorKind::kBackward;
    case wire::BulkHeader::EVALUATE:
      return TensorKind::kEvaluate;
    case wire::BulkHeader::WEIGHTS:
      return TensorKind::kWeights;
    case wire::BulkHeader::NORM:
      return TensorKind::kNorm;
    case wire::BulkHeader::CONTROL:
      return TensorKind::kControl;
    default:
      return std::nullopt;
  }
}

// Waits for credit; the rest is small and once an iteration at most.
bool CarriesSamples(TensorKind kind) {
  return kind == TensorKind::kForward || kind == TensorKind::kBackward || kind == TensorKind::kEvaluate;
}

bool KnownType(int type) {
  return type >= 0 && type < static_cast<int>(at::ScalarType::NumOptions) && type != static_cast<int>(at::ScalarType::Undefined);
}

class Message {
 public:
  Message() { zmq_msg_init(&message_); }
  ~Message() { zmq_msg_close(&message_); }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  zmq_msg_t* get() { return &message_; }
  std::string_view view() { return {static_cast<const char*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)}; }
  bool more() { return zmq_msg_more(&message_) != 0; }

 private:
  zmq_msg_t message_;
};

// Reads the tensors that follow a header. Returns nullopt where they don't match it; the rest of the message is then drained.
std::optional<std::vector<at::Tensor>> ReadTensors(void* socket, const wire::BulkHeader& header, bool more, bool pinned) {
  std::vector<at::Tensor> tensors;
  bool good = true;
  for (const wire::TensorHeader& t : header.tensors()) {
    if (!t.defined()) {
      tensors.emplace_back();
      continue;
    }
    if (!more) return std::nullopt;
    Message part;
    if (zmq_msg_recv(part.get(), socket, 0) < 0) return std::nullopt;
    more = part.more();
    if (!good) continue;
    const std::vector<std::int64_t> sizes(t.sizes().begin(), t.sizes().end()), strides(t.strides().begin(), t.strides().end());
    const bool type_known = KnownType(t.dtype()) && (t.restore() == 0 || KnownType(t.restore() - 1));
    std::int64_t elements = 1;
    for (std::int64_t s : sizes) good = good && s >= 0 && !__builtin_mul_overflow(elements, s, &elements);
    good = good && type_known && strides.size() == sizes.size();
    if (!good) continue;
    const auto type = static_cast<at::ScalarType>(t.dtype());
    good = part.view().size() == static_cast<std::size_t>(elements) * c10::elementSize(type);
    std::int64_t reach = elements > 0 ? 1 : 0;  // the strides must stay inside the bytes
    for (std::size_t d = 0; d < sizes.size() && good && elements > 0; ++d) {
      std::int64_t step = 0;
      good = strides[d] >= 0 && !__builtin_mul_overflow(sizes[d] - 1, strides[d], &step) &&
             !__builtin_add_overflow(reach, step, &reach);
    }
    good = good && reach <= elements;
    if (!good) continue;
    at::Tensor tensor = at::empty_strided(sizes, strides, at::TensorOptions(type).pinned_memory(pinned));
    std::memcpy(tensor.data_ptr(), part.view().data(), part.view().size());
    if (t.requires_grad() && tensor.is_floating_point()) tensor.requires_grad_(true);
    tensors.push_back(std::move(tensor));
  }
  while (more) {
    Message rest;
    if (zmq_msg_recv(rest.get(), socket, 0) < 0) break;
    more = rest.more();
    good = false;
  }
  if (!good) return std::nullopt;
  return tensors;
}

}  // namespace

BulkSocket::BulkSocket(Options options) : options_(std::move(options)), link_(options_.bandwidth, options_.latency) {
  context_ = zmq_ctx_new();
  socket_ = zmq_socket(context_, ZMQ_PULL);
  const int wait = 100, zero = 0;
  zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &wait, sizeof wait);
  zmq_setsockopt(socket_, ZMQ_LINGER, &zero, sizeof zero);
  const std::string wanted = "tcp://" + options_.host + ":*";
  if (zmq_bind(socket_, wanted.c_str()) != 0) {
    const std::string reason = zmq_strerror(zmq_errno());
    zmq_close(socket_);
    zmq_ctx_term(context_);
    throw Failure(ExitCode::kInfrastructure, "can't listen on {}: {}", wanted, reason);
  }
  char endpoint[256];
  std::size_t size = sizeof endpoint;
  WEIR_CHECK_EQ(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, endpoint, &size), 0);
  address_ = endpoint;
  thread_ = std::thread([this] { Loop(); });
}

BulkSocket::~BulkSocket() {
  stop_ = true;
  thread_.join();
  zmq_close(socket_);
  zmq_ctx_term(context_);
}

std::shared_ptr<Mailbox> BulkSocket::Open(std::int64_t job, int attempt, int stage) {
  std::lock_guard lock(mutex_);
  auto& mailbox = mailboxes_[{job, attempt, stage}];
  if (!mailbox) mailbox = std::make_shared<Mailbox>();
  return mailbox;
}

void BulkSocket::Forget(std::int64_t job, int attempt, int stage) {
  std::lock_guard lock(mutex_);
  mailboxes_.erase({job, attempt, stage});
}

void BulkSocket::Close(std::int64_t job, int attempt, const std::string& reason) {
  std::lock_guard lock(mutex_);
  for (auto it = mailboxes_.begin(); it != mailboxes_.end();) {
    if (std::get<0>(it->first) == job && std::get<1>(it->first) <= attempt) {
      it->second->Abort(reason);
      it = mailboxes_.erase(it);
    } else {
      ++it;
    }
  }
  int& closed = closed_.try_emplace(job, attempt).first->second;
  closed = std::max(closed, attempt);
}

std::shared_ptr<Mailbox> BulkSocket::Find(std::int64_t job, int attempt, int stage) {
  std::lock_guard lock(mutex_);
  const auto closed = closed_.find(job);
  if (closed != closed_.end() && attempt <= closed->second) return nullptr;
  auto& entry = mailboxes_[{job, attempt, stage}];
  if (!entry) entry = std::make_shared<Mailbox>();
  return entry;
}

void BulkSocket::Loop() {
  while (!stop_) {
    Message first;
    if (zmq_msg_recv(first.get(), socket_, 0) < 0) continue;
    std::string error;
    auto frame = DecodeFrame(first.view(), &error);
    wire::BulkHeader header;
    if (!frame || frame->type != MessageType::kBulkHeader || !header.ParseFromString(frame->body)) {
      WEIR_LOG(Warning, "event=bulk_refused reason=\"{}\"", frame ? "not a bulk header" : error);
      header.Clear();
      ReadTensors(socket_, header, first.more(), false);
      continue;
    }
    auto tensors = ReadTensors(socket_, header, first.more(), options_.pinned);
    const auto kind = FromWire(header.kind());
    const bool credit = header.kind() == wire::BulkHeader::CREDIT;
    if (!tensors || (!kind && !credit)) {
      WEIR_LOG(Warning, "event=bulk_refused job={} reason=\"tensors don't match the header\"", header.job());
      continue;
    }
    const std::shared_ptr<Mailbox> mailbox = Find(header.job(), header.attempt(), header.to_stage());
    if (!mailbox) continue;
    if (credit) {
      mailbox->AddCredit(header.from_stage(), header.credit());
      continue;
    }
    TensorMessage message{*kind, header.from_stage(), header.iteration(), header.micro_batch(), std::move(*tensors), {}, {}};
    for (const std::string& name : header.names()) message.ids.push_back(std::atoll(name.c_str()));
    std::size_t bytes = 0;
    bool narrowed = false;
    for (const wire::TensorHeader& t : header.tensors()) narrowed |= t.restore() > 0;
    for (int i = 0; i < header.tensors_size(); ++i) {
      const at::Tensor& tensor = message.tensors[i];
      if (tensor.defined()) bytes += tensor.nbytes();
      if (!narrowed) continue;
      const wire::TensorHeader& t = header.tensors(i);
      message.restore.push_back(static_cast<at::ScalarType>(t.restore() > 0 ? t.restore() - 1 : t.dtype()));
    }
    const bool emulated = link_.on() && header.sent_at() > 0;
    mailbox->Put(std::move(message),
                 emulated ? link_.Arrive(header.sent_at(), header.link_latency(), header.link_seconds(), bytes) : 0);
  }
}

BulkExchange::BulkExchange(BulkSocket* socket, std::int64_t job, int attempt, int stage, std::vector<std::string> peers)
    : socket_(socket),
      job_(job),
      attempt_(attempt),
      stage_(stage),
      peers_(std::move(peers)),
      mailbox_(socket->Open(job, attempt, stage)) {
  mailbox_->OnCredit([this](int peer, int count) {
    std::lock_guard lock(mutex_);
    const auto found = out_.find(peer);
    if (found == out_.end()) return;
    found->second.under_way = std::max(0, found->second.under_way - std::max(0, count));
    changed_.notify_all();
  });
  mailbox_->OnEnd([this] {
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  });
  thread_ = std::thread([this] { Loop(); });
}

BulkExchange::~BulkExchange() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
  mailbox_->OnCredit(nullptr);
  mailbox_->OnEnd(nullptr);
  socket_->Forget(job_, attempt_, stage_);
}

bool BulkExchange::Empty() const {
  return std::all_of(out_.begin(), out_.end(),
                     [](const auto& p) { return p.second.samples.empty() && p.second.control.empty(); });
}

void BulkExchange::Send(TensorMessage message) {
  const int peer = message.peer;
  if (IsLocal(peer)) {
    const std::shared_ptr<Mailbox> to = socket_->Find(job_, attempt_, peer);
    if (!to) throw Aborted{"the attempt was closed"};
    message.peer = stage_;
    to->Put(std::move(message));
    return;
  }
  const bool samples = CarriesSamples(message.kind), held_out = message.kind == TensorKind::kEvaluate;
  std::unique_lock lock(mutex_);
  Peer& to = out_[peer];
  if (held_out) changed_.wait(lock, [&] { return ended_ || to.samples.size() < static_cast<std::size_t>(kCredits); });
  if (ended_) {
    lock.unlock();
    mailbox_->Check();
    throw Aborted{"the attempt was closed"};
  }
  (samples ? to.samples : to.control).push_back({std::move(message)});
  changed_.notify_all();
}

void BulkExchange::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    int peer = -1;
    Peer* to = nullptr;
    const auto next = [&] {
      for (auto& [p, candidate] : out_) {
        if (candidate.control.empty() && (candidate.samples.empty() || candidate.under_way >= kCredits)) continue;
        peer = p;
        to = &candidate;
        return true;
      }
      return ended_ || (stop_ && Empty());
    };
    changed_.wait(lock, next);
    if (ended_ || !to) break;
    std::deque<Outgoing>& queue = to->control.empty() ? to->samples : to->control;
    const Outgoing outgoing = std::move(queue.front());
    queue.pop_front();
    if (&queue == &to->samples) ++to->under_way;
    changed_.notify_all();
    lock.unlock();
    try {
      Transmit(peer, to, outgoing);
    } catch (const Aborted&) {
    } catch (...) {
      mailbox_->Fail(std::current_exception());
    }
    lock.lock();
  }
  for (auto& [p, closing] : out_) {
    if (closing.socket) zmq_close(closing.socket);
  }
}

void BulkExchange::Transmit(int peer, Peer* to, const Outgoing& outgoing) {
  const TensorMessage& message = outgoing.message;
  if (!to->socket) {
    to->socket = zmq_socket(socket_->context(), ZMQ_PUSH);
    const int linger = 5000, timeout = 200;
    zmq_setsockopt(to->socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(to->socket, ZMQ_SNDTIMEO, &timeout, sizeof timeout);
    if (zmq_connect(to->socket, peers_.at(peer).c_str()) != 0) {
      throw Failure(ExitCode::kInfrastructure, "can't connect to stage {} at {}: {}", peer, peers_[peer],
                    zmq_strerror(zmq_errno()));
    }
  }
  void* out = to->socket;
  wire::BulkHeader header;
  header.set_job(job_);
  header.set_attempt(attempt_);
  header.set_from_stage(stage_);
  header.set_to_stage(peer);
  header.set_iteration(message.iteration);
  header.set_micro_batch(message.micro_batch);
  header.set_kind(outgoing.is_credit ? wire::BulkHeader::CREDIT : ToWire(message.kind));
  if (outgoing.is_credit) header.set_credit(1);
  while (message.produced && !message.produced->query()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  std::vector<at::Tensor> dense;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < message.tensors.size(); ++i) {
    const at::Tensor& t = message.tensors[i];
    wire::TensorHeader* h = header.add_tensors();
    h->set_defined(t.defined());
    if (!t.defined()) continue;
    dense.push_back(DenseLayout(t.detach()));  // strides travel: kernels may add in another order on another layout
    bytes += dense.back().nbytes();
    h->set_dtype(static_cast<int>(t.scalar_type()));
    if (!message.restore.empty() && message.restore[i] != t.scalar_type())
      h->set_restore(1 + static_cast<int>(message.restore[i]));
    for (std::int64_t s : dense.back().sizes()) h->add_sizes(s);
    for (std::int64_t s : dense.back().strides()) h->add_strides(s);
    h->set_requires_grad(t.requires_grad());
  }
  for (std::int64_t id : message.ids) header.add_names(std::to_string(id));
  EmulatedLink& link = socket_->link();
  if (link.on() && !outgoing.is_credit) {
    const double start = link.Depart(EmulatedLink::Now(), bytes);
    header.set_sent_at(start);
    header.set_link_latency(link.latency());
    header.set_link_seconds(link.Seconds(bytes));
    std::this_thread::sleep_for(std::chrono::duration<double>(start - EmulatedLink::Now()));
  }
  const std::string first = Encode(MessageType::kBulkHeader, header);
  while (zmq_send(out, first.data(), first.size(), dense.empty() ? 0 : ZMQ_SNDMORE) < 0) {
    if (zmq_errno() != EAGAIN && zmq_errno() != EINTR)
      throw Failure(ExitCode::kInfrastructure, "stage {}: {}", peer, zmq_strerror(zmq_errno()));
    mailbox_->Check();
  }
  for (std::size_t i = 0; i < dense.size(); ++i) {
    // ZeroMQ sends straight from the tensor's memory, which the copy of the handle keeps alive.
    auto* held = new at::Tensor(dense[i]);
    zmq_msg_t part;
    zmq_msg_init_data(&part, held->data_ptr(), held->nbytes(), ReleaseTensor, held);
    while (zmq_msg_send(&part, out, i + 1 < dense.size() ? ZMQ_SNDMORE : 0) < 0) {
      if (zmq_errno() == EAGAIN || zmq_errno() == EINTR) continue;  // a message that began always fits
      zmq_msg_close(&part);
      throw Failure(ExitCode::kInfrastructure, "stage {}: {}", peer, zmq_strerror(zmq_errno()));
    }
  }
}

TensorMessage BulkExchange::Receive(TensorKind kind, int peer, std::int64_t iteration, int micro_batch) {
  TensorMessage message = mailbox_->Take(kind, peer, iteration, micro_batch);
  if (CarriesSamples(kind) && !IsLocal(peer)) {
    std::lock_guard lock(mutex_);
    TensorMessage credit;
    credit.peer = peer;
    out_[peer].control.push_back({std::move(credit), true});
    changed_.notify_all();
  }
  return message;
}

}  // namespace weir::worker
