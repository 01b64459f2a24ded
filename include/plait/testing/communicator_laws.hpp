// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "plait/backend/communicator.hpp"
#include "plait/core/concat.hpp"
#include "plait/testing/communicator_probe.hpp"

// Laws about the results of each call. Each function makes the same calls on all ranks of a group
// and checks the results of its own rank.
namespace plait::testing::detail {

inline constexpr std::size_t most_for_all_roots = 1000;

// Returns the ranks to try as root: all ranks for small buffers, only one for large buffers.
template <class Probe>
std::vector<int> roots_of(Probe const& p, std::size_t n) {
  if (n > most_for_all_roots) return {static_cast<int>(p.salt) % p.size()};
  std::vector<int> all;
  for (int root = 0; root < p.size(); ++root) all.push_back(root);
  return all;
}

template <class T, class Probe>
void expect_same_bits_everywhere(Probe& p, typename Probe::template buffer<T>& x, std::size_t n) {
  auto const values = x.get();
  std::uint64_t hash = 1;
  for (T const& value : values) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    hash = (hash ^ bits) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  auto const mine = static_cast<double>(hash >> 12);
  auto send = p.put(std::vector<double>{mine});
  auto receive = p.template put_zeros<double>(p.blocks());
  p.settle();
  p.comm().all_gather(send.read_only(), receive.span());
  for (double const theirs : receive.get())
    if (theirs != mine)
      return p.fail({"all_reduce", n, -1, "the same bits on every rank"}, element_name<T>(),
                    "ranks have different bits");
}

template <class T, class Probe>
void check_all_reduce(Probe& p, std::size_t n) {
  auto x = p.template put_own<T>(n), y = p.template put_own<T>(n);
  p.settle();
  p.comm().all_reduce(x.span());
  p.comm().all_reduce(y.span(), reduction::max);
  auto const sum = summed_values<T>(p.size(), n, p.salt, 0, p.sums_in_rank_order);
  p.expect(x, sum.values, {"all_reduce", n, -1, "the sum"}, sum.bounds);
  p.expect(y, largest_values<T>(p.size(), n, p.salt), {"all_reduce", n, -1, "the maximum"});
  expect_same_bits_everywhere<T>(p, x, n);
}

// Checks reductions of values with NaNs. Rank i has a NaN at position i, so each position except
// the last has a NaN on exactly one rank.
template <class T, class Probe>
  requires(is_float<T>)
void check_not_a_number(Probe& p) {
  std::size_t const n = p.blocks() + 1;
  std::vector<T> values(n, static_cast<T>(static_cast<float>(p.me())));
  values[static_cast<std::size_t>(p.me())] =
      static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  auto x = p.put(values);
  p.settle();
  p.comm().all_reduce(x.span(), reduction::max);
  auto const got = x.get();
  for (std::size_t i = 0; i < n; ++i) {
    auto const value = static_cast<double>(accumulate_t<T>(got[i]));
    if (i + 1 < n ? !std::isnan(value) : value != p.size() - 1)
      return p.fail({"all_reduce", n, -1, "the maximum is NaN if any rank has NaN"},
                    element_name<T>(),
                    ext::concat({"element ", i, ": expected ",
                                 (i + 1 < n ? "nan" : std::to_string(p.size() - 1)), ", got ",
                                 value_text(got[i])}));
  }
}

template <class T, class Probe>
  requires(!is_float<T>)
void check_not_a_number(Probe&) {}

template <class T, class Probe>
void check_all_gather(Probe& p, std::size_t n) {
  auto const own = probe_values<T>(p.me(), n, p.salt);
  auto const expected = probe_values_of_all<T>(p.size(), n, p.salt);
  std::vector<T> start(expected.size());
  std::ranges::copy(own, start.begin() + static_cast<std::ptrdiff_t>(n) * p.me());
  auto send = p.put(own), receive = p.template put_zeros<T>(expected.size()), whole = p.put(start);
  p.settle();
  p.comm().all_gather(send.read_only(), receive.span());
  p.comm().all_gather(whole.block(p.me(), n), whole.span());
  p.expect(receive, expected, {"all_gather", n, -1, "all blocks in rank order"});
  p.expect(send, own, {"all_gather", n, -1, "the send buffer does not change"});
  p.expect(whole, expected, {"all_gather", n, -1, "send may be this rank's block of receive"});
}

template <class T, class Probe>
void check_reduce_scatter(Probe& p, std::size_t n) {
  std::size_t const first = static_cast<std::size_t>(p.me()) * n;
  auto const own = probe_values<T>(p.me(), p.blocks() * n, p.salt);
  auto send = p.put(own), whole = p.put(own), receive = p.template put_zeros<T>(n);
  p.settle();
  p.comm().reduce_scatter(send.read_only(), receive.span());
  p.comm().reduce_scatter(whole.read_only(), whole.block(p.me(), n));
  auto const sum = summed_values<T>(p.size(), n, p.salt, first, p.sums_in_rank_order);
  p.expect(receive, sum.values, {"reduce_scatter", n, -1, "this rank's block of the sum"},
           sum.bounds);
  p.expect(send, own, {"reduce_scatter", n, -1, "the send buffer does not change"});
  auto expected = own;
  std::ranges::copy(sum.values, expected.begin() + static_cast<std::ptrdiff_t>(first));
  std::vector<double> bounds(sum.bounds.empty() ? 0 : expected.size());
  std::ranges::copy(sum.bounds, bounds.begin() + (bounds.empty() ? 0 : std::ptrdiff_t(first)));
  p.expect(whole, expected, {"reduce_scatter", n, -1, "receive may be this rank's block of send"},
           bounds);
}

template <class T, class Probe>
void check_all_to_all(Probe& p, std::size_t n) {
  auto send = p.template put_own<T>(p.blocks() * n);
  auto receive = p.template put_zeros<T>(p.blocks() * n);
  p.settle();
  p.comm().all_to_all(send.read_only(), receive.span());
  std::size_t const first = static_cast<std::size_t>(p.me()) * n;
  p.expect(receive, probe_values_of_all<T>(p.size(), n, p.salt, first),
           {"all_to_all", n, -1, "block j of rank i is block i of rank j"});
  p.expect(send, probe_values<T>(p.me(), p.blocks() * n, p.salt),
           {"all_to_all", n, -1, "the send buffer does not change"});
}

template <class T, class Probe>
void check_broadcast(Probe& p, std::size_t n) {
  for (int const root : roots_of(p, n)) {
    auto x = p.template put_own<T>(n);
    p.settle();
    p.comm().broadcast(x.span(), root);
    p.expect(x, probe_values<T>(root, n, p.salt), {"broadcast", n, root, "the root's values"});
    ++p.salt;
  }
}

template <class T, class Probe>
void check_ring(Probe& p, std::size_t n) {
  if (p.size() == 1) return;
  int const next = (p.me() + 1) % p.size(), previous = (p.me() + p.size() - 1) % p.size();
  // If `even_ranks_first` is false, only rank 0 sends before it receives.
  for (bool const even_ranks_first : {false, true}) {
    auto send = p.template put_own<T>(n), receive = p.template put_zeros<T>(n);
    p.settle();
    bool const first = even_ranks_first ? p.me() % 2 == 0 : p.me() == 0;
    if (first) p.comm().send(send.read_only(), next, 3);
    p.comm().receive(receive.span(), previous, 3);
    if (!first) p.comm().send(send.read_only(), next, 3);
    p.expect(receive, probe_values<T>(previous, n, p.salt),
             {"send and receive", n, -1, "in a ring"});
    p.expect(send, probe_values<T>(p.me(), n, p.salt),
             {"send and receive", n, -1, "the sent values do not change"});
    ++p.salt;
  }
}

// Checks messages between all pairs of ranks. The pairs exchange messages one pair after another,
// so that ranks do not wait in a cycle. Three messages with different tags go from the first rank
// to the second, and then three go back; they are received in the order in which they were sent.
template <class T, class Probe>
void check_pairs(Probe& p, std::size_t n) {
  std::array<int, 3> const tags{7, 0, 1000};
  for (int low = 0; low < p.size(); ++low)
    for (int high = low + 1; high < p.size(); ++high, ++p.salt) {
      if (p.me() != low && p.me() != high) continue;
      bool const sends = p.me() == low;
      int const other = sends ? high : low;
      auto out = p.template put_own<T>(3 * n), in = p.template put_zeros<T>(3 * n);
      p.settle();
      auto const there = [&](bool sending) {
        for (int i = 0; i < 3; ++i)
          if (sending) p.comm().send(out.block(i, n), other, tags[static_cast<std::size_t>(i)]);
          else p.comm().receive(in.block(i, n), other, tags[static_cast<std::size_t>(i)]);
      };
      there(sends);
      there(!sends);
      p.expect(in, probe_values<T>(other, 3 * n, p.salt),
               {"send and receive", n, -1, "between pairs, in the order sent"});
    }
}

// Checks all calls for one element type and size.
template <class T, class Probe>
void check_calls(Probe& p, std::size_t n) {
  check_all_reduce<T>(p, n), ++p.salt;
  check_all_gather<T>(p, n), ++p.salt;
  check_reduce_scatter<T>(p, n), ++p.salt;
  check_all_to_all<T>(p, n), ++p.salt;
  check_broadcast<T>(p, n);
  check_ring<T>(p, n);
  check_pairs<T>(p, n);
}

}  // namespace plait::testing::detail
