// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/testing/communicator_probe.hpp"

// Each function makes the same calls on all ranks of a group and checks what its own rank sees.
namespace plait::testing::detail {

inline constexpr std::size_t most_for_all_roots = 1000;

// The roots that are tried: all of them, but one for large buffers.
template <class Probe>
std::vector<int> roots_of(Probe const& p, std::size_t n) {
  if (n > most_for_all_roots) return {static_cast<int>(p.salt) % p.size()};
  std::vector<int> all;
  for (int root = 0; root < p.size(); ++root) all.push_back(root);
  return all;
}

// Rank and size are those of the mesh.
template <class Probe>
void check_membership(Probe& p) {
  auto const members = p.rank.grid().group_of(p.rank.world_rank(), p.over);
  auto const place = std::ranges::find(members, p.rank.world_rank()) - members.begin();
  if (p.size() != static_cast<int>(members.size()) || p.me() != static_cast<int>(place))
    p.fail({"rank() and size()", 0, -1, "as the mesh says"}, "",
           "expected " + std::to_string(place) + " of " + std::to_string(members.size()) +
               ", got " + std::to_string(p.me()) + " of " + std::to_string(p.size()));
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

// A NaN on one rank only, which is another one in each position; none in the last.
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
      return p.fail({"all_reduce", n, -1, "NaN on any rank is the maximum"}, element_name<T>(),
                    "element " + std::to_string(i) + ": expected " +
                        (i + 1 < n ? "nan" : std::to_string(p.size() - 1)) + ", got " +
                        value_text(got[i]));
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
  p.expect(send, own, {"all_gather", n, -1, "send stays as it is"});
  p.expect(whole, expected, {"all_gather", n, -1, "send is the own block of receive"});
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
  p.expect(receive, sum.values, {"reduce_scatter", n, -1, "the own block of the sum"}, sum.bounds);
  p.expect(send, own, {"reduce_scatter", n, -1, "send stays as it is"});
  auto expected = own;
  std::ranges::copy(sum.values, expected.begin() + static_cast<std::ptrdiff_t>(first));
  std::vector<double> bounds(sum.bounds.empty() ? 0 : expected.size());
  std::ranges::copy(sum.bounds, bounds.begin() + (bounds.empty() ? 0 : std::ptrdiff_t(first)));
  p.expect(whole, expected, {"reduce_scatter", n, -1, "receive is the own block of send"}, bounds);
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
           {"all_to_all", n, -1, "send stays as it is"});
}

template <class T, class Probe>
void check_broadcast_and_reduce(Probe& p, std::size_t n) {
  for (int const root : roots_of(p, n)) {
    auto x = p.template put_own<T>(n), y = p.template put_own<T>(n);
    p.settle();
    p.comm().broadcast(x.span(), root);
    p.comm().reduce(y.span(), root);
    p.expect(x, probe_values<T>(root, n, p.salt), {"broadcast", n, root, "the root's values"});
    if (p.me() == root) {
      auto const sum = summed_values<T>(p.size(), n, p.salt, 0, p.sums_in_rank_order);
      p.expect(y, sum.values, {"reduce", n, root, "the sum on the root"}, sum.bounds);
    } else {
      p.expect(y, probe_values<T>(p.me(), n, p.salt),
               {"reduce", n, root, "other ranks keep their values"});
    }
    ++p.salt;
  }
}

template <class T, class Probe>
void check_gather_and_scatter(Probe& p, std::size_t n) {
  for (int const root : roots_of(p, n)) {
    bool const is_root = p.me() == root;
    std::size_t const all = is_root ? p.blocks() * n : 0;
    auto const own = probe_values<T>(p.me(), n, p.salt);
    auto const gathered = probe_values_of_all<T>(is_root ? p.size() : 0, n, p.salt);
    auto send = p.put(own), receive = p.template put_zeros<T>(all);
    auto source = p.put(gathered), part = p.template put_zeros<T>(n);
    p.settle();
    p.comm().gather(send.read_only(), receive.span(), root);
    p.comm().scatter(source.read_only(), part.span(), root);
    p.expect(receive, gathered, {"gather", n, root, "all blocks in rank order on the root"});
    p.expect(part, own, {"scatter", n, root, "block r of the root's values"});
    p.expect(source, gathered, {"scatter", n, root, "send stays as it is"});

    std::vector<T> start(all);  // in place: the root's own block takes part in both
    if (is_root) std::ranges::copy(own, start.begin() + static_cast<std::ptrdiff_t>(n) * root);
    auto whole = p.put(start);
    auto const mine = is_root ? whole.block(root, n) : send.span();
    p.settle();
    p.comm().gather(mine, whole.span(), root);
    p.comm().scatter(whole.read_only(), mine, root);
    p.expect(whole, gathered, {"gather", n, root, "the root's send is its own block of receive"});
    p.expect(send, own, {"scatter", n, root, "the root's receive is its own block of send"});
    ++p.salt;
  }
}

template <class T, class Probe>
void check_ring(Probe& p, std::size_t n) {
  if (p.size() == 1) return;
  int const next = (p.me() + 1) % p.size(), previous = (p.me() + p.size() - 1) % p.size();
  for (bool const even_ranks_first : {false, true}) {  // else only rank 0 sends first
    auto send = p.template put_own<T>(n), receive = p.template put_zeros<T>(n);
    p.settle();
    bool const first = even_ranks_first ? p.me() % 2 == 0 : p.me() == 0;
    if (first) p.comm().send(send.read_only(), next, 3);
    p.comm().receive(receive.span(), previous, 3);
    if (!first) p.comm().send(send.read_only(), next, 3);
    p.expect(receive, probe_values<T>(previous, n, p.salt),
             {"send and receive", n, -1, "in a ring"});
    p.expect(send, probe_values<T>(p.me(), n, p.salt),
             {"send and receive", n, -1, "what is sent stays as it is"});
    ++p.salt;
  }
}

// Pairs one after the other, so that nobody waits for somebody who waits: there with three tags, in
// the order in which they were sent, and back.
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

// All calls of one element type and size.
template <class T, class Probe>
void check_calls(Probe& p, std::size_t n) {
  check_all_reduce<T>(p, n), ++p.salt;
  check_all_gather<T>(p, n), ++p.salt;
  check_reduce_scatter<T>(p, n), ++p.salt;
  check_all_to_all<T>(p, n), ++p.salt;
  check_broadcast_and_reduce<T>(p, n);
  check_gather_and_scatter<T>(p, n);
  check_ring<T>(p, n);
  check_pairs<T>(p, n);
}

// One rank comes late; the others' clocks run from before a call that it takes part in, so that
// what they measure contains its sleep, however the ranks are delayed otherwise.
template <class Probe>
void check_barrier(Probe& p) {
  if (p.size() == 1) return p.comm().barrier();
  constexpr std::chrono::milliseconds late{10};
  for (int sleeper = 0; sleeper < p.size(); ++sleeper) {
    auto x = p.template put_own<double>(1);
    p.settle();
    auto const begin = std::chrono::steady_clock::now();
    p.comm().all_reduce(x.span());
    p.settle();
    if (p.me() == sleeper) std::this_thread::sleep_for(late);
    p.comm().barrier();
    auto const took = std::chrono::steady_clock::now() - begin;
    if (took < late)
      p.fail({"barrier", 0, -1, "returns when the last rank has come"}, "",
             "it took less than the " + std::to_string(late.count()) + " ms that member " +
                 std::to_string(sleeper) + " slept before");
  }
}

template <class Probe>
void expect_counted(Probe& p, traffic const& expected, std::size_t n) {
  for (int i = 0; i < collective_count; ++i) {
    auto const kind = static_cast<collective>(i);
    auto const& got = p.comm().counted();
    if (got.calls(kind) == expected.calls(kind) && got.bytes(kind) == expected.bytes(kind))
      continue;
    p.fail({to_string(kind), n, -1, "counted traffic"}, "float64",
           "expected " + std::to_string(expected.bytes(kind)) + " bytes in " +
               std::to_string(expected.calls(kind)) + " calls, got " +
               std::to_string(got.bytes(kind)) + " in " + std::to_string(got.calls(kind)));
  }
}

// What is counted, and what is written down in a log.
template <class Probe>
void check_records(Probe& p) {
  std::size_t const n = 5, vector = n * sizeof(double), whole = p.blocks() * vector;
  int const last = p.size() - 1;
  auto small = p.template put_own<double>(n), big = p.template put_own<double>(p.blocks() * n),
       other = p.template put_own<double>(p.blocks() * n);
  p.settle();
  auto& comm = p.comm();
  std::vector<plait::detail::logged_call> log, expected;
  traffic counted;
  auto const made = [&](collective kind, std::size_t bytes, int root = 0) {
    counted.record(kind, bytes, p.size());
    if (p.size() > 1)
      expected.push_back(
          {5, kind, plait::detail::element_type::of<double>(), reduction::sum, root, bytes});
  };
  comm.reset_counted();
  comm.log_calls(&log, 5);
  comm.all_reduce(small.span()), made(collective::all_reduce, vector);
  comm.all_gather(small.read_only(), big.span()), made(collective::all_gather, whole);
  comm.reduce_scatter(big.read_only(), small.span()), made(collective::reduce_scatter, whole);
  comm.all_to_all(big.read_only(), other.span()), made(collective::all_to_all, whole * p.blocks());
  comm.broadcast(small.span(), last), made(collective::broadcast, vector, last);
  comm.reduce(small.span(), last), made(collective::reduce, vector, last);
  comm.gather(small.read_only(), big.span(), 0), made(collective::gather, whole);
  comm.scatter(big.read_only(), small.span(), 0), made(collective::scatter, whole);
  if (last != 0 && p.me() == 0)
    comm.send(small.read_only(), last, 0), made(collective::send, vector, last);
  if (last != 0 && p.me() == last)
    comm.receive(small.span(), 0, 0), made(collective::receive, vector);
  comm.log_calls(nullptr, 0);
  comm.barrier(), counted.record(collective::barrier, 0, p.size());
  p.settle();
  expect_counted(p, counted, n);
  comm.reset_counted();
  expect_counted(p, {}, n);
  auto const same = [](auto const& a, auto const& b) {
    return a.group == b.group && a.kind == b.kind && a.element == b.element &&
           a.operation == b.operation && a.other == b.other && a.tensor_bytes == b.tensor_bytes;
  };
  auto const [got, wanted] = std::ranges::mismatch(log, expected, same);
  if (got != log.end() || wanted != expected.end())
    p.fail({"log_calls", n, -1, "calls are logged"}, "float64",
           "expected " + std::to_string(expected.size()) + " calls, got " +
               std::to_string(log.size()) + "; the first that differs is number " +
               std::to_string(got - log.begin()));
}

// Checks <A x, y> == <x, A^T y>, summed over the ranks. The values are small integers, so that no
// sum is rounded. `x` and `y` are what this rank has of them, without values where it has none.
template <class Probe, class Forward, class Backward>
void check_adjoint(Probe& p, char const* pair, std::vector<std::size_t> const& counts,
                   Forward forward, Backward backward) {
  auto const small = [&](std::size_t count, unsigned salt) {
    std::vector<double> out(count);
    for (std::size_t i = 0; i < count; ++i)
      out[i] = probe_value<std::uint8_t>(p.me(), i, p.salt + salt) % 17 - 8;
    return out;
  };
  auto const dot = [](std::vector<double> const& a, std::vector<double> const& b) {
    double sum = 0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) sum += a[i] * b[i];
    return sum;
  };
  auto const x_values = small(counts[0], 0), y_values = small(counts[1], 1);
  auto x = p.put(x_values), y = p.put(y_values);
  auto ax = p.template put_zeros<double>(counts[1]), aty = p.template put_zeros<double>(counts[0]);
  p.settle();
  forward(x, ax);
  backward(y, aty);
  auto sums = p.put(std::vector<double>{dot(ax.get(), y_values), dot(x_values, aty.get())});
  p.settle();
  p.comm().all_reduce(sums.span());
  auto const got = sums.get();
  if (got[0] != got[1])
    p.fail({pair, 7, -1, "are adjoint"}, "float64",
           "<A x, y> is " + value_text(got[0]) + ", <x, A^T y> is " + value_text(got[1]));
  p.salt += 2;
}

// The pairs of which the transition table makes gradients.
template <class Probe>
void check_adjoints(Probe& p) {
  auto& comm = p.comm();
  std::size_t const n = 7, all = 7 * p.blocks();
  int const last = p.size() - 1;
  std::size_t const root_all = p.me() == last ? all : 0, root_n = p.me() == last ? n : 0;
  auto const copy = [&](auto& from, auto& to) {
    if (to.span().size() != 0)
      p.rank.device()
          .on(stream_of(p.over))
          .copy_bytes(from.span().data(), to.span().data(), to.span().size_bytes());
  };
  check_adjoint(
      p, "all_gather and reduce_scatter", {n, all},
      [&](auto& x, auto& to) { comm.all_gather(x.read_only(), to.span()); },
      [&](auto& y, auto& to) { comm.reduce_scatter(y.read_only(), to.span()); });
  check_adjoint(
      p, "scatter and gather", {root_all, n},
      [&](auto& x, auto& to) { comm.scatter(x.read_only(), to.span(), last); },
      [&](auto& y, auto& to) { comm.gather(y.read_only(), to.span(), last); });
  auto const twice = [&](auto& from, auto& to) { comm.all_to_all(from.read_only(), to.span()); };
  check_adjoint(p, "all_to_all and all_to_all", {all, all}, twice, twice);
  check_adjoint(
      p, "broadcast and reduce", {root_n, n},
      [&](auto& x, auto& to) {
        if (p.me() == last) copy(x, to);
        comm.broadcast(to.span(), last);
      },
      [&](auto& y, auto& to) {
        comm.reduce(y.span(), last);
        if (p.me() == last) copy(y, to);
      });
  if (last == 0) return;
  std::size_t const at_first = p.me() == 0 ? n : 0;
  auto const message = [&](int from, int to) {
    return [&comm, &p, from, to](auto& out, auto& in) {
      if (p.me() == from) comm.send(out.read_only(), to, 1);
      if (p.me() == to) comm.receive(in.span(), from, 1);
    };
  };
  check_adjoint(p, "send and receive", {at_first, root_n}, message(0, last), message(last, 0));
}

// All groups of a rank in turn, with nothing in between that would let a slow rank catch up: each
// call has a slice of its own, and they are looked at when all have been made.
template <class Rank>
void check_groups_in_turn(Rank& rank, communicator_findings& findings, int rounds) {
  using probe = communicator_probe<Rank>;
  std::size_t const n = 3;
  struct slices {
    probe p;
    typename probe::template buffer<double> sums, sent, all;
  };
  int const at_once = std::min(rounds, 100);
  for (int begin = 0; begin < rounds; begin += at_once) {
    std::vector<slices> groups;
    for (auto const over : rank.groups().sets()) {
      probe const p{rank, over, findings, true, static_cast<unsigned>(begin)};
      std::size_t const count = n * static_cast<std::size_t>(at_once);
      groups.push_back({p, p.put(std::vector<double>(count, p.me() + begin)),
                        p.template put_own<double>(count),
                        p.template put_zeros<double>(count * p.blocks())});
    }
    rank.device().synchronize();
    for (int round = 0; round < at_once; ++round)
      for (auto& [p, sums, sent, all] : groups) {
        p.comm().all_reduce(sums.block(round, n));
        p.comm().all_gather(sent.block(round, n), all.block(round, n * p.blocks()));
      }
    for (auto& [p, sums, sent, all] : groups) {
      std::vector<double> gathered;
      for (int round = 0; round < at_once; ++round)
        for (double const value :
             probe_values_of_all<double>(p.size(), n, p.salt, n * static_cast<std::size_t>(round)))
          gathered.push_back(value);
      double const sum = p.size() * (p.size() - 1) / 2.0 + p.size() * double(begin);
      p.expect(sums, std::vector<double>(sums.span().size(), sum),
               {"all_reduce", n, -1, "groups in turn, many times"});
      p.expect(all, gathered, {"all_gather", n, -1, "groups in turn, many times"});
    }
  }
}

}  // namespace plait::testing::detail
