// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint alone
// The examples in the doc comments of headers, which scripts/docs cuts from here. They
// run, too.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "plait/backend/simulated/simulated.hpp"
#include "plait/checkpoint/checkpoints.hpp"
#include "plait/checkpoint/load_weights.hpp"
#include "plait/checkpoint/save_weights.hpp"
#include "plait/checkpoint/weights_folder.hpp"
#include "plait/data/mix.hpp"
#include "plait/formula.hpp"
#include "plait/nn/causal_conv1d.hpp"
#include "plait/nn/geglu.hpp"
#include "plait/nn/interleaved.hpp"
#include "plait/nn/latent_attention.hpp"
#include "plait/nn/loss_of_part.hpp"
#include "plait/nn/qk_norm_attention.hpp"
#include "plait/nn/rg_lru.hpp"
#include "plait/nn/squeeze_excite.hpp"
#include "plait/nn/weighted_cross_entropy.hpp"
#include "plait/nn/zero_centred_rms_norm.hpp"
#include "plait/plait.hpp"
#include "plait/testing/check_layer.hpp"
#include "plait/train/options/stop_on_signals.hpp"

// ---- Models
// --------------------------------------------------------------------------------------

namespace of_models {
// example-begin linear
using classifier = plait::nn::linear<10, 2>;                // y = x w + b
using no_bias = plait::nn::linear<10, 2, {.bias = false}>;  // y = x w
// example-end
// example-begin grouped_attention
using q = plait::nn::linear<64, 64>;
using k_or_v = plait::nn::linear<64, 16>;  // one of four heads of 16
using attention = plait::sequential<plait::fan_out<q, k_or_v, k_or_v>,
                                    plait::nn::attention<4, 1, 16, 128, {.window = 32}>>;
// example-end

// example-begin qk_norm
using normed_q =
    plait::sequential<plait::nn::linear<64, 128>, plait::nn::qk_norm<128, 32>,
                      plait::nn::rotary<128, 32, 512>>;
// example-end
// example-begin qk_norm_attention
using of_qwen3_0_6b =
    plait::nn::qk_norm_attention<1024, 16, 8, 128, 4096, {.rotary = {.base = 1000000}}>;
// example-end
// example-begin interleaved
using heads =
    plait::nn::interleaved<6, plait::nn::attention<4, 1, 16, 128, {.window = 32}>,
                           plait::nn::attention<4, 1, 16, 128>>;
// example-end
// example-begin geglu
using feed_forward = plait::nn::geglu<64, 256>;
// example-end
// example-begin zero_centred_rms_norm
using norm = plait::nn::zero_centred_rms_norm<64, {.epsilon = plait::fraction(1e-6)}>;
// example-end
// example-begin latent_attention
using of_latent = plait::nn::multi_head_latent_attention<
    256, {.heads = 8, .latent = 64, .nope = 32, .rope = 16, .value = 32}, 512>;
// example-end
// example-begin squeeze_excite
using of_efficientnet =
    plait::nn::squeeze_excite<plait::nn::image<96, 16, 16>, 4, plait::functions::silu>;
// example-end
// example-begin causal_conv1d
using four_positions = plait::nn::causal_conv1d<64, 4, 128>;
// example-end
// example-begin rg_lru
using branch =
    plait::sequential<plait::nn::linear<64, 96>, plait::nn::causal_conv1d<96, 4, 128>,
                      plait::nn::rg_lru<96, 6, 128>>;
using gate = plait::sequential<plait::nn::linear<64, 96>, plait::nn::gelu<96>>;
using recurrent = plait::sequential<plait::fan_out<branch, gate>, plait::nn::product<96>,
                                    plait::nn::linear<96, 64>>;
// example-end
// example-begin conv2d
using first =
    plait::nn::conv2d<plait::nn::image<3, 32, 32>, 16, {.kernel = 3, .padding = 1}>;
using second = plait::nn::conv2d<first::output, 32, {.stride = 2, .bias = false}>;
// example-end
// example-begin max_pool
using halved = plait::nn::max_pool<plait::nn::image<16, 32, 32>>;  // 16 maps of 16 x 16
using of_resnet =
    plait::nn::max_pool<halved::output, {.kernel = 3, .stride = 2, .padding = 1}>;
// example-end
// example-begin upsample
using twice_as_large =
    plait::nn::upsample<plait::nn::image<8, 4, 4>, 2>;  // 8 maps of 8 x 8
// example-end
// example-begin slice
using last_four = plait::nn::slice<16, 12, 4>;
// example-end
// example-begin identity
using beside_itself =  // x and f(x), side by side
    plait::sequential<plait::fan_out<plait::nn::identity<16>, plait::nn::linear<16, 4>>,
                      plait::nn::concat<16, 4>>;
// example-end
static_assert(twice_as_large::output::size + last_four::output::info.width +
                  beside_itself::output::info.width ==
              512 + 4 + 20);
// example-begin batch_norm
using normalized = plait::nn::batch_norm<plait::nn::image<16, 32, 32>, {.group = 8}>;
// example-end
// example-begin batch_sum
using summed = plait::form<
    "whole", plait::invariant, plait::invariant,
    plait::ext::batch_sum<plait::invariant, 8>,
    plait::ext::batch_sum<plait::invariant, 8, plait::ext::layer_body::backward_input>>;
// example-end
// example-begin affine
template <std::size_t Width>
struct affine {  // y = x * scale + shift, a number of each for every feature
  using concept_tag = plait::layer_tag;
  using scale = plait::parameter<"scale", plait::extents<Width>, plait::constant(1.0)>;
  using shift = plait::parameter<"shift", plait::extents<Width>>;
  using parameters = plait::parameter_list<scale, shift>;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  static constexpr auto cut = plait::shard<plait::dim::features>;
  using forms =
      plait::forms<plait::whole, plait::form<"features", cut, cut, plait::split<scale, 0>,
                                             plait::split<shift, 0>>>;
  using saved = plait::saved<plait::input_slot>;

  struct scaled {  // reads its own column alone, of rows and of the one row of a
                   // parameter
    static constexpr std::size_t block = 1;
    PLAIT_HOST_DEVICE auto operator()(plait::ext::element_place const& at, auto x,
                                      auto scale) const {
      return x[at.column] * scale[at.column];
    }
  };
  struct product {
    PLAIT_HOST_DEVICE auto operator()(auto a, auto b) const { return a * b; }
  };
  static void forward(auto& ops, auto const& l) {
    ops.map_at(scaled{}, l.y, l.x, l.p[scale{}]);
    ops.add_row(l.p[shift{}], l.y);
  }
  static void backward_input(auto& ops, auto const& l) {
    ops.map_at(scaled{}, l.dx, l.dy, l.p[scale{}]);
  }
  static void backward_parameters(auto& ops, auto const& l) {
    ops.accumulate_columns(product{}, l.saved[plait::input_slot{}], l.dy, l.dp[scale{}]);
    ops.accumulate_column_sums(l.dy, l.dp[shift{}]);
  }
};
// example-end
// example-begin centred
struct times {
  static constexpr bool is_linear = true;
  double factor;
  PLAIT_HOST_DEVICE auto operator()(auto a) const { return decltype(a)(factor) * a; }
  PLAIT_HOST_DEVICE auto operator()(auto a, auto) const {
    return decltype(a)(factor) * a;
  }
};
template <std::size_t Width>
struct centred {  // y = x - the mean of x over all samples; in evaluation the mean of the
                  // steps before
  using concept_tag = plait::layer_tag;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using running_mean =
      plait::nn::buffer<"running_mean", plait::extents<Width>, plait::constant(0),
                        plait::nn::moving_average(0.1)>;
  using parameters = plait::parameter_list<running_mean>;
  using forms = plait::forms<
      plait::form<"whole", plait::invariant, plait::invariant,
                  plait::ext::batch_sum<plait::invariant, Width>,
                  plait::ext::batch_sum<plait::invariant, Width,
                                        plait::ext::layer_body::backward_input>>>;
  using mean = plait::slot<"mean", 0, Width, plait::slot_element::accumulate,
                           plait::slot_kept::always>;
  using sums = plait::slot<"sums", 0, Width, plait::slot_element::accumulate>;
  using saved = plait::saved<mean>;
  using scratch = plait::scratch<sums>;
  static constexpr std::size_t sequence = 1;

  static void find_mean(auto& ops, auto const& l, auto of, auto to) {
    of.rows =
        l.context.present();  // in a last partial batch the last places have no sample
    ops.clear(to);
    ops.accumulate_column_sums(of, to);
    ops.sum_over_samples(to);
    ops.map(times{1.0 / double(l.context.present_on_all_ranks())}, to, to);
  }
  static void subtract(auto& ops, auto const& l, auto row, auto from, auto to) {
    ops.copy(from, to);
    ops.map(times{-1}, row, l.scratch[sums{}]);
    ops.add_row(l.scratch[sums{}], to);
  }
  static void forward(auto& ops, auto const& l) {
    if (l.context.reads_buffers) return subtract(ops, l, l.p[running_mean{}], l.x, l.y);
    if (!l.context.recomputes) find_mean(ops, l, l.x, l.saved[mean{}]);
    subtract(ops, l, l.saved[mean{}], l.x, l.y);
  }
  static void backward_input(auto& ops, auto const& l) {
    if (l.context.reads_buffers) return ops.copy(l.dy, l.dx);
    find_mean(ops, l, l.dy, l.scratch[sums{}]);
    subtract(ops, l, l.scratch[sums{}], l.dy, l.dx);
    auto absent = l.dx;  // rows without a sample have no gradient
    absent.data += l.context.present() * Width;
    absent.rows = l.context.missing;
    ops.clear(absent);
  }
  static void backward_parameters(auto& ops,
                                  auto const& l) {  // this rank's share of the mean
    double const share = l.context.sample_share() * double(l.context.present());
    ops.accumulate_columns(times{share}, l.saved[mean{}], l.saved[mean{}],
                           l.dp[running_mean{}]);
  }
};
// example-end
// example-begin buffer
using running_mean =
    plait::nn::buffer<"running_mean", plait::extents<16>, plait::constant(0),
                      plait::nn::moving_average(0.1)>;
// example-end
// example-begin file_shape
using kernels =
    plait::parameter<"weight", plait::extents<16, 3 * 5 * 5>, plait::normal(0.1), 0,
                     plait::nn::file_shape<16, 3, 5, 5>>;
// example-end

// example-begin sequential
using net = plait::sequential<plait::nn::linear<10, 32>, plait::nn::gelu<32>,
                              plait::nn::linear<32, 2>>;
// example-end
// example-begin gelu
using block = plait::sequential<plait::nn::linear<16, 64>, plait::nn::gelu<64>,
                                plait::nn::linear<64, 16>>;
// example-end
// example-begin residual
using with_skip =
    plait::residual<plait::sequential<plait::nn::layer_norm<16>, block>>;  // y = x + f(x)
// example-end
// example-begin repeat
using twelve =
    plait::repeat<12, with_skip>;  // one type, compiled once; 12 sets of parameters
// example-end
// example-begin named
using in_files =
    plait::named<"head", plait::nn::linear<16, 4>>;  // "head.weight", "head.bias"
// example-end
// example-begin use_form
using every_rank =
    plait::use_form<"whole", plait::nn::linear<16, 4>>;  // no tensor rank shares it
// example-end
// example-begin objective
using objective =
    plait::objective<net, plait::nn::cross_entropy<2>>;  // a trainer minimises it
// example-end
// example-begin extents
using table = plait::extents<50257, 768>;  // a matrix; plait::extents<768> is a vector
// example-end
// example-begin normal
using small = plait::parameter<"weight", plait::extents<16, 4>, plait::normal(0.02)>;
// example-end
// example-begin fraction
using weaker =
    plait::times<plait::fraction(0.5), plait::nn::cross_entropy<2>>;  // half of the loss
// example-end
// example-begin shard
constexpr plait::placement blocks = plait::shard<plait::dim::features>;
static_assert(blocks != plait::replicate);
// example-end
// example-begin cross_entropy
using loss = plait::nn::cross_entropy<2>;  // for 2 outputs and a class, 0 or 1
// example-end
// example-begin weighted_cross_entropy
using rare_class_twice = plait::nn::weighted_cross_entropy<
    plait::nn::class_weights<plait::fraction(1), plait::fraction(2)>>;
// example-end
// example-begin loss_of_part
using both = plait::sum_of<  // 4 outputs: logits of 3 classes, and a number
    plait::nn::loss_of_part<plait::nn::cross_entropy<3>, {.outputs = 4, .targets = 2}>,
    plait::nn::loss_of_part<
        plait::nn::mse<1>,
        {.outputs = 4, .first_output = 3, .targets = 2, .first_target = 1}>>;
// example-end
static_assert(rare_class_twice::classes == 2 && sizeof(both) > 0);
}  // namespace of_models

// ---- Layers
// --------------------------------------------------------------------------------------

namespace of_layers {

// example-begin layer
template <std::size_t Width>
struct scale {  // y = x * w, one factor for each feature
  using concept_tag = plait::layer_tag;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using weight = plait::parameter<"weight", plait::extents<Width>, plait::constant(1.0)>;
  using parameters = plait::parameter_list<weight>;
  using saved = plait::saved<plait::input_slot>;
  static void forward(auto& ops, auto l);
  static void backward_input(auto& ops, auto l);
  static void backward_parameters(auto& ops, auto l);
};
// example-end

template <std::size_t In, std::size_t Out>
struct dense {
  using concept_tag = plait::layer_tag;
  // example-begin parameter
  using weight = plait::parameter<"weight", plait::extents<In, Out>, plait::normal(0.02)>;
  using bias = plait::parameter<"bias", plait::extents<Out>, plait::constant(0.0)>;
  // example-end
  // example-begin parameter_list
  using parameters =
      plait::parameter_list<weight, bias>;  // in the order in which files have them
  // example-end
  // example-begin features
  using input =
      plait::features<In>;  // (rows, In): a row for each position of each sample
  using output = plait::features<Out>;  // (rows, Out)
  // example-end
  // example-begin forms
  using forms = plait::forms<
      plait::whole,                                                   // all ranks do all
      plait::column<plait::split<weight, 1>, plait::split<bias, 0>>,  // blocks of outputs
      plait::row_split<plait::split<weight, 0>, plait::once<bias>>>;  // blocks of inputs
  // example-end
  // example-begin saved
  using saved = plait::saved<plait::input_slot>;  // l.x of the forward is l.saved[...] of
                                                  // the backward
  // example-end

  static void forward(auto& ops, auto l) {
    ops.matmul(l.x, l.p[weight{}], l.y);
    ops.add_row(l.p[bias{}], l.y);
  }
  // example-begin transposed
  static void backward_input(auto& ops, auto l) {  // dx = dy w^T
    ops.matmul(l.dy, plait::transposed(l.p[weight{}]), l.dx);
  }
  // example-end
  // example-begin input_slot
  static void backward_parameters(auto& ops, auto l) {  // dw += x^T dy
    ops.accumulate_matmul(plait::transposed(l.saved[plait::input_slot{}]), l.dy,
                          l.dp[weight{}]);
    ops.accumulate_column_sums(l.dy, l.dp[bias{}]);
  }
  // example-end
};

template <std::size_t Width>
struct exponential {
  using concept_tag = plait::layer_tag;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using forms = plait::forms<plait::whole, plait::by_features, plait::by_sequence<>>;
  // example-begin output_slot
  using saved = plait::saved<plait::output_slot>;  // the derivative of exp(x) is y itself
  // example-end
  struct raise {
    PLAIT_HOST_DEVICE auto operator()(auto x) const { return std::exp(x); }
  };
  struct differentiate {
    PLAIT_HOST_DEVICE auto operator()(auto y, auto dy) const { return y * dy; }
  };
  static void forward(auto& ops, auto l) { ops.map(raise{}, l.x, l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.map(differentiate{}, l.saved[plait::output_slot{}], l.dy, l.dx);
  }
};

struct square {
  // example-begin derivative_of
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T x) const {  // its derivative is 2 x
    return x * x;
  }
  // example-end
};
template <std::size_t Width>
struct squares : plait::nn::elementwise<Width, square> {};

// example-begin formula
template <std::size_t In, std::size_t Out>
struct gate {  // silu(x w) * (x v)
  template <plait::ext::name Label>
  using matrix = plait::parameter<Label, plait::extents<In, Out>, plait::normal(0.2)>;
  static constexpr matrix<"w"> w{};
  static constexpr matrix<"v"> v{};
  using input = plait::features<In>;
  static constexpr auto formula(auto x) { return silu(matmul(x, w)) * matmul(x, v); }
};
// example-end

struct smooth_step {
  PLAIT_HOST_DEVICE auto operator()(auto x, auto y) const { return x / (1 + y * y); }
};
template <std::size_t Width>
struct smooth_steps {
  static constexpr plait::parameter<"b", plait::extents<Width>, plait::constant(1.0)> b{};
  using input = plait::features<Width>;
  // example-begin map_of_formula
  static constexpr auto formula(auto x) {
    return map(smooth_step{}, x, b);  // a function object without members
  }
  // example-end
};

// example-begin tokens
using token_input = plait::tokens;  // one number for each position of each sample
// example-end
// example-begin reals
using two_targets =
    plait::inputs<plait::features<2>, plait::reals<2>>;  // outputs and real targets
// example-end

struct half_square {  // the loss (x - t)^2 / 2 of one number
  using concept_tag = plait::layer_tag;
  // example-begin inputs
  using input =
      plait::inputs<plait::features<1>, plait::reals<1>>;  // an output and its target
  // example-end
  // example-begin loss_value
  using output = plait::loss_value;
  // example-end
  // example-begin slot
  using terms =
      plait::slot<"terms", 1, plait::slot_element::accumulate>;  // one sum for each row
  using scratch = plait::scratch<terms>;
  // example-end
  using saved = plait::saved<plait::input_slot>;
  static std::int64_t count(auto targets) { return std::ssize(targets); }

  struct add_up {
    template <class Sum>
    PLAIT_HOST_DEVICE void operator()(std::size_t, auto const* x, auto const* target,
                                      Sum* term) const {
      double const off = double(*x) - double(*target);
      *term = static_cast<Sum>(off * off / 2);
    }
  };
  // example-begin loss_seed
  struct differentiate {
    static constexpr bool takes_row = true;
    plait::loss_seed seed;  // ops.loss_seed(): 1 / the labels of the global batch
    template <class X>
    PLAIT_HOST_DEVICE void operator()(std::size_t row, std::size_t, X const* x,
                                      auto const* target, X* dx) const {
      *dx = static_cast<X>(seed.at(row) * (double(*x) - double(*target)));
    }
  };
  // example-end
  static void forward(auto& ops, auto l) {
    auto const& [x, targets] = l.x;
    ops.rows(add_up{}, x, targets, l.scratch[terms{}]);
    ops.add_to_loss(l.scratch[terms{}]);
  }
  static void backward_input(auto& ops, auto l) {
    auto const& [x, targets] = l.saved[plait::input_slot{}];
    ops.rows(differentiate{ops.loss_seed()}, x, targets, l.dx);
  }
};
}  // namespace of_layers

namespace of_losses {
using namespace plait::literals;
// example-begin loss_formula
struct class_weight {  // the first class is rare
  PLAIT_HOST_DEVICE double operator()(double label) const { return label == 0 ? 4 : 1; }
};
template <std::size_t Classes>
struct focal_loss {  // right answers count less than wrong ones
  using input = plait::inputs<plait::features<Classes>, plait::tokens>;
  using output = plait::loss_value;
  static constexpr auto formula(auto x, auto label) {
    auto const surprise = cross_entropy(x, label);
    auto const weight = map(class_weight{}, number_of(label));
    return weight * square(1_c - exp(-surprise)) * surprise;
  }
};
// example-end
// example-begin with_loss
template <std::size_t Classes>
struct small_logits {  // y = x, and what keeps the logits near a sum of exponentials of 1
  using input = plait::features<Classes>;
  static constexpr auto formula(auto x) {
    return with_loss(x, 1e-4_c * square(log_sum_exp(x)));
  }
};
// example-end
}  // namespace of_losses

// ---- Policies and plans
// --------------------------------------------------------------------------

namespace of_policies {
using of_models::objective;
// example-begin parallel
struct job : plait::parallel<objective, plait::data_parallel<2>> {};
// example-end
// example-begin serial
struct alone : plait::parallel<objective, plait::serial> {};  // one rank, nothing is sent
// example-end
// example-begin data_parallel
struct two_ranks : plait::parallel<objective, plait::data_parallel<2>> {};
struct any_number : plait::parallel<objective, plait::data_parallel<>> {
};  // said at launch
// example-end
// example-begin zero
struct less_memory : plait::parallel<objective, plait::data_parallel<4, plait::zero<1>>> {
};
// example-end
// example-begin within
struct of_two_nodes
    : plait::parallel<objective,
                      plait::data_parallel<4, plait::within<2>, plait::zero<3>>> {};
// example-end
// example-begin compressed
using bf16_between_ranks = plait::data_parallel<4, plait::compressed<plait::bfloat16>>;
struct fewer_bytes : plait::parallel<objective, bf16_between_ranks> {};
// example-end
// example-begin shares
struct uneven : plait::parallel<objective, plait::data_parallel<2, plait::shares<3, 1>>> {
};
// example-end
// example-begin buckets
using plait::literals::operator""_MiB;
struct early
    : plait::parallel<objective, plait::data_parallel<4, plait::buckets<1_MiB>>> {};
struct late
    : plait::parallel<objective, plait::data_parallel<4, plait::buckets<plait::at_end>>> {
};
// example-end
// example-begin delayed
struct beside_a_step
    : plait::parallel<objective, plait::data_parallel<4, plait::delayed<1>>> {};
// example-end
// example-begin local_steps
struct seldom_together
    : plait::parallel<objective, plait::data_parallel<4, plait::local_steps<8>>> {};
// example-end
// example-begin tensor_parallel
struct halves : plait::parallel<objective, plait::tensor_parallel<2>> {
};  // each rank computes half of each layer
// example-end
// example-begin pipeline
struct two_stages : plait::parallel<objective, plait::pipeline<2>> {};
struct all_then_back : plait::parallel<objective, plait::pipeline<2, plait::gpipe>> {};
// example-end
// example-begin hybrid
using eight =
    plait::hybrid<plait::pipeline<2>, plait::data_parallel<2>, plait::tensor_parallel<2>>;
struct in_all_ways : plait::parallel<objective, eight> {};
// example-end
// example-begin reproducible
using same_bits =
    plait::hybrid<plait::data_parallel<>, plait::reproducible<8>>;  // on 1, 2, 4 or 8
// example-end
// example-begin axis
static_assert(in_all_ways::plan().bytes_sent(plait::axis::tensor, {.rows = 16}).total() >
              0);
// example-end
// example-begin workload
constexpr plait::workload load{.rows = 16, .microbatches = 2};
static_assert(in_all_ways::plan().bytes_per_rank(load) < 64 * 1024);
// example-end

void print() {
  // example-begin explain
  std::fputs(plait::explain(in_all_ways::plan(), {.rows = 16, .microbatches = 2}).c_str(),
             stdout);
  // example-end
}
}  // namespace of_policies

// ---- Training
// ------------------------------------------------------------------------------------

namespace of_training {
using of_policies::job;

void train() {
  // example-begin in_memory
  std::vector<float> features(64 * 10, 0.5F);  // 64 samples of 10 numbers,
  std::vector<std::int32_t> classes(64, 1);    // and the class of each
  plait::in_memory<float> const data(features, classes, 10);
  // example-end
  // example-begin global_batch
  plait::global_batch<64> const batch_size{};  // with 2 data ranks, each has 32
  // example-end
  static_cast<void>(batch_size);
  // example-begin byte_text
  auto const text = plait::byte_text::from_text("to be or not", 4);  // 4 bytes each
  // example-end
  static_cast<void>(text);
  // example-begin split_data
  auto const [train, held_out] = plait::split_data(data, 0.75, {.seed = 1});
  // example-end
  static_cast<void>(train), static_cast<void>(held_out);
  auto const stories = plait::byte_text::from_text(std::string(900, 's'), 4);
  auto const code = plait::byte_text::from_text(std::string(300, 'c'), 4);
  // example-begin mix
  auto const mixed =
      plait::mix({.seed = 1}, plait::share(stories, 0.7), plait::share(code, 0.3));
  // example-end
  static_cast<void>(mixed);
  // example-begin normalize
  auto const scaled = data | plait::normalize(0.5, 0.25);  // (x - 0.5) / 0.25
  // example-end
  static_cast<void>(scaled);
  // example-begin launch
  plait::launch<job>(plait::threads{},
                     [&](auto& rank) {  // runs on each of the job's ranks
                       if (rank.is_root()) std::printf("%d ranks\n", rank.world_size());
                     });
  // example-end
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    // example-begin trainer
    auto trainer =
        plait::trainer<job>(rank, plait::adamw{.learning_rate = 1e-3}, {.seed = 1});
    for (auto const& batch : plait::batches(data, plait::global_batch<32>{}, rank))
      trainer.step(batch);
    // example-end
    // example-begin batches
    auto batches =
        plait::batches(data, plait::global_batch<32>{}, rank, {.seed = 1, .epochs = 2});
    for (auto const& batch : batches) trainer.step(batch);  // 2 steps in each epoch
    // example-end
    // example-begin step_report
    plait::step_report const report = trainer.step(batches.at(0));
    if (rank.is_root())
      std::printf("step %ld  loss %.4f\n", long(report.step), report.loss);
    // example-end
    // example-begin progress
    plait::progress bar(trainer, batches);
    for (auto const& batch : batches) bar.update(trainer.step(batch));
    // example-end
    // example-begin csv_log
    plait::csv_log log(rank, "run.csv");
    for (auto const& batch : batches) log.write(trainer.step(batch));
    // example-end
  });
  // example-begin threads
  plait::launch<job>(plait::threads{}, [](auto& rank) {
    std::printf("rank %d of %d\n", rank.world_rank(), rank.world_size());
  });
  // example-end
  // example-begin simulated
  plait::launch<job>(plait::simulated{.seed = 7}, [&](auto& rank) {  // one of many orders
    auto trainer = plait::trainer<job>(rank, plait::sgd{});
    for (auto const& batch : plait::batches(data, plait::global_batch<32>{}, rank))
      trainer.step(batch);  // race_error if two operations race
  });
  // example-end
}

void optimize() {
  // example-begin adamw
  plait::adamw const decayed{.learning_rate = 3e-4, .weight_decay = 0.1};
  // example-end
  // example-begin sgd
  plait::sgd const plain{.learning_rate = 0.1, .momentum = 0.9};
  // example-end
  static_cast<void>(decayed), static_cast<void>(plain);
}

int stop_in_time() {
  plait::in_memory<float> const data = plait::in_memory<float>::random_classes(64, 10, 2);
  // example-begin stop_on_signals
  plait::stop_on_signals const stop;  // Ctrl-C ends the job after a step
  try {
    plait::launch<job>(plait::threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<job>(rank, plait::sgd{}, {.stop = &stop});
      for (auto const& batch : plait::batches(data, plait::global_batch<32>{}, rank))
        trainer.step(batch);
    });
  } catch (plait::stopped_by_signal const& end) {
    return end.exit_code();  // 130 after Ctrl-C
  }
  // example-end
  return 0;
}

bool refuses() {
  // example-begin error
  try {
    plait::launch<job>(plait::threads{}, [](auto&) { throw plait::error("no disk"); });
  } catch (plait::error const& problem) {  // all that plait throws
    std::printf("%s\n", problem.what());   // rank 1: no disk
  }
  // example-end
  // example-begin input_error
  try {
    auto const text = plait::byte_text::from_file("no such file", 8);
  } catch (plait::input_error const& problem) {  // a mistake of the user
    std::printf("%s\n", problem.what());
    return true;
  }
  // example-end
  return false;
}

void save_and_load(std::filesystem::path const& folder) {
  auto const data = plait::in_memory<float>::random_classes(64, 10, 2);
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::sgd{});
    auto batches = plait::batches(data, plait::global_batch<32>{}, rank);
    // example-begin checkpoints
    plait::checkpoints saves(trainer, batches, {.folder = folder, .every = 1});
    for (auto const& batch : batches.from(saves.resume())) {
      trainer.step(batch);
      saves.after_step();
    }
    saves.finish();
    // example-end
  });
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::sgd{});
    // example-begin load_weights
    auto const newest = plait::ext::list_checkpoints(folder).back().path;
    plait::load_weights(trainer, plait::weights_folder(newest));
    // example-end
    // example-begin save_weights
    plait::save_weights(trainer, folder / "weights.safetensors");
    // example-end
  });
}

void train_on_their_own(std::filesystem::path const& folder) {
  using of_policies::seldom_together;
  auto const data = plait::in_memory<float>::random_classes(256, 10, 2);
  auto const held_out = plait::in_memory<float>::random_classes(64, 10, 2, 2);
  plait::launch<seldom_together>(plait::threads{}, [&](auto& rank) {
    // example-begin common_updates
    auto trainer = plait::trainer<seldom_together>(
        rank, plait::adamw{.learning_rate = 1e-3},
        {.seed = 1, .outer = {.rate = 0.7, .momentum = 0.5}});
    auto batches =
        plait::batches(data, plait::global_batch<32>{}, rank, {.seed = 1, .epochs = 2});
    plait::checkpoints saves(trainer, batches, {.folder = folder, .every = 16});
    for (auto const& batch : batches.from(saves.resume())) {
      auto const report = trainer.step(batch);
      saves.after_step();                 // saves every 16 steps, a multiple of 8
      if (!report.common_loss) continue;  // the parameters differ between replicas
      auto const [share] = trainer.evaluate(held_out, plait::global_batch<32>{},
                                            plait::measures::accuracy{});
      if (rank.is_root())
        std::printf("step %ld  loss of all replicas %.4f  accuracy %.3f\n",
                    long(report.step), *report.common_loss, share);
    }
    trainer.after_steps();  // a common update of the last steps
    saves.finish();
    // example-end
  });
}
}  // namespace of_training

namespace {

// Training writes into the folder in which it runs.
struct NamesInUse : testing::Test {
  std::filesystem::path const before = std::filesystem::current_path();
  std::filesystem::path const folder = std::filesystem::temp_directory_path() /
                                       ("plait-names-" + std::to_string(::getpid()));
  void SetUp() override {
    std::filesystem::create_directories(folder);
    std::filesystem::current_path(folder);
  }
  void TearDown() override {
    std::filesystem::current_path(before);
    std::filesystem::remove_all(folder);
  }
};

TEST_F(NamesInUse, LayersKeepTheLaws) {
  static_assert(plait::layer<of_layers::scale<4>>);
  EXPECT_TRUE((plait::testing::check_layer<of_layers::dense<8, 12>>().passed()));
  EXPECT_TRUE(plait::testing::check_layer<of_layers::exponential<8>>().passed());
  EXPECT_TRUE(plait::testing::check_layer<of_layers::squares<8>>().passed());
  EXPECT_TRUE(plait::testing::check_layer<of_layers::half_square>().passed());
  EXPECT_TRUE((plait::testing::check_layer<of_layers::gate<8, 12>>().passed()));
  EXPECT_TRUE(plait::testing::check_layer<of_layers::smooth_steps<8>>().passed());
  // example-begin explain_forms
  std::string const forms = plait::formula::explain<of_layers::gate<8, 12>>();
  // "column: cut along the columns of w, the columns of v, ..."
  // example-end
  EXPECT_NE(forms.find("column: cut along the columns of w, the columns of v"),
            std::string::npos)
      << forms;
  EXPECT_NE(forms.find("no form along the columns of x"), std::string::npos) << forms;
  // example-begin dual_number
  plait::ext::dual_number<double> const x{3, 1};
  auto const y = x * x + 2 * x;  // y.value is 15, y.slope is 8
  // example-end
  EXPECT_EQ(y.value, 15);
  EXPECT_EQ(y.slope, 8);
  EXPECT_TRUE(plait::testing::check_layer<of_losses::focal_loss<4>>().passed());
  EXPECT_TRUE(plait::testing::check_layer<of_losses::small_logits<4>>().passed());
  EXPECT_TRUE(plait::testing::check_layer<of_models::affine<12>>().passed());
  EXPECT_TRUE(plait::testing::check_layer<of_models::centred<8>>().passed());
}

template <class Policy>
struct centred_job
    : plait::parallel<plait::objective<plait::sequential<plait::nn::linear<6, 8>,
                                                         of_models::centred<8>,
                                                         plait::nn::linear<8, 3>>,
                                       plait::nn::cross_entropy<3>>,
                      Policy, double> {};
/// The loss of some steps, and of an evaluation.
template <class Policy>
std::vector<double> losses_of_centred() {
  std::vector<double> out;
  auto const data = plait::in_memory<double>::random_classes(22, 6, 3);
  plait::launch<centred_job<Policy>>(plait::threads{}, [&](auto& rank) {
    auto trainer =
        plait::trainer<centred_job<Policy>>(rank, plait::sgd{.learning_rate = 0.1});
    auto batches =
        plait::batches(data, plait::global_batch<12>{}, rank,
                       {.last = plait::last_batch::keep, .epochs = 3, .microbatches = 1});
    for (auto const& batch : batches) {
      auto const report = trainer.step(batch);
      if (rank.is_root()) out.push_back(report.loss);
    }
    double const held_out = trainer.evaluate(batches.at(0));
    if (rank.is_root()) out.push_back(held_out);
  });
  return out;
}
TEST_F(NamesInUse, SumsOverSamplesAreThoseOfAllRanks) {
  auto const serial = losses_of_centred<plait::serial>();
  auto const two = losses_of_centred<plait::data_parallel<2>>();
  ASSERT_EQ(serial.size(), 7u);
  ASSERT_EQ(two.size(), serial.size());
  for (std::size_t i = 0; i < two.size(); ++i) EXPECT_NEAR(two[i], serial[i], 1e-12) << i;
}

TEST_F(NamesInUse, ProgramsRun) {
  of_policies::print();
  of_training::train();
  of_training::optimize();
  of_training::save_and_load(folder / "run");
  of_training::train_on_their_own(folder / "replicas");
  EXPECT_EQ(of_training::stop_in_time(), 0);
  EXPECT_TRUE(of_training::refuses());
}

}  // namespace
