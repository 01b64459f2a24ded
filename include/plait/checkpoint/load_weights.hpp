// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"
#include "plait/layer/parameter.hpp"

namespace plait {

/// The names by which tensors of a file stand for parameters of a model. Names are given by what
/// they begin with.
struct weight_names {
  /// What the model says and what the file says instead: `{{"body.", "transformer."}}`. The first
  /// pair that fits counts.
  std::vector<std::pair<std::string, std::string>> prefixes{};
  /// Parameters that the file need not have, `{"head."}`: they keep their start values.
  std::vector<std::string> missing{};
  /// Tensors of the file that no parameter takes.
  std::vector<std::string> extra{};
};

namespace detail {

[[nodiscard]] inline bool begins_with_any(std::string_view name,
                                          std::vector<std::string> const& starts) {
  return std::ranges::any_of(starts, [&](auto const& start) { return name.starts_with(start); });
}

[[nodiscard]] [[gnu::cold]] inline std::string name_in_file(std::string const& name,
                                                            weight_names const& names) {
  for (auto const& [ours, theirs] : names.prefixes)
    if (name.starts_with(ours)) return theirs + name.substr(ours.size());
  return name;
}

/// "5 tensors, 'a', 'b', 'c', ..."
[[nodiscard]] [[gnu::cold]] inline std::string list_of_names(std::vector<std::string> const& names,
                                                             std::string const& what) {
  std::string out = std::to_string(names.size()) + " " + what + (names.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 3); ++i)
    out += ", " + in_quotes(names[i]);
  return names.size() > 3 ? out + ", ..." : out;
}

}  // namespace detail

/// Gives a trainer the weights of a file or folder and nothing else of it: the step stays 0, and so
/// does what its optimizer holds. For fine-tuning, from weights of any plan or program:
///
///     plait::load_weights(trainer, plait::weights_folder("run/step-00001000"),
///                         {.missing = {"head."}, .extra = {"lm_head."}});
///
/// `source` is a `weights_folder` or a `safetensors_reader`. All ranks call it.
/// Moves:  what `import_parameters` does.
/// Cost:   each rank reads the whole tensors of its stage.
/// Errors: input_error that names what the file lacks, what no parameter takes and what has another
///         shape, unless `names` allow it; on all ranks, since all compare all names. Also if a
///         value is not finite or another one than on another rank.
///
/// Example (tests/reference/names_in_use_test.cpp load_weights):
///     auto const newest = plait::ext::list_checkpoints(folder).back().path;
///     plait::load_weights(trainer, plait::weights_folder(newest));
template <class Trainer, class Source>
[[gnu::cold]] void load_weights(Trainer& trainer, Source&& source, weight_names const& names = {}) {
  std::vector<std::string> lacking, unused;
  std::set<std::string, std::less<>> taken;
  for (auto const& [name, info] : trainer.parameters()) {
    auto const theirs = detail::name_in_file(name, names);
    if (source.contains(theirs)) {
      std::array<std::size_t, 2> const sizes{info.rows, info.columns};
      source.expect_shape(theirs, std::span(sizes).last(info.rank == 2 ? 2 : 1));
      taken.insert(theirs);
    } else if (!detail::begins_with_any(name, names.missing)) {
      lacking.push_back(theirs);
    }
  }
  for (auto const& name : source.names())
    if (!taken.contains(name) && !detail::begins_with_any(name, names.extra))
      unused.push_back(name);
  if (!lacking.empty() || !unused.empty())
    throw input_error(
        "load_weights: " +
        (lacking.empty() ? ""
                         : "the file lacks " + detail::list_of_names(lacking, "tensor") +
                               "; name what may keep its start values in weight_names::missing") +
        (lacking.empty() || unused.empty() ? "" : ". ") +
        (unused.empty() ? ""
                        : "No parameter takes " + detail::list_of_names(unused, "tensor") +
                              " of the file; name what may be left out in weight_names::extra"));
  trainer.import_parameters([&](std::string const& name, auto const&, auto values) {
    auto const theirs = detail::name_in_file(name, names);
    bool const is_there = taken.contains(theirs);
    if (is_there) source.read(theirs, values);
    return is_there;
  });
}

}  // namespace plait
