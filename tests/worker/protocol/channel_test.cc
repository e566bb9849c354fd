#include "worker/protocol/channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "env/core/error.h"
#include "worker/protocol/background.h"
#include "worker/protocol/client.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {
namespace {

constexpr Milliseconds kPatience(10000);

TEST(ChannelTest, RouterAndDealerExchangeBytes) {
  Context context;
  Router router(context, "tcp://127.0.0.1:*");
  Dealer dealer(context, router.address());
  ASSERT_TRUE(dealer.Send("ping", kPatience));
  const auto got = router.Receive(kPatience);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->bytes, "ping");
  EXPECT_EQ(router.Send(got->peer, "pong"), SendResult::kSent);
  EXPECT_EQ(dealer.Receive(kPatience), "pong");
  EXPECT_FALSE(dealer.Receive(Milliseconds(0)));
}

TEST(ChannelTest, RouterSaysThatAPeerIsUnknownOrGone) {
  Context context;
  Router router(context, "tcp://127.0.0.1:*");
  EXPECT_EQ(router.Send("nobody", "x"), SendResult::kGone);
  std::string peer;
  {
    Context other;
    Dealer dealer(other, router.address());
    ASSERT_TRUE(dealer.Send("hello", kPatience));
    peer = router.Receive(kPatience)->peer;
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  SendResult result = SendResult::kSent;
  while (result != SendResult::kGone && std::chrono::steady_clock::now() < deadline) {
    result = router.Send(peer, "x");
    router.Receive(Milliseconds(10));  // lets libzmq notice
  }
  EXPECT_EQ(result, SendResult::kGone);
}

TEST(ChannelTest, RefusesAnAddressInUseAsConflict) {
  Context context;
  Router router(context, "tcp://127.0.0.1:*");
  try {
    Router second(context, router.address());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kNotFound);
    EXPECT_EQ(e.what(), router.address() + ": already in use");
  }
  EXPECT_THROW(Router(context, "tcp://nonsense"), Error);
  EXPECT_THROW(Dealer(context, "nonsense"), Error);
}

TEST(ChannelTest, DealerDoesNotQueueForAnAbsentPeer) {
  Context context;
  Dealer dealer(context, "tcp://127.0.0.1:9");
  EXPECT_FALSE(dealer.Send("x"));
  EXPECT_FALSE(dealer.Send("x", Milliseconds(50)));
}

TEST(ChannelTest, MessageAboveTheLimitIsDropped) {
  Context context;
  Router router(context, "tcp://127.0.0.1:*");
  Dealer dealer(context, router.address());
  ASSERT_TRUE(dealer.Send("first", kPatience));
  ASSERT_TRUE(router.Receive(kPatience));
  ASSERT_TRUE(dealer.Send(std::string(kMaxBodyBytes + 100, 'x'), kPatience));
  EXPECT_FALSE(router.Receive(Milliseconds(300)));
}

TEST(ClientTest, NoAnswerIsOneClearLine) {
  Client client("tcp://127.0.0.1:9", Milliseconds(200));
  try {
    client.CallRaw(MessageType::kListRequest, "", MessageType::kListReply);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUnreachable);
    EXPECT_STREQ(e.what(), "coordinator at tcp://127.0.0.1:9: no answer within 0.2 s");
  }
}

TEST(ClientTest, AnErrorReplyBecomesTheErrorItCarries) {
  Context context;
  Router router(context, "tcp://127.0.0.1:*");
  std::thread server([&] {
    const auto request = router.Receive(kPatience);
    wire::ErrorReply reply;
    reply.set_error("no");
    reply.set_exit_code(6);
    if (request) router.Send(request->peer, Encode(MessageType::kErrorReply, reply));
  });
  Client client(router.address(), kPatience);
  try {
    client.CallRaw(MessageType::kListRequest, "", MessageType::kListReply);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kNotFound);
    EXPECT_STREQ(e.what(), "no");
  }
  server.join();
}

TEST(ChannelTest, WildcardHostsAreReplacedByTheHostThatWasReached) {
  EXPECT_EQ(ReachableFrom("tcp://0.0.0.0:7701", "tcp://edge-1:7700"), "tcp://edge-1:7701");
  EXPECT_EQ(ReachableFrom("tcp://10.0.0.1:7701", "tcp://edge-1:7700"), "tcp://10.0.0.1:7701");
  EXPECT_TRUE(IsLoopback("tcp://127.0.0.1:1"));
  EXPECT_FALSE(IsLoopback("tcp://0.0.0.0:1"));
}

TEST(BackgroundTest, FinishesInOrderInTheCallersThread) {
  Background background;
  const auto self = std::this_thread::get_id();
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    background.Post([] {},
                    [&order, i, self] {
                      EXPECT_EQ(std::this_thread::get_id(), self);
                      order.push_back(i);
                    });
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (order.size() < 3 && std::chrono::steady_clock::now() < deadline) {
    std::vector<PollItem> items(1);
    items[0].fd = background.fd();
    Poll(&items, Milliseconds(100));
    background.RunFinished();
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

}  // namespace
}  // namespace weir::worker
