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
#include <vector>

#include "plait/checkpoint/manifest.hpp"
#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/checkpoint/state_reader.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/safetensors.hpp"
#include "plait/io/sharding_info.hpp"

namespace plait {

/// Whole tensors out of a folder of safetensors files that have parts of them: what PyTorch's
/// distributed checkpoint writes for Hugging Face, or the weights of a checkpoint of plait. A file
/// without metadata of parts has its tensors whole. Folders within are not looked at.
///
/// Cost:    reads the headers of all files at first, then the bytes that are asked for.
/// Errors:  input_error that names the folder or the file, also if the parts of a tensor do not
///          cover it exactly once.
/// Threads: used by one thread.
class weights_folder {
 public:
  explicit weights_folder(std::filesystem::path const& folder)
      : name_("folder of weights", folder),
        manifest_(manifest_of(folder, name_)),
        floats_(folder, manifest_, sizeof(float)),
        doubles_(folder, manifest_, sizeof(double)) {}
  weights_folder(weights_folder const&) = delete;
  weights_folder& operator=(weights_folder const&) = delete;

  [[nodiscard]] bool contains(std::string_view name) const { return floats_.contains(name); }
  [[nodiscard]] std::vector<ext::checkpoint_tensor> const& tensors() const {
    return manifest_.tensors;
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (auto const& tensor : manifest_.tensors) out.push_back(tensor.name);
    return out;
  }

  /// Errors: input_error, naming both shapes, if the tensor is missing or has another shape.
  void expect_shape(std::string_view name, std::span<std::size_t const> shape) const {
    auto const& found = find(name).shape;
    if (!std::ranges::equal(found, shape))
      name_.refuse_part("tensor " + detail::in_quotes(name),
                        "has the shape " + detail::shape_text(found) + ", but " +
                            detail::shape_text(shape) + " is needed");
  }

  /// Reads a whole matrix or vector, row-major, and converts it as safetensors_reader does.
  ///
  /// Errors: input_error if the tensor is missing, has another number of elements or more than two
  ///         dimensions.
  template <std::floating_point T>
  void read(std::string_view name, std::span<T> out) {
    auto const& shape = find(name).shape;
    ext::parameter_info const info{.rank = static_cast<int>(shape.size()),
                                   .rows = shape.size() == 2 ? shape[0] : 1,
                                   .columns = shape.empty() ? 0 : shape.back()};
    if (shape.empty() || shape.size() > 2 || info.count() != out.size())
      name_.refuse_part("tensor " + detail::in_quotes(name),
                        "has the shape " + detail::shape_text(shape) + ", but " +
                            std::to_string(out.size()) + " elements are needed");
    ext::parameter_rectangle const all{.rows = info.rows, .columns = info.columns};
    (sizeof(T) == sizeof(float) ? floats_ : doubles_)
        .read(std::string(name), info, all, out.data());
  }

 private:
  [[nodiscard]] ext::checkpoint_tensor const& find(std::string_view name) const {
    auto const found = std::ranges::find(manifest_.tensors, name, &ext::checkpoint_tensor::name);
    if (found == manifest_.tensors.end()) name_.refuse("has no tensor " + detail::in_quotes(name));
    return *found;
  }

  [[gnu::cold]] static ext::checkpoint_manifest manifest_of(std::filesystem::path const& folder,
                                                            detail::file_name const& name) {
    std::error_code problem;
    std::set<std::filesystem::path> paths;
    for (std::filesystem::directory_iterator at(folder, problem), end; !problem && at != end;
         at.increment(problem))
      if (at->path().extension() == ".safetensors") paths.insert(at->path());
    if (problem) name.fail("cannot be read", problem.value());
    if (paths.empty()) name.refuse("has no safetensors file");
    ext::checkpoint_manifest out;
    std::map<std::string, ext::checkpoint_tensor> by_name;
    for (auto const& path : paths) {
      safetensors_reader const file(path);
      auto const offsets = ext::parse_sharding_metadata(file.metadata(), path);
      for (auto const& tensor : file.names()) {
        auto const& entry = file.info(tensor);
        auto offset = std::vector<std::size_t>(entry.shape.size());
        if (offsets && offsets->contains(tensor)) offset = offsets->at(tensor);
        if (offset.size() != entry.shape.size())
          throw input_error("file " + detail::path_in_quotes(path) + ": tensor " +
                            detail::in_quotes(tensor) + " has " +
                            std::to_string(entry.shape.size()) + " dimensions and " +
                            std::to_string(offset.size()) + " saved_offsets");
        auto& all = by_name[tensor];
        all.name = tensor;
        all.type = to_string(entry.type);
        all.shape.resize(std::max(all.shape.size(), entry.shape.size()));
        for (std::size_t i = 0; i < entry.shape.size(); ++i)
          all.shape[i] = std::max(all.shape[i], offset[i] + entry.shape[i]);
        out.blocks.push_back({path.filename().string(), tensor, std::move(offset), entry.shape, 0});
      }
    }
    std::map<std::string_view, std::vector<ext::checkpoint_block const*>> blocks;
    for (auto const& block : out.blocks) blocks[block.tensor].push_back(&block);
    for (auto& [tensor, all] : by_name) {
      detail::check_tensor(all, blocks.at(tensor), name);
      out.tensors.push_back(std::move(all));
    }
    return out;
  }

  detail::file_name name_;
  ext::checkpoint_manifest manifest_;
  detail::state_reader floats_, doubles_;
};

}  // namespace plait
