// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plait/checkpoint/manifest.hpp"
#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/checkpoint/state_reader.hpp"
#include "plait/checkpoint/weights_index.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/safetensors.hpp"

namespace plait {

/// Reads whole tensors from a folder of safetensors files that have parts of them: written by
/// PyTorch's distributed checkpoint for Hugging Face, or the weights of a checkpoint of plait. A
/// file without metadata of parts has whole tensors. Subfolders are ignored, and files whose names
/// begin with a dot.
///
/// If the folder has a `model.safetensors.index.json`, as folders of Hugging Face with several
/// files do, only the files that it names are opened; a second copy next to them, such as
/// `consolidated.safetensors`, is ignored.
///
/// Cost:    reads the headers of all files at first, then the requested bytes.
/// Errors:  input_error that names the folder, the file or the index, also if the parts of a tensor
///          do not cover it exactly once, or the index contradicts the files.
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
  [[nodiscard]] std::vector<std::string> names() const;

  /// Errors: input_error if the tensor is missing.
  [[nodiscard]] bool has_shape(std::string_view name, std::span<std::size_t const> shape) const {
    return std::ranges::equal(find(name).shape, shape);
  }
  /// Errors: input_error, naming both shapes, if the tensor is missing or has another shape.
  void expect_shape(std::string_view name, std::span<std::size_t const> shape) const;

  /// Reads a whole tensor, row-major, and converts it like safetensors_reader.
  ///
  /// Errors: input_error if the tensor is missing or has another number of elements; also if it has
  ///         more than two dimensions and is stored in pieces that cut a dimension after the
  ///         second.
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

  /// Reads the rectangle of `extent` elements from `offset` on of a matrix or vector, row-major. In
  /// a tensor with more dimensions, all after the first count as one.
  ///
  /// Cost:   as safetensors_reader::read_block; nothing else of the tensor is read.
  /// Errors: as read; input_error that names the tensor's shape and the rectangle if the rectangle
  ///         is not within it or `out` has another size.
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
  /// Returns the tensor in the shape in which it is read.
  [[nodiscard]] ext::checkpoint_tensor const& matrix_of(std::string_view name) const {
    return find_in(matrices_, name);
  }
  [[nodiscard]] ext::checkpoint_tensor const& find_in(ext::checkpoint_manifest const& manifest,
                                                      std::string_view name) const;

  /// Returns the same tensors as matrices: all dimensions after the first become one, and a single
  /// number becomes a vector. A tensor whose pieces cut a dimension after the second stays as it
  /// is.
  [[gnu::cold]] static ext::checkpoint_manifest as_matrices(ext::checkpoint_manifest all);

  [[gnu::cold]] weights_folder(std::filesystem::path const& folder, detail::open_weights files);

  /// Returns the files to read. With an index, their tensors must be the index's.
  [[gnu::cold]] static std::set<std::string> files_of(std::filesystem::path const& folder,
                                                      detail::file_name const& name);
  static constexpr std::size_t most_other_files = 1'000;

  /// Returns a sentence about the first file that has weights in another format. A file whose name
  /// says that it is a model precedes others.
  [[gnu::cold]] static std::string what_is_there(std::filesystem::path const& folder,
                                                 std::set<std::string> const& files);
  [[gnu::cold]] static std::set<std::string> files_of(std::filesystem::path const& folder,
                                                      detail::file_name const& index,
                                                      detail::weights_index const& files);
  /// Errors: input_error if the index contradicts a file.
  [[gnu::cold]] static void compare(detail::file_name const& index,
                                    detail::weights_index const& files, std::string const& file,
                                    safetensors_reader const& reader);

  /// Refuses pieces that begin at the same element: the folder has two copies of the weights.
  ///
  /// Errors: input_error that names both files.
  [[gnu::cold]] static void refuse_copies(std::span<ext::checkpoint_block const* const> pieces,
                                          detail::file_name const& name);

  [[gnu::cold]] static ext::checkpoint_manifest manifest_of(std::filesystem::path const& folder,
                                                            detail::file_name const& name,
                                                            detail::open_weights& open);

  detail::file_name name_;
  ext::checkpoint_manifest manifest_;
  ext::checkpoint_manifest matrices_;
  detail::state_reader reader_;
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/weights_folder.ipp"
#endif
