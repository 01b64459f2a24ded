// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/save_weights.hpp"

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "plait/checkpoint/load_weights.hpp"
#include "plait/checkpoint/weights_index.hpp"
#include "plait/core/error.hpp"
#include "plait/core/name_pattern.hpp"

namespace plait::detail {

PLAIT_DECL weights_files::weights_files(std::span<safetensors_entry const> tensors,
                                        ext::save_weights_options const& options,
                                        bool is_one_file) {
  if (options.merge_lora)
    throw input_error(
        "weights_writer: save_weights_options::merge_lora is true, but only save_weights knows the "
        "adapters of a model; call it, or leave merge_lora out");
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
                         " would both have the name ", in_quotes(entry.name),
                         " in the file; change the pairs in save_weights_options::names"});
    // A tensor is put into the last file unless that file would become too large, as in Hugging
    // Face's layout.
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
        {"save_weights: no parameter is selected; ",
         (options.only.empty()
              ? std::string("the model has no parameters")
              : concat({"save_weights_options::only begins with ", in_quotes(options.only[0]),
                        ", and the model's first parameter is ",
                        in_quotes(tensors.empty() ? std::string() : tensors[0].name)}))});
}

PLAIT_DECL std::string weights_files::name_of(std::size_t file) const {
  if (files.size() == 1) return weights_file;
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", file + 1, files.size());
  return name;
}

PLAIT_DECL std::string weights_files::index() const {
  weights_index out;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (auto const& entry : files[i]) {
      out[entry.name] = name_of(i);
      bytes += entry.bytes();
    }
  return to_text(out, bytes);
}

PLAIT_DECL partial_folder::partial_folder(std::filesystem::path path, disk& on)
    : path_(path.has_filename() ? std::move(path) : path.parent_path()),
      name_("folder of weights", path_),
      disk_(on) {
  if (path_.empty() || path_.native().find('\0') != std::string::npos)
    name_.refuse("cannot be written: its name is empty or contains a null byte");
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

PLAIT_DECL partial_folder::~partial_folder() {
  if (partial_.empty()) return;
  for (auto const& name : files_) (void)disk_.remove_file(partial_ / name);
  (void)disk_.remove_folder(partial_);
}

PLAIT_DECL std::filesystem::path partial_folder::file(std::string const& name) {
  files_.push_back(name);
  return partial_ / name;
}

PLAIT_DECL void partial_folder::commit() {
  must(disk_.sync_folder(partial_));
  require_room();
  if (int const code = disk_.remove_folder(path_); code != 0 && code != ENOENT) must(code);
  must(disk_.rename(partial_, path_));
  partial_.clear();
  auto const above = path_.parent_path();
  if (int const code = disk_.sync_folder(above.empty() ? "." : above); code != 0)
    name_.fail("is written, but its name cannot be synchronised to the disk", code);
}

PLAIT_DECL void partial_folder::require_room() const {
  std::error_code problem;
  auto const found = std::filesystem::symlink_status(path_, problem);
  if (!std::filesystem::exists(found)) return;
  if (!std::filesystem::is_directory(found))
    name_.refuse(
        "cannot be written: it is a file; use the name of another folder, or of a file that ends "
        "in .safetensors");
  if (!std::filesystem::is_empty(path_, problem) || problem)
    name_.refuse("cannot be written: it exists and is not empty; use another folder");
}

}  // namespace plait::detail

namespace plait::ext {

PLAIT_DECL weights_writer::weights_writer(std::filesystem::path const& path,
                                          std::span<safetensors_entry const> tensors,
                                          ext::save_weights_options const& options, form as,
                                          detail::disk& on)
    : path_(path), of_(tensors, options, is_file(path, as)) {
  if (!is_file(path, as)) folder_.emplace(path, on);
  begin(0);
}

PLAIT_DECL void weights_writer::commit() {
  while (file_ + 1 < of_.files.size()) next();
  open_->commit();
  open_.reset();
  if (!folder_) return;
  if (of_.files.size() > 1) folder_->write_file(detail::weights_index_file, of_.index());
  folder_->commit();
}

PLAIT_DECL void weights_writer::begin(std::size_t file) {
  file_ = file;
  open_.emplace(folder_ ? folder_->file(of_.name_of(file)) : path_, of_.files[file],
                std::map<std::string, std::string>{{"format", "pt"}});
}

PLAIT_DECL void weights_writer::next() {
  open_->commit();
  begin(file_ + 1);
}

}  // namespace plait::ext
