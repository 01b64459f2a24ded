// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plait/checkpoint/elements.hpp"
#include "plait/checkpoint/gguf_file.hpp"
#include "plait/checkpoint/gguf_model.hpp"
#include "plait/checkpoint/gguf_tokenizer.hpp"
#include "plait/checkpoint/merge_lora.hpp"
#include "plait/checkpoint/weights_folder.hpp"
#include "plait/core/header_only.hpp"
#include "plait/io/safetensors.hpp"

namespace plait::ext {

/// Options of `save_gguf`.
struct save_gguf_options {
  /// The type of matrices. Vectors, such as the gains of norms, are F32. With q8_0 a matrix is
  /// F16 if 32 does not divide the length of its rows, as llama.cpp's converter does.
  gguf_type type = gguf_type::f16;
  /// Pairs of a pattern of the model's names and its replacement in names of Hugging Face, as in
  /// `weight_names`; save_gguf then finds llama.cpp's names.
  std::vector<std::pair<std::string, std::string>> names{};
  /// As in `save_weights_options`. Without it a model with adapters is refused.
  bool merge_lora = false;
  /// Replaces an existing file.
  bool overwrite = false;
  /// llama.cpp's name of the rule by which the tokenizer cuts texts into words, its
  /// "tokenizer.ggml.pre". If empty, save_gguf finds gpt-2, llama-bpe and qwen2 by themselves.
  std::string pre{};
};

}  // namespace plait::ext

namespace plait {

namespace detail {

/// The tensors of a GGUF file of a model, and the file while the root rank writes it.
class gguf_export {
 public:
  /// `tensors`: all parameters under the model's names.
  ///
  /// Errors: input_error for options, names and shapes that do not fit the model.
  [[gnu::cold]] gguf_export(std::vector<safetensors_entry> tensors, gguf_model model,
                            ext::save_gguf_options const& options);

  /// Makes the file, with its metadata.
  [[gnu::cold]] void begin(std::filesystem::path const& file);

  template <class T>
  void write(std::string const& name, std::span<T const> values) {
    for (auto const& each : layout_.parameters)
      if (each.from == name) return to_->write(each.tensor.name, values);
  }
  void commit() { to_->commit(); }

 private:
  gguf_model model_;
  ext::save_gguf_options options_;
  gguf_layout layout_;
  std::optional<ext::gguf_writer> to_{};
};

/// Adds the name of a linear layer's weight that is stored as (In, Out).
template <class Plan, std::size_t Leaf>
void append_turned(std::vector<std::string> const& prefixes, std::vector<std::string>& out) {
  using leaf = std::tuple_element_t<Leaf, typename Plan::leaf_types>;
  if constexpr (is_linear<leaf>)
    if (leaf::in_out) out.push_back(prefixes[Leaf] + "weight");
}

/// Checks that no linear layer stores its weight as (In, Out), which a square matrix does not show.
///
/// Errors: input_error that names the first.
[[gnu::cold]] void refuse_turned(std::vector<std::string> const& patterns,
                                 std::span<safetensors_entry const> tensors);

template <class Plan>
[[nodiscard]] [[gnu::cold]] std::vector<std::string> turned_weights() {
  std::vector<std::string> out;
  auto const prefixes = planning::leaf_names(Plan::tree);
  [&]<std::size_t... Leaf>(std::index_sequence<Leaf...>) {
    (append_turned<Plan, Leaf>(prefixes, out), ...);
  }(std::make_index_sequence<std::tuple_size_v<typename Plan::leaf_types>>{});
  return out;
}

}  // namespace detail

/// Writes a trainer's weights as a GGUF file, which llama.cpp and programs that build on it read.
/// The model is a Llama, Mistral, Qwen2 or Qwen3 with Hugging Face's names of parameters, or with
/// names that `options.names` maps to these. Matrices are stored as (Out, In).
///
///     auto const base = plait::gguf_model::read("Llama-3.2-1B");
///     plait::save_gguf(trainer, "tuned.gguf", base, {.type = plait::gguf_type::q8_0});
///
/// All ranks call it; the root rank writes. The file appears complete or not at all. The rows of
/// queries and keys of a Llama get llama.cpp's order, for rotary positions on neighbouring pairs.
/// Inside `with_ema` it saves the averages.
/// Moves:  as `export_parameters`.
/// Cost:   the root rank holds one parameter at a time, as `save_weights` does, and while it copies
///         a tokenizer about 10 times the size of tokenizer.json.
/// Errors: input_error, on all ranks, for a parameter that has no name or another shape in
///         llama.cpp, for missing parameters, and for numbers of `model` that contradict the
///         weights. The root rank ends the job by an input_error for an existing file without
///         `overwrite`, a failed write, a tokenizer of another kind, and a number too large for the
///         type.
///
/// Example (tests/checkpoint/save_gguf_test.cpp save_gguf):
///     plait::save_gguf(trainer, file, model, {.type = plait::gguf_type::f32});
template <class Trainer>
  requires requires { typename Trainer::parameter_element; }
[[gnu::cold]] void save_gguf(Trainer& trainer, std::filesystem::path const& file,
                             gguf_model const& model, ext::save_gguf_options const& options = {}) {
  auto const loras = detail::loras_to_merge(trainer, options.merge_lora);
  std::vector<safetensors_entry> tensors;
  for (auto const& [name, info] : trainer.parameters())
    if (!loras || loras->is_kept(name))
      tensors.push_back({name, stored_type::f32, detail::sizes_in_files(info)});
  detail::refuse_turned(detail::turned_weights<typename Trainer::plan_type>(), tensors);
  detail::gguf_export out(std::move(tensors), model, options);
  bool const is_root = trainer.rank().is_root();
  if (is_root) out.begin(file);
  detail::export_merged(trainer, loras,
                        [&](std::string const& name, auto values) { out.write(name, values); });
  if (is_root) out.commit();
}

/// Writes the weights of a folder as a GGUF file, without a trainer; see above. Tensors called
/// "*.rotary_emb.inv_freq", which old files have, are left out.
///
/// Cost:   holds one tensor at a time, in float.
/// Errors: the errors of the root rank above, and of weights_folder; also if options.merge_lora is
///         set.
///
/// Example (tests/checkpoint/save_gguf_test.cpp save_gguf_folder):
///     plait::save_gguf(plait::weights_folder(base), file, plait::gguf_model::read(base));
[[gnu::cold]] void save_gguf(weights_folder& weights, std::filesystem::path const& file,
                             gguf_model const& model, ext::save_gguf_options const& options = {});
[[gnu::cold]] inline void save_gguf(weights_folder&& weights, std::filesystem::path const& file,
                                    gguf_model const& model,
                                    ext::save_gguf_options const& options = {}) {
  save_gguf(weights, file, model, options);
}

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/save_gguf.ipp"
#endif
