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

/// Maps names of a model's parameters to names of a file's tensors. All are patterns, as in
/// `parameter_group`: a star stands for any characters, or none.
struct weight_names {
  /// Pairs of a pattern of the model and its replacement in the file: `{{"body.*",
  /// "transformer.*"}}` maps body.0.weight to transformer.0.weight. The stars of both stand for the
  /// same texts, in order. The first pair that matches counts.
  std::vector<std::pair<std::string, std::string>> names{};
  /// Parameters that the file need not have, `{"head.*"}`: they keep their values.
  std::vector<std::string> missing{};
  /// Tensors of the file that no parameter needs.
  std::vector<std::string> extra{};
};

namespace detail {

/// The names of parameters in a file.
class names_in_file {
 public:
  /// `call` is the beginning of messages.
  ///
  /// Errors: input_error if the patterns of a pair differ in their number of stars.
  [[gnu::cold]] names_in_file(std::string const& call,
                              std::vector<std::pair<std::string, std::string>> const& names);

  [[nodiscard]] [[gnu::cold]] std::string of(std::string const& name) const;

 private:
  std::vector<std::pair<std::string, std::string>> const& names_;
};

/// "5 tensors, 'a', 'b', 'c', ..."
[[nodiscard]] [[gnu::cold]] std::string list_of_names(std::vector<std::string> const& names,
                                                      std::string const& what);

/// Restores a state from the elements of a file or folder, by the file's names.
template <class Source>
class weights_source final : public state_source {
 public:
  /// `taken`: the file's tensors that parameters take.
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

/// Gives a trainer's state the weights of a file or folder; for programs that hold trainers of
/// several types.
template <class Source>
[[gnu::cold]] void load_weights(saved_state& state, Source&& source,
                                weight_names const& names = {}) {
  detail::names_in_file const in_file("load_weights", names.names);
  std::vector<std::string> lacking, unused;
  std::set<std::string, std::less<>> taken;
  for (auto const& [name, info] : state.parameters()) {
    auto const theirs = in_file.of(name);
    if (source.contains(theirs)) {
      // A checkpoint stores the parameter's own sizes.
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
              : ext::concat({"the file lacks ", detail::list_of_names(lacking, "tensor"),
                             "; name what may keep its values in weight_names::missing"})),
         (lacking.empty() || unused.empty() ? "" : ". "),
         (unused.empty()
              ? ""
              : ext::concat({"No parameter takes ", detail::list_of_names(unused, "tensor"),
                             " of the file; name what may be left out in weight_names::extra"}))});
  detail::weights_source from(source, in_file, taken, state.element_bytes());
  state.import_parameters(from);
}

/// Gives a trainer the weights of a file or folder and nothing else: its step number stays. The
/// optimizer's states and the average of a parameter that is taken are reset. It serves
/// fine-tuning, from weights of any plan or program:
///
///     plait::load_weights(trainer, plait::weights_folder("run/step-00001000"),
///                         {.missing = {"head.*"}, .extra = {"lm_head.*"}});
///
/// `source` is a `weights_folder` or a `safetensors_reader`. All ranks call it.
/// Moves:  as `import_parameters`.
/// Cost:   each rank reads the bytes of its own blocks, one piece of a row after the other.
/// Errors: input_error that names missing tensors, tensors that no parameter takes and tensors of
///         another shape, unless `names` allow it; on all ranks, since all compare all names. Also
///         if a value is not finite, or differs from the value of another rank that has it.
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
