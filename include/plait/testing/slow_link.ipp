// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/slow_link.hpp"

#include "plait/core/error.hpp"
#include "plait/core/number_range.hpp"

namespace plait::testing::detail {

PLAIT_DECL void link_clock::end(bool ended) {
  {
    std::scoped_lock const lock{mutex_};
    ended_ = ended;
  }
  wakes_.notify_all();
}

PLAIT_DECL slow_group::slow_group(std::unique_ptr<process_group> inner, std::size_t size,
                                  std::shared_ptr<link_clock> clock)
    : process_group({}, 0),
      inner_(std::move(inner)),
      others_(static_cast<double>(size - 1)),
      clock_(std::move(clock)) {}

PLAIT_DECL void slow_group::all_to_all(void const* send, std::size_t stride, void* receive,
                                       std::size_t bytes) {
  clock_->during(others_ * double(bytes),
                 [&] { inner_->all_to_all(send, stride, receive, bytes); });
}

PLAIT_DECL bool slow_group::all_reduce(void* inout, std::size_t count,
                                       plait::detail::element_type type, reduction operation) {
  return clock_->during(double(count * type.bytes),
                        [&] { return inner_->all_reduce(inout, count, type, operation); });
}

PLAIT_DECL void slow_engine::abandon() noexcept {
  inner_->abandon();
  clock_->end(true);
}

PLAIT_DECL void slow_engine::begin_anew(process_ranks const& now,
                                        std::unique_ptr<plait::detail::rendezvous_store> where) {
  inner_->begin_anew(now, std::move(where));
  clock_->end(false);
}

PLAIT_DECL void slow_engine::interrupt() noexcept {
  inner_->interrupt();
  clock_->end(true);
}

}  // namespace plait::testing::detail

namespace plait::testing {

PLAIT_DECL std::shared_ptr<process_engine> slow_link(std::shared_ptr<process_engine> inner,
                                                     link_options const& options) {
  plait::detail::require_range("link_options::latency", options.latency, number_ranges::from_0);
  plait::detail::require_range("link_options::bytes_per_second", options.bytes_per_second,
                               number_ranges::above_0);
  if (inner == nullptr)
    throw input_error("slow_link: there is no engine; write slow_link(plait::gloo(), {...})");
  return std::make_shared<detail::slow_engine>(std::move(inner), options);
}

}  // namespace plait::testing
