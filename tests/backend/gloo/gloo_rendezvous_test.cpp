// SPDX-License-Identifier: Apache-2.0
// test: libs=gloo
// Ranks meet while rank 0 deletes the notes that it has left, as it does after a failed start.
#include "plait/backend/gloo/gloo_rendezvous.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "plait/backend/process/process_engine.hpp"
#include "plait/core/error.hpp"

namespace {

using plait::detail::gloo_rendezvous;
using plait::detail::rendezvous_store;

/// The notes of all ranks; `on_get` is called with each key before it is looked up.
struct notes {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> values;
  std::function<void(std::string const& key)> on_get = [](std::string const&) {};
};
class store_in_memory final : public rendezvous_store {
 public:
  explicit store_in_memory(notes& all) : all_(all) {}
  [[nodiscard]] std::string name() const override { return "memory"; }
  [[nodiscard]] std::string what_to_check() const override { return "nothing"; }
  void make() override {}
  [[nodiscard]] bool put(std::string const& key, std::string_view value) override {
    std::lock_guard const held(all_.mutex);
    return all_.values.try_emplace(key, value).second;
  }
  [[nodiscard]] std::optional<std::string> get(std::string const& key) override {
    std::lock_guard const held(all_.mutex);
    all_.on_get(key);
    auto const found = all_.values.find(key);
    return found == all_.values.end() ? std::nullopt : std::optional(found->second);
  }
  void remove(std::string const& key) noexcept override {
    std::lock_guard const held(all_.mutex);
    all_.values.erase(key);
  }
  void clear(bool) noexcept override {
    std::lock_guard const held(all_.mutex);
    all_.values.clear();
  }

 private:
  notes& all_;
};

/// One of two ranks that meet; an exception is a failure of the test.
struct one_rank {
  one_rank(notes& all, int rank)
      : rendezvous(std::make_unique<store_in_memory>(all),
                   {.rank = rank, .world_size = 2, .job = "j"}, std::chrono::seconds{20},
                   interrupted, "") {}
  void meet() { EXPECT_NO_THROW((void)rendezvous.meet()); }
  std::atomic<bool> interrupted = false;
  gloo_rendezvous rendezvous;
};

// Rank 0 may give up between its note and the key of the rendezvous.
TEST(GlooRendezvous, WaitsForRankZeroThatHasTakenBackItsKey) {
  notes all;
  one_rank zero(all, 0), one(all, 1);
  int asked = 0;
  std::pair<std::string, std::string> key;
  all.on_get = [&](std::string const& name) {
    if (!name.ends_with(".key.0")) return;
    if (asked++ == 0) {
      key = {name, all.values.at(name)};
      all.values.erase(name);
    } else if (asked == 4) {
      all.values.insert(key);
    }
  };
  std::thread other([&] { one.meet(); });
  zero.meet();
  other.join();
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(zero.rendezvous.identity().key, one.rendezvous.identity().key);
}

// A note that is not a key belongs to another program, or is an attack.
TEST(GlooRendezvous, RefusesANoteThatIsNotAKey) {
  notes all;
  one_rank zero(all, 0), one(all, 1);
  all.on_get = [&](std::string const& name) {
    if (name.ends_with(".key.0")) all.values[name] = "a key";
  };
  std::string said;
  std::thread other([&] {
    try {
      (void)one.rendezvous.meet();
    } catch (plait::input_error const& problem) {
      said = problem.what();
      one.rendezvous.fail(said);
    }
  });
  EXPECT_THROW((void)zero.rendezvous.meet(), plait::ext::engine_error);
  other.join();
  EXPECT_NE(
      said.find(
          "the note that rank 0 has written to memory as the key of the rendezvous is not a key"),
      said.npos)
      << said;
}

}  // namespace
