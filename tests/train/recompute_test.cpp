// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=30
//
// A recomputation before a backward gives the values of the forward: only memory use changes.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "plait/train/trainer_parts.hpp"
#include "testing/event_orders.hpp"
#include "train/penalty.hpp"
#include "train/small_gpt.hpp"

namespace recomputing {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using small_gpt::length, small_gpt::vocabulary, small_gpt::width;

// A model with dropout in three places, a term of the loss in mid-model after one of them, and a
// layer that declares which of its activations are recomputed.
using block = sequential<
    residual<sequential<named<"ln_1", nn::layer_norm<width>>,
                        named<"attn", nn::causal_self_attention<width, 4, length>>,
                        nn::dropout<width, 100>>>,
    times<fraction(0.01), plait_test::penalty<width>>,
    residual<sequential<
        named<"ln_2", nn::layer_norm<width>>,
        named<"mlp", sequential<named<"c_fc", nn::linear<width, 2 * width>>, nn::gelu<2 * width>,
                                named<"c_proj", nn::linear<2 * width, width>>>>,
        nn::dropout<width, 100>>>>;
using model =
    objective<sequential<named<"wte", nn::embedding<vocabulary, width>>,
                         named<"wpe", nn::positions<length, width>>, nn::dropout<width, 100>,
                         named<"h", repeat<3, block>>, named<"ln_f", nn::layer_norm<width>>,
                         named<"lm_head", nn::linear<width, vocabulary>>>,
              nn::cross_entropy<vocabulary>>;
template <class Policy, class Element = double>
struct job : parallel<model, Policy, Element> {};
template <class Policy, granularity What, class Where = units::everywhere,
          granularity Others = granularity::nothing>
using with = job<hybrid<Policy, recompute<What, Where, Others>>>;

struct outcome {
  std::vector<double> numbers;  ///< the losses, their terms, and the norms
  std::map<std::string, std::vector<double>> weights, gradients, other_gradients;
  std::vector<double> predicted;
  friend bool operator==(outcome const&, outcome const&) = default;
};
struct settings {
  int microbatches = 1;
  int steps = 4;
};

template <class Job>
workload load_of(int microbatches, int data_ranks) {
  return {.rows = 24 * length / std::size_t(microbatches * data_ranks),
          .microbatches = microbatches,
          .data_ranks = data_ranks,
          .gradient_norm = true};
}

template <class Job>
outcome train(auto const& backend, settings const& how) {
  auto const text = small_gpt::text();
  outcome out;
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(
        rank, adamw{.learning_rate = 1e-2, .weight_decay = 0.3, .decays = decay_matrices},
        {.clip = 0.5});
    constexpr bool has_slices = Job::plan_type::slices > 0;  // slices are the microbatches
    auto all = batches(text, global_batch<24>{}, rank,
                       {.epochs = 0, .microbatches = has_slices ? 0 : how.microbatches});
    for (int step = 0; step < how.steps; ++step) {
      auto const report = trainer.step(all.at(std::uint64_t(step)));
      double const loss = step == 2 ? trainer.evaluate(all.at(0)) : 0;
      if (!rank.is_root()) continue;
      out.numbers.insert(out.numbers.end(), {report.loss, report.gradient_norm, loss});
      out.numbers.insert(out.numbers.end(), report.terms.begin(), report.terms.end());
    }
    auto const into = [&](auto& to) {
      return [&to]<class T>(std::string const& name, parameter_info const&,
                            std::span<T const> values) {
        to[name].assign(values.begin(), values.end());
      };
    };
    trainer.export_parameters(into(out.weights));
    trainer.export_gradients(into(out.gradients));
    using plan = typename Job::plan_type;
    auto const load = load_of<Job>(how.microbatches, plan::batch_ranks(rank.grid()));
    auto const need = plan::memory(rank.stage(), load);
    auto const there = trainer.allocated();
    if constexpr (plan::slices == 0) {
      EXPECT_EQ(there.total() - there.workspace, need.total() - need.batches);
      auto const values = trainer.predict(all.at(1), predicted::of_all);
      if (rank.is_root()) out.predicted.assign(values.begin(), values.end());
    }
    trainer.gradients_of(all.at(2));
    trainer.export_gradients(into(out.other_gradients));
  });
  return out;
}

template <class Usual, class... Recomputing>
void expect_the_bits(auto const& backend, settings const& how) {
  auto const expected = train<Usual>(threads{.data_ranks = backend.data_ranks}, how);
  ([&] { EXPECT_EQ(train<Recomputing>(backend, how), expected) << __PRETTY_FUNCTION__; }(), ...);
}

TEST(Recompute, HasTheBitsOfWhatIsKept) {
  for (int const m : {1, 4})
    expect_the_bits<job<serial>, with<serial, granularity::cheap>,
                    with<serial, granularity::all, units::first<4>, granularity::cheap>>(threads{},
                                                                                         {m});
}
TEST(Recompute, HasTheBitsOnTensorRanks) {
  using small_gpt::tp2_sharded;
  for (int const m : {1, 2})
    expect_the_bits<job<tp2_sharded>, with<tp2_sharded, granularity::moves>,
                    with<tp2_sharded, granularity::all>>(threads{}, {m});
}
TEST(Recompute, HasTheBitsOnStages) {
  for (int const m : {1, 4, 8})
    expect_the_bits<job<pipeline<2>>, with<pipeline<2, gpipe>, granularity::all>,
                    with<pipeline<2>, granularity::all, units::on_stages<0>>>(threads{}, {m});
}
TEST(Recompute, HasTheBitsWithShardsOfParameters) {
  using three = data_parallel<at_launch, zero<3>, buckets<1>>;
  for (int const ranks : {1, 2, 3})
    expect_the_bits<job<three>, with<three, granularity::all>>(threads{.data_ranks = ranks}, {2});
}
TEST(Recompute, HasTheBitsOfSlices) {
  using slices = hybrid<data_parallel<>, reproducible<4>>;
  auto const expected = train<job<slices>>(threads{.data_ranks = 1}, {4});
  for (int const ranks : {1, 3})
    EXPECT_EQ((train<with<slices, granularity::all>>(threads{.data_ranks = ranks}, {4})), expected);
}

// --- on the simulated device, where an activation that was not recomputed is undefined

template <class Job>
void expect_no_race(std::uint64_t seeds, settings const& how) {
  auto const expected = train<Job>(threads{}, how);
  simulated_statistics statistics;
  for (std::uint64_t seed = 0; seed < plait_test::event_orders(seeds); ++seed)
    ASSERT_EQ(train<Job>(simulated{.seed = seed, .statistics = &statistics}, how), expected)
        << "seed " << seed;
  auto const is_again = [](int number) {
    return number % (1 << 16) == int(operation_kind::recompute);
  };
  int recompute_sites = 0;
  for (auto const& site : statistics.sites) {
    bool const is_step = site.where == wait_site::part::step;
    if (is_step ? !is_again(site.waiting) && !is_again(site.awaited)
                : site.where != wait_site::part::recompute)
      continue;
    ++recompute_sites;
    EXPECT_THROW(train<Job>(simulated{.without = site}, how), race_error) << to_string(site);
  }
  EXPECT_GE(recompute_sites, 2);
}
TEST(RecomputeSimulated, HasNoRaceAndNoWaitTooMany) {
  expect_no_race<with<small_gpt::tp2_sharded, granularity::all>>(2, {2, 2});
  expect_no_race<with<small_gpt::tp2_sharded, granularity::moves>>(2, {2, 2});
  // The parameters that are gathered for a backward are available to the recomputation before it.
  expect_no_race<with<data_parallel<2, zero<3>, buckets<1>>, granularity::all>>(2, {2, 2});
}

/// Returns the report of the simulated device on a training step in which one operation of the
/// recomputation does not run: a read of undefined memory, or a race where other operations wait
/// through it.
template <class Job>
std::string report_without(int step) {
  auto const text = small_gpt::text();
  try {
    launch<Job>(simulated{}, [&](auto& rank) {
      using rank_type = std::remove_cvref_t<decltype(rank)>;
      execution::trainer_parts<Job, rank_type, sgd> parts(rank, sgd{.learning_rate = 0.1}, {});
      parts.set_up();
      auto all = batches(text, global_batch<24>{}, rank, {.epochs = 0, .microbatches = 2});
      auto const mine = parts.calls();
      auto const batch = all.at(0);
      if (step >= 0) parts.passes_for(batch, true).recomputed_nodes()[std::size_t(step)] = 0;
      auto frame = parts.begin(batch, execution::trainer_program::whole_step);
      parts.executor.run(parts.executor.passes.program(execution::trainer_program::whole_step),
                         frame);
      parts.read_report();
    });
  } catch (std::exception const& e) {
    return e.what();
  }
  return "";
}
template <class Job>
int expect_each_step_is_needed() {
  using plan = typename Job::plan_type;
  EXPECT_EQ(report_without<Job>(-1), "");
  int left_out = 0;
  for (int s = 0; s < plan::code.nodes.size(); ++s) {
    auto const& now = plan::code.nodes[s];
    if (plan::recomputed.node[std::size_t(s)] == 0 ||
        is_another_name(plan::code, plan::storage, now))
      continue;
    if (plan::is_epilogue(s, direction::forward)) continue;  // the product before it computes it
    EXPECT_NE(report_without<Job>(s), "") << s;
    ++left_out;
  }
  return left_out;
}
TEST(RecomputeSimulated, FindsOmittedRecomputation) {
  EXPECT_EQ((expect_each_step_is_needed<with<small_gpt::tp2_sharded, granularity::all>>()), 13);
  EXPECT_EQ((expect_each_step_is_needed<with<serial, granularity::cheap>>()), 4);
}

}  // namespace recomputing
