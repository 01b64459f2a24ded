// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/nn/activation.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/layer_norm.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/sum.hpp"
#include "plait/plan/parallel.hpp"

namespace {

using plait::ext::plan_waits;
using plait::ext::planned_wait;
using plait::ext::stream;
using plait::ext::stream_operation;
using waits = plait::ext::lean_vector<planned_wait>;
using operations = plait::ext::lean_vector<stream_operation>;

constexpr stream compute = stream::compute, tensor = stream::tensor, stage = stream::stage;

TEST(PlanWaits, NothingWithinAStream) {
  EXPECT_EQ(plan_waits({{compute, {}, {0}}, {compute, {0}, {1}}, {compute, {1}, {0}}}), waits{});
}

TEST(PlanWaits, ReadAfterWriteWriteAfterReadWriteAfterWrite) {
  EXPECT_EQ(plan_waits({{compute, {}, {0}}, {tensor, {0}, {}}}), (waits{{1, 0}}));
  EXPECT_EQ(plan_waits({{compute, {0}, {}}, {tensor, {}, {0}}}), (waits{{1, 0}}));
  EXPECT_EQ(plan_waits({{compute, {}, {0}}, {tensor, {}, {0}}}), (waits{{1, 0}}));
  EXPECT_EQ(plan_waits({{compute, {0}, {}}, {tensor, {0}, {}}}), waits{});
  EXPECT_EQ(plan_waits({{compute, {}, {0}}, {tensor, {}, {1}}}), waits{});
}

TEST(PlanWaits, TheLatestOfAStreamIsEnough) {
  EXPECT_EQ(plan_waits({{compute, {}, {0}}, {compute, {}, {1}}, {tensor, {0, 1}, {}}}),
            (waits{{2, 1}}));
}

TEST(PlanWaits, AWaitOfAThirdStreamIsImplied) {
  operations const list{{compute, {}, {0}}, {tensor, {0}, {1}}, {stage, {0, 1}, {}}};
  EXPECT_EQ(plan_waits(list), (waits{{1, 0}, {2, 1}}));
}

TEST(PlanWaits, TheWaitPrecedesTheFirstUse) {
  operations const list{
      {compute, {}, {0}}, {tensor, {0}, {0}}, {compute, {2}, {3}}, {compute, {0}, {4}}};
  EXPECT_EQ(plan_waits(list), (waits{{1, 0}, {3, 1}}));
}

/// Returns which operations happen before which, given the waits.
std::vector<std::vector<bool>> happens_before(operations const& list, waits const& planned) {
  std::size_t const n = list.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j)
      before[i][j] = list[i].on == list[j].on ||
                     std::any_of(list.begin() + std::ptrdiff_t(i), list.begin() + std::ptrdiff_t(j),
                                 [](stream_operation const& one) { return one.host_waits; });
  for (auto const& wait : planned)
    before[std::size_t(wait.awaited)][std::size_t(wait.waiting)] = true;
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        if (before[i][k] && before[k][j]) before[i][j] = true;
  return before;
}

bool conflict(stream_operation const& a, stream_operation const& b) {
  auto const meet = [](auto const& some, auto const& others) {
    return std::any_of(some.begin(), some.end(), [&](int buffer) {
      return std::find(others.begin(), others.end(), buffer) != others.end();
    });
  };
  return meet(a.writes, b.writes) || meet(a.writes, b.reads) || meet(a.reads, b.writes);
}

bool is_ordered(operations const& list, waits const& planned) {
  auto const before = happens_before(list, planned);
  for (std::size_t i = 0; i < list.size(); ++i)
    for (std::size_t j = i + 1; j < list.size(); ++j)
      if (conflict(list[i], list[j]) && !before[i][j]) return false;
  return true;
}

/// Plans the waits by comparing each operation with all before it.
waits slowly_planned_waits(operations const& list) {
  std::vector<std::array<int, 4>> known(list.size(), {-1, -1, -1, -1});
  std::array<int, 4> last{-1, -1, -1, -1}, rested = last;
  waits out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto const on = std::size_t(list[i].on);
    if (last[on] >= 0) known[i] = known[std::size_t(last[on])];
    for (std::size_t s = 0; s < 4; ++s) known[i][s] = std::max(known[i][s], rested[s]);
    for (std::size_t j = i; j-- > 0;) {
      if (known[i][std::size_t(list[j].on)] >= int(j) || list[j].on == list[i].on ||
          !conflict(list[i], list[j]))
        continue;
      out.push_back({int(i), int(j)});
      for (std::size_t s = 0; s < 4; ++s) known[i][s] = std::max(known[i][s], known[j][s]);
    }
    last[on] = known[i][on] = int(i);
    if (list[i].host_waits) rested = last;
  }
  return out;
}

struct random_lists {
  std::uint32_t state = 12345;
  int number(std::uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<int>((state >> 16) % below);
  }
  operations next(std::uint32_t most) {
    operations list;
    int const length = 2 + number(most - 2);
    for (int i = 0; i < length; ++i) {
      stream_operation made{static_cast<stream>(number(4))};
      for (int k = number(3); k > 0; --k) made.reads.push_back(number(5));
      for (int k = number(3); k > 0; --k) made.writes.push_back(number(5));
      made.host_waits = number(8) == 0;
      list.push_back(made);
    }
    return list;
  }
};

TEST(PlanWaits, AreThoseOfEachOperationAgainstAllBeforeIt) {
  random_lists random;
  for (int trial = 0; trial < 10'000; ++trial) {
    auto const list = random.next(40);
    ASSERT_EQ(plan_waits(list), slowly_planned_waits(list)) << "trial " << trial;
  }
}

// In random lists all conflicts are ordered, and without any one of the waits they are not.
TEST(PlanWaits, AreEnoughAndEachIsNeeded) {
  random_lists random;
  std::size_t total = 0;
  for (int trial = 0; trial < 400; ++trial) {
    auto const list = random.next(16);
    auto const planned = plan_waits(list);
    total += planned.size();
    ASSERT_TRUE(is_ordered(list, planned)) << "trial " << trial;
    for (std::size_t left_out = 0; left_out < planned.size(); ++left_out) {
      auto fewer = planned;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(left_out));
      ASSERT_FALSE(is_ordered(list, fewer)) << "trial " << trial << ", wait " << left_out;
    }
  }
  EXPECT_GT(total, 1000u);
}

using mlp = plait::sequential<
    plait::residual<plait::sequential<plait::nn::layer_norm<8>, plait::nn::linear<8, 16>,
                                      plait::nn::gelu<16>, plait::nn::linear<16, 8>>>>;
using plan = plait::ext::plan<mlp, plait::tensor_parallel<2>>;
using plait::planning::direction;

// Megatron's pair: one all_reduce in the forward, one in the backward, each with a wait before and
// a wait after it.
static_assert(plan::waits_of(0, direction::forward).list.size() == 2);
static_assert(plan::waits_of(0, direction::backward).list.size() == 2);
static_assert(plait::ext::plan<mlp, plait::serial>::waits_of(0, direction::forward).list.size() ==
              0);

// While the gradient of its input is reduced, the column layer computes the gradients of its
// parameters. No other layer does so, and only if a message is sent.
template <class Plan>
consteval int postponed() {
  int count = 0;
  for (int step = 0; step < Plan::code.nodes.size(); ++step) {
    if (!Plan::postpones_parameters(step)) continue;
    ++count;
    auto const list = Plan::waits_of(0, direction::backward).list;
    using numbers =
        plait::planning::item_waits<std::remove_cvref_t<decltype(Plan::code)>::most_nodes>;
    for (auto const& wait : list)
      if (wait.waiting == numbers::parameters_of(step)) return -1;
    // The next operation waits for the reduction, which waits for the gradient of the input.
    if (list[0] != plait::ext::planned_wait{step - 1, step} || list[1].awaited != step - 1)
      return -2;
  }
  return count;
}
static_assert(postponed<plan>() == 1);
static_assert(postponed<plait::ext::plan<mlp, plait::serial>>() == 0);
static_assert(postponed<plait::ext::plan<mlp, plait::pipeline<1>>>() == 0);

// A layer with a body for both gradients and separate bodies can do so, too; a layer with only the
// joint body cannot.
struct column_layer : plait::nn::linear<8, 16> {
  static void backward(auto& ops, auto const& l) {
    backward_parameters(ops, l);
    backward_input(ops, l);
  }
};
using joined_mlp = plait::sequential<plait::residual<plait::sequential<
    plait::nn::layer_norm<8>, column_layer, plait::nn::gelu<16>, plait::nn::linear<16, 8>>>>;
static_assert(postponed<plait::ext::plan<joined_mlp, plait::tensor_parallel<2>>>() == 1);

// --- items that are like others ------------------------------------------------------------------

// Each item has the waits that it would have alone, also if it copies them from an equal earlier
// item.
template <class Plan>
void expect_waits_of_each() {
  std::size_t several = 0;
  for (auto const way : {direction::forward, direction::backward})
    for (int item = 0; item < Plan::code.items.size(); ++item) {
      auto const planned =
          plait::planning::plan_item_waits<plait::planning::program<Plan::leaf_count>::most_nodes>(
              Plan::code, Plan::tree.leaves, Plan::storage, Plan::needs_gradient,
              Plan::code.items[item], way);
      auto const got = Plan::waits_of(item, way).list;
      EXPECT_EQ(waits(got.begin(), got.end()), planned) << "item " << item;
      several += planned.size() > 0;
    }
  EXPECT_GT(several, 4u);
}

template <std::size_t Width>
using branch = plait::sequential<plait::nn::layer_norm<Width>, plait::nn::linear<Width, 2 * Width>,
                                 plait::nn::gelu<2 * Width>, plait::nn::linear<2 * Width, Width>>;
template <std::size_t From, std::size_t To>
using grown = plait::sequential<plait::nn::linear<From, To>, plait::nn::relu<To>>;
template <std::size_t Width, class Layer>
using twice = plait::sequential<plait::fan_out<Layer, Layer>, plait::nn::sum<Width, 2>>;
using unlike = plait::sequential<
    plait::frozen<grown<8, 16>>, grown<16, 24>, grown<24, 32>, plait::residual<branch<32>>,
    plait::residual<branch<32>>, plait::residual<plait::frozen<branch<32>>>, grown<32, 40>,
    twice<40, plait::nn::linear<40, 40>>, plait::nn::relu<40>, twice<40, plait::nn::linear<40, 40>>,
    plait::residual<plait::sequential<plait::residual<branch<40>>, plait::nn::linear<40, 40>>>,
    grown<40, 48>, grown<48, 48>, plait::repeat<3, plait::residual<branch<48>>>, grown<48, 8>>;

/// Returns true if two items of a plan count as equal.
template <class Plan>
constexpr bool alike(int one, int other, direction way) {
  return plait::planning::have_same_waits(Plan::code, Plan::tree.leaves, Plan::storage,
                                          Plan::needs_gradient, Plan::code.items[one],
                                          Plan::code.items[other], way);
}
using blocks = plait::ext::plan<
    plait::sequential<plait::nn::linear<8, 32>, plait::residual<branch<32>>,
                      plait::residual<branch<32>>, plait::residual<plait::frozen<branch<32>>>,
                      plait::residual<plait::nn::linear<32, 32>>>,
    plait::tensor_parallel<2>>;
static_assert(alike<blocks>(1, 2, direction::forward) && alike<blocks>(1, 2, direction::backward));
static_assert(!alike<blocks>(2, 3, direction::forward) ||
              !alike<blocks>(2, 3, direction::backward));
static_assert(!alike<blocks>(0, 1, direction::forward) && !alike<blocks>(3, 4, direction::forward));

// More items than one constant holds the waits of.
template <std::size_t... I>
auto many_items(std::index_sequence<I...>)
    -> plait::sequential<grown<8, 8>,
                         std::enable_if_t<(I < 90), plait::residual<plait::nn::linear<8, 8>>>...>;
using many = decltype(many_items(std::make_index_sequence<90>()));

TEST(ItemWaits, AreThoseOfEachItemByItself) {
  expect_waits_of_each<plait::ext::plan<many, plait::tensor_parallel<2>>>();
  expect_waits_of_each<plait::ext::plan<unlike, plait::tensor_parallel<2>>>();
  expect_waits_of_each<plait::ext::plan<unlike, plait::tensor_parallel<4>>>();
  expect_waits_of_each<
      plait::ext::plan<unlike, plait::hybrid<plait::pipeline<2>, plait::data_parallel<2>,
                                             plait::tensor_parallel<2>>>>();
}

}  // namespace
