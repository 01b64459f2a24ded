// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plait/backend/process/processes.hpp"

// An engine whose processes are threads of one process, so that sanitizers see all of them.
namespace plait_test {

/// The messages that a member of a group has sent to another and that have not been received. Each
/// channel has its own mutex, so that two threads of a rank are not ordered by calls of other
/// ranks.
struct memory_channel {
  std::mutex mutex;
  std::condition_variable arrives;
  std::deque<std::vector<std::byte>> messages;
};

/// The job whose ranks communicate in memory.
class memory_job {
 public:
  explicit memory_job(int ranks)
      : gone(std::vector<std::atomic<bool>>(static_cast<std::size_t>(ranks))), ranks_(ranks) {}

  [[nodiscard]] int ranks() const { return ranks_; }
  /// Returns the channels of a group. All members ask with the same number.
  std::vector<std::shared_ptr<memory_channel>> channels(std::vector<int> const& members,
                                                        int number) {
    std::scoped_lock const lock{mutex_};
    auto& all = groups_[{number, members}];
    if (all.empty())
      for (std::size_t i = 0; i < members.size() * members.size(); ++i)
        all.push_back(std::make_shared<memory_channel>());
    return all;
  }

  std::vector<std::atomic<bool>> gone;  // true for ranks that have given up

 private:
  int ranks_;
  std::mutex mutex_;
  std::map<std::pair<int, std::vector<int>>, std::vector<std::shared_ptr<memory_channel>>> groups_;
};

/// State that the groups of a rank share.
struct memory_rank {
  std::shared_ptr<memory_job> job;
  int rank = 0;
  std::atomic<std::chrono::milliseconds> timeout{std::chrono::milliseconds{60'000}};
  /// Called before each call of the second thread, and of the rank's own thread.
  std::function<void()> before_second{}, before_own{};
  /// Called when the rank begins to wait for a message that it has posted.
  std::function<void()> before_posted_wait{};
  /// True if a call of the rank's own thread has failed, and of the second.
  std::array<std::atomic<bool>, 2> has_failed{};
};

class memory_group final : public plait::ext::process_group {
 public:
  memory_group(std::shared_ptr<memory_rank> of, std::vector<int> members, int number, bool second)
      : process_group(members, place_of(of->rank, members)),
        of_(std::move(of)),
        channels_(of_->job->channels(members, number)),
        members_(std::move(members)),
        me_(static_cast<std::size_t>(place_of(of_->rank, members_))),
        is_second_(second) {}

  void barrier() override {
    char one = 0;
    std::vector<char> all(members_.size());
    exchange(&one, 0, all.data(), 1);
  }
  void all_gather(void const* send, void* receive, std::size_t bytes) override {
    exchange(send, 0, receive, bytes);
  }
  void all_to_all(void const* send, std::size_t stride, void* receive, std::size_t bytes) override {
    exchange(send, stride, receive, bytes);
  }
  void broadcast(void* inout, std::size_t bytes, int root) override {
    begin();
    if (std::size_t(root) != me_) return take(std::size_t(root), inout, bytes);
    for (std::size_t to = 0; to < members_.size(); ++to)
      if (to != me_) put(to, inout, bytes);
  }
  void send(void const* data, std::size_t bytes, int to) override {
    begin();
    put(std::size_t(to), data, bytes);
  }
  void receive(void* data, std::size_t bytes, int from) override {
    begin();
    take(std::size_t(from), data, bytes);
  }
  std::size_t post_send(void const* data, std::size_t bytes, int to) override {
    send(data, bytes, to);
    return sent_already;
  }
  std::size_t post_receive(void* data, std::size_t bytes, int from) override {
    begin();
    posted_.push_back({std::size_t(from), data, bytes});
    return posted_.size() - 1;
  }
  /// Earlier messages of the same member are received first.
  void wait_for_posted(std::size_t place, int) override {
    ask(of_->before_posted_wait);
    if (place == sent_already) return;
    for (std::size_t i = 0; i <= place; ++i) {
      auto& one = posted_[i];
      if (one.data != nullptr && one.from == posted_[place].from)
        take(one.from, one.data, one.bytes);
      if (one.from == posted_[place].from) one.data = nullptr;
    }
  }
  bool give_up_posted() noexcept override {
    posted_.clear();
    return true;
  }
  bool all_reduce(void*, std::size_t, plait::detail::element_type, plait::ext::reduction) override {
    return false;
  }

 private:
  static int place_of(int rank, std::vector<int> const& members) {
    return static_cast<int>(std::ranges::find(members, rank) - members.begin());
  }
  void begin() const { ask(is_second_ ? of_->before_second : of_->before_own); }
  void ask(std::function<void()> const& before) const try {
    if (before) before();
  } catch (...) {
    of_->has_failed[is_second_] = true;
    throw;
  }
  void exchange(void const* send, std::size_t stride, void* receive, std::size_t bytes) {
    begin();
    auto const* const from = static_cast<std::byte const*>(send);
    auto* const to = static_cast<std::byte*>(receive);
    for (std::size_t other = 0; other < members_.size(); ++other)
      if (other != me_) put(other, from + other * stride, bytes);
    if (to + me_ * bytes != from + me_ * stride && bytes != 0)
      std::memcpy(to + me_ * bytes, from + me_ * stride, bytes);
    for (std::size_t other = 0; other < members_.size(); ++other)
      if (other != me_) take(other, to + other * bytes, bytes);
  }
  memory_channel& channel(std::size_t from, std::size_t to) const {
    return *channels_[from * members_.size() + to];
  }
  void put(std::size_t to, void const* data, std::size_t bytes) {
    auto const* const begin = static_cast<std::byte const*>(data);
    auto& way = channel(me_, to);
    {
      std::scoped_lock const lock{way.mutex};
      way.messages.emplace_back(begin, begin + bytes);
    }
    way.arrives.notify_one();
  }
  void take(std::size_t from, void* data, std::size_t bytes) try {
    using namespace plait;
    auto const end = std::chrono::steady_clock::now() + of_->timeout.load();
    auto& way = channel(from, me_);
    std::unique_lock lock{way.mutex};
    for (;;) {
      bool const has_come = way.arrives.wait_for(lock, std::chrono::milliseconds{2},
                                                 [&] { return !way.messages.empty(); });
      if (of_->job->gone[std::size_t(of_->rank)])
        throw ext::engine_error(call_text("a call") + " was ended");
      if (has_come) break;
      if (of_->has_failed[!is_second_])
        throw ext::other_thread_failed(call_text("a call") +
                                       " was ended, as the other thread of the rank has failed");
      if (of_->job->gone[std::size_t(members_[from])])
        throw ext::engine_error(call_text("a call") + ": " + member_text(int(from)) + " is gone");
      if (std::chrono::steady_clock::now() > end)
        throw communication_timeout(call_text("a call") + " has waited too long");
    }
    if (way.messages.front().size() != bytes) throw ext::engine_error("another size");
    if (bytes != 0) std::memcpy(data, way.messages.front().data(), bytes);
    way.messages.pop_front();
  } catch (...) {
    of_->has_failed[is_second_] = true;
    throw;
  }

  static constexpr std::size_t sent_already = ~std::size_t{0};
  struct posted_receive {
    std::size_t from;
    void* data;  // null once the message has arrived
    std::size_t bytes;
  };

  std::shared_ptr<memory_rank> of_;
  std::vector<posted_receive> posted_{};
  std::vector<std::shared_ptr<memory_channel>> channels_;  // the index is sender and receiver
  std::vector<int> members_;
  std::size_t me_;
  bool is_second_;
};

class memory_engine final : public plait::ext::process_engine {
 public:
  memory_engine(std::shared_ptr<memory_job> job, int rank) : of_(std::make_shared<memory_rank>()) {
    of_->job = std::move(job);
    of_->rank = rank;
  }
  [[nodiscard]] memory_rank& rank() { return *of_; }

  plait::ext::process_ranks ranks(plait::ext::process_ranks const*) override {
    return {.rank = of_->rank, .world_size = of_->job->ranks()};
  }
  void set_timeout(std::chrono::milliseconds timeout) override { of_->timeout = timeout; }
  std::unique_ptr<plait::ext::process_group> make_group(std::vector<int> const& members) override {
    return std::make_unique<memory_group>(of_, members, groups_++, false);
  }
  std::string why_one_thread() override {
    return serves_one ? "this engine is told to serve one thread" : "";
  }
  std::unique_ptr<plait::ext::process_group> make_group_of_second_thread(
      std::vector<int> const& members, plait::ext::call_pause&) override {
    ++second_groups;
    return std::make_unique<memory_group>(of_, members, groups_++, true);
  }
  void abandon() noexcept override { of_->job->gone[std::size_t(of_->rank)] = true; }

  bool serves_one = false;
  int second_groups = 0;

 private:
  std::shared_ptr<memory_rank> of_;
  int groups_ = 0;
};

/// Runs the ranks of a job, each a thread that plait treats as a process: run(rank, engine).
/// Returns the text of each rank's error, "" if it ends without one.
inline std::vector<std::string> in_memory_processes(
    int ranks, std::function<void(int, std::shared_ptr<memory_engine>)> const& run) {
  auto const job = std::make_shared<memory_job>(ranks);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        try {
          run(rank, std::make_shared<memory_engine>(job, rank));
        } catch (std::exception const& problem) {
          errors[std::size_t(rank)] = problem.what();
        }
      });
  }
  return errors;
}

}  // namespace plait_test
