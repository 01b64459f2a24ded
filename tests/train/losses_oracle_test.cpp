// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=6
//
// Compares 20 steps of small nets with PyTorch's losses, which tests/oracle/losses_reference.py
// prints.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/nn/loss_of_part.hpp"
#include "plait/nn/weighted_cross_entropy.hpp"
#include "plait/plait.hpp"
#include "plait/testing/check_layer.hpp"
#include "train/expect_planned.hpp"
#include "train/penalty.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

constexpr std::size_t samples = 30, input_width = 6, hidden = 12, out = 3;
constexpr std::uint64_t steps = 20;

// The losses of PyTorch.
std::vector<double> const mse{
    0.527696721674244, 0.639993047111154, 0.49981619870889,  0.590271821018115, 0.422736120924748,
    0.380350308818285, 0.34247560647102,  0.493314015664232, 0.397155556981991, 0.291927798986467,
    0.280106354396364, 0.410281393419875, 0.335468284451022, 0.226253119582329, 0.23987887450495,
    0.337601252960929, 0.301278420948512, 0.183524888017007, 0.214676183095477, 0.287444208463312};
std::vector<double> const weighted_mse{
    0.519419424130755, 0.605072646167703, 0.554240665549809, 0.490832619784086, 0.376590154974522,
    0.420033985570502, 0.336280509751975, 0.449630799001929, 0.345844160653337, 0.331371207498589,
    0.258714428412107, 0.39419644723619,  0.273729469706308, 0.251895514266038, 0.231274697399956,
    0.323885667933243, 0.244491112290081, 0.194172418066397, 0.212840573096093, 0.274313313572537};
std::vector<double> const huber{
    0.225126728626911, 0.284291103254726,  0.22399778764818,   0.273109832156314,
    0.179329928460707, 0.192728864785839,  0.147739327726967,  0.243275678729298,
    0.172511569579866, 0.164056967092193,  0.116890441844361,  0.208880221888752,
    0.161102536264403, 0.13001336072013,   0.09646784228054,   0.167789268541904,
    0.156968035418871, 0.0934539624242448, 0.0874406893329184, 0.130538985195871};
std::vector<double> const binary{
    0.729718962141322, 0.6689707248559,   0.682408028172468, 0.697601746334589, 0.641151544100325,
    0.644439604487803, 0.634547915278277, 0.667216913234342, 0.628068676371177, 0.638260949552616,
    0.607820058754659, 0.633363029690228, 0.630966824007704, 0.625777559883601, 0.588858845646792,
    0.598968768159558, 0.62915839881919,  0.603673004184861, 0.573393959596424, 0.574590049731987};

std::vector<double> const smoothed{
    1.10242968006196,  1.09108651922888,  1.02521949891287,  1.02211438824934,  0.936497388123917,
    0.915347010912769, 0.856648407152196, 0.859401109351868, 0.810778704435678, 0.718141599528704,
    0.676249318198025, 0.66549376913987,  0.674966853749257, 0.512375687828715, 0.501324718812249,
    0.494406871222481, 0.545655188154554, 0.373755788980926, 0.381267336478508, 0.394618809253865};
std::vector<double> const two_groups{
    0.527696721674244, 0.700794246974269, 0.569201189585819, 0.588712436106653, 0.485939742587186,
    0.52092733166497,  0.479627259553564, 0.497412232374091, 0.513949527949384, 0.440673366940305,
    0.451777390207207, 0.458425848023296, 0.517692195375389, 0.400750547457997, 0.420792085741491,
    0.432066195711712, 0.480858909208763, 0.370891792049922, 0.379219455051925, 0.407841908164783};
std::vector<double> const first_frozen{
    0.527696721674244, 0.707505292619406, 0.576535306584742, 0.588078140882329, 0.496323021906606,
    0.543801591783246, 0.503402860419529, 0.509062735587625, 0.529495034287883, 0.471326729711868,
    0.492243703466555, 0.483538919242018, 0.546807664734816, 0.441301793063535, 0.480325073874128,
    0.471325448013385, 0.524622985055197, 0.424242340933218, 0.456596394350667, 0.460844586767484};

std::vector<double> const two_losses{
    1.43717492125126,  1.41079218225429,  1.30852769860709,  1.30580963534437,  1.20472015436204,
    1.13099775975733,  1.04207687553401,  1.07619970229615,  1.0210578075218,   0.832107422761727,
    0.770713491809661, 0.812707891561863, 0.784983423232376, 0.52593057946641,  0.500983245312912,
    0.551328579045181, 0.548823894349813, 0.28068899787258,  0.283387426451684, 0.34010170472468};
std::vector<double> const balanced{
    0.563814286975055, 0.671828086190529, 0.533636387269481, 0.618242952002817, 0.454685081966335,
    0.415272906468862, 0.378723990440383, 0.526180547074523, 0.429209394597671, 0.338528752274066,
    0.320429348747734, 0.445911473398647, 0.374485182721729, 0.277363841185761, 0.292517236342936,
    0.383441264188081, 0.351501966101373, 0.243297260760359, 0.281061056287822, 0.345349204565451};
std::vector<double> const averaged{
    0.752023964537997, 0.628530785960895, 0.679056865312921, 0.467444584563518, 0.609887885991041,
    0.496007874292981, 0.601739734393923, 0.404466654155397, 0.462558728871155, 0.384080132284333,
    0.504668001478813, 0.364765268702402, 0.361908678060215, 0.317009336086488, 0.432461198896511,
    0.331618280784038, 0.290124475255261, 0.270480024500502, 0.37517925423955,  0.309667243705256};

/// A number between -1 and 1 for each i and k.
double number(std::size_t i, std::size_t k) {
  return std::sin(12.9898 * double(i) + 78.233 * double(k));
}

enum class of { numbers, weighted_numbers, shares, classes };

template <class T, of Kind>
struct table {
  using concept_tag = dataset_tag;
  using element = T;
  using target = std::conditional_t<Kind == of::classes, std::int32_t, T>;
  [[nodiscard]] std::size_t size() const { return samples; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return input_width; }
  [[nodiscard]] std::size_t target_width() const { return Kind == of::classes ? 1 : out; }
  void inputs(std::size_t sample, std::span<T> to) const {
    for (std::size_t c = 0; c < to.size(); ++c)
      to[c] = static_cast<T>(number(sample * input_width + c, 1));
  }
  void targets(std::size_t sample, std::span<target> to) const {
    for (std::size_t c = 0; c < to.size(); ++c)
      to[c] = static_cast<target>(Kind == of::classes  ? double((7 * sample + sample / 5) % out)
                                  : Kind == of::shares ? 0.5 + 0.5 * number(sample * out + c, 3)
                                                       : number(sample * out + c, 2));
  }
  [[nodiscard]] double weight(std::size_t sample) const
    requires(Kind == of::weighted_numbers)
  {
    return 0.25 * double(sample % 4) + 0.5;
  }
};

using body = sequential<named<"first", nn::linear<input_width, hidden>>, nn::relu<hidden>,
                        named<"second", nn::linear<hidden, out>>>;
template <class Policy, class Loss, class T, class Body = body>
struct job : parallel<objective<Body, Loss>, Policy, T> {};

/// Returns the losses before each of 20 steps. If weights are averaged, each is the loss of the
/// averages on the next batch.
template <class Job>
std::vector<double> losses_of(auto const& data, trainer_options const& options = {}) {
  std::vector<double> losses;
  launch<Job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(
        rank, adamw{.learning_rate = 0.02, .beta2 = 0.95, .weight_decay = 0.1}, options);
    trainer.import_parameters([](std::string const& name, auto const&, auto values) {
      std::size_t const k = name == "first.weight"    ? 4
                            : name == "first.bias"    ? 5
                            : name == "second.weight" ? 6
                                                      : 7;
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<typename Job::element>(0.5 * number(i, k));
    });
    auto from = batches(data, global_batch<8>{}, rank,
                        {.how = sample_order::sequential, .last = last_batch::keep, .epochs = 0});
    workload load{.rows = from.at(0).rows(), .microbatches = from.at(0).microbatches};
    load.averages = options.average > 0;
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (auto const over : rank.groups().sets()) rank.group(over).reset_counted();
      double loss = trainer.step(from.at(step)).loss;
      if (step == 1) plait_test::expect_planned_bytes<Job>(rank, load);
      if (options.average > 0)
        loss = trainer.with_ema([&] { return trainer.evaluate(from.at(step + 1)); });
      if (rank.is_root()) losses.push_back(loss);
    }
    plait_test::expect_planned_memory<Job>(rank.stage(), trainer.allocated(), load);
  });
  return losses;
}

void expect_near(std::vector<double> const& expected, std::vector<double> const& got,
                 double tolerance) {
  ASSERT_EQ(got.size(), steps);
  for (std::size_t i = 0; i < steps; ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << i;
}

using grid = hybrid<pipeline<2>, data_parallel<2>, tensor_parallel<2>>;

/// Compares PyTorch's losses in double and float, and the serial run's under other plans: the axes
/// one by one and together, or the tensor axis, which cuts the loss itself, and all of them.
template <template <class, class> class Job, of Kind, bool OneByOne = false>
void expect_pytorch(std::vector<double> const& expected, trainer_options const& options = {}) {
  table<double, Kind> const data;
  auto const serial_run = losses_of<Job<serial, double>>(data, options);
  expect_near(expected, serial_run, 1e-9);
  expect_near(expected, losses_of<Job<serial, float>>(table<float, Kind>{}, options), 1e-4);
  expect_near(serial_run, losses_of<Job<tensor_parallel<2>, double>>(data, options), 1e-10);
  if constexpr (OneByOne) {
    expect_near(serial_run, losses_of<Job<data_parallel<2>, double>>(data, options), 1e-10);
    expect_near(serial_run, losses_of<Job<pipeline<2>, double>>(data, options), 1e-10);
  }
  expect_near(serial_run, losses_of<Job<grid, double>>(data, options), 1e-10);
}

template <class Policy, class T>
using of_mse = job<Policy, nn::mse<out>, T>;
template <class Policy, class T>
using of_huber = job<Policy, nn::huber<out, 700>, T>;
template <class Policy, class T>
using of_binary = job<Policy, nn::binary_cross_entropy<out>, T>;
template <class Policy, class T>
using of_smoothed = job<Policy, nn::cross_entropy<out, {.smoothing = fraction(0.1)}>, T>;
using sum_of_two =
    sum_of<nn::cross_entropy<out>, times<fraction(0.3), nn::cross_entropy<out, {.ignored = 1}>>>;
template <class Policy, class T>
using of_two = job<Policy, sum_of_two, T>;
template <class Policy, class T>
using half_frozen = job<Policy, nn::mse<out>, T, frozen<body, "first.*">>;
using penalized = sequential<named<"first", nn::linear<input_width, hidden>>, nn::relu<hidden>,
                             times<fraction(0.25), plait_test::penalty<hidden>>,
                             named<"second", nn::linear<hidden, out>>>;
template <class Policy, class T>
using of_penalized = job<Policy, nn::mse<out>, T, penalized>;

TEST(LossesOracle, MeanSquaredError) { expect_pytorch<of_mse, of::numbers, true>(mse); }
TEST(LossesOracle, Weights) { expect_pytorch<of_mse, of::weighted_numbers, true>(weighted_mse); }
TEST(LossesOracle, Huber) { expect_pytorch<of_huber, of::numbers>(huber); }
TEST(LossesOracle, BinaryCrossEntropy) { expect_pytorch<of_binary, of::shares>(binary); }
TEST(LossesOracle, SmoothedLabels) { expect_pytorch<of_smoothed, of::classes>(smoothed); }
TEST(LossesOracle, ASumOfLossesWithCountsOfTheirOwn) {
  expect_pytorch<of_two, of::classes, true>(two_losses);
  expect_near(two_losses,
              losses_of<of_two<tensor_parallel<3>, double>>(table<double, of::classes>{}), 1e-9);
}
TEST(LossesOracle, ATermInMidModel) { expect_pytorch<of_penalized, of::numbers, true>(balanced); }
TEST(LossesOracle, GroupsWithRatesAndDecayOfTheirOwn) {
  expect_pytorch<of_mse, of::numbers>(
      two_groups,
      {.groups = {{.pattern = "first.*", .rate = 0.1}, {.pattern = "second.*", .decay = 0}}});
}
TEST(LossesOracle, AFrozenLayer) { expect_pytorch<half_frozen, of::numbers>(first_frozen); }

// ---- classes with weights next to real targets, against a loop in double

using weights_of_classes = nn::class_weights<fraction(0.5), fraction(1.25), fraction(3)>;
using classes_of_four =
    nn::loss_of_part<nn::weighted_cross_entropy<weights_of_classes>, {.outputs = 4, .targets = 2}>;
using number_of_four =
    nn::loss_of_part<nn::mse<1>,
                     {.outputs = 4, .first_output = 3, .targets = 2, .first_target = 1}>;
template <class Policy>
struct unlike_job
    : parallel<objective<named<"second", nn::linear<input_width, 4>>,
                         sum_of<classes_of_four, times<fraction(0.5), number_of_four>>>,
               Policy, double> {};

constexpr double rate = 0.2;
/// A class and a number for each sample; some samples lack one of the two.
double unlike_target(std::size_t sample, std::size_t c) {
  if (sample % 11 == 5 - c) return std::nan("");
  return c == 0 ? double((7 * sample + sample / 5) % 3) : number(sample, 2);
}

template <class Policy>
std::vector<double> losses_of_unlike() {
  std::vector<double> inputs(samples * input_width), targets(samples * 2), losses;
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = number(i, 1);
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = unlike_target(i / 2, i % 2);
  in_memory<double, double> const data(inputs, targets, input_width, 2);
  launch<unlike_job<Policy>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<unlike_job<Policy>>(rank, sgd{.learning_rate = rate});
    trainer.import_parameters([](std::string const& name, auto const&, auto values) {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = 0.5 * number(i, name == "second.weight" ? 6 : 7);
    });
    auto from = batches<double>(data, global_batch<8>{}, rank,
                                {.how = sample_order::sequential, .last = last_batch::keep});
    for (auto const& batch : from) {
      double const loss = trainer.step(batch).loss;
      if (rank.is_root()) losses.push_back(loss);
    }
  });
  return losses;
}

std::vector<double> losses_of_loop() {
  constexpr double of_class[]{0.5, 1.25, 3};
  std::vector<double> w(input_width * 4), b(4), losses;
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = 0.5 * number(i, 6);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = 0.5 * number(i, 7);
  for (std::size_t first = 0; first < samples; first += 8) {
    std::size_t const end = std::min(first + 8, samples);
    double weights = 0, numbers = 0, loss = 0;
    for (std::size_t s = first; s < end; ++s) {
      if (double const c = unlike_target(s, 0); !std::isnan(c)) weights += of_class[int(c)];
      numbers += !std::isnan(unlike_target(s, 1));
    }
    std::vector<double> dw(w.size()), db(b.size());
    for (std::size_t s = first; s < end; ++s) {
      double y[4], dy[4]{};
      for (std::size_t c = 0; c < 4; ++c) {
        y[c] = b[c];
        for (std::size_t i = 0; i < input_width; ++i)
          y[c] += number(s * input_width + i, 1) * w[i * 4 + c];
      }
      if (double const label = unlike_target(s, 0); !std::isnan(label)) {
        double const sum = std::exp(y[0]) + std::exp(y[1]) + std::exp(y[2]);
        double const share = of_class[int(label)] / weights;
        loss += share * (std::log(sum) - y[int(label)]);
        for (int c = 0; c < 3; ++c) dy[c] = share * (std::exp(y[c]) / sum - (c == int(label)));
      }
      if (double const target = unlike_target(s, 1); !std::isnan(target)) {
        loss += 0.5 * (y[3] - target) * (y[3] - target) / numbers;
        dy[3] = (y[3] - target) / numbers;
      }
      for (std::size_t c = 0; c < 4; ++c) {
        db[c] += dy[c];
        for (std::size_t i = 0; i < input_width; ++i)
          dw[i * 4 + c] += number(s * input_width + i, 1) * dy[c];
      }
    }
    losses.push_back(loss);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rate * dw[i];
    for (std::size_t i = 0; i < b.size(); ++i) b[i] -= rate * db[i];
  }
  return losses;
}

TEST(LossesOracle, ClassesWithWeightsAndNumbers) {
  auto const expected = losses_of_loop();
  auto const near = [&](std::vector<double> const& got) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-13) << i;
  };
  near(losses_of_unlike<serial>());
  near(losses_of_unlike<hybrid<data_parallel<2>, tensor_parallel<2>>>());
  EXPECT_THROW(classes_of_four::count(std::span<double const>(std::vector{0.5, 1.0})), input_error);
  EXPECT_THROW(classes_of_four::count(std::span<double const>(std::vector{3.0, 1.0})), input_error);
}

// The declarations of a loss within a sum hold for the part of the targets that it gets.
struct of_pairs : nn::cross_entropy<3> {
  static constexpr std::size_t mixes_samples = 2;
  static constexpr bool takes_weights = false;
  static std::int64_t count(std::span<std::int32_t const> some) {
    return static_cast<std::int64_t>(some.size());
  }
};
using pairs_of_part = nn::loss_of_part<of_pairs, {.targets = 1}>;
static_assert(ext::leaf_of<pairs_of_part>.mixes_samples == 2);
static_assert(!ext::leaf_of<pairs_of_part>.takes_weights);
TEST(LossesOracle, ALossOfPartRefusesAClassThatItsLossDoesNotHave) {
  EXPECT_THROW(pairs_of_part::count(std::span<double const>(std::vector{3.0})), input_error);
  EXPECT_EQ(pairs_of_part::count(std::span<double const>(std::vector{2.0})), 1);
}

TEST(LossesOracle, LossesOfPartsKeepTheLaws) {
  auto const keeps = [](auto const& report) { EXPECT_TRUE(report.passed()) << report.text(); };
  keeps(plait::testing::check_layer<nn::weighted_cross_entropy<weights_of_classes>>());
  keeps(plait::testing::check_layer<classes_of_four>());
  keeps(plait::testing::check_layer<number_of_four>());
}

TEST(LossesOracle, AveragesOfWeights) {
  expect_pytorch<of_mse, of::numbers>(averaged, {.average = 0.9});
}

}  // namespace
