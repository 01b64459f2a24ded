// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/backend/communicator.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/rendezvous_store.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"

namespace plait::testing {

/// The times from which the least duration of a call over a `slow_link` is computed.
struct link_options {
  /// The latency of each call, however short.
  std::chrono::nanoseconds latency{0};
  double bytes_per_second = std::numeric_limits<double>::infinity();
};

namespace detail {

/// Delays the end of a call until its least duration has passed. If the engine ends all calls, for
/// example after a failure, the delay ends at once.
class link_clock {
 public:
  explicit link_clock(link_options const& options) : options_(options) {}

  /// Runs work(), which sends `bytes` over the link, and then sleeps until the call has taken its
  /// least duration. Returns the result of work().
  template <class Work>
  auto during(double bytes, Work work) {
    std::chrono::duration<double> const least =
        options_.latency + std::chrono::duration<double>(bytes / options_.bytes_per_second);
    auto const end = std::chrono::steady_clock::now() +
                     std::chrono::ceil<std::chrono::steady_clock::duration>(least);
    auto const sleep = [&] {
      std::unique_lock lock{mutex_};
      wakes_.wait_until(lock, end, [this] { return ended_; });
    };
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      sleep();
    } else {
      auto const out = work();
      sleep();
      return out;
    }
  }
  void end(bool ended);

 private:
  link_options options_;
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool ended_ = false;
};

class slow_group final : public process_group {
 public:
  slow_group(std::unique_ptr<process_group> inner, std::size_t size,
             std::shared_ptr<link_clock> clock);

  void name(group_names names) override { inner_->name(std::move(names)); }
  void serve(plait::detail::collective_call const* call) override { inner_->serve(call); }
  void barrier() override {
    clock_->during(0, [&] { inner_->barrier(); });
  }
  void all_gather(void const* send, void* receive, std::size_t bytes) override {
    clock_->during(others_ * double(bytes), [&] { inner_->all_gather(send, receive, bytes); });
  }
  void all_to_all(void const* send, std::size_t stride, void* receive, std::size_t bytes) override;
  void broadcast(void* inout, std::size_t bytes, int root) override {
    clock_->during(double(bytes), [&] { inner_->broadcast(inout, bytes, root); });
  }
  void send(void const* data, std::size_t bytes, int to) override {
    clock_->during(double(bytes), [&] { inner_->send(data, bytes, to); });
  }
  void receive(void* data, std::size_t bytes, int from) override {
    clock_->during(double(bytes), [&] { inner_->receive(data, bytes, from); });
  }
  std::size_t post_send(void const* data, std::size_t bytes, int to) override {
    return inner_->post_send(data, bytes, to);
  }
  std::size_t post_receive(void* data, std::size_t bytes, int from) override {
    return inner_->post_receive(data, bytes, from);
  }
  void wait_for_posted(std::size_t place, int other) override {
    inner_->wait_for_posted(place, other);
  }
  void go_on() override { inner_->go_on(); }
  [[nodiscard]] bool give_up_posted() noexcept override { return inner_->give_up_posted(); }
  bool all_reduce(void* inout, std::size_t count, plait::detail::element_type type,
                  reduction operation) override;

 private:
  std::unique_ptr<process_group> inner_;
  double others_;
  std::shared_ptr<link_clock> clock_;
};

class slow_engine final : public process_engine {
 public:
  slow_engine(std::shared_ptr<process_engine> inner, link_options const& options)
      : inner_(std::move(inner)), clock_(std::make_shared<link_clock>(options)) {}

  process_ranks ranks(process_ranks const* told) override { return inner_->ranks(told); }
  void set_timeout(std::chrono::milliseconds timeout) override { inner_->set_timeout(timeout); }
  std::unique_ptr<process_group> make_group(std::vector<int> const& members) override {
    return slow(inner_->make_group(members), members);
  }
  void want_second_thread(bool wanted) override { inner_->want_second_thread(wanted); }
  [[nodiscard]] std::string why_one_thread() override { return inner_->why_one_thread(); }
  std::unique_ptr<process_group> make_group_of_second_thread(std::vector<int> const& members,
                                                             call_pause& pause) override {
    return slow(inner_->make_group_of_second_thread(members, pause), members);
  }
  void abandon() noexcept override;
  void begin_anew(process_ranks const& now,
                  std::unique_ptr<plait::detail::rendezvous_store> where) override;
  void interrupt() noexcept override;
  void hold_timeouts(bool on) noexcept override { inner_->hold_timeouts(on); }

 private:
  std::unique_ptr<process_group> slow(std::unique_ptr<process_group> group,
                                      std::vector<int> const& members) const {
    return std::make_unique<slow_group>(std::move(group), members.size(), clock_);
  }

  std::shared_ptr<process_engine> inner_;
  std::shared_ptr<link_clock> clock_;
};

}  // namespace detail

/// An engine that makes each call of `inner` take at least `latency` plus the transfer time of the
/// call's bytes. It sleeps for this time, so that on any machine one can see if a program computes
/// while it communicates. The bytes of a call are the bytes that a rank receives, or the bytes that
/// it sends if they are more; for an engine's own sum, the bytes of the vector. For example, 1 MB
/// at 100 MB/s with a latency of 1 ms takes 11 ms. A sum that plait computes itself consists of
/// several calls, and each of them is delayed. The same is true for a call whose arguments the
/// ranks compare before they make it. Posted messages are as fast as in `inner`. A call that fails
/// in `inner` is not delayed.
///
/// Errors: input_error if there is no engine, for a negative latency, or for a rate that is not
///         above 0; the exceptions of `inner`.
[[nodiscard]] [[gnu::cold]] std::shared_ptr<process_engine> slow_link(
    std::shared_ptr<process_engine> inner, link_options const& options);

}  // namespace plait::testing

#if PLAIT_HEADER_ONLY
#include "plait/testing/slow_link.ipp"
#endif
