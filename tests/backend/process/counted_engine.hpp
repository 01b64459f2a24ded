// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/process/process_engine.hpp"

// Counts the allocations of a program by operator new: in the calls of an engine and in threads
// that have not set `is_plaits_own`, or elsewhere. One source file of a program includes it.
namespace plait_test {

inline std::atomic<std::size_t> own_allocations = 0, engine_allocations = 0;
inline thread_local bool is_plaits_own = false;

}  // namespace plait_test

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  auto& counter =
      plait_test::is_plaits_own ? plait_test::own_allocations : plait_test::engine_allocations;
  counter.fetch_add(1, std::memory_order_relaxed);
  if (void* const data = std::malloc(bytes == 0 ? 1 : bytes)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept { std::free(data); }

namespace plait_test {

/// A function that a second thread calls once, in its next call of an engine.
inline std::atomic<void (*)()> inside_next_call = nullptr;

/// Attributes the thread's allocations to the engine during its lifetime.
class inside_engine {
 public:
  explicit inside_engine(bool is_second) : before_(std::exchange(is_plaits_own, false)) {
    if (is_second)
      if (auto* const work = inside_next_call.exchange(nullptr)) work();
  }
  inside_engine(inside_engine const&) = delete;
  inside_engine& operator=(inside_engine const&) = delete;
  ~inside_engine() { is_plaits_own = before_; }

 private:
  bool before_;
};

/// A group that separates the allocations of the engine's calls from plait's own, also around calls
/// of a second thread.
class counted_group final : public plait::ext::process_group {
 public:
  counted_group(std::unique_ptr<plait::ext::process_group> inner, bool is_second)
      : process_group({}, 0), inner_(std::move(inner)), is_second_(is_second) {}

  void name(plait::ext::group_names names) override { inner_->name(std::move(names)); }
  void serve(plait::detail::collective_call const* call) override {
    is_plaits_own = true;  // set from the first call on
    inner_->serve(call);
  }
  void barrier() override {
    inside_engine const here(is_second_);
    inner_->barrier();
  }
  void all_gather(void const* send, void* receive, std::size_t bytes) override {
    inside_engine const here(is_second_);
    inner_->all_gather(send, receive, bytes);
  }
  void all_to_all(void const* send, std::size_t stride, void* receive, std::size_t bytes) override {
    inside_engine const here(is_second_);
    inner_->all_to_all(send, stride, receive, bytes);
  }
  void broadcast(void* inout, std::size_t bytes, int root) override {
    inside_engine const here(is_second_);
    inner_->broadcast(inout, bytes, root);
  }
  void send(void const* data, std::size_t bytes, int to) override {
    inside_engine const here(is_second_);
    inner_->send(data, bytes, to);
  }
  void receive(void* data, std::size_t bytes, int from) override {
    inside_engine const here(is_second_);
    inner_->receive(data, bytes, from);
  }
  std::size_t post_send(void const* data, std::size_t bytes, int to) override {
    inside_engine const here(is_second_);
    return inner_->post_send(data, bytes, to);
  }
  std::size_t post_receive(void* data, std::size_t bytes, int from) override {
    inside_engine const here(is_second_);
    return inner_->post_receive(data, bytes, from);
  }
  void wait_for_posted(std::size_t place, int other) override {
    inside_engine const here(is_second_);
    inner_->wait_for_posted(place, other);
  }
  void go_on() override {
    inside_engine const here(is_second_);
    inner_->go_on();
  }
  bool give_up_posted() noexcept override { return inner_->give_up_posted(); }
  bool all_reduce(void* inout, std::size_t count, plait::detail::element_type type,
                  plait::ext::reduction operation) override {
    inside_engine const here(is_second_);
    return inner_->all_reduce(inout, count, type, operation);
  }

 private:
  std::unique_ptr<plait::ext::process_group> inner_;
  bool is_second_;
};

/// An engine whose groups are counted_group.
class counted_engine final : public plait::ext::process_engine {
 public:
  explicit counted_engine(std::shared_ptr<plait::ext::process_engine> inner)
      : inner_(std::move(inner)) {}

  plait::ext::process_ranks ranks(plait::ext::process_ranks const* told) override {
    return inner_->ranks(told);
  }
  void set_timeout(std::chrono::milliseconds timeout) override { inner_->set_timeout(timeout); }
  std::unique_ptr<plait::ext::process_group> make_group(std::vector<int> const& members) override {
    return std::make_unique<counted_group>(inner_->make_group(members), false);
  }
  void want_second_thread(bool wanted) override { inner_->want_second_thread(wanted); }
  std::string why_one_thread() override { return inner_->why_one_thread(); }
  std::unique_ptr<plait::ext::process_group> make_group_of_second_thread(
      std::vector<int> const& members, plait::ext::call_pause& pause) override {
    return std::make_unique<counted_group>(inner_->make_group_of_second_thread(members, pause),
                                           true);
  }
  void abandon() noexcept override { inner_->abandon(); }

 private:
  std::shared_ptr<plait::ext::process_engine> inner_;
};

}  // namespace plait_test
