// SPDX-License-Identifier: Apache-2.0
// Programs that lack a wait must be reported in every order of execution, and correct programs
// never.
#include "plait/backend/simulated/race_error.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/simulated/simulated.hpp"

namespace {

namespace operation = plait::operation;
using plait::axis;
using plait::simulated;
using plait::ext::matrix;
using plait::ext::row_of;
using plait::ext::stream;
using plait::ext::wait_site;
using rank_type = simulated::rank_type;
using queue = plait::ext::simulated_queue;

constexpr std::size_t count = 16;

// The four streams of one rank, and a buffer of doubles.
struct bench {
  rank_type& rank;
  plait::ext::simulated_device::arena room = rank.device().allocate(8 * count * sizeof(double));

  [[nodiscard]] double* buffer(std::size_t number) const {
    return reinterpret_cast<double*>(room.data()) + number * count;
  }
  [[nodiscard]] queue on(stream which) const { return rank.device().on(which); }

  // Lets stream `waiting` wait for all operations that were issued on stream `awaited`.
  void wait(stream waiting, stream awaited, int site = 0) const {
    auto event = rank.device().make_event();
    rank.device().record(event, awaited);
    rank.device().wait(waiting, event, {wait_site::part::step, site});
  }
  void write(stream on_stream, std::size_t number) const {
    on(on_stream).fill(1.0, buffer(number), count);
  }
  void copy(stream on_stream, std::size_t from, std::size_t to) const {
    on(on_stream).copy_bytes(buffer(from), buffer(to), count * sizeof(double));
  }
};

// Returns the reports of a program's race under every seed; "" if it has none.
template <class Program>
std::vector<std::string> reports_of(int ranks, Program program,
                                    std::optional<wait_site> without = {}) {
  plait::ext::mesh grid;
  grid.add(axis::data, ranks);
  std::vector<std::string> out;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    simulated backend{.seed = seed, .without = without};
    if (seed == 0) backend.order = plait::ext::simulated_order::in_order;
    out.emplace_back();
    try {
      backend.run(grid, [&](rank_type& rank) {
        bench const with{rank};
        program(with);
        rank.device().synchronize();
      });
    } catch (plait::ext::race_error const& e) {
      out.back() = e.what();
    }
  }
  return out;
}

template <class Program>
void expect_race(int ranks, Program program, std::string const& expected,
                 std::optional<wait_site> without = {}) {
  for (auto const& text : reports_of(ranks, program, without)) EXPECT_EQ(text, expected);
}

template <class Program>
void expect_no_race(int ranks, Program program) {
  expect_race(ranks, program, "");
}

TEST(SimulatedRace, ReadBeforeTheWrite) {
  auto const program = [](bool waits) {
    return [=](bench const& with) {
      auto const outer = with.rank.device().mark("outer");
      {
        auto const inner = with.rank.device().mark("h.3.attn forward");
        with.write(stream::compute, 0);
      }
      if (waits) with.wait(stream::tensor, stream::compute);
      with.copy(stream::tensor, 0, 1);
    };
  };
  expect_no_race(1, program(true));
  expect_race(
      1, program(false),
      "race on rank 0, bytes [0, 128) of arena 0: fill (h.3.attn forward) on stream compute "
      "writes them, copy_bytes (outer) on stream tensor reads them, and nothing orders the "
      "two; stream tensor must wait for stream compute after this fill");
}

// Each operation of a loss reads the weights of rows.
TEST(SimulatedRace, WeightsReadBeforeTheWrite) {
  struct weigh {
    double operator()(double term, double weight) const { return term * weight; }
  };
  plait::ext::smoothed_target const smoothed{.on_label = 0.5, .on_each = 0.25};
  auto const program = [&](bool waits, int which) {
    return [=](bench const& with) {
      double* const weights = with.buffer(0);
      auto const q = with.on(stream::compute);
      for (std::size_t number = 1; number < 6; ++number) q.fill(1.0, with.buffer(number), count);
      auto* const labels = reinterpret_cast<std::int32_t*>(with.buffer(6));
      q.fill(std::int32_t{1}, labels, 2);
      with.write(stream::data, 0);
      if (waits) with.wait(stream::compute, stream::data);
      auto const read = [&](std::size_t number, std::size_t height, std::size_t columns) {
        return matrix<double const>{with.buffer(number), height, columns};
      };
      matrix<std::int32_t const> const of_labels{labels, 2, 1};
      auto const of_weights = row_of(static_cast<double const*>(weights), 2);
      if (which == 0)
        q.run(operation::cross_entropy_sum{}, read(1, 2, 3), of_labels, read(5, 1, 1), of_weights,
              row_of(with.buffer(2)), smoothed, -1);
      else if (which == 1)
        q.run(operation::cross_entropy_backward{}, read(1, 2, 2), of_labels, read(2, 2, 1),
              read(3, 2, 3), read(5, 1, 1), of_weights, matrix{with.buffer(4), 2, 2}, smoothed, -1,
              std::size_t{0});
      else
        q.run(operation::accumulate_columns{}, read(2, 2, 1), matrix<double const>{weights, 2, 1},
              row_of(with.buffer(1)), weigh{});
    };
  };
  char const* const names[] = {"cross_entropy_sum", "cross_entropy_backward", "accumulate_columns"};
  for (int operation = 0; operation < 3; ++operation) {
    expect_no_race(1, program(true, operation));
    std::string const name = names[operation];
    expect_race(1, program(false, operation),
                "race on rank 0, bytes [0, 16) of arena 0: fill on stream data writes them, " +
                    name +
                    " on stream compute reads them, and nothing orders the two; stream compute "
                    "must wait for stream data after this fill");
  }
}

struct sum_at_places {
  double operator()(plait::ext::element_place const& at, auto a, auto b) const {
    return a[at.column] + b[at.column];
  }
};
struct add_three {
  double operator()(double a, double b, double c) const { return a + b + c; }
};

// Covers each view that an operation of elements reads, and the view that it writes.
TEST(SimulatedRace, ViewsOfElementsBeforeTheWrite) {
  // Another stream writes operand `late`; operand 2 is a row for all rows in map_at.
  auto const program = [](bool waits, std::size_t late, bool at_places) {
    return [=](bench const& with) {
      auto const q = with.on(stream::compute);
      for (std::size_t number = 1; number < 4; ++number)
        if (number != late) q.fill(1.0, with.buffer(number), count);
      with.write(stream::data, late);
      if (waits) with.wait(stream::compute, stream::data);
      auto const read = [&](std::size_t number) {
        return row_of(static_cast<double const*>(with.buffer(number)), 4);
      };
      if (at_places)
        q.run(operation::map_at{}, sum_at_places{}, plait::ext::element_block{4, 4, 1, 0, 0, 0},
              matrix{with.buffer(3), 4, 4},
              plait::ext::element_operand<double>{with.buffer(1), 16, 4, 0, 1},
              plait::ext::element_operand<double>{with.buffer(2), 4, 4, 0, 4});
      else
        q.run(operation::map{}, add_three{}, row_of(with.buffer(3), 4), read(1), read(1), read(2));
    };
  };
  for (bool const at_places : {false, true})
    for (std::size_t late = 1; late < 4; ++late) {
      expect_no_race(1, program(true, late, at_places));
      std::string const name = at_places ? "map_at" : "map";
      std::size_t const begin = late * 128;
      std::size_t const bytes = at_places && late != 2 ? 128 : 32;
      expect_race(1, program(false, late, at_places),
                  "race on rank 0, bytes [" + std::to_string(begin) + ", " +
                      std::to_string(begin + bytes) + ") of arena 0: fill on stream data writes " +
                      "them, " + name + " on stream compute " + (late == 3 ? "writes" : "reads") +
                      " them, and nothing orders the two; stream compute must wait for stream "
                      "data after this fill");
    }
}

TEST(SimulatedRace, OverwrittenBeforeTheRead) {
  auto const program = [](bool waits) {
    return [=](bench const& with) {
      with.write(stream::compute, 2);
      with.wait(stream::stage, stream::compute, 1);
      with.copy(stream::stage, 2, 3);
      if (waits) with.wait(stream::compute, stream::stage);
      with.write(stream::compute, 2);
    };
  };
  expect_no_race(1, program(true));
  expect_race(1, program(false),
              "race on rank 0, bytes [256, 384) of arena 0: copy_bytes on stream stage reads them, "
              "fill on stream compute writes them, and nothing orders the two; stream compute must "
              "wait for stream stage after this copy_bytes");
}

TEST(SimulatedRace, WrittenByTwo) {
  expect_race(
      1,
      [](bench const& with) {
        with.write(stream::compute, 0);
        with.write(stream::data, 0);
      },
      "race on rank 0, bytes [0, 128) of arena 0: fill on stream compute writes them, fill "
      "on stream data writes them, and nothing orders the two; stream data must wait for "
      "stream compute after this fill");
}

TEST(SimulatedRace, OnlyCommonBytesCount) {
  expect_no_race(1, [](bench const& with) {
    with.on(stream::compute).fill(1.0, with.buffer(0), 7);
    with.on(stream::data).fill(1.0, with.buffer(0) + 7, 9);
  });
  expect_race(
      1,
      [](bench const& with) {
        with.on(stream::compute).fill(1.0, with.buffer(0), 8);
        with.on(stream::data).fill(1.0, with.buffer(0) + 7, 9);
      },
      "race on rank 0, bytes [56, 64) of arena 0: fill on stream compute writes them, fill "
      "on stream data writes them, and nothing orders the two; stream data must wait for "
      "stream compute after this fill");
}

TEST(SimulatedRace, ColumnsOfOneMatrixAreApart) {
  auto const program = [](std::size_t second) {
    return [=](bench const& with) {  // (8, 8) in buffers 0 to 3, its columns from two streams
      with.on(stream::compute).fill(1.0, with.buffer(4), 4 * count);
      with.wait(stream::data, stream::compute);
      with.on(stream::compute).copy_blocks<double>(with.buffer(4), 4, with.buffer(0), 8, 8, 4);
      with.on(stream::data)
          .copy_blocks<double>(with.buffer(4), 4, with.buffer(0) + second, 8, 8, 4);
    };
  };
  expect_no_race(1, program(4));
  for (auto const& text : reports_of(1, program(3)))
    EXPECT_NE(text.find("bytes [24, 32) of arena 0"), std::string::npos) << text;
}

TEST(SimulatedRace, EventsMeanTheRecordAtTheTimeOfTheWait) {
  auto const program = [](bool late) {
    return [=](bench const& with) {
      auto event = with.rank.device().make_event();
      wait_site const site{wait_site::part::step};
      // The event was never recorded, so the wait has no effect.
      with.rank.device().wait(stream::data, event, site);
      if (!late) with.write(stream::compute, 0);
      with.rank.device().record(event, stream::compute);
      with.rank.device().wait(stream::data, event, site);
      if (late) with.write(stream::compute, 0);
      with.rank.device().record(event, stream::compute);  // too late for the wait above
      with.write(stream::data, 0);
    };
  };
  expect_no_race(1, program(false));
  EXPECT_NE(reports_of(1, program(true)).front(), "");
}

TEST(SimulatedRace, OrderGoesThroughOtherStreams) {
  expect_no_race(1, [](bench const& with) {
    with.write(stream::compute, 0);
    with.wait(stream::tensor, stream::compute);
    with.wait(stream::stage, stream::tensor);
    with.copy(stream::stage, 0, 1);
  });
}

TEST(SimulatedRace, SynchronizeOrdersAll) {
  expect_no_race(2, [](bench const& with) {
    with.write(stream::compute, 0);
    with.rank.device().synchronize();
    with.copy(stream::tensor, 0, 1);
    with.rank.device().synchronize();
    with.write(stream::data, 0);
    with.write(stream::compute, 1);
  });
}

// --- collectives ------------------------------------------------------------------------------

auto step_with_all_reduce(std::optional<stream> missing) {
  return [=](bench const& with) {
    with.write(stream::compute, 0);
    if (missing != stream::data) with.wait(stream::data, stream::compute, 1);
    with.rank.group(axis::data).all_reduce(std::span<double>(with.buffer(0), count));
    if (missing != stream::compute) with.wait(stream::compute, stream::data, 2);
    with.copy(stream::compute, 0, 1);
  };
}

TEST(SimulatedRace, CollectiveWithoutWaits) {
  expect_no_race(3, step_with_all_reduce({}));
  for (auto const missing : {stream::data, stream::compute})
    for (auto const& text : reports_of(3, step_with_all_reduce(missing)))
      EXPECT_NE(text.find("all_reduce on stream data"), std::string::npos) << text;
}

TEST(SimulatedRace, LeavesOutTheWaitsOfASite) {
  for (int site : {1, 2}) {
    wait_site const without{wait_site::part::step, site};
    for (auto const& text : reports_of(3, step_with_all_reduce({}), without))
      EXPECT_NE(text.find("(left out: " + to_string(without) + ")"), std::string::npos) << text;
  }
  wait_site const elsewhere{wait_site::part::step, 3};
  expect_race(3, step_with_all_reduce({}), "", elsewhere);
}

TEST(SimulatedRace, CrossMakesBothWaits) {
  auto const program = [](bench const& with) {
    with.write(stream::compute, 0);
    with.rank.wait_across(stream::data, {wait_site::part::step, 1, 6}, [&] {
      with.rank.group(axis::data).all_reduce(std::span<double>(with.buffer(0), count));
    });
    with.copy(stream::compute, 0, 1);
  };
  expect_no_race(2, program);
  EXPECT_NE(reports_of(2, program, wait_site{wait_site::part::step, 1, 6}).front(), "");
  EXPECT_NE(reports_of(2, program, wait_site{wait_site::part::step, 1, 7}).front(), "");
}

TEST(SimulatedRace, MessagesThereAndBack) {
  expect_no_race(2, [](bench const& with) {
    auto& data = with.rank.group(axis::data);
    std::span<double> const message(with.buffer(1), count);
    if (with.rank.world_rank() == 0) {
      with.write(stream::tensor, 0);
      with.write(stream::tensor, 1);
      with.wait(stream::data, stream::tensor);
      data.send(message, 1, 0);
      // The stream receives the answer, after which compute may write.
      data.receive(message, 1, 0);
      with.wait(stream::compute, stream::data);
      with.write(stream::compute, 0);
    } else {
      data.receive(message, 0, 0);
      data.send(message, 0, 0);
    }
  });
}

TEST(SimulatedRace, OrderGoesThroughOtherRanks) {
  // Uses ranks on two axes in a ring around the square: stream data from rank 0 to rank 1, stream
  // tensor from rank 1 to rank 3, stream data from rank 3 to rank 2, stream tensor from rank 2 to
  // rank 0.
  plait::ext::mesh grid;
  grid.add(axis::tensor, 2);
  grid.add(axis::data, 2);
  auto const run = [&](std::uint64_t seed, bool closed, std::size_t written, bool back = false) {
    simulated{.seed = seed}.run(grid, [&](rank_type& rank) {
      bench const with{rank};
      with.on(stream::compute).fill(1.0, with.buffer(0), 8 * count);
      rank.device().synchronize();
      auto const message = [&](std::size_t n) { return std::span<double>(with.buffer(n), count); };
      auto& data = rank.group(axis::data);
      auto& tensor = rank.group(axis::tensor);
      switch (rank.world_rank()) {
        case 0:
          with.write(stream::data, 0);
          if (back) data.receive(message(3), 1, 0);
          else data.send(message(1), 1, 0);
          tensor.receive(message(2), 1, 0);
          with.write(stream::tensor, written);
          break;
        case 1:
          if (back) data.send(message(1), 0, 0);
          else data.receive(message(1), 0, 0);
          if (closed) with.wait(stream::tensor, stream::data);
          tensor.send(message(2), 1, 0);
          break;
        case 3:
          tensor.receive(message(1), 0, 0);
          with.wait(stream::data, stream::tensor);
          data.send(message(2), 0, 0);
          break;
        default:
          data.receive(message(1), 1, 0);
          with.wait(stream::tensor, stream::data);
          tensor.send(message(2), 0, 0);
      }
      rank.device().synchronize();
    });
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_NO_THROW(run(seed, true, 0));
    // A message that was received waited for the receiver.
    EXPECT_NO_THROW(run(seed, true, 0, true));
    EXPECT_THROW(run(seed, false, 0), plait::ext::race_error);
    // The arrival of a message does not imply that the operation of its sender has ended.
    EXPECT_THROW(run(seed, true, 1), plait::ext::race_error);
  }
}

// --- undefined values -------------------------------------------------------------------------

TEST(SimulatedRace, ReadsOfUnwrittenMemory) {
  expect_race(
      1, [](bench const& with) { with.copy(stream::data, 0, 1); },
      "undefined values on rank 0, bytes [0, 128) of arena 0: copy_bytes on stream data reads "
      "bytes that were never written");
  expect_race(
      1,
      [](bench const& with) {
        with.write(stream::compute, 0);
        with.on(stream::compute).discard(with.buffer(0) + 1, sizeof(double));
        with.copy(stream::compute, 0, 1);
      },
      "undefined values on rank 0, bytes [8, 16) of arena 0: copy_bytes on stream compute reads "
      "bytes that were never written");
  expect_race(
      2,
      [](bench const& with) {
        if (with.rank.world_rank() == 1) with.write(stream::data, 0);
        with.rank.group(axis::data).all_reduce(std::span<double>(with.buffer(0), count));
        with.copy(stream::data, 0, 1);
      },
      "undefined values on rank 0, bytes [0, 128) of arena 0: all_reduce on stream data reads "
      "bytes that were never written");
}

// A reader should have waited for the writer after a discard.
TEST(SimulatedRace, NamesTheWriterAndNotTheDiscard) {
  auto const program = [](bool writes) {
    return [=](bench const& with) {
      with.write(stream::compute, 0);
      with.rank.device().synchronize();
      with.on(stream::compute).discard(with.buffer(0), count * sizeof(double));
      if (writes) with.write(stream::compute, 0);
      with.copy(stream::tensor, 0, 1);
    };
  };
  expect_race(1, program(true),
              "race on rank 0, bytes [0, 128) of arena 0: fill on stream compute writes them, "
              "copy_bytes on stream tensor reads them, and nothing orders the two; stream tensor "
              "must wait for stream compute after this fill");
  for (auto const& text : reports_of(1, program(false))) EXPECT_NE(text, "");
}

TEST(SimulatedRace, DiscardedBeforeTheRead) {
  expect_race(
      1,
      [](bench const& with) {
        with.write(stream::tensor, 0);
        with.copy(stream::tensor, 0, 1);
        with.wait(stream::compute, stream::tensor);
        with.copy(stream::tensor, 0, 2);
        with.on(stream::compute).discard(with.buffer(0), count * sizeof(double));
      },
      "race on rank 0, bytes [0, 128) of arena 0: copy_bytes on stream tensor reads them, "
      "discard on stream compute writes them, and nothing orders the two; stream compute "
      "must wait for stream tensor after this copy_bytes");
}

// A list of ranges is only read if it is defined.
TEST(SimulatedRace, UndefinedRangesAreNotFollowed) {
  expect_race(
      1,
      [](bench const& with) {
        with.write(stream::compute, 0);
        with.on(stream::compute)
            .sums_of_squares(with.buffer(0),
                             reinterpret_cast<plait::ext::squares_range const*>(with.buffer(1)), 1,
                             with.buffer(3));
      },
      "undefined values on rank 0, bytes [128, 152) of arena 0: sums_of_squares on stream compute "
      "reads bytes that were never written");
}

// --- random programs --------------------------------------------------------------------------

// plan_waits() lists the waits that a program needs. With all of them no operations race; without
// any one of them two operations do.
TEST(SimulatedRace, AgreesWithThePlanOfWaits) {
  int left_out = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    auto const below = [&](int n) { return int(random() % unsigned(n)); };
    plait::ext::lean_vector<plait::ext::stream_operation> program;
    for (int i = 0; i < 14; ++i)
      program.push_back({static_cast<stream>(below(4)), {below(6), below(6)}, {below(6)}});
    auto const waits = plait::ext::plan_waits(program);
    auto const run = [&](std::size_t missing) {
      plait::ext::mesh grid;
      grid.add(axis::data, 1);
      simulated{.seed = seed}.run(grid, [&](rank_type& rank) {
        bench const with{rank};
        with.on(stream::compute).fill(1.0, with.buffer(0), 6 * count);
        rank.device().synchronize();
        std::vector<plait::ext::simulated_device::event> events(program.size());
        for (std::size_t i = 0; i < program.size(); ++i) {
          for (std::size_t w = 0; w < waits.size(); ++w)
            if (waits[w].waiting == int(i) && w != missing)
              rank.device().wait(program[i].on, events[std::size_t(waits[w].awaited)], {});
          with.on(program[i].on)
              .add(with.buffer(std::size_t(program[i].reads[0])),
                   with.buffer(std::size_t(program[i].reads[1])),
                   with.buffer(std::size_t(program[i].writes[0])), count);
          rank.device().record(events[i], program[i].on);
        }
        rank.device().synchronize();
      });
    };
    EXPECT_NO_THROW(run(waits.size())) << "seed " << seed;
    for (std::size_t w = 0; w < waits.size(); ++w, ++left_out)
      EXPECT_THROW(run(w), plait::ext::race_error) << "seed " << seed << ", wait " << w;
  }
  EXPECT_GT(left_out, 300);
}

// A row that declares its result as an operand that it only reads.
struct lying_add : operation::add {
  static constexpr operation::row is{"lying_add", "a(r c), b(r c), out(r c) ->"};
};
TEST(SimulatedRace, RolesThatAreNotTrue) {
  auto const sum = [](auto row) {
    return [=](bench const& with) {
      auto const q = with.on(stream::compute);
      for (std::size_t number = 0; number < 2; ++number) q.fill(1.0, with.buffer(number), count);
      auto const read = [&](std::size_t number) {
        return matrix<double const>{with.buffer(number), 1, count};
      };
      q.run(row, read(0), read(1), matrix<double>{with.buffer(2), 1, count});
      with.copy(stream::compute, 2, 3);
    };
  };
  expect_no_race(1, sum(operation::add{}));
  expect_race(1, sum(lying_add{}),
              "undefined values on rank 0, bytes [256, 384) of arena 0: lying_add on stream "
              "compute reads bytes that were never written");
}

// A row declares whether a result may be in the memory of an operand.
TEST(SimulatedRace, ResultsOverOperands) {
  auto const run = [](auto put) {
    plait::ext::mesh grid;
    grid.add(axis::data, 1);
    simulated{}.run(grid, [&](rank_type& rank) {
      bench const with{rank};
      auto const q = with.on(stream::compute);
      q.fill(1.0, with.buffer(0), count);
      put(q, matrix<double const>{with.buffer(0), 2, 2}, matrix<double>{with.buffer(0), 2, 2});
      rank.device().synchronize();
    });
  };
  run([](auto q, auto x, auto over_x) { q.run(operation::add{}, x, x, over_x); });
  try {
    run([](auto q, auto x, auto over_x) {
      q.run(operation::matmul{}, x, x, over_x, plait::ext::transposes{}, false);
    });
    FAIL() << "a product over its operand";
  } catch (plait::input_error const& e) {
    EXPECT_NE(std::string(e.what()).find("rank 0: matmul writes its result over an operand"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
