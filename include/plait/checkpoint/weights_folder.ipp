// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/weights_folder.hpp"

#include <map>
#include <system_error>
#include <utility>

#include "plait/core/error.hpp"
#include "plait/core/file_kind.hpp"
#include "plait/io/sharding_info.hpp"

namespace plait {

PLAIT_DECL std::vector<std::string> weights_folder::names() const {
  std::vector<std::string> out;
  for (auto const& tensor : manifest_.tensors) out.push_back(tensor.name);
  return out;
}

PLAIT_DECL void weights_folder::expect_shape(std::string_view name,
                                             std::span<std::size_t const> shape) const {
  auto const& found = find(name).shape;
  if (!has_shape(name, shape))
    name_.refuse_part(ext::concat({"tensor ", detail::in_quotes(name)}),
                      ext::concat({"has the shape ", detail::shape_text(found), ", but ",
                                   detail::shape_text(shape), " is needed"}));
}

PLAIT_DECL ext::checkpoint_tensor const& weights_folder::find_in(
    ext::checkpoint_manifest const& manifest, std::string_view name) const {
  auto const found = std::ranges::find(manifest.tensors, name, &ext::checkpoint_tensor::name);
  if (found == manifest.tensors.end())
    name_.refuse(ext::concat({"has no tensor ", detail::in_quotes(name)}));
  return *found;
}

PLAIT_DECL ext::checkpoint_manifest weights_folder::as_matrices(ext::checkpoint_manifest all) {
  for (auto& tensor : all.tensors) {
    auto const shape = tensor.shape;
    if (shape.empty()) {
      tensor.shape = {1};
      for (auto& block : all.blocks)
        if (block.tensor == tensor.name) block.offset = {0}, block.extent = {1};
    }
    if (shape.size() <= 2) continue;
    std::vector<ext::checkpoint_block*> pieces;
    bool is_cut = false;
    for (auto& block : all.blocks)
      if (block.tensor == tensor.name) {
        pieces.push_back(&block);
        for (std::size_t i = 2; i < shape.size(); ++i) is_cut |= block.extent[i] != shape[i];
      }
    if (is_cut) continue;
    tensor.shape = detail::matrix_shape(shape);
    for (auto* const block : pieces) {
      block->offset = {block->offset[0], block->offset[1] * (tensor.shape[1] / shape[1])};
      block->extent = detail::matrix_shape(block->extent);
    }
  }
  return all;
}

PLAIT_DECL weights_folder::weights_folder(std::filesystem::path const& folder,
                                          detail::open_weights files)
    : name_("folder of weights", folder),
      manifest_(manifest_of(folder, name_, files)),
      matrices_(as_matrices(manifest_)),
      reader_(folder, matrices_, sizeof(float), std::move(files)) {}

PLAIT_DECL std::set<std::string> weights_folder::files_of(std::filesystem::path const& folder,
                                                          detail::file_name const& name) {
  std::error_code problem;
  std::set<std::string> out, others;
  for (std::filesystem::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem)) {
    auto const file = at->path().filename().string();
    // Hidden files are skipped: macOS writes ._model.safetensors next to model.safetensors on disks
    // of other systems.
    if (file.starts_with('.')) continue;
    if (at->path().extension() == ".safetensors") out.insert(file);
    else if (others.size() < most_other_files) others.insert(file);
  }
  if (problem) name.fail("cannot be read", problem.value());
  if (out.empty())
    name.refuse(ext::concat({"has no safetensors file", what_is_there(folder, others)}));
  return out;
}

PLAIT_DECL std::string weights_folder::what_is_there(std::filesystem::path const& folder,
                                                     std::set<std::string> const& files) {
  for (bool const is_model : {true, false})
    for (auto const& file : files) {
      auto const path = (folder / file).string();
      if ((file.find("model") != file.npos) != is_model || !detail::is_regular_file(path)) continue;
      auto const text = detail::other_weights_text(path);
      if (!text.empty()) return ext::concat({"; ", detail::in_quotes(file), " ", text});
    }
  return "";
}

PLAIT_DECL std::set<std::string> weights_folder::files_of(std::filesystem::path const& folder,
                                                          detail::file_name const& index,
                                                          detail::weights_index const& files) {
  std::set<std::string> out;
  for (auto const& [tensor, file] : files) out.insert(file);
  for (auto const& file : out)
    if (std::error_code problem; !std::filesystem::exists(folder / file, problem))
      index.refuse(
          ext::concat({"names the file ", detail::in_quotes(file), ", which does not exist"}));
  return out;
}

PLAIT_DECL void weights_folder::compare(detail::file_name const& index,
                                        detail::weights_index const& files, std::string const& file,
                                        safetensors_reader const& reader) {
  for (auto const& [tensor, of] : files)
    if (of == file && !reader.contains(tensor))
      index.refuse(ext::concat({"states that tensor ", detail::in_quotes(tensor), " is in ",
                                detail::in_quotes(file), ", which does not contain it"}));
  for (auto const& tensor : reader.names())
    if (auto const found = files.find(tensor); found == files.end() || found->second != file)
      index.refuse(ext::concat(
          {"says ",
           (found == files.end() ? "nothing of"
                                 : ext::concat({detail::in_quotes(found->second), " has"})),
           " tensor ", detail::in_quotes(tensor), ", which is in ", detail::in_quotes(file)}));
}

PLAIT_DECL void weights_folder::refuse_copies(std::span<ext::checkpoint_block const* const> pieces,
                                              detail::file_name const& name) {
  if (pieces.size() < 2) return;
  std::map<std::vector<std::size_t>, ext::checkpoint_block const*> by_begin;
  for (auto const* const piece : pieces)
    if (auto const [other, is_new] = by_begin.emplace(piece->offset, piece); !is_new)
      name.refuse_part(
          ext::concat({"tensor ", detail::in_quotes(piece->tensor)}),
          ext::concat({"is in ", detail::in_quotes(other->second->file), " and in ",
                       detail::in_quotes(piece->file),
                       "; if these are two copies of the weights, pass one file instead of the "
                       "folder, or move the other file out of the folder"}));
}

PLAIT_DECL ext::checkpoint_manifest weights_folder::manifest_of(std::filesystem::path const& folder,
                                                                detail::file_name const& name,
                                                                detail::open_weights& open) {
  auto const index_path = folder / detail::weights_index_file;
  detail::file_name const index_name("index", index_path);
  detail::weights_index index;
  // If the index is a symbolic link without a target, it is treated as an existing index, so that
  // reading it fails.
  if (std::error_code problem;
      std::filesystem::exists(std::filesystem::symlink_status(index_path, problem)))
    index = detail::read_weights_index(index_path);
  auto const names = index.empty() ? files_of(folder, name) : files_of(folder, index_name, index);
  ext::checkpoint_manifest out;
  std::map<std::string, ext::checkpoint_tensor> by_name;
  for (auto const& file_in_folder : names) {
    auto const& file = open.file(file_in_folder);
    auto const path = folder / file_in_folder;
    if (!index.empty()) compare(index_name, index, file_in_folder, file);
    auto const offsets = ext::parse_sharding_metadata(file.metadata(), path);
    for (auto const& tensor : file.names()) {
      auto const& entry = file.info(tensor);
      auto offset = std::vector<std::size_t>(entry.shape.size());
      if (offsets && offsets->contains(tensor)) offset = offsets->at(tensor);
      if (offset.size() != entry.shape.size())
        throw input_error({"file ", detail::path_in_quotes(path), ": tensor ",
                           detail::in_quotes(tensor), " has ", entry.shape.size(),
                           " dimensions and ", offset.size(), " saved_offsets"});
      auto& all = by_name[tensor];
      all.name = tensor;
      all.type = entry.type_name();
      all.shape.resize(std::max(all.shape.size(), entry.shape.size()));
      for (std::size_t i = 0; i < entry.shape.size(); ++i) {
        std::size_t end = offset[i];
        if (__builtin_add_overflow(end, entry.shape[i], &end))
          throw input_error({"file ", detail::path_in_quotes(path), ": tensor ",
                             detail::in_quotes(tensor), " of shape ",
                             detail::shape_text(entry.shape), " has the saved_offsets ",
                             detail::shape_text(offset), ", which overflow"});
        all.shape[i] = std::max(all.shape[i], end);
      }
      // Blocks without elements are skipped. A file contains such a block if the rank that wrote it
      // had no rows of the tensor.
      if (entry.elements() != 0)
        out.blocks.push_back({file_in_folder, tensor, std::move(offset), entry.shape, 0});
    }
  }
  std::map<std::string_view, std::vector<ext::checkpoint_block const*>> blocks;
  for (auto const& block : out.blocks) blocks[block.tensor].push_back(&block);
  for (auto& [tensor, all] : by_name) {
    auto const& pieces = blocks[tensor];
    refuse_copies(pieces, name);
    detail::check_tensor(all, pieces, name);
    out.tensors.push_back(std::move(all));
  }
  return out;
}

}  // namespace plait
