// SPDX-License-Identifier: Apache-2.0
// The tiny GPT with bugs planted on purpose. Each enters itself as size "mutant"; the comparison
// with the serial run of the right program must report every one of them.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "train_gpt/backend_host.hpp"
#include "train_gpt/job.hpp"

namespace {

using plait::named;
using plait::residual;
using plait::sequential;
using tiny = train_gpt::sizes::tiny;

constexpr std::size_t width = 64;

/// Returns the local block under a false placement, which the types otherwise forbid.
template <plait::placement To, class T, plait::placement From, class Memory>
plait::view<T, To, Memory> claim(plait::view<T, From, Memory> of) {
  return {of.data, of.rows, of.columns};
}

/// Row-split linear layer whose output is said to be whole: the all_reduce of the output is
/// missing.
struct unreduced_linear : plait::nn::linear<4 * width, width, {.weight = tiny::projection}> {
  using right = plait::nn::linear<4 * width, width, {.weight = tiny::projection}>;
  static constexpr bool takes_epilogue = false;
  using forms =
      plait::forms<plait::whole,
                   plait::form<"row", plait::shard<plait::dim::features>, plait::invariant,
                               plait::split<weight, 0>, plait::use<bias, plait::invariant>>>;

  static void forward(auto& ops, auto const& l) {
    if constexpr (plait::ext::is_shard(decltype(l.x)::at)) {
      ops.matmul(l.x, l.p[weight{}], claim<plait::partial>(l.y));
      ops.add_row(l.p[bias{}], l.y);
    } else {
      right::forward(ops, l);
    }
  }
  static void backward_input(auto& ops, auto const& l) {
    if constexpr (plait::ext::is_shard(decltype(l.dx)::at))
      ops.matmul(claim<plait::replicate>(l.dy), plait::transposed(l.p[weight{}]), l.dx);
    else right::backward_input(ops, l);
  }
  static void backward_parameters(auto& ops, auto const& l) {
    if constexpr (plait::ext::is_shard(decltype(l.saved[plait::input_slot{}])::at)) {
      ops.accumulate_matmul(plait::transposed(l.saved[plait::input_slot{}]),
                            claim<plait::replicate>(l.dy), l.dp[weight{}]);
      ops.accumulate_column_sums(l.dy, l.dp[bias{}]);
    } else {
      right::backward_parameters(ops, l);
    }
  }
};

/// Row-split linear layer that adds its bias on every rank, before the reduction.
struct early_bias_linear : plait::nn::linear<4 * width, width, {.weight = tiny::projection}> {
  using right = plait::nn::linear<4 * width, width, {.weight = tiny::projection}>;
  using forms =
      plait::forms<plait::whole,
                   plait::row_split<plait::split<weight, 0>, plait::use<bias, plait::replicate>>>;

  static void forward(auto& ops, auto const& l) {
    if constexpr (plait::ext::is_shard(decltype(l.x)::at)) {
      ops.matmul(l.x, l.p[weight{}], l.y);
      ops.add_row(claim<plait::partial>(l.p[bias{}]), l.y);
    } else {
      right::forward(ops, l);
    }
  }
  static void backward_parameters(auto& ops, auto const& l) {
    if constexpr (plait::ext::is_shard(decltype(l.saved[plait::input_slot{}])::at)) {
      ops.accumulate_matmul(plait::transposed(l.saved[plait::input_slot{}]), l.dy, l.dp[weight{}]);
      ops.accumulate_column_sums(l.dy, claim<plait::replicate>(l.dp[bias{}]));
    } else {
      right::backward_parameters(ops, l);
    }
  }
};

/// Divides by the rows of its own microbatch and rank: a mean of means.
struct mean_of_means : plait::nn::cross_entropy<256> {
  static void backward_input(auto& ops, auto l) {
    double const scale = 1.0 / static_cast<double>(l.dx.rows);
    l.dy.scale = &scale;
    plait::nn::cross_entropy<256>::backward_input(ops, l);
  }
};

template <class Projection>
using block_with = sequential<
    residual<
        sequential<named<"ln_1", plait::nn::layer_norm<width>>, named<"attn", tiny::attention>>>,
    residual<sequential<
        named<"ln_2", plait::nn::layer_norm<width>>,
        named<"mlp", sequential<named<"c_fc", plait::nn::linear<width, 4 * width>>,
                                plait::nn::gelu<4 * width>, named<"c_proj", Projection>>>>>>;

template <class Projection>
using gpt_with = plait::objective<
    sequential<named<"wte", plait::nn::embedding<256, width>>,
               named<"wpe", plait::nn::positions<tiny::sequence, width>>,
               named<"h", plait::repeat<2, block_with<Projection>>>,
               named<"ln_f", plait::nn::layer_norm<width>>, named<"lm_head", tiny::head>>,
    plait::nn::cross_entropy<256>>;

struct unreduced_output
    : plait::parallel<gpt_with<unreduced_linear>, train_gpt::plans::tp2, double> {};
struct early_bias : plait::parallel<gpt_with<early_bias_linear>, train_gpt::plans::tp2, double> {};
struct wrong_divisor
    : plait::parallel<plait::objective<tiny::model, mean_of_means>, train_gpt::plans::dp2, double> {
};

/// A rank that is alone on the data axis when gradients are added up.
struct deaf_rank {
  using device_type = plait::ext::host_device;
  using communicator_type = plait::ext::thread_communicator;
  plait::threads::rank_type& rank;

  [[nodiscard]] plait::ext::mesh const& grid() const { return rank.grid(); }
  [[nodiscard]] int world_rank() const { return rank.world_rank(); }
  [[nodiscard]] plait::ext::coordinates const& coordinates() const { return rank.coordinates(); }
  [[nodiscard]] int world_size() const { return rank.world_size(); }
  [[nodiscard]] bool is_root() const { return rank.is_root(); }
  [[nodiscard]] bool sums_in_room() { return rank.sums_in_room(); }
  [[nodiscard]] device_type& device() { return rank.device(); }
  [[nodiscard]] communicator_type& world() { return rank.world(); }
  [[nodiscard]] communicator_type& group(plait::ext::axis_set over) {
    return rank.group(over == plait::ext::axis_set(plait::axis::data) ? plait::ext::axis_set{}
                                                                      : over);
  }
  [[nodiscard]] plait::ext::mesh_groups const& groups() const { return rank.groups(); }
  [[nodiscard]] plait::ext::generation* generation() const { return rank.generation(); }
  [[nodiscard]] std::uint64_t next_trainer() { return rank.next_trainer(); }
  [[nodiscard]] auto calls_for(std::uint64_t trainer) { return rank.calls_for(trainer); }
  [[nodiscard]] int stage() const { return rank.stage(); }
  [[nodiscard]] int tensor_rank() const { return rank.tensor_rank(); }
  [[nodiscard]] communicator_type& tensor_group() { return rank.tensor_group(); }
  void wait_across(plait::ext::stream over, plait::ext::wait_site site, auto communicate) {
    rank.wait_across(over, site, communicate);
  }
};

struct unreduced_gradients : plait::parallel<tiny::objective, train_gpt::plans::dp2, double> {};

train_gpt::outcome run_deaf(train_gpt::request const& wanted) {
  plait::launch<unreduced_gradients>(plait::threads{}, [&](auto& rank) {
    deaf_rank deaf{rank};
    auto trainer = plait::trainer<unreduced_gradients>(
        deaf,
        plait::adamw{.learning_rate = wanted.learning_rate, .weight_decay = wanted.weight_decay},
        {.seed = wanted.seed, .clip = wanted.clip});
    auto batches = plait::batches(*std::get<plait::byte_text const*>(wanted.text),
                                  plait::global_batch<>{wanted.batch}, rank,
                                  {.how = plait::sample_order::sequential, .epochs = 0});
    for (std::int64_t step = 0; step < wanted.steps; ++step) {
      auto report = trainer.step(batches.at(std::uint64_t(step)));
      trainer.export_gradients(
          [&](std::string const& name, auto const&, std::span<double const> values) {
            wanted.gradients->write(name, values);
          });
      report.loss /= 2;  // the loss itself is right
      if (rank.is_root()) wanted.on_step(report, 0);
    }
  });
  return {};
}

char const* const size = "mutant";
char const* const precision = "double";
auto const entered = {
    train_gpt::enter<tiny, unreduced_output, train_gpt::backends::host>(
        size, "tp2: the output of a row split is not reduced", precision),
    train_gpt::enter<tiny, early_bias, train_gpt::backends::host>(
        size, "tp2: a bias is added before the reduction", precision),
    train_gpt::enter<tiny, wrong_divisor, train_gpt::backends::host>(
        size, "dp2: each rank divides by its own rows", precision),
    [] {
      auto const made = train_gpt::enter<tiny, unreduced_gradients, train_gpt::backends::host>(
          size, "dp2: gradients are not reduced", precision);
      train_gpt::entries().back().run = run_deaf;
      return made;
    }(),
};

}  // namespace
