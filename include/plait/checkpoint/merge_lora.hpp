// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/quote.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/model/outline.hpp"

// The sum W + A B Alpha / Rank of each `nn::lora` of a model, which `save_weights` writes in the
// place of W with `.merge_lora`.
namespace plait::detail {

/// The parameters of one nn::lora in a model, under their names; a star in a name stands for the
/// number of a copy of a repeat.
struct lora_names {
  std::string weight, first, second;  ///< W, A, B
  bool is_output_input = false;       ///< true if W is stored as (Out, In)
  std::size_t rank = 1;
  double factor = 1;  ///< Alpha / Rank
  /// The reason why A and B cannot be added to W, or empty.
  std::string problem{};
};

template <class L>
inline constexpr bool is_linear = false;
template <std::size_t In, std::size_t Out, nn::linear_options Options>
inline constexpr bool is_linear<nn::linear<In, Out, Options>> = true;

/// Returns true if another layer uses the parameter, or owns it.
[[nodiscard]] bool is_shared(auto const& ties, int leaf, std::string const& name) {
  for (auto const& tie : ties)
    if ((tie.leaf == leaf && tie.parameter == 0) || tie.owner.text() == name) return true;
  return false;
}

/// Adds the lora whose last leaf has the number `Leaf`, if that leaf ends one.
template <class Plan, std::size_t Leaf>
void append_lora(std::vector<std::string> const& prefixes, std::vector<lora_names>& out) {
  using all = typename Plan::leaf_types;
  using leaf = std::tuple_element_t<Leaf, all>;
  if constexpr (requires { typename leaf::adapted; }) {
    constexpr std::size_t adapted = planning::leaf_count<typename leaf::adapted>;
    constexpr std::size_t begin = Leaf - 3 - adapted;
    using layer = std::tuple_element_t<begin, all>;
    lora_names one{.weight = prefixes[begin] + "weight",
                   .first = prefixes[Leaf - 3] + "weight",
                   .second = prefixes[Leaf - 1] + "weight",
                   .rank = leaf::rank,
                   .factor = leaf::factor.number()};
    if constexpr (adapted == 1 && is_linear<layer>) {
      one.is_output_input = !layer::in_out;
      if (is_shared(Plan::tree.ties, int(begin), one.weight))
        one.problem = "shares its weight with another layer, which would change, too";
    } else {
      one.problem = "adapts a layer that is not one plait::nn::linear";
    }
    out.push_back(std::move(one));
  }
}

/// Returns the loras of a plan's model, in the order of the layers.
template <class Plan>
[[gnu::cold]] std::vector<lora_names> loras_of() {
  std::vector<lora_names> out;
  auto const prefixes = planning::leaf_names(Plan::tree);
  [&]<std::size_t... Leaf>(std::index_sequence<Leaf...>) {
    (append_lora<Plan, Leaf>(prefixes, out), ...);
  }(std::make_index_sequence<std::tuple_size_v<typename Plan::leaf_types>>{});
  return out;
}

/// The LoRA parameters of a model, for a merge: for each matrix A and each matrix B, the weight to
/// which their product is added.
class lora_weights {
 public:
  enum class role : int { weight, first, second };
  struct place {
    role is = role::weight;
    std::size_t lora = 0;  ///< number among lora()
  };

  /// `names`: the names of all parameters of the model.
  ///
  /// Errors: input_error if there is no lora, or if a lora cannot be merged.
  [[gnu::cold]] lora_weights(std::vector<lora_names> const& patterns,
                             std::vector<std::string> const& names);

  /// Returns the place of a parameter in a lora, or nullptr.
  [[nodiscard]] place const* find(std::string_view name) const {
    auto const found = places_.find(name);
    return found == places_.end() ? nullptr : &found->second;
  }
  /// Returns true if a merged file has the parameter: all but A and B.
  [[nodiscard]] bool is_kept(std::string_view name) const {
    auto const* const found = find(name);
    return found == nullptr || found->is == role::weight;
  }
  [[nodiscard]] lora_names const& lora(std::size_t number) const { return loras_[number]; }

 private:
  std::vector<lora_names> loras_;
  std::map<std::string, place, std::less<>> places_;
};

/// Takes whole parameters one after the other and passes them on, each weight of a lora with A and
/// B added to it. From a weight on it holds what it gets until it has the weight's A and B; these
/// follow the weight and its bias.
template <class T, class Next>
class lora_merger {
 public:
  /// `next(name, values)` gets spans of T, and of double for a sum.
  lora_merger(lora_weights const& all, Next next) : all_(all), next_(std::move(next)) {}

  void take(std::string const& name, std::span<T const> values) {
    if (held_.empty() && all_.find(name) == nullptr) return next_(name, values);
    held_.push_back({name, {values.begin(), values.end()}});
    while (!held_.empty() && passes_on_first()) held_.erase(held_.begin());
  }

  /// Errors: error if a weight has not got its A and B.
  void finish() const {
    if (!held_.empty())
      throw error({"merge_lora: ", in_quotes(held_[0].name),
                   " has not got its lora_A and lora_B; this is a fault of plait"});
  }

 private:
  struct tensor {
    std::string name;
    std::vector<T> values;
  };

  [[nodiscard]] tensor const* held(std::string const& name) const {
    for (auto const& one : held_)
      if (one.name == name) return &one;
    return nullptr;
  }

  /// Passes the first tensor on, or returns false if it has to wait.
  bool passes_on_first() {
    auto const& [name, values] = held_[0];
    auto const* const place = all_.find(name);
    if (place == nullptr) {
      next_(name, std::span<T const>(values));
    } else if (place->is == lora_weights::role::weight) {
      auto const& lora = all_.lora(place->lora);
      auto const *const first = held(lora.first), *const second = held(lora.second);
      if (first == nullptr || second == nullptr) return false;
      next_(name, std::span<double const>(merged(lora, values, first->values, second->values)));
    }
    return true;  // A and B are dropped: they follow their weight
  }

  /// Returns W + A B Alpha / Rank, computed in double.
  ///
  /// Shapes: A (Rank, In), B (Out, Rank), W (Out, In) or (In, Out). W may lack the last rows of
  ///         (Out, In), which are padding.
  static std::vector<double> merged(lora_names const& lora, std::vector<T> const& weight,
                                    std::vector<T> const& first, std::vector<T> const& second) {
    std::size_t const rank = lora.rank, in = first.size() / rank, out = second.size() / rank;
    std::size_t const columns = lora.is_output_input ? in : out;
    // The factor whose columns are the columns of W: A, or B transposed.
    std::vector<double> factor(rank * columns);
    for (std::size_t r = 0; r < rank; ++r)
      for (std::size_t i = 0; i < columns; ++i)
        factor[r * columns + i] = static_cast<double>(lora.is_output_input ? first[r * columns + i]
                                                                           : second[i * rank + r]);
    std::vector<double> sums(weight.begin(), weight.end());
    for (std::size_t row = 0; row < weight.size() / columns; ++row)
      for (std::size_t r = 0; r < rank; ++r) {
        auto const other = static_cast<double>(lora.is_output_input ? second[row * rank + r]
                                                                    : first[r * in + row]);
        double const scaled = lora.factor * other;
        double* const sum = &sums[row * columns];
        for (std::size_t i = 0; i < columns; ++i) sum[i] += scaled * factor[r * columns + i];
      }
    return sums;
  }

  lora_weights const& all_;
  Next next_;
  std::vector<tensor> held_{};
};

/// Returns the loras of a trainer's model if they are wanted.
///
/// Errors: the errors of lora_weights.
template <class Trainer>
[[gnu::cold]] std::optional<lora_weights> loras_to_merge(Trainer const& trainer, bool is_wanted) {
  if (!is_wanted) return std::nullopt;
  std::vector<std::string> names;
  for (auto const& tensor : trainer.parameters()) names.push_back(tensor.name);
  return lora_weights(loras_of<typename Trainer::plan_type>(), names);
}

/// Gathers a trainer's parameters as export_parameters does, and calls next(name, values) on the
/// root rank. If there are `loras`, the weights are merged.
template <class Trainer, class Next>
[[gnu::cold]] void export_merged(Trainer& trainer, std::optional<lora_weights> const& loras,
                                 Next next) {
  using element = typename Trainer::parameter_element;
  if (!loras)
    return trainer.export_parameters(
        [&](std::string const& name, auto const&, auto values) { next(name, values); });
  lora_merger<element, Next> sums(*loras, std::move(next));
  trainer.export_parameters([&](std::string const& name, auto const&,
                                std::span<element const> values) { sums.take(name, values); });
  sums.finish();
}

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/merge_lora.ipp"
#endif
