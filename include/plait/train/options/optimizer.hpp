// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "plait/backend/arguments.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/number_range.hpp"

namespace plait {

/// Marks a type as an optimizer: `using concept_tag = plait::optimizer_tag;`.
struct optimizer_tag {};

/// A description of a parameter, from which an optimizer decides whether weight decay applies to
/// the parameter.
struct parameter_description {
  std::string_view name;  ///< full name, as in "h.3.mlp.c_fc.weight"
  int rank = 1;           ///< 1 for vectors, 2 for matrices
};

/// Returns true, so weight decay applies to every parameter.
inline bool decay_all(parameter_description const&) { return true; }
/// Returns true for matrices, and false for vectors such as biases and the weights of norms.
inline bool decay_matrices(parameter_description const& what) { return what.rank == 2; }

}  // namespace plait

namespace plait::ext {

/// A setting of an optimizer and its allowed range. The setting must be equal on all ranks.
struct setting {
  char const* name = "";
  double value = 0;
  number_range range{-number_ranges::infinite, number_ranges::infinite, "a number"};
};

}  // namespace plait::ext

namespace plait {

/// AdamW as in PyTorch, with decoupled weight decay and bias correction.
///
/// Source: Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019.
///
/// Example (tests/reference/names_in_use_test.cpp adamw):
///     plait::adamw const decayed{.learning_rate = 3e-4, .weight_decay = 0.1};
struct adamw {
  using concept_tag = optimizer_tag;
  using numbers = ext::adamw_numbers;
  /// The name in checkpoints.
  static constexpr char const* name = "adamw";
  static constexpr int states = 2;
  /// The names of the states in checkpoints.
  static constexpr std::array<char const*, 2> state_names{"exp_avg", "exp_avg_sq"};

  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
  bool (*decays)(parameter_description const&) = decay_all;

  /// Returns the settings. Trainers check their ranges and require that they are equal on all
  /// ranks.
  [[nodiscard]] std::array<ext::setting, 5> settings() const;
  /// Returns the numbers that change from update to update, for the next update. `age`: the number
  /// of updates that the optimizer's states have had so far.
  [[nodiscard]] numbers numbers_of(std::int64_t age, double rate_factor) const;
  /// Enqueues one update of all parameters of an arena. `now`: the result of numbers_of, in the
  /// device's memory.
  template <class Queue, class Arena>
  void update(Queue queue, Arena const& of, numbers const* now) const {
    queue.adamw(of, ext::adamw_constants{beta1, beta2, epsilon, weight_decay}, now);
  }
};

/// Stochastic gradient descent with momentum, as in PyTorch without dampening.
///
/// Example (tests/reference/names_in_use_test.cpp sgd):
///     plait::sgd const plain{.learning_rate = 0.1, .momentum = 0.9};
struct sgd {
  using concept_tag = optimizer_tag;
  using numbers = ext::sgd_numbers;
  /// The name in checkpoints.
  static constexpr char const* name = "sgd";
  static constexpr int states = 1;
  /// The name of the state in checkpoints.
  static constexpr std::array<char const*, 1> state_names{"momentum_buffer"};

  double learning_rate = 1e-2;
  double momentum = 0;
  double weight_decay = 0;
  bool (*decays)(parameter_description const&) = decay_all;

  /// Returns the settings; see adamw::settings.
  [[nodiscard]] std::array<ext::setting, 3> settings() const;
  /// Returns the numbers that change from update to update; see adamw::numbers_of.
  [[nodiscard]] numbers numbers_of(std::int64_t, double rate_factor) const {
    return {learning_rate * rate_factor};
  }
  /// Enqueues one update of all parameters of an arena; see adamw::update.
  template <class Queue, class Arena>
  void update(Queue queue, Arena const& of, numbers const* now) const {
    queue.sgd(of, ext::sgd_constants{momentum, weight_decay}, now);
  }
};

}  // namespace plait

namespace plait::ext {

/// An optimizer updates weights from their gradients. One call of update() updates all weights of
/// an arena, whose states all have the same age.
///
/// Syntax:  the members of `adamw`. `numbers` is a trivially copyable struct of at most 8 numbers,
///          among them `learning_rate`, which reports contain. settings(), `name` and
///          `state_names` are optional; without `state_names`, the states in checkpoints are named
///          `state_0`, ..., and without `name`, checkpoints compare the names of the states.
///          An optimizer with `using state_element = plait::bfloat16` gets a rounded_arena, see
///          adamw_bfloat16; without it, states have the type of the parameters.
/// Meaning: numbers_of(age, rate) returns the numbers for the next update of states that have had
///          `age` updates. The age is the number of the step, unless states have been reset.
///          update() changes nothing if `*of.gradient_scale` is NaN. It multiplies the learning
///          rate and the weight decay by the factors of each range in `of.ranges`.
template <class O>
concept optimizer =
    std::same_as<typename O::concept_tag, optimizer_tag> &&
    std::is_trivially_copyable_v<typename O::numbers> && requires(O const& how, std::int64_t age) {
      { O::states } -> std::convertible_to<int>;
      { how.numbers_of(age, 1.0) } -> std::same_as<typename O::numbers>;
      { how.numbers_of(age, 1.0).learning_rate } -> std::convertible_to<double>;
      { how.decays(parameter_description{}) } -> std::convertible_to<bool>;
    };

/// An optimizer that updates some matrices as a whole, as `muon` does. update() is called for each
/// of these matrices alone, with its shape and with scratch memory in the arena, and for each block
/// of other parameters between them.
///
/// Syntax:  an optimizer with the type whole_matrices of plait/train/whole_matrices.hpp, the member
///          `matrices`, a function of a parameter_description that returns true for the matrices,
///          and scratch_bytes<Parameter>(rows, columns), the bytes of the scratch memory.
///          `matrix_state_names` is optional; see whole_matrices::name_states.
template <class O>
concept matrix_optimizer = optimizer<O> && requires { typename O::whole_matrices; };

/// Returns the name of an optimizer, or null if it has no `static constexpr char const* name`.
template <optimizer O>
[[nodiscard]] constexpr char const* optimizer_name_of() {
  if constexpr (requires {
                  { &O::name } -> std::same_as<char const* const*>;
                })
    return O::name;
  else return nullptr;
}

/// Returns the names of an optimizer's states in checkpoints.
template <optimizer O>
[[nodiscard]] [[gnu::cold]] std::vector<std::string> state_names_of() {
  std::vector<std::string> out;
  for (int i = 0; i < O::states; ++i) {
    if constexpr (requires { O::state_names; })
      out.emplace_back(O::state_names[static_cast<std::size_t>(i)]);
    else out.push_back(concat({"state_", i}));
  }
  return out;
}

static_assert(optimizer<adamw>);
static_assert(optimizer<sgd>);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/train/options/optimizer.ipp"
#endif
