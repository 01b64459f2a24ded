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
#include "plait/core/bfloat16.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"
#include "plait/core/file_kind.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/safetensors.hpp"
#include "plait/plan/model/program.hpp"

namespace plait {

/// Choices of `save_weights`: what is written, and how.
struct save_weights_options {
  /// A file of a folder has at most so many bytes of tensors, but for one tensor that has more.
  std::size_t most_bytes = 5'000'000'000;
  /// What the model says and what the file says instead, as in `weight_names`.
  std::vector<std::pair<std::string, std::string>> names{};
  /// Patterns of the model's names, `{"*.lora_*"}`: only what one of them matches is written. All
  /// parameters, if there is none.
  std::vector<std::string> only{};
  /// The type in the file: F64, F32 or BF16. That of the trainer's parameters, if it is not given.
  std::optional<stored_type> type{};
};

namespace detail {

/// The files of weights that are saved, each with the names and shapes of its tensors.
struct weights_files {
  /// What files say of a parameter, by the model's name, and in which file it is.
  struct place {
    std::string name;
    std::size_t file = 0;
  };
  std::vector<std::vector<safetensors_entry>> files{};
  std::map<std::string, place, std::less<>> places{};

  /// `tensors`: all of the model, by its names, in the order in which they are written.
  ///
  /// Errors: input_error for options that leave no tensor or make one of two.
  [[gnu::cold]] weights_files(std::span<safetensors_entry const> tensors,
                              save_weights_options const& options, bool is_one_file);

  /// model.safetensors, or model-00002-of-00003.safetensors.
  [[nodiscard]] [[gnu::cold]] std::string name_of(std::size_t file) const;
  [[nodiscard]] [[gnu::cold]] std::string index() const;
};

[[nodiscard]] inline bool is_weights_file(std::filesystem::path const& path) {
  return path.extension() == ".safetensors";
}

/// A folder that appears under its name only when it is complete. Until then it is
/// NAME.partial-<16 digits> beside it; an object that ends before that removes it.
///
/// Errors: input_error that names the folder and what the system says; also if it is there and not
///         empty.
class partial_folder {
 public:
  explicit partial_folder(std::filesystem::path path, disk& on = the_disk());
  ~partial_folder();
  partial_folder(partial_folder const&) = delete;
  partial_folder& operator=(partial_folder const&) = delete;

  /// Where a file of this name is to be written.
  [[nodiscard]] std::filesystem::path file(std::string const& name);
  void write_file(std::string const& name, std::string_view text) {
    must(disk_.write_file(file(name), std::as_bytes(std::span(text))));
  }

  /// Makes the folder appear; all files are on the disk. On return its names are, too.
  void commit();

 private:
  /// An empty folder may be there.
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

/// Writes the weights of a model, parameter by parameter, as `save_weights` says; for programs that
/// want to know before the training whether they can be written.
///
/// Errors:  input_error that names the file or folder; nothing is then under its name, or what was
///          there before.
/// Threads: used by one thread.
class weights_writer {
 public:
  /// What there is in the end: as save_weights takes it from the path's name, or one file of any
  /// name.
  enum class form { by_name, one_file };

  /// `tensors`: all of the model, by its names, in the order in which they will be written.
  weights_writer(std::filesystem::path const& path, std::span<safetensors_entry const> tensors,
                 save_weights_options const& options = {}, form as = form::by_name,
                 detail::disk& on = detail::the_disk());

  /// A whole parameter, row-major, by the model's name; one that is not to be saved is passed over.
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
      default: return write_as<float>(theirs, values);  // the file takes no other type
    }
  }

  /// Makes all of it appear, complete and on the disk.
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
  std::optional<safetensors_writer> open_{};  // ends before its folder
  std::size_t file_ = 0;
};

}  // namespace ext

/// Writes the weights of a trainer, and nothing else of it, for other programs and for
/// `load_weights`: a path that ends in `.safetensors` is one file, any other a folder, with
/// `model.safetensors` or several files and their index, as Hugging Face's transformers has them.
///
///     plait::save_weights(trainer, "tuned", {.type = plait::stored_type::bf16});
///     plait::save_weights(trainer, "tuned/adapter_model.safetensors", {.only = {"*.lora_*"}});
///
/// All ranks call it; the root rank writes. The file or folder appears complete or not at all, and
/// a file takes the place of one of that name. Inside `with_ema` the averages are what is saved.
/// Moves:  what `export_parameters` does.
/// Cost:   the root rank holds one parameter at a time.
/// Errors: input_error for patterns that fit nothing, on all ranks; on the root rank, which ends
/// the
///         job, one that names the path if it cannot be written, or is a folder that is not empty.
///
/// Example (tests/reference/names_in_use_test.cpp save_weights):
///     plait::save_weights(trainer, folder / "weights.safetensors");
template <class Trainer>
[[gnu::cold]] void save_weights(Trainer& trainer, std::filesystem::path const& path,
                                save_weights_options const& options = {}) {
  constexpr auto type = ext::stored_type_of<typename Trainer::parameter_element>;
  std::vector<safetensors_entry> tensors;
  for (auto const& [name, info] : trainer.parameters())
    tensors.push_back({name, type, detail::sizes_in_files(info)});
  bool const is_root = trainer.rank().is_root();
  std::optional<ext::weights_writer> to;
  if (is_root) to.emplace(path, tensors, options);
  else detail::weights_files(tensors, options, detail::is_weights_file(path));  // its errors
  trainer.export_parameters(
      [&](std::string const& name, auto const&, auto values) { to->write(name, values); });
  if (is_root) to->commit();
}

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/save_weights.ipp"
#endif
