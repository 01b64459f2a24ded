// SPDX-License-Identifier: Apache-2.0
// test: header_only
//
// Tests the messages about a store that does not answer, when they appear, and which time counts
// without it.
#include "plait/elastic/store_silence.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using plait::detail::store_silence;
using ms = store_silence::time;

/// Returns the messages of calls of half a second that fail one after the other, from `begin` to
/// `end`.
std::vector<std::string> fails(store_silence& store, int begin, int end,
                               std::string const& words = "", bool answers = false) {
  std::vector<std::string> said;
  for (int now = begin; now < end; now += 500) {
    store.failed(ms{now}, ms{now + 500}, words, answers);
    if (auto sentence = store.says("training waits"); !sentence.empty())
      said.push_back(std::to_string(now + 500) + " " + sentence);
  }
  return said;
}

TEST(StoreSilence, IsSaidWithinThreeSecondsAndEveryThirty) {
  store_silence store("etcd at a:1");
  store.answered(true);
  EXPECT_EQ(store.says(""), "");
  EXPECT_FALSE(store.is_away());
  EXPECT_EQ(fails(store, 100'000, 170'000),
            (std::vector<std::string>{
                "101500 plait: elastic: etcd at a:1 does not answer for 2 s: no member can join or "
                "leave; training waits",
                "131500 plait: elastic: etcd at a:1 does not answer for 32 s: no member can join "
                "or leave; training waits",
                "161500 plait: elastic: etcd at a:1 does not answer for 62 s: no member can join "
                "or leave; training waits"}));
  EXPECT_EQ(store.lasts(), ms{70'000});
  EXPECT_TRUE(store.is_silent());
  store.answered(false);
  EXPECT_FALSE(store.is_away());
  EXPECT_EQ(store.says(""), "plait: elastic: etcd at a:1 answers again, after 70 s");
  EXPECT_EQ(store.says(""), "");
  EXPECT_EQ(fails(store, 200'000, 202'000).size(), 1U);  // the next outage is reported again
}

TEST(StoreSilence, ThatIsShortIsNotReported) {
  store_silence store("etcd");
  EXPECT_TRUE(fails(store, 0, 1'000).empty());
  store.answered(false);
  EXPECT_EQ(store.says(""), "");
}

TEST(StoreSilence, ARefusalIsSaidInTheStoresWordsAndLastsUntilItDoesWhatIsAsked) {
  store_silence store("etcd");
  std::string const words = "etcdserver: mvcc: database space exceeded";
  std::vector<std::string> said;
  for (int now = 0; now < 4'000; now += 500) {
    store.failed(ms{now}, ms{now + 10}, words, true);
    store.answered(false);  // reads succeed all the time
    EXPECT_TRUE(store.is_away());
    EXPECT_FALSE(store.is_silent());
    if (auto sentence = store.says("training continues"); !sentence.empty())
      said.push_back(sentence);
  }
  EXPECT_EQ(said, std::vector<std::string>{
                      "plait: elastic: etcd cannot be used for 2 s, 'etcdserver: mvcc: database "
                      "space exceeded': no member can join or leave; training continues"});
  store.answered(true);
  EXPECT_EQ(store.says(""), "plait: elastic: etcd can be used again, after 4 s");
}

TEST(StoreSilence, TimeWithoutTheStoreDoesNotCountAndGoesForward) {
  store_silence store("etcd");
  EXPECT_EQ(store.without(ms{1'000}), ms{1'000});
  fails(store, 1'000, 21'000);
  EXPECT_EQ(store.without(ms{21'000}), ms{1'000});
  EXPECT_EQ(store.without(ms{21'400}), ms{1'400});  // it stays so until another call has failed
  fails(store, 21'000, 22'000);
  EXPECT_EQ(store.without(ms{22'000}), ms{1'400});
  store.answered(true);
  EXPECT_EQ(store.without(ms{23'000}), ms{2'000});
  EXPECT_EQ(store.without(ms{24'000}), ms{3'000});
}

TEST(StoreSilence, TimeInWhichTheProcessWasStoppedIsNotTheStores) {
  store_silence store("etcd");
  store.failed(ms{0}, ms{3'600'000}, "", false);
  EXPECT_EQ(store.lasts(), store_silence::longest_gap);
  store.failed(ms{3'600'000}, ms{3'600'500}, "", false);
  EXPECT_EQ(store.lasts(), store_silence::longest_gap + ms{500});
}

TEST(StoreSilence, TwoThreadsThatAskCountOnce) {
  store_silence store("etcd");
  for (int now = 0; now < 10'000; now += 500) {
    store.failed(ms{now}, ms{now + 500}, "", false);
    store.failed(ms{now + 100}, ms{now + 500}, "", false);
  }
  EXPECT_NEAR(double(store.lasts().count()), 10'000, 100);
}

}  // namespace
