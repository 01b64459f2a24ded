// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "plait/checkpoint/manifest.hpp"
#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/checkpoint/state_reader.hpp"
#include "plait/checkpoint/weights_index.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/file_kind.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/safetensors.hpp"
#include "plait/io/sharding_info.hpp"

namespace plait {

/// Whole tensors out of a folder of safetensors files that have parts of them: what PyTorch's
/// distributed checkpoint writes for Hugging Face, or the weights of a checkpoint of plait. A file
/// without metadata of parts has its tensors whole. Folders within are not looked at, nor are files
/// whose names begin with a dot.
///
/// Where the folder has a `model.safetensors.index.json`, as those of Hugging Face do whose weights
/// are in several files, only the files that it names are opened; a second copy beside them, such
/// as `consolidated.safetensors`, is let alone.
///
/// Cost:    reads the headers of all files at first, then the bytes that are asked for.
/// Errors:  input_error that names the folder, the file or the index, also if the parts of a tensor
///          do not cover it exactly once, and if the index and the files do not say the same.
/// Threads: used by one thread.
class weights_folder {
 public:
  explicit weights_folder(std::filesystem::path const& folder)
      : weights_folder(folder, detail::open_weights(folder)) {}
  weights_folder(weights_folder const&) = delete;
  weights_folder& operator=(weights_folder const&) = delete;

  [[nodiscard]] bool contains(std::string_view name) const { return reader_.contains(name); }
  [[nodiscard]] std::vector<ext::checkpoint_tensor> const& tensors() const {
    return manifest_.tensors;
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (auto const& tensor : manifest_.tensors) out.push_back(tensor.name);
    return out;
  }

  /// Errors: input_error if the tensor is missing.
  [[nodiscard]] bool has_shape(std::string_view name, std::span<std::size_t const> shape) const {
    return std::ranges::equal(find(name).shape, shape);
  }
  /// Errors: input_error, naming both shapes, if the tensor is missing or has another shape.
  void expect_shape(std::string_view name, std::span<std::size_t const> shape) const {
    auto const& found = find(name).shape;
    if (!has_shape(name, shape))
      name_.refuse_part(ext::concat({"tensor ", detail::in_quotes(name)}),
                        ext::concat({"has the shape ", detail::shape_text(found), ", but ",
                                     detail::shape_text(shape), " is needed"}));
  }

  /// Reads a whole tensor, row-major, and converts it as safetensors_reader does.
  ///
  /// Errors: input_error if the tensor is missing or has another number of elements; and if it has
  ///         more than two dimensions and lies in pieces that cut those behind the second.
  template <std::floating_point T>
  void read(std::string_view name, std::span<T> out) {
    auto const shape = matrix_of(name).shape;
    ext::parameter_info const info{.rank = static_cast<int>(shape.size()),
                                   .rows = shape.size() == 2 ? shape[0] : 1,
                                   .columns = shape.empty() ? 0 : shape.back()};
    if (shape.empty() || shape.size() > 2 || info.count() != out.size())
      name_.refuse_part(ext::concat({"tensor ", detail::in_quotes(name)}),
                        ext::concat({"has the shape ", detail::shape_text(shape), ", but ",
                                     out.size(), " elements are needed"}));
    reader_.read_numbers(std::string(name), info, {.rows = info.rows, .columns = info.columns},
                         out);
  }

  /// Reads the rectangle of `extent` elements from `offset` on of a matrix or vector, row-major. Of
  /// a tensor with more dimensions all behind the first are taken as one.
  ///
  /// Cost:   as safetensors_reader::read_block; nothing else of the tensor is read.
  /// Errors: as read; input_error that names the tensor's shape and the rectangle if that is not
  ///         within it or `out` has another size.
  template <std::floating_point T>
  void read_block(std::string_view name, std::span<std::size_t const> offset,
                  std::span<std::size_t const> extent, std::span<T> out) {
    auto const shape = matrix_of(name).shape;
    if (shape.empty() || shape.size() > 2 || !detail::is_block_of(shape, offset, extent) ||
        detail::elements_of(extent) != out.size())
      name_.refuse_part(
          ext::concat({"tensor ", detail::in_quotes(name)}),
          ext::concat({"has the shape ", detail::shape_text(shape), ", without a rectangle ",
                       detail::block_text(offset, extent), " of ", out.size(), " elements"}));
    bool const is_matrix = shape.size() == 2;
    reader_.read_numbers(std::string(name),
                         {.rank = static_cast<int>(shape.size()),
                          .rows = is_matrix ? shape[0] : 1,
                          .columns = shape.back()},
                         {.row = is_matrix ? offset[0] : 0,
                          .column = offset.back(),
                          .rows = is_matrix ? extent[0] : 1,
                          .columns = extent.back()},
                         out);
  }

 private:
  [[nodiscard]] ext::checkpoint_tensor const& find(std::string_view name) const {
    return find_in(manifest_, name);
  }
  /// The tensor as it is read.
  [[nodiscard]] ext::checkpoint_tensor const& matrix_of(std::string_view name) const {
    return find_in(matrices_, name);
  }
  [[nodiscard]] ext::checkpoint_tensor const& find_in(ext::checkpoint_manifest const& manifest,
                                                      std::string_view name) const {
    auto const found = std::ranges::find(manifest.tensors, name, &ext::checkpoint_tensor::name);
    if (found == manifest.tensors.end())
      name_.refuse(ext::concat({"has no tensor ", detail::in_quotes(name)}));
    return *found;
  }

  /// Returns the same tensors as matrices: all dimensions after the first become one, and a single
  /// number becomes a vector. A tensor whose pieces cut a dimension after the second stays as it
  /// is.
  [[gnu::cold]] static ext::checkpoint_manifest as_matrices(ext::checkpoint_manifest all) {
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

  [[gnu::cold]] weights_folder(std::filesystem::path const& folder, detail::open_weights files)
      : name_("folder of weights", folder),
        manifest_(manifest_of(folder, name_, files)),
        matrices_(as_matrices(manifest_)),
        reader_(folder, matrices_, sizeof(float), std::move(files)) {}

  /// The files that are read. With an index, the names of their tensors have to be its own.
  [[gnu::cold]] static std::set<std::string> files_of(std::filesystem::path const& folder,
                                                      detail::file_name const& name) {
    std::error_code problem;
    std::set<std::string> out, others;
    for (std::filesystem::directory_iterator at(folder, problem), end; !problem && at != end;
         at.increment(problem)) {
      auto const file = at->path().filename().string();
      // macOS writes ._model.safetensors next to model.safetensors on disks of other systems.
      if (file.starts_with('.')) continue;
      if (at->path().extension() == ".safetensors") out.insert(file);
      else if (others.size() < most_other_files) others.insert(file);
    }
    if (problem) name.fail("cannot be read", problem.value());
    if (out.empty())
      name.refuse(ext::concat({"has no safetensors file", what_is_there(folder, others)}));
    return out;
  }
  static constexpr std::size_t most_other_files = 1'000;

  /// Returns a sentence about the first file that has weights of another kind. A file whose name
  /// says that it is a model comes before others.
  [[gnu::cold]] static std::string what_is_there(std::filesystem::path const& folder,
                                                 std::set<std::string> const& files) {
    for (bool const is_model : {true, false})
      for (auto const& file : files) {
        auto const path = (folder / file).string();
        if ((file.find("model") != file.npos) != is_model || !detail::is_regular_file(path))
          continue;
        auto const text = detail::other_weights_text(path);
        if (!text.empty()) return ext::concat({"; ", detail::in_quotes(file), " ", text});
      }
    return "";
  }
  [[gnu::cold]] static std::set<std::string> files_of(std::filesystem::path const& folder,
                                                      detail::file_name const& index,
                                                      detail::weights_index const& files) {
    std::set<std::string> out;
    for (auto const& [tensor, file] : files) out.insert(file);
    for (auto const& file : out)
      if (std::error_code problem; !std::filesystem::exists(folder / file, problem))
        index.refuse(
            ext::concat({"names the file ", detail::in_quotes(file), ", which is not there"}));
    return out;
  }
  /// Errors: input_error if the index says something else than a file.
  [[gnu::cold]] static void compare(detail::file_name const& index,
                                    detail::weights_index const& files, std::string const& file,
                                    safetensors_reader const& reader) {
    for (auto const& [tensor, of] : files)
      if (of == file && !reader.contains(tensor))
        index.refuse(ext::concat({"says that tensor ", detail::in_quotes(tensor), " is in ",
                                  detail::in_quotes(file), ", which does not have it"}));
    for (auto const& tensor : reader.names())
      if (auto const found = files.find(tensor); found == files.end() || found->second != file)
        index.refuse(ext::concat(
            {"says ",
             (found == files.end() ? "nothing of"
                                   : ext::concat({detail::in_quotes(found->second), " has"})),
             " tensor ", detail::in_quotes(tensor), ", which is in ", detail::in_quotes(file)}));
  }

  /// Refuses pieces that begin at the same element: the folder has two copies of the weights.
  ///
  /// Errors: input_error that names both files.
  [[gnu::cold]] static void refuse_copies(std::span<ext::checkpoint_block const* const> pieces,
                                          detail::file_name const& name) {
    if (pieces.size() < 2) return;
    std::map<std::vector<std::size_t>, ext::checkpoint_block const*> by_begin;
    for (auto const* const piece : pieces)
      if (auto const [other, is_new] = by_begin.emplace(piece->offset, piece); !is_new)
        name.refuse_part(
            ext::concat({"tensor ", detail::in_quotes(piece->tensor)}),
            ext::concat({"is in ", detail::in_quotes(other->second->file), " and in ",
                         detail::in_quotes(piece->file),
                         "; if these are two copies of the weights, name one file instead of the "
                         "folder, or move the other out of it"}));
  }

  [[gnu::cold]] static ext::checkpoint_manifest manifest_of(std::filesystem::path const& folder,
                                                            detail::file_name const& name,
                                                            detail::open_weights& open) {
    auto const index_path = folder / detail::weights_index_file;
    detail::file_name const index_name("index", index_path);
    detail::weights_index index;
    // A link that leads nowhere is there, too.
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
        // A rank that got no row of a tensor has written a piece without elements.
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

  detail::file_name name_;
  ext::checkpoint_manifest manifest_;
  ext::checkpoint_manifest matrices_;
  detail::state_reader reader_;
};

}  // namespace plait
