// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/testing/communicator_probe.hpp"
#include "plait/testing/report.hpp"

namespace plait::testing {
namespace detail {

enum class mistake {
  kind,
  size,
  element,
  operation,
  root,
  trainer,
  trainer_of_message,
  axes,
  blocks_of_one_rank,
  tag,
  size_of_message,
  element_of_message,
  blocks,
  equal_blocks,
  other_buffer,
  root_outside,
  message_to_itself
};

enum class thrown_type { collective_mismatch, size_mismatch, input_error };

// A mistake in the calls of a communicator, the type of the exception that the mistake must cause,
// and words that the text of the exception must contain.
struct communicator_error {
  mistake which;
  char const* name;
  thrown_type type;
  std::array<char const*, 2> words;
  // True if the mistake is found only by a backend whose ranks compare their calls. Any other
  // mistake is found by each rank alone.
  bool compared = false;
};

inline constexpr auto different = thrown_type::collective_mismatch;
inline constexpr communicator_error communicator_errors[] = {
    {mistake::kind, "another kind", different, {"all_reduce", "all_gather"}, true},
    {mistake::size, "another n", different, {"16 bytes", "20 bytes"}, true},
    {mistake::element, "another element type", different, {"float32", "int32"}, true},
    {mistake::operation, "another operation", different, {"sum", "max"}, true},
    {mistake::root, "another root", different, {"from rank 0", "from rank 1"}, true},
    {mistake::trainer, "another trainer", different, {"trainer 1", "trainer 2"}, true},
    {mistake::trainer_of_message,
     "a message for another trainer",
     different,
     {"trainer 1", "trainer 2"},
     true},
    {mistake::axes, "other axes, equal members", different, {"rank", "all_reduce of 16"}, true},
    {mistake::tag, "a message with another tag", different, {"tag 7", "tag 8"}, true},
    {mistake::size_of_message,
     "a message of another size",
     different,
     {"send of 16 bytes", "receive of 12 bytes"},
     true},
    {mistake::element_of_message,
     "a message of another element type",
     different,
     {"float32", "int32"},
     true},
    {mistake::blocks_of_one_rank,
     "wrong blocks on one rank",
     thrown_type::size_mismatch,
     {"all_gather", "16 bytes"},
     true},
    {mistake::blocks,
     "wrong blocks on all ranks",
     thrown_type::size_mismatch,
     {"reduce_scatter", "16 bytes"}},
    {mistake::equal_blocks, "no equal blocks", thrown_type::size_mismatch, {"all_to_all", "equal"}},
    {mistake::other_buffer,
     "buffers of two sizes",
     thrown_type::size_mismatch,
     {"send has", "receive has"}},
    {mistake::root_outside, "a root out of range", thrown_type::input_error, {"broadcast", "root"}},
    {mistake::message_to_itself,
     "a message to itself",
     thrown_type::input_error,
     {"send of 16 bytes", "rank "}},
};

bool is_message(mistake which);

// Two axes over which groups have the same members as the groups over axis::data.
inline constexpr axis_set other_axes = axis::data | axis::tensor;

// Compares an exception that was thrown with the exception that the mistake must cause. Returns a
// text that describes the difference, or an empty text if they agree.
[[gnu::cold]] std::string fault_of(communicator_error const& expected,
                                   std::exception const& thrown);

// Makes the call of this rank for mistake `which`, in which the calls of the ranks contradict each
// other. `other` is true on the rank whose call differs from the calls of the others.
template <class Rank, class Comm>
void make_mistake(mistake which, Rank& rank, Comm& comm, std::span<float> x, std::span<float> all,
                  std::span<std::int32_t> y) {
  bool const other = comm.rank() == (is_message(which) ? 1 : comm.size() - 1);
  auto const p = static_cast<std::size_t>(comm.size());
  auto const four = x.first(4);
  auto const pass = [&](auto mine, int tag) {  // sends a message from rank 0 to rank 1
    if (other) comm.receive(mine, 0, tag);
    else comm.send(mine, 1, tag);
  };
  auto const calls =
      rank.calls_for(which != mistake::trainer && which != mistake::trainer_of_message ? 0u
                     : other                                                           ? 2u
                                                                                       : 1u);
  switch (which) {
    case mistake::kind:
      if (other) return comm.all_gather(four, all.first(4 * p));
      return comm.all_reduce(four);
    case mistake::size: return comm.all_reduce(x.first(other ? 5 : 4));
    case mistake::element:
      if (other) return comm.broadcast(y.first(4), 0);
      return comm.broadcast(four, 0);
    case mistake::operation: return comm.all_reduce(four, other ? reduction::max : reduction::sum);
    case mistake::root: return comm.broadcast(four, other ? 1 : 0);
    case mistake::axes:
      return other ? rank.group(other_axes).all_reduce(four) : comm.all_reduce(four);
    case mistake::trainer: return comm.all_reduce(four);
    case mistake::trainer_of_message: return pass(four, 7);
    case mistake::tag: return pass(four, other ? 8 : 7);
    case mistake::size_of_message: return pass(x.first(other ? 3 : 4), 7);
    case mistake::element_of_message: return other ? pass(y.first(4), 7) : pass(four, 7);
    case mistake::blocks_of_one_rank:
      return comm.all_gather(four, all.first(4 * p - (other ? 1 : 0)));
    case mistake::blocks: return comm.reduce_scatter(all.first(4 * p + 1), four);
    case mistake::equal_blocks: return comm.all_to_all(x.first(p + 1), all.first(p + 1));
    case mistake::other_buffer: return comm.all_to_all(x.first(p), all.first(2 * p));
    case mistake::root_outside: return comm.broadcast(four, comm.size());
    case mistake::message_to_itself: return comm.send(four, comm.rank(), 7);
  }
}

// The findings of this process's ranks about a mistake, and how many ranks took part and got an
// exception.
struct mistake_witness {
  communicator_findings findings;
  std::atomic<int> took_part = 0, were_told = 0;
};

// Makes those calls of a mistake that this rank has to make. The exception that the calls throw
// ends the job.
template <class Rank>
void check_mistake(Rank& rank, communicator_error const& expected, mistake_witness& witness) {
  communicator_probe<Rank> p{rank, axis::data, witness.findings};
  auto x = p.template put_own<float>(p.blocks() + 5);
  auto all = p.template put_own<float>(4 * p.blocks() + 1);
  auto y = p.template put_own<std::int32_t>(4);
  p.settle();
  if (is_message(expected.which) && p.me() > 1) return;
  ++witness.took_part;
  auto const fail = [&](std::string const& text) {
    auto const law = std::string("error: ") + expected.name;
    witness.findings.add(rank.world_rank(), law,
                         ext::concat({"rank ", rank.world_rank(), ": ", law, ": ", text}));
  };
  try {
    make_mistake(expected.which, rank, p.comm(), x.span(), all.span(), y.span());
    p.settle();
  } catch (job_aborted const&) {  // another rank got its exception first
    throw;
  } catch (std::exception const& thrown) {
    ++witness.were_told;
    auto const fault = fault_of(expected, thrown);
    if (!fault.empty()) fail(fault);
    throw;
  }
  fail("the rank continued without an error");
}

}  // namespace detail

/// The number of mistakes that `check_communicator_error` can make. They are numbered from 0.
inline constexpr int communicator_error_count =
    static_cast<int>(sizeof(detail::communicator_errors) / sizeof(detail::communicator_errors[0]));

namespace detail {

communicator_error const& communicator_error_at(int which);

}  // namespace detail

/// True if mistake `which` is found only by a backend whose ranks compare their calls.
[[nodiscard]] inline bool communicator_error_is_compared(int which) {
  return detail::communicator_error_at(which).compared;
}
/// True if mistake `which` is found only by a backend that compares the calls of two groups with
/// equal members.
[[nodiscard]] inline bool communicator_error_is_of_equal_groups(int which) {
  return detail::communicator_error_at(which).which == detail::mistake::axes;
}

/// Makes the ranks of a launch commit mistake `which`. Each rank that takes part must get an
/// exception of the right type whose text names both calls, and `backend.run` must throw this
/// exception. `ranks`: the number of ranks that the launcher has started.
///
/// Errors:  input_error if there is no such mistake, or for fewer than two ranks.
template <class Backend>
[[nodiscard]] check_report check_communicator_error(Backend const& backend, int which,
                                                    int ranks = 2) {
  auto const& expected = detail::communicator_error_at(which);
  if (ranks < 2)
    throw input_error(
        {"check_communicator_error: at least 2 ranks are needed, and there are ", ranks});
  check_report report;
  report.checked.push_back(std::string("error: ") + expected.name);
  detail::mistake_witness witness;
  mesh grid;
  grid.add(axis::data, ranks);
  auto const failed = [&](std::string const& text) {
    report.failures.push_back(ext::concat({"error: ", expected.name, ": ", text}));
  };
  try {
    backend.run(mesh_groups(grid, {axis::data, detail::other_axes}),
                [&](auto& rank) { detail::check_mistake(rank, expected, witness); });
    if (witness.took_part > 0) failed("the run ended without an error");
  } catch (std::exception const& thrown) {
    // If no rank of this process got an exception, this process may end in the same way as after a
    // failure of a rank in another process.
    bool const aborted = dynamic_cast<job_aborted const*>(&thrown) != nullptr;
    auto const fault = detail::fault_of(expected, thrown);
    if (!fault.empty() && !(aborted && witness.were_told == 0))
      failed(ext::concat({"the run threw: ", fault}));
  }
  witness.findings.move_to(report);
  return report;
}

}  // namespace plait::testing

#if PLAIT_HEADER_ONLY
#include "plait/testing/communicator_errors.ipp"
#endif
