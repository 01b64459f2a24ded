// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/save_gguf.hpp"

#include "plait/checkpoint/load_weights.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/name_pattern.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

// Gives tensors the names of Hugging Face, and returns the names that they had.
PLAIT_DECL std::vector<std::string> rename_tensors(
    std::vector<safetensors_entry>& tensors,
    std::vector<std::pair<std::string, std::string>> const& names) {
  names_in_file const in_file("save_gguf", names);
  std::vector<std::string> out;
  for (auto& tensor : tensors) {
    out.push_back(tensor.name);
    tensor.name = in_file.of(tensor.name);
    if (matches("*.lora_A.weight", tensor.name))
      throw input_error({"save_gguf: the model has adapters, such as ", in_quotes(out.back()),
                         "; set save_gguf_options::merge_lora to add them to their weights"});
  }
  return out;
}

PLAIT_DECL gguf_layout layout_of(std::vector<safetensors_entry> tensors, gguf_model const& model,
                                 ext::save_gguf_options const& options) {
  auto const own_names = rename_tensors(tensors, options.names);
  return gguf_layout(model, tensors, own_names, options.type);
}

PLAIT_DECL gguf_export::gguf_export(std::vector<safetensors_entry> tensors, gguf_model model,
                                    ext::save_gguf_options const& options)
    : model_(std::move(model)),
      options_(options),
      layout_(layout_of(std::move(tensors), model_, options)) {}

PLAIT_DECL void gguf_export::begin(std::filesystem::path const& file) {
  if (model_.name.empty()) model_.name = file.stem().string();
  gguf_metadata metadata;
  add_model(model_, layout_, options_.type, metadata);
  if (!model_.tokenizer.empty())
    add_tokenizer(model_.tokenizer, layout_.vocabulary, options_.pre, metadata);
  else metadata.add("tokenizer.ggml.model", std::string_view("none"));  // llama.cpp needs the key
  auto const factors = rope_factors(model_, layout_.head_width);
  std::vector<gguf_tensor> tensors;
  if (!factors.empty())
    tensors.push_back({.name = "rope_freqs.weight", .rank = 1, .rows = factors.size()});
  for (auto const& each : layout_.parameters) tensors.push_back(each.tensor);
  to_.emplace(file.string(), metadata, tensors, options_.overwrite);
  if (!factors.empty()) to_->write("rope_freqs.weight", std::span<float const>(factors));
}

PLAIT_DECL void refuse_turned(std::vector<std::string> const& patterns,
                              std::span<safetensors_entry const> tensors) {
  for (auto const& tensor : tensors)
    if (matches_any(patterns, tensor.name))
      throw input_error({"save_gguf: the layer of ", in_quotes(tensor.name),
                         " stores its weight as (In, Out), and llama.cpp reads (Out, In); write "
                         ".order = plait::nn::weight_order::output_input"});
}

}  // namespace plait::detail

namespace plait {

PLAIT_DECL void save_gguf(weights_folder& weights, std::filesystem::path const& file,
                          gguf_model const& model, ext::save_gguf_options const& options) {
  if (options.merge_lora)
    throw input_error(
        "save_gguf: save_gguf_options::merge_lora needs a trainer, whose layers say which adapters "
        "belong to a weight; leave it out, and write the folder by save_weights with merge_lora");
  std::vector<safetensors_entry> tensors;
  for (auto const& tensor : weights.tensors())
    if (!detail::matches("*.rotary_emb.inv_freq", tensor.name))
      tensors.push_back({tensor.name, stored_type::f32, tensor.shape});
  auto const all = tensors;
  detail::gguf_export out(std::move(tensors), model, options);
  out.begin(file);
  std::vector<float> values;
  for (auto const& tensor : all) {
    values.resize(tensor.elements());
    weights.read(tensor.name, std::span(values));
    out.write(tensor.name, std::span<float const>(values));
  }
  out.commit();
}

}  // namespace plait
