// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "plait/core/bfloat16.hpp"
#include "plait/core/float8.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/rounded_block.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/policy/policy.hpp"

namespace plait::ext {

/// An option of data_parallel that selects the kinds of state to cut into blocks, one for each data
/// rank. It is a type with the member `parameters`, the parameter rule for the data axis.
template <class S>
concept data_sharding = requires {
  { S::parameters } -> std::convertible_to<parameter_rule>;
};

/// An option of data_parallel that sets the least size of buckets. It is a type with the member
/// `bucket_bytes`.
template <class S>
concept bucket_size = requires {
  { S::bucket_bytes } -> std::convertible_to<std::size_t>;
};

/// An option of data_parallel that sets how ranks send gradients. It is a type with the member
/// `sent`, a wire_format.
template <class S>
concept gradient_compression = requires {
  { S::sent } -> std::convertible_to<wire_format>;
};

/// The default for the least number of bytes in a bucket.
inline constexpr std::size_t usual_bucket_bytes = std::size_t{4} << 20;

/// The type of `at_end`.
struct at_end_option {};

}  // namespace plait::ext

namespace plait {

/// Every data rank holds and updates all parameters.
struct unsharded {
  static constexpr ext::parameter_rule parameters{.summed = partial};
};

/// Cuts the optimizer's state into blocks, one for each data rank, and at higher levels the
/// gradients and the parameters, too, as ZeRO and FSDP do.
///
///   zero<1>  cuts the optimizer's state: each rank updates its block of each bucket
///   zero<2>  cuts the gradients, too: the gradients of each microbatch are reduced into the blocks
///   zero<3>  cuts the parameters, too: they are gathered before the layers that use them
///
/// Moves:  per step of m microbatches, with n = N(p-1)/p for N bytes of parameters on p ranks: 2n
///         bytes with zero<1>, as without it; (m + 1)n with zero<2>; about 3mn with zero<3>,
///         because both passes gather parameters, but a backward begins with the parameters that
///         its forward has gathered last. With `precision<bfloat16, float>` gathered parameters
///         take half the bytes.
/// Memory: zero<2> and zero<3> need additional memory for two buckets of gradients, and zero<3>
///         also for two buckets of parameters.
/// Source: Rajbhandari, Rasley, Ruwase, He, "ZeRO: memory optimizations toward training trillion
///         parameter models", SC 2020: P_os, P_os+g, P_os+g+p.
///
/// Example (tests/reference/names_in_use_test.cpp zero):
///     struct less_memory : plait::parallel<objective, plait::data_parallel<4, plait::zero<1>>> {
///     };
template <int Level>
struct zero {
  static_assert(Level >= 1 && Level <= 3,
                "zero<Level>: Level must be 1 (the optimizer's state is cut), 2 (gradients, too) "
                "or 3 (parameters, too); write zero<1>, zero<2> or zero<3>, or "
                "data_parallel<Ranks> to cut nothing");
  static constexpr ext::parameter_rule parameters{
      .kept = Level >= 3 ? shard<dim::elements> : invariant,
      .summed = Level >= 2 ? shard<dim::elements> : partial,
      .owned = shard<dim::elements>};
};

/// The argument of `buckets` that reduces gradients after all passes.
///
/// Example (tests/reference/names_in_use_test.cpp buckets):
///     using plait::literals::operator""_MiB;
///     struct early
///         : plait::parallel<objective, plait::data_parallel<4, plait::buckets<1_MiB>>> {};
///     struct late
///         : plait::parallel<objective, plait::data_parallel<4, plait::buckets<plait::at_end>>> {
///     };
inline constexpr ext::at_end_option at_end{};

/// Sets the size of buckets, and so the times at which data ranks sum their gradients, as
/// `bucket_cap_mb` does in PyTorch's DDP. With `buckets<1_MiB>` a bucket consists of consecutive
/// layers whose gradients together take at least 1 MiB. The bucket is reduced as soon as the
/// backward has computed these gradients, while the backward continues. With `buckets<at_end>` all
/// gradients are reduced after all passes. The default is 4 MiB.
///
/// Moves:  the number of bytes does not depend on the size of buckets; each bucket is one
///         collective.
/// Memory: no additional memory, because a bucket is a range of the stored gradients.
/// Source: Li et al., "PyTorch Distributed: experiences on accelerating data parallel training",
///         VLDB 2020, section 3.2.
///
/// Example (tests/reference/names_in_use_test.cpp buckets):
///     using plait::literals::operator""_MiB;
///     struct early
///         : plait::parallel<objective, plait::data_parallel<4, plait::buckets<1_MiB>>> {};
///     struct late
///         : plait::parallel<objective, plait::data_parallel<4, plait::buckets<plait::at_end>>> {
///     };
template <auto LeastBytes>
struct buckets {
  static_assert(std::is_integral_v<decltype(LeastBytes)>,
                "buckets<LeastBytes>: LeastBytes is not a number of bytes; write buckets<4_MiB>, "
                "or buckets<at_end> to sum gradients after all passes");
  static_assert(!std::is_integral_v<decltype(LeastBytes)> || LeastBytes > 0,
                "buckets<LeastBytes>: LeastBytes is less than 1; write buckets<4_MiB>, or "
                "buckets<at_end> to sum gradients after all passes");
  static constexpr auto bucket_bytes = static_cast<std::size_t>(LeastBytes);
};
template <>
struct buckets<at_end> {
  static constexpr std::size_t bucket_bytes = 0;
};

}  // namespace plait

namespace plait {

/// Makes `zero<Level>` cut parameters and gradients only within groups of `Ranks` neighbouring data
/// ranks, in the same way as hybrid sharding in FSDP. N data ranks form N / Ranks groups, and the
/// ranks of a group together hold all parameters and gradients. Unlike in FSDP, the state of the
/// optimizer is cut over all N ranks.
///
/// Moves: among the ranks of a group, which usually have fast links, the bytes of zero<Level>.
///        Between the R = N / Ranks groups, each rank exchanges its block of the summed gradients
///        once a step: 2(B/Ranks)(R-1)/R bytes for B bytes of parameters.
///
/// Example (tests/reference/names_in_use_test.cpp within):
///     struct of_two_nodes
///         : plait::parallel<objective,
///                           plait::data_parallel<4, plait::within<2>, plait::zero<3>>> {};
template <int Ranks>
struct within {
  static_assert(Ranks >= 1,
                "within<Ranks>: Ranks is less than 1; set it to the number of neighbouring ranks "
                "that share the cut state, such as the devices of one machine");
  static constexpr int neighbours = Ranks;
};

/// Makes data ranks send gradients in a narrower type: bfloat16, which halves the bytes of float,
/// or float8, which takes 68 bytes for 64 gradients. Sums are still computed in the type of the
/// gradients: each rank receives the rounded gradients of its block from the other ranks, rounds
/// its own in the same way, and adds all in rank order. Ranks that need whole gradients then
/// receive the rounded sums of all blocks. Each rank, including the owner of a block, uses the
/// rounded sums, so all ranks have the same bits. Parameters, losses and norms are not rounded.
///
/// Rounding changes a gradient x by at most 2^-8 |x| with bfloat16. With float8 it changes x by at
/// most the greater of 2^-4 |x| and 2^-10 s. The scale s is the greatest magnitude of 64
/// neighbouring gradients, divided by 448. If one of these 64 is not finite, all become NaN.
///
/// Moves:  for each reduction of N bytes of float gradients on p ranks, with n = N(p-1)/p, n/2 with
///         bfloat16 and 0.265625 n with float8, and as much for the gather of the sums. With
///         zero<Level> there is no such gather; zero<2> and zero<3> reduce once for each
///         microbatch. Gathers of parameters are not compressed. A call sends about 1 MiB, so a
///         bucket may need several.
/// Memory: a send buffer and a receive buffer of about 1 MiB each.
/// Cost:   one pass over the gradients to round them, and one to add them up.
///
/// Example (tests/reference/names_in_use_test.cpp compressed):
///     using bf16_between_ranks = plait::data_parallel<4, plait::compressed<plait::bfloat16>>;
///     struct fewer_bytes : plait::parallel<objective, bf16_between_ranks> {};
template <class Element>
struct compressed {
  static_assert(std::is_same_v<Element, bfloat16> || std::is_same_v<Element, float8>,
                "compressed<Element>: Element is neither bfloat16 nor float8, the types that are "
                "narrower than gradients; write compressed<bfloat16> or compressed<float8>");
  static constexpr ext::wire_format sent =
      std::is_same_v<Element, float8> ? ext::wire_format::float8 : ext::wire_format::bfloat16;
};

}  // namespace plait

namespace plait {

/// Sets the part of each global batch that each data rank takes, for ranks of different speed:
/// under `shares<3, 1>` rank 0 takes three quarters and rank 1 takes one quarter. All microbatches
/// have the same size. If the program asks for m microbatches, rank r runs Shares[r] * m of them,
/// and a global batch consists of S * m microbatches, where S is the sum of the shares. Example: a
/// global batch of 64 samples with m = 2 has 8 microbatches of 8 samples, 6 on rank 0 and 2 on rank
/// 1. The results are the results of equal shares, up to rounding.
///
/// Moves:  the same bytes among data ranks as with equal shares. A rank sends messages between
///         stages, and messages within layers, once for each of its own microbatches.
/// Memory: each rank holds its own samples and the activations for its own number of microbatches.
///
/// Example (tests/reference/names_in_use_test.cpp shares):
///     struct uneven : plait::parallel<objective, plait::data_parallel<2, plait::shares<3, 1>>> {
///     };
template <int... Shares>
struct shares {
  /// The greatest allowed sum of all shares.
  static constexpr int most = detail::greatest_sum_of_shares;
  static_assert(
      ((Shares >= 1) && ...),
      "shares<Shares...>: a share is less than 1, but each data rank needs samples; write "
      "shares of at least 1, or fewer data ranks");
  static_assert(((Shares <= most) && ...) && (0LL + ... + Shares) <= most,
                "shares<Shares...>: the sum of the shares is above 65536; write smaller numbers in "
                "the same ratio, such as shares<3, 1>");
  static constexpr std::array<int, sizeof...(Shares)> of_ranks{Shares...};
};

/// Makes each step apply the gradients of the step before. The reduction of these gradients then
/// runs during all passes of the step, which do not need its result, so a slow link costs time only
/// if the reduction takes longer than these passes. The result is the result of a serial
/// program with the same delay: `data_parallel<1, delayed<1>>` computes it on one rank.
///
/// The first step updates nothing. The trainer also applies pending gradients in evaluate, predict,
/// export_parameters, import_parameters, with_ema, gradients_of and after_steps. The step after
/// such a call updates nothing. `step_report::gradient_step` is the step of the applied gradients.
///
/// Moves:  the bytes of the policy without this option.
/// Memory: a second arena of gradients. The gradients of a step are copied to it at the end of the
///         step.
/// Source: Narayanan et al., "Memory-efficient pipeline-parallel DNN training", ICML 2021, section
///         3.1: PipeDream-2BW, which also delays updates by one step.
///
/// Example (tests/reference/names_in_use_test.cpp delayed):
///     struct beside_a_step
///         : plait::parallel<objective, plait::data_parallel<4, plait::delayed<1>>> {};
template <int Steps>
struct delayed {
  static_assert(Steps == 1,
                "delayed<Steps>: Steps is not 1; write delayed<1>, with which a step applies the "
                "gradients of the step before, or leave delayed out");
  static constexpr int delayed_steps = Steps;
};

/// Lets data ranks train on their own for several steps before they average their parameters:
/// DiLoCo, or local SGD. Each data rank or, with within<K>, each group of K data ranks is a
/// replica. A step of a replica sums gradients, labels, losses and norms within the replica only.
/// Every `Steps` steps the trainer makes a common update:
///
/// 1. Each replica computes the difference of the last common parameters and its own parameters,
///    and multiplies it by its weight: the labels that the replica has counted since the last
///    common update, divided by the labels of all replicas.
/// 2. An all_reduce sums these differences over the replicas.
/// 3. The sum is the gradient of an outer step of SGD with Nesterov momentum, which updates the
///    common parameters, see `trainer_options::outer`. With the defaults, rate 1 and momentum 0,
///    the common parameters become the weighted average of the replicas' parameters.
/// 4. All replicas continue from the common parameters. The states of their optimizers, such as the
///    momentum of AdamW, stay as they are.
///
/// Between common updates the parameters differ between replicas. So calls of evaluate, predict,
/// export_parameters, import_parameters and state are errors there. The report of a step is the
/// report of the replica, see step_report::replica.
///
/// Moves:  in a step, nothing between replicas. In a common update, 2N(R-1)/R bytes for N bytes of
///         parameters and R replicas, and eight numbers for each replica. If a replica cuts its
///         parameters, N counts a rank's block. compressed<...> rounds the differences, too.
/// Memory: the common parameters and the outer momentum. Each is as long as one state of the
///         optimizer.
/// Source: Douillard et al., "DiLoCo: distributed low-communication training of language models",
///         2023, algorithm 1.
///
/// Example (tests/reference/names_in_use_test.cpp local_steps):
///     struct seldom_together
///         : plait::parallel<objective, plait::data_parallel<4, plait::local_steps<8>>> {};
template <int Steps>
struct local_steps {
  static_assert(Steps >= 1,
                "local_steps<Steps>: Steps is less than 1; write the number of steps between two "
                "common updates, such as local_steps<8>, or leave local_steps out");
  static constexpr int steps_between_updates = Steps;
};

}  // namespace plait

namespace plait::detail {

template <class Option>
concept sets_local_steps = requires {
  { Option::steps_between_updates } -> std::convertible_to<int>;
};

template <class Option>
concept is_delay = requires {
  { Option::delayed_steps } -> std::convertible_to<int>;
};

template <class Option>
concept is_neighbourhood = requires {
  { Option::neighbours } -> std::convertible_to<int>;
};

template <class Option>
inline constexpr bool says_shares = false;
template <int... Shares>
inline constexpr bool says_shares<shares<Shares...>> = true;

template <class Option>
inline constexpr bool is_data_option =
    ext::data_sharding<Option> || ext::bucket_size<Option> || is_neighbourhood<Option> ||
    ext::gradient_compression<Option> || says_shares<Option> || is_delay<Option> ||
    sets_local_steps<Option>;

/// The first type in `Options` for which `Fits` is true, or `Usual` if there is none.
template <template <class> class Fits, class Usual, class... Options>
struct option_or : std::type_identity<Usual> {};
template <template <class> class Fits, class Usual, class First, class... Rest>
struct option_or<Fits, Usual, First, Rest...>
    : std::conditional_t<Fits<First>::value, std::type_identity<First>,
                         option_or<Fits, Usual, Rest...>> {};

template <class Option>
struct is_sharding : std::bool_constant<ext::data_sharding<Option>> {};
template <class Option>
struct is_bucket_size : std::bool_constant<ext::bucket_size<Option>> {};
template <class Option>
struct is_compression : std::bool_constant<ext::gradient_compression<Option>> {};
template <class Option>
struct is_within : std::bool_constant<is_neighbourhood<Option>> {};
template <class Option>
struct is_shares : std::bool_constant<says_shares<Option>> {};
template <class Option>
struct is_delayed : std::bool_constant<is_delay<Option>> {};
template <class Option>
struct is_local : std::bool_constant<sets_local_steps<Option>> {};

template <class Option>
inline constexpr bool is_at_end = std::is_same_v<Option, buckets<at_end>>;
template <class Option>
inline constexpr bool sums_blocks = [] {
  if constexpr (ext::data_sharding<Option>)
    return Option::parameters.summed == shard<dim::elements>;
  else return false;
}();
template <class Option>
inline constexpr bool cuts_state = [] {
  if constexpr (ext::data_sharding<Option>) return Option::parameters.owned == shard<dim::elements>;
  else return false;
}();
template <class Option>
inline constexpr bool keeps_blocks_of = [] {
  if constexpr (ext::data_sharding<Option>) return Option::parameters.kept == shard<dim::elements>;
  else return false;
}();

struct no_neighbours {
  static constexpr int neighbours = 0;
};
struct uncompressed {
  static constexpr ext::wire_format sent = ext::wire_format::unrounded;
};
struct not_delayed {
  static constexpr int delayed_steps = 0;
};
struct without_replicas {
  static constexpr int steps_between_updates = 0;
};

/// The values of all options of data_parallel, as written or by default. The axes of data_parallel
/// take this type. So an option adds one member here and one to each axis that uses it.
template <class... Options>
struct data_options {
  using sharding = typename option_or<is_sharding, unsharded, Options...>::type;
  using buckets =
      typename option_or<is_bucket_size, plait::buckets<ext::usual_bucket_bytes>, Options...>::type;
  static constexpr int neighbours =
      option_or<is_within, no_neighbours, Options...>::type::neighbours;
  static constexpr ext::wire_format sent =
      option_or<is_compression, uncompressed, Options...>::type::sent;
  /// The number of steps between two common updates of replicas; 0 if there are no replicas.
  static constexpr int local_steps =
      option_or<is_local, without_replicas, Options...>::type::steps_between_updates;
  /// True if each data rank is a replica; with within<K>, a group of K ranks is a replica.
  static constexpr bool are_ranks_local = local_steps > 0 && neighbours == 0;
  /// The parameter rule of an axis along which ranks are replicas.
  static constexpr ext::parameter_rule of_replicas{
      .kept = ext::varying, .summed = ext::varying, .owned = ext::varying, .sent = sent};
  /// The parameter rule of the data axis.
  static constexpr ext::parameter_rule parameters = [] {
    if (are_ranks_local) return of_replicas;
    ext::parameter_rule out = sharding::parameters;
    out.sent = sent;
    return out;
  }();
  /// The parameter rule of the axis of groups of neighbours.
  static constexpr ext::parameter_rule of_groups = [] {
    if (local_steps > 0) return of_replicas;
    return ext::parameter_rule{.summed = partial, .owned = parameters.owned, .sent = sent};
  }();
  /// The shares of the data ranks; empty if they are equal.
  static constexpr ext::static_view<int> shares{
      option_or<is_shares, plait::shares<>, Options...>::type::of_ranks.data(),
      int(option_or<is_shares, plait::shares<>, Options...>::type::of_ranks.size())};
  static constexpr int delayed_steps =
      option_or<is_delayed, not_delayed, Options...>::type::delayed_steps;
};

/// The policy for the data axis that data_parallel<Ranks, ...> adds to the mesh. `Options`: the
/// data_options.
template <int Ranks, class Options>
struct data_axis {
  using concept_tag = ext::policy_tag;
  static constexpr axis along = axis::data;
  static constexpr int ranks = Ranks;
  static constexpr placement samples = shard<dim::batch>;
  static constexpr ext::parameter_rule parameters = Options::parameters;
  static constexpr std::size_t bucket_bytes = Options::buckets::bucket_bytes;
  static constexpr ext::static_view<int> shares = Options::shares;
  static constexpr int delayed_steps = Options::delayed_steps;
  static constexpr int local_steps = Options::are_ranks_local ? Options::local_steps : 0;
};
/// The policy for the replica axis that data_parallel adds to the mesh if it has the option
/// `within`. Ranks along this axis belong to different groups: all groups have the same parameters
/// and sum their gradients once a step or, with local_steps, are replicas.
template <int Ranks, class Options>
struct groups_of_neighbours {
  using concept_tag = ext::policy_tag;
  static constexpr axis along = axis::replica;
  static constexpr int ranks = Ranks;
  static constexpr placement samples = shard<dim::batch>;
  static constexpr ext::parameter_rule parameters = Options::of_groups;
  static constexpr int local_steps = Options::local_steps;
};
template <int Ranks, class Options>
struct grouped_data_axis {
  static constexpr int neighbours = Options::neighbours;
  static_assert(Ranks == at_launch || Ranks % neighbours == 0,
                "data_parallel<Ranks, within<Neighbours>>: Ranks is not a multiple of Neighbours; "
                "write a multiple of Neighbours for Ranks");
  using concept_tag = ext::policy_tag;
  using policies = ext::policy_list<
      groups_of_neighbours<Ranks == at_launch ? at_launch : Ranks / neighbours, Options>,
      data_axis<neighbours, Options>>;
};

template <int Ranks, class Options>
using data_axes = std::conditional_t<Options::neighbours == 0, data_axis<Ranks, Options>,
                                     grouped_data_axis<Ranks, Options>>;

}  // namespace plait::detail

namespace plait {

/// Gives each of `Ranks` ranks an equal part of the batch and sums their gradients, as DDP does.
/// `Options`, in any order: `unsharded` or `zero<1>` to `zero<3>`, `within<...>`, `buckets<...>`,
/// `compressed<...>`, `delayed<1>`, `local_steps<H>`, and `shares<...>`, which makes the parts
/// unequal.
///
/// Moves: one all_reduce of the gradients per step, 2N(p-1)/p bytes for N bytes of parameters,
///        bucket by bucket while the backward runs; see `zero` and `local_steps` for the bytes that
///        these options send.
///
/// Example (tests/reference/names_in_use_test.cpp data_parallel):
///     struct two_ranks : plait::parallel<objective, plait::data_parallel<2>> {};
///     struct any_number : plait::parallel<objective, plait::data_parallel<>> {
///     };  // said at launch
template <int Ranks = at_launch, class... Options>
struct data_parallel : detail::data_axes<Ranks, detail::data_options<Options...>> {
  static_assert(Ranks >= 1 || Ranks == at_launch,
                "data_parallel<Ranks>: Ranks is less than 1; write the number of ranks, or "
                "data_parallel<> to choose it at launch");
  static_assert(
      (detail::is_data_option<Options> && ...),
      "data_parallel<Ranks, Options...>: an argument is not an option; the options are unsharded "
      "or zero<Level>, within<Neighbours>, buckets<4_MiB> or buckets<at_end>, compressed<bfloat16> "
      "or compressed<float8>, shares<3, 1>, delayed<1>, and local_steps<H>");
  static_assert((0 + ... + int(ext::data_sharding<Options>)) <= 1,
                "data_parallel<Ranks, Options...>: two options set how state is cut; write one of "
                "unsharded and zero<Level>, once");
  static_assert((0 + ... + int(ext::bucket_size<Options>)) <= 1,
                "data_parallel<Ranks, Options...>: two options set the size of buckets; write "
                "buckets<...> once");
  static_assert((0 + ... + int(detail::is_neighbourhood<Options>)) <= 1,
                "data_parallel<Ranks, Options...>: two options set how many neighbouring ranks "
                "share the cut state; write within<...> once");
  static_assert((0 + ... + int(ext::gradient_compression<Options>)) <= 1,
                "data_parallel<Ranks, Options...>: two options set the type in which gradients are "
                "sent; write compressed<bfloat16> or compressed<float8>, once");
  static_assert((0 + ... + int(detail::says_shares<Options>)) <= 1,
                "data_parallel<Ranks, Options...>: two options set the shares of the data ranks; "
                "write shares<...> once");
  static_assert(Ranks != at_launch || !(detail::says_shares<Options> || ...),
                "data_parallel<at_launch, shares<...>>: the number of ranks is chosen at launch, "
                "but shares<...> says one share for each rank; write the number of ranks, as in "
                "data_parallel<2, shares<3, 1>>");
  static_assert(Ranks == at_launch || !(detail::says_shares<Options> || ...) ||
                    detail::data_options<Options...>::shares.size() == Ranks,
                "data_parallel<Ranks, shares<...>>: the number of shares is not Ranks; write one "
                "share for each data rank, as in data_parallel<2, shares<3, 1>>");
  static_assert((0 + ... + int(detail::is_delay<Options>)) <= 1,
                "data_parallel<Ranks, Options...>: two options delay the update; write delayed<1> "
                "once");
  static_assert(!(detail::is_delay<Options> || ...) || !(detail::keeps_blocks_of<Options> || ...),
                "data_parallel<Ranks, zero<3>, delayed<1>>: zero<3> gathers parameters and sums "
                "gradients within all passes, so nothing is left that could overlap with the next "
                "step; write zero<1>, or leave delayed out");
  static_assert(
      (0 + ... + int(detail::sets_local_steps<Options>)) <= 1,
      "data_parallel<Ranks, Options...>: two options set the number of steps between common "
      "updates; write local_steps<...> once");
  static_assert(!(detail::sets_local_steps<Options> || ...) || !(detail::is_delay<Options> || ...),
                "data_parallel<Ranks, local_steps<H>, delayed<1>>: with delayed<1> the last "
                "gradients of a replica would change its parameters only after the common update; "
                "leave delayed<1> or local_steps<H> out");
  static_assert(!(detail::sets_local_steps<Options> || ...) ||
                    (detail::is_neighbourhood<Options> || ...) ||
                    !(detail::cuts_state<Options> || ...),
                "data_parallel<Ranks, local_steps<H>, zero<Level>>: each data rank is a replica, "
                "which trains on its own for H steps, so each replica needs all of the state that "
                "zero<Level> would cut; write within<K>, so that K neighbouring ranks are one "
                "replica and cut its state, or leave zero out");
  /// True if `Options` contains `buckets<...>`.
  static constexpr bool says_buckets = (ext::bucket_size<Options> || ...);
  static_assert(!(detail::is_at_end<Options> || ...) || !(detail::sums_blocks<Options> || ...),
                "data_parallel<Ranks, zero<2 or 3>, buckets<at_end>>: these levels sum gradients, "
                "and zero<3> gathers parameters, bucket by bucket, but at_end puts everything into "
                "one bucket; write buckets<4_MiB>, or leave buckets out");
};

}  // namespace plait
