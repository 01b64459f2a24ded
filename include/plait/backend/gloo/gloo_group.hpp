// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/allreduce.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/gloo/gloo_connections.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Returns the function with which Gloo combines elements of type T, or null if Gloo cannot combine
/// the type. The maximum of two elements is NaN if either is NaN.
template <class T>
::gloo::AllreduceOptions::Func gloo_reduction(reduction operation) {
  auto const each = [](auto how) {
    return [how](void* out, void const* a, void const* b, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i)
        static_cast<T*>(out)[i] = how(static_cast<T const*>(a)[i], static_cast<T const*>(b)[i]);
    };
  };
  if (operation == reduction::sum) return each([](T a, T b) { return static_cast<T>(a + b); });
  return each([](T a, T b) { return b > a || b != b ? b : a; });
}
::gloo::AllreduceOptions::Func gloo_reduction(element_type type, reduction operation);

/// One member of a group of processes. All groups of a thread share its connections, so the tag of
/// a message contains the number of the group, the number of the call, the kind of the call and the
/// size: only the two ends of one call match.
///
/// Cost: each collective except all_reduce, which is Gloo's, is one round, in which every member
///       sends directly to every other; in a broadcast only the root sends. For each other member,
///       a call allocates two small objects of Gloo.
class gloo_group final : public process_group {
 public:
  gloo_group(std::shared_ptr<gloo_connections> with, std::vector<int> const& members,
             unsigned number);

  void barrier() override {
    ask("barrier", [&] { exchange(kind::barrier, nullptr, 0, nullptr, 0); });
  }
  void all_gather(void const* send, void* receive, std::size_t bytes) override {
    ask("all_gather", [&] { exchange(kind::all_gather, send, 0, receive, bytes); });
  }
  void all_to_all(void const* send, std::size_t stride, void* receive, std::size_t bytes) override {
    ask("all_to_all", [&] { exchange(kind::all_to_all, send, stride, receive, bytes); });
  }
  void broadcast(void* inout, std::size_t bytes, int root) override;
  void send(void const* data, std::size_t bytes, int to) override;
  void receive(void* data, std::size_t bytes, int from) override;
  std::size_t post_send(void const* data, std::size_t bytes, int to) override;
  std::size_t post_receive(void* data, std::size_t bytes, int from) override;
  void wait_for_posted(std::size_t place, int other) override;
  bool give_up_posted() noexcept override;
  bool all_reduce(void* inout, std::size_t count, element_type type, reduction operation) override;

  /// Opens further connections between the members; `watch` ends waits on these connections. The
  /// challenge proves that both ends open the connections of the same `name`. All members call it.
  [[nodiscard]] [[gnu::cold]] std::shared_ptr<gloo_mesh> connect_anew(
      std::string const& name, std::shared_ptr<gloo_watch> const& watch);

 private:
  using buffer = std::unique_ptr<::gloo::transport::UnboundBuffer>;
  enum class kind : std::uint64_t { barrier, all_gather, all_to_all, broadcast, message };
  static constexpr std::size_t none = ~std::size_t{0};

  static int place_of(int rank, std::vector<int> const& members) {
    return static_cast<int>(std::ranges::find(members, rank) - members.begin());
  }
  static std::byte* block(void* all, std::size_t index, std::size_t bytes) {
    return static_cast<std::byte*>(all) + index * bytes;
  }
  static std::byte const* block(void const* all, std::size_t index, std::size_t bytes) {
    return static_cast<std::byte const*>(all) + index * bytes;
  }
  [[nodiscard]] bool is(int member) const { return std::size_t(member) == rank_; }
  /// Calls work(member) for each other member, first for the next one, so that the members do not
  /// all send to the same member first.
  template <class Work>
  void for_others(Work work) const {
    for (std::size_t i = 1; i < members_.size(); ++i) work((rank_ + i) % members_.size());
  }

  /// Returns the tag of a message. The highest byte differs from the bytes 1 to 8 of Gloo's own
  /// collectives. The size is part of the tag, since Gloo would end the process if a longer message
  /// arrived.
  [[nodiscard]] std::uint64_t slot(kind what, std::uint32_t call, std::size_t bytes) const;
  [[nodiscard]] std::uint64_t next_slot(kind what, std::size_t bytes) {
    return slot(what, calls_++, bytes);
  }

  /// Creates the buffer of a posted message and returns its index in posted_.
  std::size_t begin_post(std::size_t other, void* data, std::size_t bytes, bool is_sent);
  void begin_receive(std::size_t from, void* data, std::size_t bytes, std::uint64_t at);
  void begin_send(std::size_t to, void const* data, std::size_t bytes, std::uint64_t at);
  void wait_for_receive(std::size_t from);
  void wait_for_send(std::size_t to);
  void to_one(std::size_t to, void const* data, std::size_t bytes, std::uint64_t at);
  void to_all(void const* data, std::size_t bytes, std::uint64_t at);
  /// Sends block i of `send` to each member i and receives a block from each. The beginnings of the
  /// blocks of `send` are `stride` bytes apart; with stride 0 all members get the same block.
  void exchange(kind what, void const* send, std::size_t stride, void* receive, std::size_t bytes);

  /// Returns connections between the members of this group alone, which Gloo's own collectives
  /// need. The first call opens the connections.
  std::shared_ptr<gloo_mesh> const& own_mesh();
  [[nodiscard]] [[gnu::cold]] std::shared_ptr<gloo_mesh> new_mesh(
      std::string const& name, std::shared_ptr<gloo_watch> const& watch);

  /// The time until the deadline, rounded up: a wait that ended before the deadline would be
  /// reported as a lost connection.
  [[nodiscard]] std::chrono::milliseconds left() const;

  template <class Work>
  void ask(char const* function, Work work) {
    if (with_->has_failed) {
      if (with_->other_has_failed) end_with_other(function);
      throw engine_error(
          concat({call_text(function), ": the connections were closed when a call failed"}));
    }
    end_ = with_->watch->time() + with_->timeout.load();
    try {
      work();
    } catch (std::exception const& problem) {
      fail(function, problem);
    }
  }
  [[noreturn]] [[gnu::cold]] void fail(char const* function, std::exception const& problem);
  [[noreturn]] [[gnu::cold]] void end_with_other(char const* function) const;

  std::shared_ptr<gloo_connections> with_;
  std::shared_ptr<gloo_mesh> mesh_;
  std::vector<int> members_;  // ranks in the connections' world, in group order
  struct posted_buffer {
    buffer lent{};
    bool is_sent = false;
  };

  std::vector<buffer> in_, out_;
  std::vector<posted_buffer> posted_{};
  std::vector<std::uint32_t> sent_, received_;
  std::uint64_t number_;
  std::size_t rank_;
  std::uint32_t calls_ = 0;
  std::size_t other_ = none;
  gloo_watch::clock::time_point end_;  // deadline of the current call, by the watch's clock
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/gloo/gloo_group.ipp"
#endif
