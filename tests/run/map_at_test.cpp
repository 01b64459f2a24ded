// SPDX-License-Identifier: Apache-2.0
// Tests ops.map_at: a user's own rotary positions, and the place of an element in the whole value.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "run/own_rotary.hpp"
#include "testing/near_double.hpp"

namespace map_at_testing {

namespace dim = plait::dim;

template <class L, class Element>
void expect_laws() {
  auto const report = check_in_type<L, Element>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_GE(report.checked.size(), 4u);
}

TEST(MapAt, RotaryPositionsOfAUserKeepTheLaws) {
  using rotary = own_rotary::rotary<12, 4, 12>;
  expect_laws<rotary, double>();
  expect_laws<rotary, float>();
  expect_laws<rotary, plait::precision<plait::bfloat16, float>>();
}

// Reads its own row, a row for each position and a row for all, and writes its place.
template <std::size_t Width, std::size_t Sequence>
struct places {
  using concept_tag = plait::layer_tag;
  using bias = plait::parameter<"bias", plait::extents<Width>, plait::normal(1.0)>;
  using parameters = plait::parameter_list<bias>;
  using input = plait::features<Width>;
  using output = input;
  using table = plait::slot<"table", 0, 2 * Sequence>;
  using scratch = plait::scratch<table>;
  using forms =
      plait::forms<plait::whole,
                   plait::form<"features", plait::shard<dim::features>, plait::shard<dim::features>,
                               plait::split<bias, 0>, plait::use<table, plait::replicate>>,
                   plait::by_sequence<>>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr plait::aliasing may_alias{.forward = true, .backward = true};

  struct of_position {
    PLAIT_HOST_DEVICE double operator()(plait::ext::element_place const& at) const {
      return 1 + double(at.position) + 0.5 * double(at.column);
    }
  };
  struct of_element {
    static constexpr std::size_t block = 1;
    PLAIT_HOST_DEVICE double operator()(plait::ext::element_place const& at, auto x, auto table,
                                        auto bias) const {
      return x[at.column] * table[1] + table[0] + bias[at.column] + 0.01 * double(at.column) +
             0.1 * double(at.sample);
    }
  };
  struct of_gradient {
    static constexpr std::size_t block = 1;
    PLAIT_HOST_DEVICE double operator()(plait::ext::element_place const& at, auto table,
                                        auto dy) const {
      return table[1] * dy[at.column];
    }
  };
  static auto filled(auto& ops, auto const& x, auto table) {
    table.rows = ops.positions(x);
    table.columns = 2;
    ops.map_at(of_position{}, table);
    return table;
  }
  static void forward(auto& ops, auto l) {
    ops.map_at(of_element{}, l.y, l.x, filled(ops, l.x, l.scratch[table{}]), l.p[bias{}]);
  }
  static void backward_input(auto& ops, auto l) {
    ops.map_at(of_gradient{}, l.dx, filled(ops, l.dy, l.scratch[table{}]), l.dy);
  }
  static void backward_parameters(auto& ops, auto l) {
    ops.accumulate_column_sums(l.dy, l.dp[bias{}]);
  }
};

TEST(MapAt, EveryFormHasThePlacesOfTheWhole) {
  expect_laws<places<12, 12>, double>();
  expect_laws<places<12, 12>, float>();
  expect_laws<places<12, 12>, plait::precision<plait::bfloat16, float>>();
}

// Calls operations by hand: a view of one row, of a row for each position, and of all rows.
struct bench {
  plait::ext::layer_context context{};
  std::vector<double> y = std::vector<double>(2 * 3 * 4);
  template <class Body>
  std::string run(Body body) {
    std::string said;
    plait::threads{}.run(plait::ext::mesh{}, [&](auto& rank) {
      context.batch = 3;
      context.sequence = 2;
      context.first_sample = 30;
      plait::ext::operations<plait::threads::rank_type> ops(rank, context, 0, "here forward");
      try {
        body(ops, plait::view<double>{y.data(), 6, 4});
      } catch (plait::size_mismatch const& error) {
        said = error.what();
      }
    });
    return said;
  }
};

struct number {
  PLAIT_HOST_DEVICE double operator()(plait::ext::element_place const& at) const {
    return double(1000 * at.sample + 100 * at.position + 10 * at.row + at.column);
  }
};
struct three_rows {
  PLAIT_HOST_DEVICE double operator()(plait::ext::element_place const& at, auto all, auto position,
                                      auto one) const {
    return all[at.column] + 10 * position[0] + 100 * one[1];
  }
};
struct same {
  PLAIT_HOST_DEVICE double operator()(plait::ext::element_place const& at, auto x) const {
    return x[at.column];
  }
};

TEST(MapAt, KnowsSamplePositionRowAndColumn) {
  bench with;
  EXPECT_EQ(with.run([](auto& ops, auto y) { ops.map_at(number{}, y); }), "");
  for (std::size_t row = 0; row < 6; ++row)
    for (std::size_t column = 0; column < 4; ++column)
      EXPECT_EQ(with.y[row * 4 + column],
                double(1000 * (30 + row % 3) + 100 * (row / 3) + 10 * row + column));
}

TEST(MapAt, ReadsRowsOfThreeKinds) {
  bench with;
  std::vector<double> all(24), position{1, 2}, one{5, 6};
  for (std::size_t i = 0; i < 24; ++i) all[i] = 0.125 * double(i);
  EXPECT_EQ(with.run([&](auto& ops, auto y) {
    ops.map_at(three_rows{}, y, plait::view<double const>{all.data(), 6, 4},
               plait::view<double const>{position.data(), 2, 1},
               plait::view<double const>{one.data(), 1, 2});
  }),
            "");
  for (std::size_t i = 0; i < 24; ++i)
    EXPECT_EQ(with.y[i], all[i] + 10 * position[i / 12] + 100 * one[1]);
}

TEST(MapAt, WrongShapesAreSentences) {
  bench with;
  std::vector<double> x(24);
  EXPECT_EQ(with.run([&](auto& ops, auto y) {
    ops.map_at(same{}, y, plait::view<double const>{x.data(), 5, 4});
  }),
            "ops.map_at in layer here forward: a view is 5 x 4, a sequence is 6 x 4: a view must "
            "have a row for each row of activations, a row for each position, or one row for all");
  EXPECT_EQ(with.run([&](auto& ops, auto y) {
    y.rows = 2;
    ops.map_at(same{}, y, plait::view<double const>{x.data(), 6, 4});
  }),
            "ops.map_at in layer here forward: a view is 6 x 4, y is 2 x 4: y has one row for each "
            "position, but a view has more");
  EXPECT_NE(with.run([&](auto& ops, auto y) { ops.map_at(same{}, y, y); })
                .find("y must not be the buffer of a view"),
            std::string::npos);
  EXPECT_NE(with.run([&](auto& ops, auto y) {
                  plait::view<double, plait::shard<1>> const cut{y.data, 6, 3};
                  ops.map_at(own_rotary::turned<4>{1}, cut,
                             plait::view<double const, plait::shard<1>>{x.data(), 6, 3});
                })
                .find("this rank's columns must be whole blocks"),
            std::string::npos);
}

// Trains on threads and on the simulated device, in its orders of execution, also with ready-made
// layers that read rows.
using ready_made = plait::sequential<plait::nn::rms_norm<16>, plait::nn::rotary<16, 4, 8>,
                                     plait::fan_out<plait::nn::silu<16>, plait::nn::relu<16>,
                                                    plait::nn::scale<16, plait::fraction(0.5)>>,
                                     plait::nn::sum<16, 3>>;
struct job
    : plait::parallel<plait::objective<plait::sequential<plait::nn::embedding<256, 16>,
                                                         own_rotary::rotary<4, 4, 8>, places<16, 8>,
                                                         ready_made, plait::nn::linear<16, 256>>,
                                       plait::nn::cross_entropy<256>>,
                      plait::hybrid<plait::data_parallel<2>, plait::tensor_parallel<2>>, double> {};

template <class Backend>
std::vector<double> train(Backend const& backend) {
  auto const data = plait::byte_text::from_text(
      "abcdefabcfedcbafabcdefabcabdefcafebadecafbadcafeabcdefabcdefabcfedcba", 8);
  std::vector<double> losses;
  plait::launch<job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::sgd{.learning_rate = 0.1});
    for (auto const& batch : plait::batches(data, plait::global_batch<4>{}, rank)) {
      double const loss = trainer.step(batch).loss;
      if (rank.is_root()) losses.push_back(loss);
    }
  });
  return losses;
}

TEST(MapAt, TheSimulatedDeviceComputesTheSame) {
  auto const expected = train(plait::threads{});
  ASSERT_GE(expected.size(), 2u);
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    EXPECT_EQ(train(plait::simulated{.seed = seed}), expected) << seed;
}

}  // namespace map_at_testing
