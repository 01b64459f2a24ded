// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/state_reader.hpp"

#include "plait/checkpoint/checksum.hpp"
#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL safetensors_reader const& open_weights::file(std::string const& name) {
  constexpr std::size_t most_open = 64;
  auto const found = files_.find(name);
  if (found != files_.end()) return *found->second;
  if (files_.size() == most_open) files_.clear();
  return *files_.emplace(name, std::make_unique<safetensors_reader>(folder_ / name)).first->second;
}

PLAIT_DECL state_reader::state_reader(std::filesystem::path folder,
                                      checkpoint_manifest const& manifest,
                                      std::size_t element_bytes, open_weights files)
    : folder_(std::move(folder)),
      manifest_(manifest),
      element_bytes_(element_bytes),
      files_(std::move(files)) {
  for (auto const& tensor : manifest_.tensors) tensors_[tensor.name].whole = &tensor;
  for (auto const& block : manifest_.blocks) tensors_[block.tensor].blocks.push_back(&block);
}

PLAIT_DECL std::optional<std::int64_t> state_reader::age(std::string_view name) const {
  for (auto const& [parameter, age] : manifest_.ages)
    if (parameter == name) return age;
  return std::nullopt;
}

PLAIT_DECL void state_reader::read(std::string const& name, parameter_info const& info,
                                   parameter_rectangle const& where, void* out) {
  read_elements(element_bytes_, where.count(), out,
                [&](auto numbers) { read_numbers(name, info, where, numbers); });
}

PLAIT_DECL void state_reader::verify(std::size_t rank, std::size_t ranks) {
  for (std::size_t i = rank; i < manifest_.blocks.size(); i += ranks) {
    auto const& block = manifest_.blocks[i];
    auto const& type = tensors_.find(block.tensor)->second.whole->type;
    auto const& found = file(block.file).info(block.tensor);
    if (to_string(found.type) != type || found.shape != block.extent)
      throw input_error({"checkpoint ", path_in_quotes(folder_), " is damaged: tensor ",
                         in_quotes(block.tensor), " in ", in_quotes(block.file), " is ",
                         to_string(found.type), " ", shape_text(found.shape),
                         ", the manifest says ", type, " ", shape_text(block.extent)});
    auto const crc = checkpoint_crc(file(block.file), block.tensor);
    if (crc != block.crc)
      throw input_error({"checkpoint ", path_in_quotes(folder_), " is damaged: tensor ",
                         in_quotes(block.tensor), " in ", in_quotes(block.file), " has the CRC-32 ",
                         crc, ", the manifest says ", block.crc});
  }
}

PLAIT_DECL parameter_rectangle state_reader::rectangle_of(std::vector<std::size_t> const& offset,
                                                          std::vector<std::size_t> const& extent) {
  if (offset.size() == 1) return {.column = offset[0], .rows = 1, .columns = extent[0]};
  return {.row = offset[0], .column = offset[1], .rows = extent[0], .columns = extent[1]};
}

PLAIT_DECL state_reader::known const& state_reader::find(
    std::string const& name, std::vector<std::size_t> const& sizes) const {
  auto const found = tensors_.find(name);
  if (found == tensors_.end())
    throw input_error({"checkpoint ", path_in_quotes(folder_), " has no tensor ", in_quotes(name)});
  if (found->second.whole->shape != sizes)
    throw input_error({"checkpoint ", path_in_quotes(folder_), ": tensor ", in_quotes(name),
                       " has the shape ", shape_text(found->second.whole->shape),
                       ", the model has ", shape_text(sizes)});
  return found->second;
}

}  // namespace plait::detail
