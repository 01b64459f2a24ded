// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/manifest_rules.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/block.hpp"
#include "plait/io/safetensors_header.hpp"

namespace plait::detail {

PLAIT_DECL bool is_plain_file_name(std::string_view name) {
  if (name.starts_with("optimizer/")) name.remove_prefix(optimizer_folder.size() + 1);
  return !name.empty() && name.size() <= 255 && name[0] != '.' && name != manifest_file &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

// Returns true if blocks cover a tensor exactly once. Let f(element) be the number of blocks that
// contain an element. The mixed difference of f (the difference along all dimensions in turn) is 0
// except at corners of blocks, and it determines f. So the blocks cover the tensor exactly once if
// and only if the signed sum of their corners equals the signed corners of the tensor. In one
// dimension, blocks [0,3) and [3,8) have the corners +0 -3 +3 -8, which sum up to +0 -8.
//
// Shapes: each block is within `shape` and has elements.
// Cost:   O(n 2^c log(n 2^c)) for n blocks of a tensor that is cut along c dimensions.
// Errors: input_error if c is more than most_cuts.
PLAIT_DECL bool covers_once(std::span<std::size_t const> shape,
                            std::span<checkpoint_block const* const> blocks,
                            file_name const& file) {
  std::vector<std::size_t> cut;  // dimensions in which a block is smaller than the tensor
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (std::ranges::any_of(blocks, [&](auto const* one) { return one->extent[i] != shape[i]; }))
      cut.push_back(i);
  if (cut.size() > most_cuts)
    file.refuse_part(
        concat({"tensor ", in_quotes(blocks[0]->tensor)}),
        concat({"is cut along ", cut.size(), " dimensions; at most ", most_cuts, " are allowed"}));
  // The corners with positive and with negative sign. A corner is encoded as one number, with shape
  // + 1 positions along each cut dimension.
  std::vector<std::size_t> added, taken;
  auto const add_corners = [&](auto const& offset, auto const& extent, bool whole) {
    for (std::size_t corner = 0; corner < std::size_t{1} << cut.size(); ++corner) {
      std::size_t place = 0;
      bool odd = whole;
      for (std::size_t i = 0; i < cut.size(); ++i) {
        bool const at_end = (corner >> i & 1) != 0;
        odd ^= at_end;
        place = place * (shape[cut[i]] + 1) + offset(cut[i]) + (at_end ? extent(cut[i]) : 0);
      }
      (odd ? taken : added).push_back(place);
    }
  };
  added.reserve((blocks.size() + 1) << cut.size() >> 1);
  taken.reserve(added.capacity());
  for (auto const* one : blocks)
    add_corners([&](std::size_t i) { return one->offset[i]; },
                [&](std::size_t i) { return one->extent[i]; }, false);
  add_corners([](std::size_t) { return std::size_t{0}; }, [&](std::size_t i) { return shape[i]; },
              true);
  std::ranges::sort(added);
  std::ranges::sort(taken);
  return added == taken;
}

PLAIT_DECL std::size_t elements_of(std::span<std::size_t const> extent) {
  std::size_t product = 1;
  for (std::size_t const n : extent) product *= n;
  return product;
}

PLAIT_DECL void check_tensor(checkpoint_tensor const& tensor,
                             std::span<checkpoint_block const* const> blocks,
                             file_name const& file) {
  auto const refuse = [&](std::string const& what) {
    file.refuse_part(concat({"tensor ", in_quotes(tensor.name)}), what);
  };
  auto const shape = shape_text(tensor.shape);
  if (tensor.shape.size() > most_dimensions)
    refuse(concat({"has a shape of more than ", most_dimensions, " sizes"}));
  std::size_t elements = 1, limit = 1;
  bool fits = true;
  for (std::size_t const n : tensor.shape) {
    fits = fits && n < most_elements && multiply(elements, n) && multiply(limit, n == 0 ? 1 : n);
    fits = fits && limit <= most_elements;
  }
  if (!fits) refuse(concat({"is too large, its shape is ", shape}));

  std::set<std::string_view> files;
  std::size_t covered = 0;
  for (auto const* one : blocks) {
    if (!files.insert(one->file).second)
      refuse(concat({"has two rectangles in the file ", in_quotes(one->file)}));
    if (!is_block_of(tensor.shape, one->offset, one->extent))
      refuse(concat({"has the shape ", shape, ", without a rectangle ",
                     block_text(one->offset, one->extent)}));
    std::size_t const size = elements_of(one->extent);
    if (size == 0)
      refuse(concat({"has an empty rectangle ", block_text(one->offset, one->extent)}));
    if (size > elements - covered)
      refuse(concat(
          {"has the shape ", shape, " and rectangles with more than its ", elements, " elements"}));
    covered += size;
  }
  if (covered != elements)
    refuse(concat({"has the shape ", shape, " and rectangles with ", covered, " of its ", elements,
                   " elements"}));
  if (elements != 0 && !covers_once(tensor.shape, blocks, file))
    refuse(
        concat({"has the shape ", shape,
                " , but its rectangles contain some of its elements twice and others not at all"}));
}

PLAIT_DECL void check_manifest(checkpoint_manifest const& manifest, file_name const& file) {
  auto const at_most = [&](std::size_t size, std::size_t most, char const* what) {
    if (size > most)
      file.refuse(concat({"has ", size, " ", what, "; at most ", most, " are allowed"}));
  };
  if (manifest.step < 0) file.refuse(concat({"is of step ", manifest.step, ", which is negative"}));
  if (manifest.job.empty()) file.refuse("does not name a job");
  at_most(manifest.settings.size(), most_settings, "settings");
  at_most(manifest.tensors.size(), most_tensors, "tensors");
  at_most(manifest.ages.size(), most_tensors, "ages");
  at_most(manifest.blocks.size(), most_blocks, "blocks");
  at_most(manifest.extra.size(), most_extra_bytes, "extra bytes");
  std::set<std::string_view> settings;
  for (auto const& [name, value] : manifest.settings)
    if (!settings.insert(name).second)
      file.refuse(concat({"has the setting ", in_quotes(name), " twice"}));
  std::map<std::string_view, std::vector<checkpoint_block const*>> blocks;
  for (auto const& tensor : manifest.tensors)
    if (!blocks.try_emplace(tensor.name).second)
      file.refuse(concat({"has the tensor ", in_quotes(tensor.name), " twice"}));
  for (auto const& tensor : manifest.tensors)
    if (std::ranges::find(stored_type_names, tensor.type) == stored_type_names.end())
      file.refuse_part(concat({"tensor ", in_quotes(tensor.name)}),
                       concat({"has an unknown type, ", in_quotes(tensor.type)}));
  for (auto const& block : manifest.blocks) {
    if (!is_plain_file_name(block.file))
      file.refuse_part(concat({"tensor ", in_quotes(block.tensor)}),
                       concat({"is in the file ", in_quotes(block.file),
                               ", which is not a plain name of letters, digits and . _ -"}));
    auto const found = blocks.find(block.tensor);
    if (found == blocks.end())
      file.refuse(concat(
          {"has a block of the tensor ", in_quotes(block.tensor), ", which it does not describe"}));
    found->second.push_back(&block);
  }
  std::set<std::string_view> aged;
  for (auto const& [name, age] : manifest.ages) {
    if (!blocks.contains(name))
      file.refuse(
          concat({"has the age of the tensor ", in_quotes(name), ", which it does not describe"}));
    if (!aged.insert(name).second)
      file.refuse(concat({"has the age of the tensor ", in_quotes(name), " twice"}));
    if (age < 0 || age > manifest.step)
      file.refuse(concat({"is of step ", manifest.step, ", and has the age ", age,
                          " of the tensor ", in_quotes(name)}));
  }
  for (auto const& tensor : manifest.tensors)
    check_tensor(tensor, blocks.find(tensor.name)->second, file);
}

}  // namespace plait::detail
