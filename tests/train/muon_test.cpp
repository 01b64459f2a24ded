// SPDX-License-Identifier: Apache-2.0
#include "plait/train/muon.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "oracle/stored_numbers.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "plait/plan/zero_of_matrices.hpp"
#include "train/expect_planned.hpp"

namespace {

using plait::ext::muon, plait::ext::zero_of_matrices;
namespace matrix_scales = plait::ext::matrix_scales;
using values = std::vector<double>;

/// A matrix, and the memory that an optimizer needs to update it.
template <class Parameter = double, class Gradient = Parameter, class Copy = Parameter>
struct lone_matrix {
  std::size_t rows, columns, count = rows * columns;
  std::vector<Parameter> weights = std::vector<Parameter>(count),
                         states = std::vector<Parameter>(2 * count);
  std::vector<Gradient> gradients = std::vector<Gradient>(count);
  std::vector<Copy> copies = std::vector<Copy>(count);
  std::vector<double> scratch = std::vector<double>(
      muon::scratch_bytes<Parameter>(rows, columns) / sizeof(double), std::nan(""));
  plait::ext::update_range range{0, count, 1, 1};

  void step(muon const& with, int step, double scale = 1) {
    for (std::size_t i = 0; i < count; ++i) {
      auto const at = double(i);
      gradients[i] = static_cast<Gradient>(std::sin(1.7 * step + 0.9 * at + 0.05 * at * at));
    }
    update(with, step, scale);
  }
  void update(muon const& with, int step, double scale = 1) {
    plait::ext::host_device device;
    auto const now = with.numbers_of(step, 1);
    with.update(
        device.on(plait::ext::stream::compute),
        plait::ext::optimizer_arena<Parameter, Gradient, Copy>{.parameters = weights.data(),
                                                               .gradients = gradients.data(),
                                                               .states = states.data(),
                                                               .copies = copies.data(),
                                                               .count = count,
                                                               .state_stride = count,
                                                               .ranges = &range,
                                                               .range_count = 1,
                                                               .gradient_scale = &scale,
                                                               .rows = rows,
                                                               .columns = columns,
                                                               .scratch = scratch.data()},
        &now);
  }
};

template <class Parameter, class Gradient, class Copy>
void start(lone_matrix<Parameter, Gradient, Copy>& of) {
  for (std::size_t i = 0; i < of.count; ++i)
    of.weights[i] = static_cast<Parameter>(std::cos(0.3 * double(i)));
}

template <class Parameter = double, class Gradient = Parameter, class Copy = Parameter>
void expect_stored(std::string const& name, std::size_t rows, std::size_t columns, muon with,
                   double bound) {
  with.learning_rate = 0.02;
  with.weight_decay = 0.1;
  lone_matrix<Parameter, Gradient, Copy> of{rows, columns};
  start(of);
  for (int step = 0; step < 4; ++step) of.step(with, step);
  auto const expected = plait_test::stored_numbers("muon_numbers.txt", name);
  ASSERT_EQ(expected.size(), of.count);
  for (std::size_t i = 0; i < of.count; ++i) {
    EXPECT_NEAR(static_cast<double>(of.weights[i]), expected[i], bound) << name << " " << i;
    EXPECT_EQ(static_cast<double>(of.copies[i]),
              static_cast<double>(static_cast<Copy>(of.weights[i])));
    EXPECT_EQ(static_cast<double>(of.states[of.count + i]), 0);  // the second state is not used
  }
}

TEST(Muon, IsTheReference) {
  expect_stored("wide", 4, 6, {}, 1e-13);
  expect_stored("tall", 7, 3, {}, 1e-13);
  expect_stored("tall.output_input", 7, 3, {.scale = matrix_scales::output_input}, 1e-13);
  expect_stored("square", 5, 5, {.momentum = 0.8, .scale = matrix_scales::output_input}, 1e-13);
  expect_stored(
      "square.plain", 5, 5,
      {.momentum = 0.8, .nesterov = false, .iterations = 3, .scale = matrix_scales::input_output},
      1e-13);
  expect_stored("row", 1, 6, {}, 1e-13);
}

TEST(Muon, IsTheReferenceInFloatAndWritesCopies) {
  expect_stored<float>("wide", 4, 6, {}, 1e-5);
  expect_stored<float, float, plait::bfloat16>("tall", 7, 3, {}, 1e-5);
}

TEST(Muon, MakesSingularValuesNearOne) {
  muon const with{.learning_rate = 1, .weight_decay = 0, .momentum = 0, .scale = [](auto, auto) {
                    return 1.0;
                  }};
  for (auto const& [rows, columns] :
       {std::pair<std::size_t, std::size_t>{3, 40}, {24, 8}, {6, 6}}) {
    lone_matrix<> of{rows, columns};
    of.step(with, 1, 1e-4);
    // The sum of the squares of all weights is the sum of the squares of the singular values, each
    // of which is from 0.68 to 1.21.
    double squares = 0;
    for (double const weight : of.weights) squares += weight * weight;
    auto const side = double(std::min(rows, columns));
    EXPECT_GT(squares, 0.4 * side);
    EXPECT_LT(squares, 1.5 * side);
    // The scale of the gradient does not matter, except where the norm is near 1e-7.
    lone_matrix<> other{rows, columns};
    other.step(with, 1, 1);
    for (std::size_t i = 0; i < of.count; ++i)
      EXPECT_NEAR(of.weights[i], other.weights[i], 1e-2) << i;
  }
}

TEST(Muon, ScalesTheStepByTheShape) {
  EXPECT_DOUBLE_EQ(matrix_scales::like_adamw(16, 4), 0.8);
  EXPECT_DOUBLE_EQ(matrix_scales::like_adamw(4, 16), 0.8);
  EXPECT_DOUBLE_EQ(matrix_scales::output_input(16, 4), 2);
  EXPECT_DOUBLE_EQ(matrix_scales::output_input(4, 16), 1);
  EXPECT_DOUBLE_EQ(matrix_scales::input_output(4, 16), 2);
  EXPECT_DOUBLE_EQ(matrix_scales::input_output(16, 4), 1);
}

TEST(Muon, TakesNoStepIfTheScaleIsNaN) {
  lone_matrix<> of{4, 6};
  start(of);
  of.step({}, 0);
  auto const weights = of.weights, states = of.states, copies = of.copies;
  of.step({}, 1, std::nan(""));
  EXPECT_EQ(of.weights, weights);
  EXPECT_EQ(of.states, states);
  EXPECT_EQ(of.copies, copies);
}

TEST(Muon, UsesTheFactorsOfTheGroup) {
  lone_matrix<> plain{4, 6}, of{4, 6};
  start(plain);
  start(of);
  plain.step({.learning_rate = 0.03, .weight_decay = 0.5}, 0);
  of.range = {0, 24, 0.25, 0.1};
  of.step({.learning_rate = 0.02, .weight_decay = 5, .matrix_rate = 6}, 0);
  for (std::size_t i = 0; i < of.count; ++i) EXPECT_NEAR(of.weights[i], plain.weights[i], 1e-15);
}

TEST(Muon, KeepsAMatrixWithoutAGradient) {
  lone_matrix<> of{4, 6};
  start(of);
  auto const before = of.weights;
  of.update({.weight_decay = 0}, 0);
  EXPECT_EQ(of.weights, before);
}

}  // namespace

// --- in a trainer, against the reference and under each plan

namespace {

using plait::named, plait::nn::linear;
using model =
    plait::objective<plait::sequential<named<"first", linear<8, 16>>, plait::nn::relu<16>,
                                       named<"second", linear<16, 12, {.parts = 3}>>,
                                       named<"third", linear<12, 8>>, named<"last", linear<8, 4>>>,
                     plait::nn::cross_entropy<4>>;
template <class Policy, class Element = double>
struct job : plait::parallel<model, Policy, Element> {};

bool is_hidden(plait::parameter_description const& what) { return what.name != "last.weight"; }

muon const optimizer{.learning_rate = 0.05,
                     .weight_decay = 0.2,
                     .decays = plait::decay_matrices,
                     .matrices = is_hidden};

using tensors = std::map<std::string, values>;
struct outcome {
  values numbers;  ///< the loss and the norm of each step
  tensors weights;
};

plait::in_memory<double> data() { return plait::in_memory<double>::random_classes(48, 8, 4); }

tensors weights_of(auto& trainer) {
  tensors out;
  trainer.export_parameters([&](std::string const& name, auto const&, auto all) {
    out[name].assign(all.begin(), all.end());
  });
  return out;
}

template <class Job, class Backend = plait::threads>
outcome train(muon const& with = optimizer, int steps = 5, Backend const& backend = {}) {
  using element = typename Job::element;
  auto const samples = data();
  outcome out;
  plait::launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, with,
                                       {.seed = 3,
                                        .clip = 0.1,
                                        .groups = {{.pattern = "second.*", .rate = 0.5},
                                                   {.pattern = "third.weight", .decay = 2}}});
    auto batches = plait::batches<element>(samples, plait::global_batch<16>{}, rank,
                                           {.epochs = 0, .microbatches = 2});
    for (int step = 0; step < steps; ++step) {
      auto const report = trainer.step(batches.at(std::uint64_t(step)));
      if (rank.is_root())
        out.numbers.insert(out.numbers.end(), {report.loss, report.gradient_norm});
    }
    auto const weights = weights_of(trainer);
    if (rank.is_root()) out.weights = weights;
    for (auto const over : rank.groups().sets()) rank.group(over).reset_counted();
    trainer.step(batches.at(std::uint64_t(steps)));
    using parameter = typename Job::parameter_element;
    plait::workload const load{
        .rows = 8 / std::size_t(rank.grid().size(plait::ext::batch_axes)),
        .microbatches = 2,
        .optimizer_scratch = muon::scratch_bytes<parameter>(16, 12),  // the largest matrix
        .gradient_norm = true};
    plait_test::expect_planned_bytes<Job>(rank, load);
    auto const planned = Job::plan_type::memory(rank.stage(), load);
    auto const there = trainer.allocated();
    EXPECT_EQ(there.optimizer, planned.optimizer);
    EXPECT_EQ(there.total() - there.workspace, planned.total() - planned.batches);
    EXPECT_EQ(trainer.planned_bytes(batches), Job::plan_type::bytes_per_rank(load));
  });
  return out;
}

void expect_near(outcome const& got, outcome const& expected, double bound) {
  ASSERT_EQ(got.numbers.size(), expected.numbers.size());
  for (std::size_t i = 0; i < got.numbers.size(); ++i)
    EXPECT_NEAR(got.numbers[i], expected.numbers[i], bound) << i;
  ASSERT_EQ(got.weights.size(), expected.weights.size());
  for (auto const& [name, all] : expected.weights)
    for (std::size_t i = 0; i < all.size(); ++i)
      ASSERT_NEAR(got.weights.at(name)[i], all[i], bound) << name << " " << i;
}

TEST(MuonTrainer, UpdatesMatricesByMuonAndTheOthersByAdamW) {
  using serial = job<plait::serial>;
  auto const samples = data();
  plait::launch<serial>(plait::threads{}, [&](auto& rank) {
    double const rate = 0.05, norm = 0.1;
    auto trainer = plait::trainer<serial>(
        rank, optimizer,
        {.seed = 3, .clip = norm, .groups = {{.pattern = "second.*", .rate = 0.5}}});
    auto batches = plait::batches<double>(samples, plait::global_batch<16>{}, rank);
    auto const before = weights_of(trainer);
    auto const report = trainer.step(batches.at(0));
    ASSERT_GT(report.gradient_norm, norm);  // gradients are clipped
    double const scale = norm / (report.gradient_norm + 1e-6);
    tensors gradients;
    trainer.export_gradients([&](std::string const& name, auto const&, auto all) {
      gradients[name].assign(all.begin(), all.end());
    });
    std::map<std::string, std::pair<std::size_t, std::size_t>> const shapes{
        {"first.weight", {8, 16}}, {"second.weight", {16, 12}}, {"third.weight", {12, 8}}};
    for (auto const& [name, now] : weights_of(trainer)) {
      auto const& old = before.at(name);
      auto const& gradient = gradients.at(name);
      double const by = name.starts_with("second.") ? rate * 0.5 : rate;
      double const decay = name.ends_with("weight") ? 0.2 : 0;
      if (auto const found = shapes.find(name); found != shapes.end()) {
        lone_matrix<> of{found->second.first, found->second.second};
        of.weights = old;
        of.gradients = gradient;
        of.range = {0, of.count, by, 1};
        of.update({.learning_rate = 1, .weight_decay = decay}, 0, scale);
        for (std::size_t i = 0; i < now.size(); ++i)
          ASSERT_NEAR(now[i], of.weights[i], 1e-12) << name << i;
      } else {
        for (std::size_t i = 0; i < now.size(); ++i) {
          double const g = gradient[i] * scale;
          ASSERT_NEAR(now[i], old[i] * (1 - by * decay) - by * g / (std::abs(g) + 1e-8), 1e-12)
              << name << i;
        }
      }
    }
  });
}

template <class Policy>
struct MuonPlans : testing::Test {};
using policies = testing::Types<
    plait::data_parallel<2>, plait::data_parallel<4>, plait::pipeline<2>,
    plait::hybrid<plait::pipeline<2>, plait::data_parallel<2>>,
    plait::hybrid<plait::data_parallel<2>, plait::recompute<plait::granularity::all>>,
    plait::data_parallel<2, zero_of_matrices<1>>,
    plait::data_parallel<4, zero_of_matrices<1>, plait::buckets<plait::at_end>>,
    plait::data_parallel<2, zero_of_matrices<2>, plait::buckets<2048>>,
    plait::data_parallel<2, zero_of_matrices<3>, plait::buckets<2048>>,
    plait::data_parallel<4, plait::within<2>, zero_of_matrices<2>>,
    plait::hybrid<plait::pipeline<2>, plait::data_parallel<2, zero_of_matrices<1>>>>;
TYPED_TEST_SUITE(MuonPlans, policies);

TYPED_TEST(MuonPlans, GiveTheSerialResult) {
  static auto const serial = train<job<plait::serial>>();
  expect_near(train<job<TypeParam>>(), serial, 1e-10);
}

TEST(MuonPlansOnASimulatedDevice, GiveTheSerialResult) {
  expect_near(train<job<plait::data_parallel<2>>>(optimizer, 3, plait::simulated{}),
              train<job<plait::serial>>(optimizer, 3), 1e-10);
}

template <class Job>
void expect_refused(auto const& with_of_rank, std::string const& text) {
  std::atomic<int> refused = 0;
  plait::launch<Job>(plait::threads{}, [&](auto& rank) {
    try {
      plait::trainer<Job>(rank, with_of_rank(rank.world_rank()));
      ADD_FAILURE() << "no error: " << text;
    } catch (plait::input_error const& problem) {
      ++refused;
      EXPECT_NE(std::string(problem.what()).find(text), std::string::npos) << problem.what();
    }
  });
  EXPECT_EQ(refused, Job::plan_type::grid.world_size());
}

TEST(MuonPlansOfTensorRanks, TakeOnlyMatricesThatAreWhole) {
  using cut = job<plait::tensor_parallel<2>>;
  plait::launch<cut>(plait::threads{}, [&](auto& rank) {
    try {
      plait::trainer<cut>(rank, optimizer);
      ADD_FAILURE() << "no error";
    } catch (plait::input_error const& problem) {
      EXPECT_NE(std::string(problem.what())
                    .find("updates whole matrices, but 2 tensor ranks each have a part of a "
                          "matrix: the matrix "
                          "'first.weight' of 8 x 16 elements; exclude"),
                std::string::npos)
          << problem.what();
    }
  });
}

/// A model with one matrix that no tensor rank cuts.
using model_with_whole =
    plait::objective<plait::sequential<named<"first", plait::use_form<"whole", linear<8, 16>>>,
                                       plait::nn::relu<16>, named<"second", linear<16, 12>>,
                                       plait::nn::relu<12>, named<"last", linear<12, 4>>>,
                     plait::nn::cross_entropy<4>>;
template <class Policy>
struct whole_job : plait::parallel<model_with_whole, Policy, double> {};

bool is_first(plait::parameter_description const& what) { return what.name == "first.weight"; }

TEST(MuonPlansOfTensorRanks, UpdateAMatrixThatIsWhole) {
  auto with = optimizer;
  with.matrices = is_first;
  auto const samples = data();
  auto const run = [&]<class Job>(Job) {
    tensors out;
    plait::launch<Job>(plait::threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<Job>(rank, with);
      auto batches = plait::batches<double>(samples, plait::global_batch<16>{}, rank);
      for (std::uint64_t step = 0; step < 3; ++step) trainer.step(batches.at(step));
      plait::workload const load{.optimizer_scratch = muon::scratch_bytes<double>(8, 16)};
      EXPECT_EQ(trainer.allocated().optimizer, Job::plan_type::memory(0, load).optimizer);
      auto const weights = weights_of(trainer);
      if (rank.is_root()) out = weights;
    });
    return outcome{{}, out};
  };
  using cut = whole_job<plait::tensor_parallel<2>>;
  expect_near(run(cut{}), run(whole_job<plait::serial>{}), 1e-10);
  expect_refused<cut>([](int) { return muon{}; }, "of a matrix: the matrix 'second.weight'");
}

// Only the first of two stages has a matrix that Muon updates.
TEST(MuonPlansOfStages, MayHaveAStageWithoutAMatrix) {
  auto with = optimizer;
  with.matrices = is_first;
  auto const samples = data();
  auto const run = [&]<class Job>(Job) {
    tensors out;
    plait::launch<Job>(plait::threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<Job>(rank, with);
      auto batches = plait::batches<double>(samples, plait::global_batch<16>{}, rank);
      for (std::uint64_t step = 0; step < 3; ++step) trainer.step(batches.at(step));
      auto const weights = weights_of(trainer);
      if (rank.is_root()) out = weights;
    });
    return outcome{{}, out};
  };
  expect_near(run(job<plait::pipeline<2>>{}), run(job<plait::serial>{}), 1e-10);
}

TEST(MuonOptions, SelectAMatrix) {
  auto const with = [](bool (*matrices)(plait::parameter_description const&)) {
    return [=](int) { return muon{.matrices = matrices}; };
  };
  std::string const text =
      "muon: `matrices` selects none of the 8 trained parameters as a matrix; let it return true "
      "for parameters of two dimensions, such as 'first.weight', or train with plait::adamw{}";
  auto const none = [](plait::parameter_description const&) { return false; };
  expect_refused<job<plait::serial>>(with(none), text);
  expect_refused<job<plait::data_parallel<2>>>(with(none), text);
  expect_refused<job<plait::pipeline<2>>>(with(none), text);
  expect_refused<job<plait::serial>>(
      with([](plait::parameter_description const& what) { return what.rank == 1; }), text);
  struct frozen_job
      : plait::parallel<
            plait::objective<plait::sequential<named<"only", plait::frozen<linear<8, 4>>>,
                                               named<"scale", plait::nn::layer_norm<4>>>,
                             plait::nn::cross_entropy<4>>,
            plait::serial> {};
  expect_refused<frozen_job>(with(plait::decay_matrices),
                             "muon updates matrices, but none of the 2 trained parameters of the "
                             "model has two dimensions; train with plait::adamw{}");
}

TEST(MuonOptions, SelectTheSameMatricesOnAllRanks) {
  auto const differ = [](int rank) {
    return muon{.matrices = rank == 1 ? is_hidden : plait::decay_matrices};
  };
  std::string const text =
      "trainer 1: the ranks differ in the optimizer's `matrices` for parameter 'last.weight' (1 "
      "selects it): 1 on rank 0, 0 on rank 1;";
  expect_refused<job<plait::data_parallel<2>>>(differ, text);
  expect_refused<job<plait::pipeline<2>>>(differ, text);
}

// example-begin muon
bool hidden(plait::parameter_description const& what) {
  return what.rank == 2 && what.name != "last.weight";  // not the head
}
using divided = plait::data_parallel<2, plait::ext::zero_of_matrices<1>>;
struct divided_job : plait::parallel<model, divided> {};

// The largest matrix is 16 x 12.
constexpr plait::workload divided_load{
    .rows = 8,
    .optimizer_states = plait::ext::muon::states,
    .optimizer_scratch = plait::ext::muon::scratch_bytes<float>(16, 12)};
static_assert(divided_job::plan().bytes_per_rank(divided_load) < 64 * 1024);

double train_divided(plait::in_memory<float> const& samples) {
  double loss = 0;
  plait::launch<divided_job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<divided_job>(
        rank, plait::ext::muon{.learning_rate = 0.02, .weight_decay = 0.1, .matrices = hidden});
    for (auto const& batch :
         plait::batches(samples, plait::global_batch<16>{}, rank, {.epochs = 20}))
      if (auto const report = trainer.step(batch); rank.is_root()) loss = report.loss;
  });
  return loss;
}
// example-end

// Trains as Jordan's reference does, with another learning rate for matrices and the original
// factor.
// example-begin original
muon const original{.scale = matrix_scales::input_output, .matrix_rate = 20};
// example-end
// example-begin owners
using owners = plait::data_parallel<2, plait::ext::zero_of_matrices<1>>;
struct owners_job : plait::parallel<model, owners> {};
// example-end

TEST(MuonExample, Learns) {
  static_assert(owners_job::plan().bytes_per_rank(divided_load) ==
                divided_job::plan().bytes_per_rank(divided_load));
  EXPECT_DOUBLE_EQ(original.learning_rate * original.matrix_rate, 0.02);
  EXPECT_LT(train_divided(plait::in_memory<float>::random_classes(48, 8, 4)), 0.7);
}

// A bucket of one matrix would be four times as long if one of four ranks owned it.
TEST(MuonPlansOfZero, NameAMatrixThatBlocksCut) {
  using cut = job<plait::data_parallel<4, zero_of_matrices<1>, plait::buckets<1>>>;
  plait::launch<cut>(plait::threads{}, [&](auto& rank) {
    try {
      plait::trainer<cut>(rank, optimizer);
      ADD_FAILURE() << "no error";
    } catch (plait::input_error const& problem) {
      EXPECT_NE(std::string(problem.what())
                    .find("ranks each own a part of a matrix, because a bucket of whole parameters "
                          "would be twice as long: the matrix 'first.weight' of 8 x 16 elements; "
                          "exclude the matrix by the optimizer's function `matrices`, set larger "
                          "buckets"),
                std::string::npos)
          << problem.what();
    }
  });
}

TEST(MuonOptions, AreChecked) {
  using serial = job<plait::serial>;
  auto const says = [](muon const& with, std::string const& text) {
    plait::launch<serial>(plait::threads{}, [&](auto& rank) {
      try {
        plait::trainer<serial>(rank, with);
        ADD_FAILURE() << "no error: " << text;
      } catch (plait::input_error const& problem) {
        EXPECT_NE(std::string(problem.what()).find(text), std::string::npos) << problem.what();
      }
    });
  };
  says({.momentum = 1}, "the optimizer's momentum is 1; it must be from 0 to below 1");
  says({.momentum = -0.1}, "the optimizer's momentum is -0.1;");
  says({.iterations = 0}, "the optimizer's iterations is 0; it must be from 1 to 100");
  says({.coefficients = {1, std::nan(""), 0}}, "the optimizer's coefficients[1] is nan;");
  says({.matrix_rate = -1}, "the optimizer's matrix_rate is -1;");
  says({.learning_rate = -1}, "the optimizer's learning_rate is -1;");
  says({.scale = [](auto, auto) { return -2.0; }}, "the optimizer's scale(2, 8) is -2;");
  says({.scale = nullptr}, "the optimizer's scale is null; write a function");
  says({.matrices = nullptr}, "the optimizer's matrices is null; write a function");
}

}  // namespace
