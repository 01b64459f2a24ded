// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/checkpoint/disk.hpp"
#include "plait/checkpoint/elements.hpp"
#include "plait/checkpoint/merge_lora.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"
#include "plait/core/file_kind.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/safetensors.hpp"
#include "plait/plan/model/program.hpp"

namespace plait::ext {

/// Options of `save_weights`: the parameters that are written, their names and their type.
struct save_weights_options {
  /// The largest number of bytes of tensors in one file of a folder. A tensor that is larger gets a
  /// separate file.
  std::size_t most_bytes = 5'000'000'000;
  /// Pairs of a pattern for names in the model and the pattern of the names in the file that
  /// replaces it, as in `weight_names`.
  std::vector<std::pair<std::string, std::string>> names{};
  /// Patterns for the names of parameters in the model, such as `{"*.lora_*"}`. Only matching
  /// parameters are written; if the list is empty, all parameters are written.
  std::vector<std::string> only{};
  /// The type of the elements in the file: F64, F32 or BF16. By default it is the type of the
  /// trainer's parameters.
  std::optional<stored_type> type{};
  /// If true, each nn::linear in an nn::lora is written as W + A B Alpha / Rank, and the matrices A
  /// and B are left out: the result has the names and shapes of the model without adapters. The sum
  /// is computed in double and rounded once. The trainer's own parameters do not change.
  bool merge_lora = false;
};

}  // namespace plait::ext

namespace plait {

namespace detail {

/// The list of files that save_weights writes, each with the names and shapes of its tensors.
struct weights_files {
  /// A parameter's name in files, and the index of its file.
  struct place {
    std::string name;
    std::size_t file = 0;
  };
  std::vector<std::vector<safetensors_entry>> files{};
  std::map<std::string, place, std::less<>> places{};

  /// `tensors`: all parameters of the model, under the model's names, in the order in which they
  /// are written.
  ///
  /// Errors: input_error for options that select no tensor, or that map two tensors to the same
  ///         name.
  [[gnu::cold]] weights_files(std::span<safetensors_entry const> tensors,
                              ext::save_weights_options const& options, bool is_one_file);

  /// Returns the name of a file: model.safetensors, or model-00002-of-00003.safetensors.
  [[nodiscard]] [[gnu::cold]] std::string name_of(std::size_t file) const;
  [[nodiscard]] [[gnu::cold]] std::string index() const;
};

[[nodiscard]] inline bool is_weights_file(std::filesystem::path const& path) {
  return path.extension() == ".safetensors";
}

/// Writes a folder that appears under its name NAME only when it is complete. Until then the folder
/// is called NAME.partial-<16 digits>. If the object is destroyed before commit(), it removes the
/// folder.
///
/// Errors: input_error that names the folder and the system's error; also if the folder exists and
///         is not empty.
class partial_folder {
 public:
  explicit partial_folder(std::filesystem::path path, disk& on = the_disk());
  ~partial_folder();
  partial_folder(partial_folder const&) = delete;
  partial_folder& operator=(partial_folder const&) = delete;

  /// Returns the path to which the caller must write the file `name` of the folder.
  [[nodiscard]] std::filesystem::path file(std::string const& name);
  void write_file(std::string const& name, std::string_view text) {
    must(disk_.write_file(file(name), std::as_bytes(std::span(text))));
  }

  /// Renames the folder to its final name; call this function when all files are on the disk. On
  /// return the names are on the disk, too.
  void commit();

 private:
  /// Checks that the path is free: it does not exist or is an empty folder.
  void require_room() const;
  void must(int code) const {
    if (code != 0) name_.fail("cannot be written", code);
  }

  std::filesystem::path path_;
  file_name name_;
  disk& disk_;
  std::filesystem::path partial_{};
  std::vector<std::string> files_{};
};

}  // namespace detail

namespace ext {

/// Writes the weights of a model, parameter by parameter, in the format of `save_weights`. A
/// program can construct this object before training to check that the weights can be written.
///
/// Errors:  input_error that names the file or folder; the path then does not exist, or has its
///          previous content.
/// Threads: used by one thread.
class weights_writer {
 public:
  /// The form of the result. by_name: a file or a folder, depending on the ending of the path, as
  /// in save_weights. one_file: always one file.
  enum class form { by_name, one_file };

  /// `tensors`: all parameters of the model, under the model's names, in the order of the calls of
  /// write.
  weights_writer(std::filesystem::path const& path, std::span<safetensors_entry const> tensors,
                 ext::save_weights_options const& options = {}, form as = form::by_name,
                 detail::disk& on = detail::the_disk());

  /// Writes a whole parameter, in row-major order, under its name in the model. A parameter that
  /// the options do not select is skipped.
  template <class T>
  void write(std::string_view name, std::span<T const> values) {
    auto const found = of_.places.find(name);
    if (found == of_.places.end()) return;
    auto const& [theirs, file] = found->second;
    while (file_ < file) next();
    auto const& entries = of_.files[file];
    switch (std::ranges::find(entries, theirs, &safetensors_entry::name)->type) {
      case stored_type::f64: return write_as<double>(theirs, values);
      case stored_type::bf16: return write_as<bfloat16>(theirs, values);
      default: return write_as<float>(theirs, values);  // weights_files accepts no other type
    }
  }

  /// Makes the file or folder appear under its name, complete and on the disk.
  void commit();

 private:
  static bool is_file(std::filesystem::path const& path, form as) {
    return as == form::one_file || detail::is_weights_file(path);
  }
  [[gnu::cold]] void begin(std::size_t file);
  void next();

  template <class To, class T>
  void write_as(std::string const& name, std::span<T const> values) {
    if constexpr (std::same_as<To, T>) {
      open_->write(name, values);
    } else {
      std::vector<To> other(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        auto const value = static_cast<double>(values[i]);
        other[i] = static_cast<To>(value);
        if (std::isfinite(value) && !std::isfinite(static_cast<double>(other[i])))
          detail::file_name("weights", path_)
              .refuse_part(
                  concat({"tensor ", detail::in_quotes(name)}),
                  concat({"holds a number that is too large for ", to_string(stored_type_of<To>)}));
      }
      open_->write(name, std::span<To const>(other));
    }
  }

  std::filesystem::path path_;
  detail::weights_files of_;
  std::optional<detail::partial_folder> folder_{};
  // Declared after the folder, so that it is destroyed first.
  std::optional<safetensors_writer> open_{};
  std::size_t file_ = 0;
};

}  // namespace ext

/// Writes a trainer's weights without its optimizer states, for other programs and for
/// `load_weights`. If the path ends in `.safetensors`, the result is one file. Any other path
/// becomes a folder with `model.safetensors`, or with several files and their index, in the layout
/// of Hugging Face's transformers.
///
///     plait::save_weights(trainer, "tuned", {.type = plait::stored_type::bf16});
///     plait::save_weights(trainer, "tuned/adapter_model.safetensors", {.only = {"*.lora_*"}});
///     plait::save_weights(trainer, "merged", {.merge_lora = true});
///
/// All ranks call this function; the root rank writes. The file or folder appears complete or not
/// at all, and a file replaces an existing file of the same name. Inside `with_ema` the averages
/// are saved.
/// Moves:  the same transfers as `export_parameters`.
/// Cost:   the root rank holds one parameter at a time. With merge_lora it holds one adapted weight
///         with its bias and adapters, and the sum in double; the sum of a weight (In, Out) and
///         adapters of a rank takes In * Out * rank multiplications.
/// Errors: input_error on all ranks if a pattern matches nothing, and for merge_lora if the model
///         has no nn::lora, or one around another layer than one nn::linear, or around a linear
///         that shares its weight. On the root rank only, input_error that names the path if the
///         path cannot be written or is a folder that is not empty; this error ends the job.
///
/// Example (tests/reference/names_in_use_test.cpp save_weights):
///     plait::save_weights(trainer, folder / "weights.safetensors");
template <class Trainer>
[[gnu::cold]] void save_weights(Trainer& trainer, std::filesystem::path const& path,
                                ext::save_weights_options const& options = {}) {
  constexpr auto type = ext::stored_type_of<typename Trainer::parameter_element>;
  auto const loras = detail::loras_to_merge(trainer, options.merge_lora);
  std::vector<safetensors_entry> tensors;
  for (auto const& [name, info] : trainer.parameters())
    if (!loras || loras->is_kept(name))
      tensors.push_back({name, type, detail::sizes_in_files(info)});
  auto of_writer = options;
  of_writer.merge_lora = false;
  bool const is_root = trainer.rank().is_root();
  std::optional<ext::weights_writer> to;
  if (is_root) to.emplace(path, tensors, of_writer);
  else detail::weights_files(tensors, of_writer, detail::is_weights_file(path));  // throws, too
  detail::export_merged(trainer, loras,
                        [&](std::string const& name, auto values) { to->write(name, values); });
  if (is_root) to->commit();
}

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/save_weights.ipp"
#endif
