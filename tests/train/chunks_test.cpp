// SPDX-License-Identifier: Apache-2.0
// test: seconds=20
//
// Two stages of two chunks each, with backward passes in halves. The timetable is written here, as
// plait does not have a schedule of this kind yet. It trains as the serial run does.
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
#include "schedule/halves_of_two_chunks.hpp"
#include "testing/event_orders.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using tensors = std::map<std::string, std::vector<double>>;

using plait_test::halves_of_two_chunks;
static_assert(schedule<halves_of_two_chunks>);
static_assert(proven_up_to<halves_of_two_chunks, 2, 4>);

using chunked = small_gpt::job<pipeline<2, halves_of_two_chunks>>;
using chunked_in_both = small_gpt::job<hybrid<pipeline<2, halves_of_two_chunks>, data_parallel<2>>>;
using serial_job = small_gpt::job<serial>;
using plan_type = chunked::plan_type;

// Each stage has two ranges of units, which do not touch each other.
static_assert(plan_type::chunks == 2 && plan_type::chunks_of(0).size() == 2);
static_assert(plan_type::chunks_of(0)[0].begin == 0);
static_assert(plan_type::chunks_of(0)[0].end == plan_type::chunks_of(1)[0].begin);
static_assert(plan_type::chunks_of(1)[0].end == plan_type::chunks_of(0)[1].begin);
static_assert(plan_type::chunks_of(0)[1].end == plan_type::chunks_of(1)[1].begin);
static_assert(plan_type::chunks_of(1)[1].end == plan_type::code.unit_count());

TEST(Chunks, AreExplainedWithTheirIdleTime) {
  auto const text = explain(chunked::plan(), {.rows = 8, .microbatches = 2});
  EXPECT_NE(text.find("halves_of_two_chunks, 2 chunks on each stage, free of deadlock under "
                      "blocking sends, idle "),
            std::string::npos)
      << text;
  // With a device, the head names the processor and the library, and the other lines are equal.
  auto const head = text.substr(0, text.find('\n'));
  EXPECT_EQ(explain(chunked::plan(), {.rows = 8, .microbatches = 2}, {.device = "some device"}),
            head + "\ndevice: some device" + text.substr(head.size()));
}

struct outcome {
  std::vector<double> losses;
  std::vector<double> predicted_values;
  tensors weights, gradients;

  friend bool operator==(outcome const&, outcome const&) = default;
};

constexpr std::size_t samples = 8;

/// Runs three steps, an evaluation and a prediction.
template <class Job>
outcome train(auto const& backend, int microbatches) {
  auto const text = small_gpt::text();
  outcome out;
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{}, {.clip = 1.0});
    auto batches = plait::batches(text, global_batch<>{samples}, rank,
                                  {.epochs = 0, .microbatches = microbatches});
    for (std::uint64_t step = 0; step < 3; ++step) {
      auto const report = trainer.step(batches.at(step));
      if (rank.is_root()) out.losses.push_back(report.loss);
    }
    double const loss = trainer.evaluate(batches.at(3));
    auto const values = trainer.predict(batches.at(3), predicted::of_all);
    if (rank.is_root()) {
      out.losses.push_back(loss);
      out.predicted_values.assign(values.begin(), values.end());
    }
    auto const keep = [](tensors& to) {
      return [&to](std::string const& name, parameter_info const&, std::span<double const> all) {
        to[name].assign(all.begin(), all.end());
      };
    };
    trainer.export_parameters(keep(out.weights));
    trainer.export_gradients(keep(out.gradients));
    workload load{.rows = samples / std::size_t(microbatches) * small_gpt::length /
                          std::size_t(rank.grid().size(batch_axes)),
                  .microbatches = microbatches};
    EXPECT_EQ(trainer.allocated().activations,
              Job::plan_type::memory(rank.stage(), load).activations);
  });
  return out;
}

TEST(Chunks, TrainWhatTheSerialRunTrains) {
  for (int const microbatches : {1, 2, 4})
    EXPECT_EQ(train<chunked>(threads{}, microbatches), train<serial_job>(threads{}, microbatches))
        << microbatches << " microbatches";
}

TEST(Chunks, AddUpOverDataRanks) {
  auto const expected = train<serial_job>(threads{}, 2);
  auto const got = train<chunked_in_both>(threads{}, 2);
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-10);
  for (auto const& [name, values] : expected.weights)
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(got.weights.at(name)[i], values[i], 1e-10) << name;
}

// A record is discarded when its last half has run. The test detects a later read, and accesses
// that are too early.
TEST(Chunks, HaveNoRaceAndNoWaitTooMany) {
  auto const expected = train<serial_job>(threads{}, 4);
  simulated_statistics statistics;
  for (std::uint64_t seed = 0; seed < plait_test::event_orders(100); ++seed)
    ASSERT_EQ(train<chunked>(simulated{.seed = seed, .statistics = &statistics}, 4), expected)
        << seed;
  EXPECT_GT(statistics.sites.size(), 8u);
  for (auto const& site : statistics.sites)
    EXPECT_THROW(train<chunked>(simulated{.without = site}, 4), race_error) << to_string(site);
}

}  // namespace
