// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/placement/collective.hpp"
#include "plait/testing/communicator_probe.hpp"

// Laws that hold for all calls, and laws about several calls together. Each function makes the same
// calls on all ranks of a group and checks the results of its own rank.
namespace plait::testing::detail {

// Checks that rank() and size() equal this rank's place in its group of the mesh and the size of
// the group.
template <class Probe>
void check_membership(Probe& p) {
  auto const members = p.rank.grid().group_of(p.rank.world_rank(), p.over);
  auto const place = std::ranges::find(members, p.rank.world_rank()) - members.begin();
  if (p.size() != static_cast<int>(members.size()) || p.me() != static_cast<int>(place))
    p.fail({"rank() and size()", 0, -1, "equal to the rank and size in the mesh"}, "",
           ext::concat(
               {"expected ", place, " of ", members.size(), ", got ", p.me(), " of ", p.size()}));
}

// Checks that a barrier waits for a late rank, which sleeps before the barrier. Before the sleep,
// all ranks take part in another call. The ranks start their clocks before that call, so that the
// measured times always contain the sleep, even if ranks are delayed for other reasons.
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
      p.fail({"barrier", 0, -1, "returns only when the last rank has called it"}, "",
             ext::concat({"it took less than the ", late.count(), " ms that member ", sleeper,
                          " slept before"}));
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
           ext::concat({"expected ", expected.bytes(kind), " bytes in ", expected.calls(kind),
                        " calls, got ", got.bytes(kind), " in ", got.calls(kind)}));
  }
}

// Checks the traffic that the communicator counts, and its log of calls.
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
           ext::concat({"expected ", expected.size(), " calls, got ", log.size(),
                        "; the first that differs is number ", got - log.begin()}));
}

// Checks that <A x, y> == <x, A^T y>, summed over the ranks, where the calls are A (`forward`) and
// its transpose (`backward`). The values are small integers, so that no sum is rounded. `x` and `y`
// are this rank's parts; a part is empty if the rank has none.
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
    p.fail(
        {pair, 7, -1, "are adjoint"}, "float64",
        ext::concat({"<A x, y> is ", value_text(got[0]), ", <x, A^T y> is ", value_text(got[1])}));
  p.salt += 2;
}

// Checks that two calls are the transposes of each other if the transition table uses each as the
// gradient of the other.
template <class Probe>
void check_adjoints(Probe& p) {
  auto& comm = p.comm();
  std::size_t const n = 7, all = 7 * p.blocks();
  int const last = p.size() - 1;
  check_adjoint(
      p, "all_gather and reduce_scatter", {n, all},
      [&](auto& x, auto& to) { comm.all_gather(x.read_only(), to.span()); },
      [&](auto& y, auto& to) { comm.reduce_scatter(y.read_only(), to.span()); });
  auto const twice = [&](auto& from, auto& to) { comm.all_to_all(from.read_only(), to.span()); };
  check_adjoint(p, "all_to_all and all_to_all", {all, all}, twice, twice);
  if (last == 0) return;
  std::size_t const at_first = p.me() == 0 ? n : 0, at_last = p.me() == last ? n : 0;
  auto const message = [&](int from, int to) {
    return [&comm, &p, from, to](auto& out, auto& in) {
      if (p.me() == from) comm.send(out.read_only(), to, 1);
      if (p.me() == to) comm.receive(in.span(), from, 1);
    };
  };
  check_adjoint(p, "send and receive", {at_first, at_last}, message(0, last), message(last, 0));
}

// Makes calls on all groups of a rank in turn, without calls in between that would let a slow rank
// catch up. Each call has its own slice of the buffers, and the slices are checked after all calls.
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
