// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/checkpoint/elements.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/name_pattern.hpp"
#include "plait/train/state/saved_state.hpp"

namespace plait {

/// Maps the names of a model's parameters to the names of tensors in a file. All members are
/// patterns, as in `parameter_group`: a star matches any text, even an empty text.
struct weight_names {
  /// Pairs of a pattern for names in the model and the pattern of the names in the file that
  /// replaces it: `{{"body.*", "transformer.*"}}` maps body.0.weight to transformer.0.weight. The
  /// first star of the replacement becomes the text that the first star of the pattern has matched,
  /// and so on. The first pair that matches a name is used.
  std::vector<std::pair<std::string, std::string>> names{};
  /// Patterns for the names of parameters that the file may lack, such as `{"head.*"}`. A missing
  /// parameter keeps its values.
  std::vector<std::string> missing{};
  /// Patterns for the names of tensors in the file that no parameter uses; these tensors are
  /// ignored.
  std::vector<std::string> extra{};
};

namespace detail {

/// Finds, for each parameter of a model, the name that it has in a file.
class names_in_file {
 public:
  /// `call` is the text with which error messages begin, such as "load_weights".
  ///
  /// Errors: input_error if the patterns of a pair differ in their number of stars.
  [[gnu::cold]] names_in_file(std::string const& call,
                              std::vector<std::pair<std::string, std::string>> const& names);

  [[nodiscard]] [[gnu::cold]] std::string of(std::string const& name) const;

 private:
  std::vector<std::pair<std::string, std::string>> const& names_;
};

/// Returns a text with the number of names and the first few names: "5 tensors, 'a', 'b', 'c',
/// ...".
[[nodiscard]] [[gnu::cold]] std::string list_of_names(std::vector<std::string> const& names,
                                                      std::string const& what);

/// A source from which a trainer restores its parameters: the tensors of a file or folder, found by
/// their names in the file.
template <class Source>
class weights_source final : public state_source {
 public:
  /// `taken`: the names of the tensors in the file from which parameters of the model are restored.
  weights_source(Source& from, names_in_file const& names,
                 std::set<std::string, std::less<>> const& taken, std::size_t element_bytes)
      : from_(from), names_(names), taken_(taken), element_bytes_(element_bytes) {}

  [[nodiscard]] bool contains(std::string_view name) const override {
    return taken_.contains(names_.of(std::string(name)));
  }
  void read(std::string const& name, parameter_info const& info, parameter_rectangle const& where,
            void* out) override {
    read_elements(element_bytes_, where.count(), out, [&](auto numbers) {
      from_.read_block(names_.of(name), sizes_of(info, where.row, where.column),
                       sizes_of(info, where.rows, where.columns), numbers);
    });
  }

 private:
  Source& from_;
  names_in_file const& names_;
  std::set<std::string, std::less<>> const& taken_;
  std::size_t element_bytes_;
};

}  // namespace detail

/// Replaces the parameters in a trainer's state with the weights of a file or folder. Programs that
/// hold trainers of several types can call this function with `trainer.state()`.
template <class Source>
[[gnu::cold]] void load_weights(saved_state& state, Source&& source,
                                weight_names const& names = {}) {
  detail::names_in_file const in_file("load_weights", names.names);
  std::vector<std::string> lacking, unused;
  std::set<std::string, std::less<>> taken;
  for (auto const& [name, info] : state.parameters()) {
    auto const theirs = in_file.of(name);
    if (source.contains(theirs)) {
      // A checkpoint of plait stores the parameter's own sizes; other programs may store other
      // sizes.
      if (!source.has_shape(theirs, detail::sizes_of(info, info.rows, info.columns)))
        source.expect_shape(theirs, detail::sizes_in_files(info));
      taken.insert(theirs);
    } else if (!detail::matches_any(names.missing, name)) {
      lacking.push_back(theirs);
    }
  }
  for (auto const& name : source.names())
    if (!taken.contains(name) && !detail::matches_any(names.extra, name)) unused.push_back(name);
  if (!lacking.empty() || !unused.empty())
    throw input_error(
        {"load_weights: ",
         (lacking.empty()
              ? ""
              : ext::concat(
                    {"the file lacks ", detail::list_of_names(lacking, "tensor"),
                     "; list parameters that may keep their values in weight_names::missing"})),
         (lacking.empty() || unused.empty() ? "" : ". "),
         (unused.empty()
              ? ""
              : ext::concat(
                    {"No parameter takes ", detail::list_of_names(unused, "tensor"),
                     " of the file; list tensors that may be ignored in weight_names::extra"}))});
  detail::weights_source from(source, in_file, taken, state.element_bytes(0));
  state.import_parameters(from);
}

/// Replaces a trainer's parameters with the weights of a file or folder. The number of the step
/// does not change. For each replaced parameter, the optimizer's states and the average (EMA) are
/// reset. Use this function to fine-tune the weights of any plan or program:
///
///     plait::load_weights(trainer, plait::weights_folder("run/step-00001000"),
///                         {.missing = {"head.*"}, .extra = {"lm_head.*"}});
///
/// `source` is a `weights_folder` or a `safetensors_reader`. All ranks call this function.
/// Moves:  the same transfers as `import_parameters`.
/// Cost:   each rank reads only the bytes of its own blocks, one part of a row after the other.
/// Errors: input_error, on all ranks, that names missing tensors, tensors that no parameter uses
///         (unless `names` allows them) and tensors whose shape differs from the parameter's shape.
///         Also input_error if a value is not finite, or differs between two ranks that have it.
///
/// Example (tests/reference/names_in_use_test.cpp load_weights):
///     auto const newest = plait::ext::list_checkpoints(folder).back().path;
///     plait::load_weights(trainer, plait::weights_folder(newest));
template <class Trainer, class Source>
[[gnu::cold]] void load_weights(Trainer& trainer, Source&& source, weight_names const& names = {}) {
  load_weights(*trainer.state(), source, names);
}

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/load_weights.ipp"
#endif
