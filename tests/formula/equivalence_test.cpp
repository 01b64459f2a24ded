// SPDX-License-Identifier: Apache-2.0
// test: seconds=25
// Compares formulas with layers that are written by hand: equal forms, slots and FLOPs, and equal
// bits in training.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "formula/layer_facts.hpp"
#include "plait/formula/layer.hpp"
#include "plait/nn/activation.hpp"
#include "plait/nn/conv2d.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/image.hpp"
#include "plait/nn/layer_norm.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/pooling.hpp"
#include "plait/nn/product.hpp"
#include "plait/nn/rms_norm.hpp"
#include "plait/nn/scale.hpp"
#include "plait/nn/sum.hpp"
#include "plait/nn/swiglu.hpp"
#include "plait/plait.hpp"

using namespace formula_testing;
using namespace plait;
using namespace plait::literals;

constexpr nn::linear_options without_bias{.bias = false};
constexpr nn::linear_options transposed_order{.order = nn::weight_order::output_input};
constexpr ext::nano_fraction an_eighth = fraction(0.125);
constexpr nn::conv_options with_strides{.stride = 2, .padding = 1, .weight = normal(0.2)};
template <std::size_t Channels>
constexpr nn::conv_options of_each_map{
    .kernel = 3, .padding = 1, .groups = Channels, .weight = normal(0.2)};
constexpr nn::conv_options at_each_place{.kernel = 1, .bias = false, .weight = normal(0.2)};
constexpr nn::pool_options overlapping{.kernel = 3, .stride = 2, .padding = 1};

/// Layers that are written by hand.
struct by_hand {
  template <std::size_t In, std::size_t Out>
  using linear = nn::linear<In, Out>;
  template <std::size_t In, std::size_t Out>
  using product_of_matrix = nn::linear<In, Out, without_bias>;
  template <std::size_t In, std::size_t Out>
  using transposed_linear = nn::linear<In, Out, transposed_order>;
  template <std::size_t Width>
  using relu = nn::relu<Width>;
  template <std::size_t Width>
  using gelu = nn::gelu<Width>;
  template <std::size_t Width>
  using silu = nn::silu<Width>;
  template <std::size_t Width>
  using sigmoid = nn::sigmoid<Width>;
  template <std::size_t Width>
  using tanh = nn::tanh<Width>;
  template <std::size_t Width>
  using product = nn::product<Width>;
  template <std::size_t Width>
  using sum = nn::sum<Width, 2>;
  template <std::size_t Width>
  using scale = nn::scale<Width, an_eighth>;
  template <std::size_t Width>
  using rms_norm = nn::rms_norm<Width>;
  template <std::size_t Width>
  using layer_norm = nn::layer_norm<Width>;
  template <class Image, std::size_t Outputs>
  using convolution = nn::conv2d<Image, Outputs, with_strides>;
  template <class Image, std::size_t Outputs>
  using depthwise = nn::conv2d<Image, Outputs, of_each_map<Image::channels>>;
  template <class Image, std::size_t Outputs>
  using pointwise = nn::conv2d<Image, Outputs, at_each_place>;
  template <class Image>
  using max_pool = nn::max_pool<Image, overlapping>;
  template <class Image>
  using average_pool = nn::average_pool<Image>;
};

/// The layers as formulas.
struct by_formula {
  template <std::size_t In, std::size_t Out>
  struct linear {
    static constexpr parameter<"weight", extents<In, Out>, normal(0.02)> weight{};
    static constexpr parameter<"bias", extents<Out>> bias{};
    using input = features<In>;
    static constexpr auto formula(auto x) { return matmul(x, weight) + bias; }
  };
  template <std::size_t In, std::size_t Out>
  struct product_of_matrix {
    static constexpr parameter<"weight", extents<In, Out>, normal(0.02)> weight{};
    using input = features<In>;
    static constexpr auto formula(auto x) { return matmul(x, weight); }
  };
  template <std::size_t In, std::size_t Out>
  struct transposed_linear {
    static constexpr parameter<"weight", extents<Out, In>, normal(0.02)> weight{};
    static constexpr parameter<"bias", extents<Out>> bias{};
    using input = features<In>;
    static constexpr auto formula(auto x) {
      return matmul(x, plait::formula::transposed(weight)) + bias;
    }
  };
  template <std::size_t Width>
  struct relu {
    using input = features<Width>;
    static constexpr auto formula(auto x) { return plait::formula::relu(x); }
  };
  template <std::size_t Width>
  struct gelu {
    using input = features<Width>;
    static constexpr auto formula(auto x) { return plait::formula::gelu(x); }
  };
  template <std::size_t Width>
  struct silu {
    using input = features<Width>;
    static constexpr auto formula(auto x) { return plait::formula::silu(x); }
  };
  template <std::size_t Width>
  struct sigmoid {
    using input = features<Width>;
    static constexpr auto formula(auto x) { return plait::formula::sigmoid(x); }
  };
  template <std::size_t Width>
  struct tanh {
    using input = features<Width>;
    static constexpr auto formula(auto x) { return plait::formula::tanh(x); }
  };
  template <std::size_t Width>
  struct product {
    using input = inputs<features<Width>, features<Width>>;
    static constexpr auto formula(auto x, auto y) { return x * y; }
  };
  template <std::size_t Width>
  struct sum {
    using input = inputs<features<Width>, features<Width>>;
    static constexpr auto formula(auto x, auto y) { return x + y; }
  };
  template <std::size_t Width>
  struct scale {
    using input = features<Width>;
    static constexpr auto formula(auto x) { return 0.125_c * x; }
  };
  template <std::size_t Width>
  struct rms_norm {
    static constexpr parameter<"weight", extents<Width>, constant(1.0)> weight{};
    using input = features<Width>;
    static constexpr auto formula(auto x) { return plait::formula::rms_norm(x, weight); }
  };
  template <std::size_t Width>
  struct layer_norm {
    static constexpr parameter<"weight", extents<Width>, constant(1.0)> weight{};
    static constexpr parameter<"bias", extents<Width>> bias{};
    using input = features<Width>;
    static constexpr auto formula(auto x) { return plait::formula::layer_norm(x, weight, bias); }
  };
  template <class Image, std::size_t Outputs>
  struct convolution {
    static constexpr parameter<"weight", extents<Outputs, 9 * Image::channels>, normal(0.2)>
        weight{};
    static constexpr parameter<"bias", extents<Outputs>> bias{};
    using input = Image;
    using output = typename by_hand::convolution<Image, Outputs>::output;
    static constexpr auto formula(auto x) {
      return convolve<{.stride = 2, .padding = 1}>(x, weight, bias);
    }
  };
  template <class Image, std::size_t Outputs>
  struct depthwise {
    static constexpr parameter<"weight", extents<Outputs, 9>, normal(0.2)> weight{};
    static constexpr parameter<"bias", extents<Outputs>> bias{};
    using input = Image;
    using output = typename by_hand::depthwise<Image, Outputs>::output;
    static constexpr auto formula(auto x) {
      return convolve<{.padding = 1, .groups = Image::channels}>(x, weight, bias);
    }
  };
  template <class Image, std::size_t Outputs>
  struct pointwise {
    static constexpr parameter<"weight", extents<Outputs, Image::channels>, normal(0.2)> weight{};
    using input = Image;
    using output = typename by_hand::pointwise<Image, Outputs>::output;
    static constexpr auto formula(auto x) { return convolve<{.kernel = 1}>(x, weight); }
  };
  template <class Image>
  struct max_pool {
    using input = Image;
    using output = typename by_hand::max_pool<Image>::output;
    static constexpr auto formula(auto x) {
      return plait::formula::max_pool<{.kernel = 3, .stride = 2, .padding = 1}>(x);
    }
  };
  template <class Image>
  struct average_pool {
    using input = Image;
    using output = typename by_hand::average_pool<Image>::output;
    static constexpr auto formula(auto x) { return plait::formula::average_pool(x); }
  };
};

// ---- Facts --------------------------------------------------------------------------------------

template <class A, class B>
inline constexpr bool has_same_flops = info_of<A>.flops_per_row == info_of<B>.flops_per_row;
template <class A, class B>
inline constexpr bool has_same_slots =
    saved_bytes<A>() == saved_bytes<B>() &&
    info_of<A>.saved.keeps_input == info_of<B>.saved.keeps_input &&
    info_of<A>.saved.keeps_output == info_of<B>.saved.keeps_output &&
    scratch_bytes<A>() == scratch_bytes<B>() && fixed_scratch<A>() == fixed_scratch<B>();
/// Compares the optional members that let a layer share buffers, overwrite gradients and have its
/// function fused with the product before it.
constexpr bool are_alike(ext::leaf_info const& a, ext::leaf_info const& b) {
  return a.may_alias.forward == b.may_alias.forward &&
         a.may_alias.backward == b.may_alias.backward &&
         a.overwrites_gradient == b.overwrites_gradient && a.takes_epilogue == b.takes_epilogue &&
         a.is_elementwise == b.is_elementwise;
}
template <class A, class B>
inline constexpr bool has_same_options = are_alike(info_of<A>, info_of<B>);
template <class A, class B>
inline constexpr bool is_same_layer =
    has_same_forms<A, B> && has_same_flops<A, B> && has_same_slots<A, B> && has_same_options<A, B>;

/// Returns the units of each form; a form of a layer by hand may leave them to the layer.
template <class L>
constexpr std::size_t units_of_form(plait::ext::form_info const& form) {
  bool const cuts_features =
      form.input() == shard<dim::features> || form.output == shard<dim::features>;
  return form.units != 0 || !cuts_features ? form.units : info_of<L>.units;
}
template <class A, class B>
constexpr bool has_same_units() {
  for (auto const& a : info_of<A>.forms)
    for (auto const& b : info_of<B>.forms)
      if (a.inputs[0] == b.inputs[0] && a.output == b.output &&
          units_of_form<A>(a) != units_of_form<B>(b))
        return false;
  return true;
}
template <class A, class B>
inline constexpr bool is_same_on_images = is_same_layer<A, B> && has_same_units<A, B>();

using f = by_formula;
using h = by_hand;
static_assert(is_same_layer<f::linear<12, 24>, h::linear<12, 24>>);
static_assert(is_same_layer<f::product_of_matrix<12, 24>, h::product_of_matrix<12, 24>>);
static_assert(is_same_layer<f::transposed_linear<12, 24>, h::transposed_linear<12, 24>>);
static_assert(is_same_layer<f::relu<12>, h::relu<12>>);
static_assert(is_same_layer<f::gelu<12>, h::gelu<12>>);
static_assert(is_same_layer<f::silu<12>, h::silu<12>>);
static_assert(is_same_layer<f::sigmoid<12>, h::sigmoid<12>>);
static_assert(is_same_layer<f::tanh<12>, h::tanh<12>>);
static_assert(is_same_layer<f::product<12>, h::product<12>>);
static_assert(is_same_layer<f::sum<12>, h::sum<12>>);
static_assert(is_same_layer<f::rms_norm<12>, h::rms_norm<12>>);
static_assert(has_same_forms<f::layer_norm<12>, h::layer_norm<12>>);
static_assert(has_same_flops<f::layer_norm<12>, h::layer_norm<12>>);
static_assert(has_same_slots<f::layer_norm<12>, h::layer_norm<12>>);
static_assert(has_same_forms<f::scale<12>, h::scale<12>>);
static_assert(has_same_slots<f::scale<12>, h::scale<12>>);
static_assert(has_same_options<f::scale<12>, h::scale<12>>);
using image = nn::image<6, 9, 7>;
static_assert(is_same_on_images<f::convolution<image, 4>, h::convolution<image, 4>>);
static_assert(is_same_on_images<f::depthwise<image, 12>, h::depthwise<image, 12>>);
static_assert(is_same_on_images<f::pointwise<image, 4>, h::pointwise<image, 4>>);
static_assert(is_same_on_images<f::max_pool<image>, h::max_pool<image>>);
static_assert(is_same_on_images<f::average_pool<image>, h::average_pool<image>>);
static_assert(info_of<f::convolution<image, 4>>.forms.size() == 4);
static_assert(info_of<f::average_pool<image>>.forms.size() == 4);
// The scale that is written by hand counts no FLOPs, so ranks never share it for its own sake. A
// formula counts its product.
static_assert(info_of<h::scale<12>>.flops_per_row == 0);
static_assert(info_of<f::scale<12>>.flops_per_row == 12);

// ---- Training -----------------------------------------------------------------------------------

/// A body with every layer once, in which both branches are joined twice.
template <class Of>
using body = sequential<
    named<"first", typename Of::template linear<6, 12>>,
    named<"rms", typename Of::template rms_norm<12>>, typename Of::template gelu<12>,
    named<"second", typename Of::template product_of_matrix<12, 24>>,
    typename Of::template silu<24>, typename Of::template scale<24>,
    named<"third", typename Of::template transposed_linear<24, 12>>,
    fan_out<typename Of::template sigmoid<12>, typename Of::template tanh<12>>,
    typename Of::template product<12>, named<"norm", typename Of::template layer_norm<12>>,
    fan_out<typename Of::template relu<12>, named<"fourth", typename Of::template linear<12, 12>>>,
    typename Of::template sum<12>>;

template <class Of, class Policy>
struct job : parallel<objective<body<Of>, nn::cross_entropy<12>>, Policy, double> {};

/// Layers on images.
template <class Of>
struct image_layers {
  using first = typename Of::template convolution<nn::image<2, 9, 7>, 6>;
  using second = typename Of::template depthwise<typename first::output, 12>;
  using third = typename Of::template max_pool<typename second::output>;
  using fourth = typename Of::template pointwise<typename third::output, 8>;
  using fifth = typename Of::template average_pool<typename fourth::output>;
  using type = sequential<named<"first", first>, typename Of::template tanh<first::output::size>,
                          named<"second", second>, third, named<"third", fourth>, fifth,
                          named<"last", typename Of::template linear<fifth::output::size, 12>>>;
};
template <class Of, class Policy>
struct image_job
    : parallel<objective<typename image_layers<Of>::type, nn::cross_entropy<12>>, Policy, double> {
};

constexpr std::size_t samples = 16;

template <class Job>
std::vector<double> losses_of(std::size_t features = 6) {
  std::vector<double> losses;
  auto const data = in_memory<double>::random_classes(samples, features, 12, 3);
  launch<Job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{.learning_rate = 0.05}, {.seed = 11});
    auto from = batches(data, global_batch<samples>{}, rank, {.epochs = 0});
    for (std::uint64_t step = 0; step < 6; ++step) {
      auto const report = trainer.step(from.at(step));
      if (rank.is_root()) losses.push_back(report.loss);
    }
  });
  return losses;
}

/// Each node of these formulas is an operation that the layer by hand calls, and no function of
/// elements is fused with another, so all roundings are equal.
template <class Policy>
void expect_same_bits() {
  auto const expected = losses_of<job<by_hand, Policy>>();
  auto const got = losses_of<job<by_formula, Policy>>();
  ASSERT_EQ(expected.size(), 6u);
  EXPECT_LT(expected.back(), expected.front());
  EXPECT_EQ(got, expected);
}

TEST(FormulaEquivalence, SameBitsOnOneRank) { expect_same_bits<serial>(); }
TEST(FormulaEquivalence, SameBitsOnDataRanks) { expect_same_bits<data_parallel<2>>(); }
TEST(FormulaEquivalence, SameBitsOnTensorRanks) { expect_same_bits<tensor_parallel<2>>(); }
TEST(FormulaEquivalence, SameBitsOnStages) { expect_same_bits<pipeline<2>>(); }
TEST(FormulaEquivalence, SameBitsOnAllAxes) {
  expect_same_bits<hybrid<data_parallel<2>, tensor_parallel<2>, pipeline<2>>>();
}

template <class Policy>
void expect_same_bits_of_images() {
  auto const expected = losses_of<image_job<by_hand, Policy>>(2 * 9 * 7);
  auto const got = losses_of<image_job<by_formula, Policy>>(2 * 9 * 7);
  ASSERT_EQ(expected.size(), 6u);
  EXPECT_LT(expected.back(), expected.front());
  EXPECT_EQ(got, expected);
}
TEST(FormulaEquivalence, ImagesHaveSameBitsOnOneRank) { expect_same_bits_of_images<serial>(); }
TEST(FormulaEquivalence, ImagesHaveSameBitsOnTensorRanks) {
  expect_same_bits_of_images<tensor_parallel<2>>();
}

/// The gated layer of Llama: as several layers, and as one formula. The formula fuses the functions
/// between its products, so it rounds once where layers round twice.
template <class Of>
struct gate;
template <>
struct gate<by_hand> {
  template <std::size_t In, std::size_t Out>
  using matrix = nn::linear<In, Out, {.bias = false, .order = nn::weight_order::output_input}>;
  using type = sequential<fan_out<sequential<named<"gate_proj", matrix<6, 12>>, nn::silu<12>>,
                                  named<"up_proj", matrix<6, 12>>>,
                          nn::product<12>, named<"down_proj", matrix<12, 6>>>;
};
template <>
struct gate<by_formula> {
  using type = nn::swiglu<6, 12>;
};
template <class Of, class Policy>
struct gated_job : parallel<objective<sequential<named<"mlp", typename gate<Of>::type>,
                                                 named<"out", typename Of::template linear<6, 12>>>,
                                      nn::cross_entropy<12>>,
                            Policy, double> {};

// A formula recomputes the values between its products and keeps the input and two of them; the
// layers keep four.
template <class Of, class Policy>
constexpr auto bytes_of_gate = gated_job<Of, Policy>::plan().bytes_per_rank({.rows = 64});
static_assert(bytes_of_gate<by_formula, serial> < bytes_of_gate<by_hand, serial>);
static_assert(bytes_of_gate<by_formula, tensor_parallel<2>> <
              bytes_of_gate<by_hand, tensor_parallel<2>>);
// Both send the same bytes.
template <class Of>
constexpr auto sent_by_gate =
    gated_job<Of, tensor_parallel<2>>::plan().bytes_sent(plait::axis::tensor, {.rows = 64}).total();
static_assert(sent_by_gate<by_formula> == sent_by_gate<by_hand>);

template <class Policy>
void expect_near() {
  auto const expected = losses_of<gated_job<by_hand, Policy>>();
  auto const got = losses_of<gated_job<by_formula, Policy>>();
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
}
TEST(FormulaEquivalence, AFusedGateIsNearOnOneRank) { expect_near<serial>(); }
TEST(FormulaEquivalence, AFusedGateIsNearOnTensorRanks) { expect_near<tensor_parallel<2>>(); }
