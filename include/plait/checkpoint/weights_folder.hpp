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

/// Reads whole tensors from a folder of safetensors files, even if each file has only blocks of
/// tensors, as in files that PyTorch's distributed checkpoint writes for Hugging Face and in
/// plait's checkpoints. A file without metadata about blocks has whole tensors. Subfolders, and
/// files whose names begin with a dot, are ignored.
///
/// If the folder has a `model.safetensors.index.json`, like folders of Hugging Face with several
/// files, only the files that this index names are opened. Other files in the folder, such as a
/// second copy of the weights in `consolidated.safetensors`, are ignored.
///
/// Cost:    the constructor reads the headers of all files; each read takes only the requested
///          bytes.
/// Errors:  input_error that names the folder, the file or the index, also if the blocks of a
///          tensor do not cover it exactly once, or the index contradicts the files.
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

  /// Returns true if the tensor `name` has this shape.
  ///
  /// Errors: input_error if the tensor is missing.
  [[nodiscard]] bool has_shape(std::string_view name, std::span<std::size_t const> shape) const {
    return std::ranges::equal(find(name).shape, shape);
  }
  /// Checks that the tensor `name` has this shape.
  ///
  /// Errors: input_error with both shapes if the shape differs; input_error if the tensor is
  ///         missing.
  void expect_shape(std::string_view name, std::span<std::size_t const> shape) const;

  /// Reads a whole tensor in row-major order and converts its elements as safetensors_reader does.
  ///
  /// Errors: input_error if the tensor is missing or the size of `out` differs from the tensor's
  ///         number of elements. Also input_error if the tensor has more than two dimensions and is
  ///         stored in blocks that cut a dimension after the second.
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

  /// Reads a rectangle of a matrix or vector in row-major order: it begins at `offset` and has the
  /// sizes `extent`. A tensor with more dimensions is treated as a matrix whose second dimension
  /// combines all dimensions after the first.
  ///
  /// Cost:   the cost of safetensors_reader::read_block; nothing else of the tensor is read.
  /// Errors: the errors of read; input_error that names the tensor's shape and the rectangle if the
  ///         rectangle is not within the tensor or `out` has another size.
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
  /// Returns the description of a tensor with the shape in which it is read, see as_matrices.
  [[nodiscard]] ext::checkpoint_tensor const& matrix_of(std::string_view name) const {
    return find_in(matrices_, name);
  }
  [[nodiscard]] ext::checkpoint_tensor const& find_in(ext::checkpoint_manifest const& manifest,
                                                      std::string_view name) const;

  /// Returns the tensors as matrices: all dimensions after the first are combined into one, and a
  /// scalar becomes a vector. A tensor whose blocks cut a dimension after the second is left as it
  /// is.
  [[gnu::cold]] static ext::checkpoint_manifest as_matrices(ext::checkpoint_manifest all);

  [[gnu::cold]] weights_folder(std::filesystem::path const& folder, detail::open_weights files);

  /// Returns the names of the files to read. If the folder has an index, these are the files that
  /// the index names.
  [[gnu::cold]] static std::set<std::string> files_of(std::filesystem::path const& folder,
                                                      detail::file_name const& name);
  static constexpr std::size_t most_other_files = 1'000;

  /// Returns a sentence about the first file that contains weights in another format than
  /// safetensors, for an error message. Files that are named like a model are considered first.
  [[gnu::cold]] static std::string what_is_there(std::filesystem::path const& folder,
                                                 std::set<std::string> const& files);
  [[gnu::cold]] static std::set<std::string> files_of(std::filesystem::path const& folder,
                                                      detail::file_name const& index,
                                                      detail::weights_index const& files);
  /// Compares the tensors of a file with the index.
  ///
  /// Errors: input_error if they differ.
  [[gnu::cold]] static void compare(detail::file_name const& index,
                                    detail::weights_index const& files, std::string const& file,
                                    safetensors_reader const& reader);

  /// Refuses blocks that begin at the same element: the folder then has two copies of the weights.
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
