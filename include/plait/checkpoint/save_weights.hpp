// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "plait/checkpoint/disk.hpp"
#include "plait/checkpoint/elements.hpp"
#include "plait/checkpoint/load_weights.hpp"
#include "plait/checkpoint/weights_index.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/name_pattern.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/safetensors.hpp"

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
                              save_weights_options const& options, bool is_one_file) {
    names_in_file const in_file("save_weights", options.names);
    std::map<std::string, std::string> taken;
    std::size_t bytes = 0;
    for (auto entry : tensors) {
      if (!options.only.empty() && !matches_any(options.only, entry.name)) continue;
      auto const ours = entry.name;
      entry.name = in_file.of(ours);
      entry.type = options.type.value_or(entry.type);
      if (auto const [other, is_new] = taken.emplace(entry.name, ours); !is_new)
        throw input_error({"save_weights: ", in_quotes(other->second), " and ", in_quotes(ours),
                           " would both be ", in_quotes(entry.name),
                           " in the file; change the pairs in save_weights_options::names"});
      // As Hugging Face does it: a tensor goes behind the others, unless that would be too much.
      bool const is_next = !is_one_file && bytes + entry.bytes() > options.most_bytes;
      if (files.empty() || (is_next && bytes > 0)) {
        files.emplace_back();
        bytes = 0;
      }
      bytes += entry.bytes();
      places[ours] = {entry.name, files.size() - 1};
      files.back().push_back(std::move(entry));
    }
    if (files.empty())
      throw input_error(
          {"save_weights: no parameter is to be saved; ",
           (options.only.empty()
                ? std::string("the model has none")
                : concat({"save_weights_options::only begins with ", in_quotes(options.only[0]),
                          ", and the model's first parameter is ",
                          in_quotes(tensors.empty() ? std::string() : tensors[0].name)}))});
  }

  /// model.safetensors, or model-00002-of-00003.safetensors.
  [[nodiscard]] [[gnu::cold]] std::string name_of(std::size_t file) const {
    if (files.size() == 1) return weights_file;
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", file + 1, files.size());
    return name;
  }
  [[nodiscard]] [[gnu::cold]] std::string index() const {
    weights_index out;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < files.size(); ++i)
      for (auto const& entry : files[i]) {
        out[entry.name] = name_of(i);
        bytes += entry.bytes();
      }
    return to_text(out, bytes);
  }
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
  explicit partial_folder(std::filesystem::path path, disk& on = the_disk())
      : path_(path.has_filename() ? std::move(path) : path.parent_path()),
        name_("folder of weights", path_),
        disk_(on) {
    if (path_.empty() || path_.native().find('\0') != std::string::npos)
      name_.refuse("cannot be written: its name is empty or has a byte that is 0");
    require_room();
    int code = EEXIST;
    for (int tries = 0; tries < 16 && code == EEXIST; ++tries) {
      partial_ = concat({path_.native(), ".partial-", disk_.random_digits()});
      code = disk_.make_folder(partial_);
    }
    if (code != 0) {
      partial_.clear();
      require_folder(name_, path_.parent_path());
      name_.fail("cannot be written", code);
    }
  }
  ~partial_folder() {
    if (partial_.empty()) return;
    for (auto const& name : files_) (void)disk_.remove_file(partial_ / name);
    (void)disk_.remove_folder(partial_);
  }
  partial_folder(partial_folder const&) = delete;
  partial_folder& operator=(partial_folder const&) = delete;

  /// Where a file of this name is to be written.
  [[nodiscard]] std::filesystem::path file(std::string const& name) {
    files_.push_back(name);
    return partial_ / name;
  }
  void write_file(std::string const& name, std::string_view text) {
    must(disk_.write_file(file(name), std::as_bytes(std::span(text))));
  }

  /// Makes the folder appear; all files are on the disk. On return its names are, too.
  void commit() {
    must(disk_.sync_folder(partial_));
    require_room();
    if (int const code = disk_.remove_folder(path_); code != 0 && code != ENOENT) must(code);
    must(disk_.rename(partial_, path_));
    partial_.clear();
    auto const above = path_.parent_path();
    if (int const code = disk_.sync_folder(above.empty() ? "." : above); code != 0)
      name_.fail("is written, but its name cannot be brought to the disk", code);
  }

 private:
  /// An empty folder may be there.
  void require_room() const {
    std::error_code problem;
    auto const found = std::filesystem::symlink_status(path_, problem);
    if (!std::filesystem::exists(found)) return;
    if (!std::filesystem::is_directory(found))
      name_.refuse(
          "cannot be written: a file is there; name another folder, or a file that ends in "
          ".safetensors");
    if (!std::filesystem::is_empty(path_, problem) || problem)
      name_.refuse("cannot be written: it is there and not empty; name another one");
  }
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
                 detail::disk& on = detail::the_disk())
      : path_(path), of_(tensors, options, is_file(path, as)) {
    if (!is_file(path, as)) folder_.emplace(path, on);
    begin(0);
  }

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
  void commit() {
    while (file_ + 1 < of_.files.size()) next();
    open_->commit();
    open_.reset();
    if (!folder_) return;
    if (of_.files.size() > 1) folder_->write_file(detail::weights_index_file, of_.index());
    folder_->commit();
  }

 private:
  static bool is_file(std::filesystem::path const& path, form as) {
    return as == form::one_file || detail::is_weights_file(path);
  }
  [[gnu::cold]] void begin(std::size_t file) {
    file_ = file;
    open_.emplace(folder_ ? folder_->file(of_.name_of(file)) : path_, of_.files[file],
                  std::map<std::string, std::string>{{"format", "pt"}});
  }
  void next() {
    open_->commit();
    begin(file_ + 1);
  }

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
