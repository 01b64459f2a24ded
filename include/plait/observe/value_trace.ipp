// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/observe/value_trace.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "plait/core/bfloat16.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::execution {

/// Returns element `i` of an array of doubles, floats or bfloat16, as a double.
PLAIT_DECL double traced_element(void const* elements, std::size_t bytes, std::size_t i) {
  if (bytes == sizeof(double)) return static_cast<double const*>(elements)[i];
  if (bytes == sizeof(float)) return double{static_cast<float const*>(elements)[i]};
  return static_cast<double>(static_cast<float>(static_cast<bfloat16 const*>(elements)[i]));
}

/// Returns the node of an item that computes a value; null if the value is the item's input.
PLAIT_DECL program_node const* traced_source(plan_ir const& plan, int value) {
  for (auto const& node : plan.nodes)
    if (node.out == value || (node.kind == program_node_kind::fan_out && node.skip == value))
      return &node;
  return nullptr;
}
/// Returns the node that reads a value as its first input; null if there is none.
PLAIT_DECL program_node const* traced_reader(plan_ir const& plan, int value) {
  for (auto const& node : plan.nodes)
    if (node.in == value) return &node;
  return nullptr;
}
/// Returns the first node that is not a move, from the source of a value backwards.
PLAIT_DECL program_node const* traced_source_before_moves(plan_ir const& plan, int value) {
  auto const* node = traced_source(plan, value);
  while (node != nullptr && node->kind == program_node_kind::move)
    node = traced_source(plan, node->in);
  return node;
}
/// Returns the first node that is not a move, from the reader of a value forwards.
PLAIT_DECL program_node const* traced_reader_after_moves(plan_ir const& plan, int value) {
  auto const* node = traced_reader(plan, value);
  while (node != nullptr && node->kind == program_node_kind::move)
    node = traced_reader(plan, node->out);
  return node;
}

PLAIT_DECL bool is_kind(program_node const* node, program_node_kind kind) {
  return node != nullptr && node->kind == kind;
}
PLAIT_DECL bool is_summand(plan_ir const& plan, int value, direction way) {
  auto const at = plan.values[value].at;
  return is_partial(way == direction::forward ? at : dual(at));
}

/// A leaf of a unit of the model.
struct traced_leaf {
  int leaf = -1;  ///< -1: none
  int unit = 0;
};

/// Returns the leaf whose output `node` of a unit has completed or, in a backward, the leaf whose
/// input's gradient the node has completed. The result has no leaf if the node completes neither.
PLAIT_DECL traced_leaf leaf_of_node(plan_ir const& plan, program_node const& node, direction way,
                                    int unit) {
  using enum program_node_kind;
  bool const is_forward = way == direction::forward;
  int const made = is_forward ? node.out : node.in;
  if (is_summand(plan, made, way)) return {};
  auto const ends_residual = [&](int value) {
    return is_forward ? is_kind(traced_reader_after_moves(plan, value), add)
                      : is_kind(traced_source_before_moves(plan, value), branch);
  };
  auto const at = [&](program_node const* of, int of_unit) {
    return is_kind(of, leaf) ? traced_leaf{of->leaf, of_unit} : traced_leaf{};
  };
  switch (node.kind) {
    case leaf:
      if (is_forward ? plan.leaves[node.leaf].is_loss : !plan.needs_gradient[node.in]) return {};
      return ends_residual(made) ? traced_leaf{} : traced_leaf{node.leaf, unit};
    case move: {
      int const summands = is_forward ? node.in : node.out;
      if (!is_summand(plan, summands, way) || ends_residual(made)) return {};
      if (is_forward) {
        auto const* const of = traced_source(plan, summands);
        return at(is_kind(of, add) ? traced_source_before_moves(plan, of->in) : of, unit);
      }
      // A value at the end of a unit is the input of the next unit's first layer.
      auto const& here = plan.items[item_of(plan.items, unit)];
      bool const is_last = summands == here.out && unit + 1 < plan.unit_count();
      int const read = is_last ? plan.items[item_of(plan.items, unit + 1)].in : summands;
      auto const* const of = traced_reader(plan, read);
      return at(is_kind(of, branch) ? traced_reader_after_moves(plan, of->out) : of,
                is_last ? unit + 1 : unit);
    }
    case add:
      if (!is_forward) return {};
      return at(traced_source_before_moves(plan, node.in), unit);
    case branch:
      if (is_forward) return {};
      return at(traced_reader_after_moves(plan, node.out), unit);
    case fan_out: return {};
  }
  return {};
}

/// Throws an input_error with the root rank's text `problem` on all ranks, unless the text is "".
PLAIT_DECL void throw_on_all_ranks(number_gather const& gather, std::string const& problem) {
  std::vector<std::uint64_t> packed(compared_fields);
  constexpr std::size_t most = compared_fields * sizeof(std::uint64_t) - 1;
  if (!problem.empty()) std::memcpy(packed.data(), problem.data(), std::min(problem.size(), most));
  auto const all = gather.of_all(packed);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank][0] != 0) {
      std::string text(most + 1, '\0');
      std::memcpy(text.data(), all[rank], most);
      throw input_error(text.c_str());
    }
}

PLAIT_DECL value_trace::value_trace(std::string const& path, facts of, number_gather const& gather)
    : of_(std::move(of)), path_(path) {
  auto const& plan = of_.plan;
  std::vector<std::string> layers;
  for (auto const& item : plan.items)
    for (int copy = 0; copy < item.count; ++copy) {
      first_of_unit_.push_back(layers.size());
      for (int leaf = item.first_leaf; leaf < item.end_leaf; ++leaf) {
        auto name = name_of_copy(of_.layers[std::size_t(leaf)], copy);
        if (name.ends_with('.')) name.pop_back();
        layers.push_back(name.empty() ? "0" : name);
      }
    }
  layers_ = layers.size();
  auto const add = [&](char const* pass, std::string const& name) {
    names_.push_back(concat({pass, " ", name}));
  };
  for (auto const& name : layers) add("forward", name);
  for (std::size_t i = layers.size(); i-- > 0;) add("backward", layers[i]);
  for (std::size_t i = of_.parameters.size(); i-- > 0;) add("gradient", of_.parameters[i].name);
  for (auto const& parameter : of_.parameters) add("parameter", parameter.name);
  sums_.resize(names_.size());

  std::string problem;
  if (of_.is_root) try {
      auto const end = path.rfind('/');
      detail::require_folder({"trace", path}, end == std::string::npos ? "" : path.substr(0, end));
      file_.emplace(path, "trace", detail::growing_file::start::new_file);
      file_->append("plait trace 2\n# step pass count sum norm weighted_sum hash name\n");
    } catch (input_error const& error) {
      problem = error.what();
    }
  throw_on_all_ranks(gather, problem);
}

PLAIT_DECL int value_trace::value_after(plan_ir const& plan, program_node const& node,
                                        direction way, int unit) const {
  if (leaf_of_node(plan, node, way, unit).leaf < 0) return -1;
  int const value = way == direction::forward ? node.out : node.in;
  return way == direction::forward && overwrites(plan, value) ? -1 : value;
}

PLAIT_DECL bool value_trace::overwrites(plan_ir const& plan, int value) const {
  auto const* const reader = traced_reader(plan, value);
  return is_kind(reader, program_node_kind::leaf) && !plan.leaves[reader->leaf].is_loss &&
         plan.storage.values[reader->out].where == plan.storage.values[value].where &&
         plan.storage.values[reader->out].root == plan.storage.values[value].root;
}

PLAIT_DECL std::size_t value_trace::line_of(direction way, int unit, int leaf) const {
  int const first = of_.plan.items[item_of(of_.plan.items, unit)].first_leaf;
  std::size_t const layer = first_of_unit_[std::size_t(unit)] + std::size_t(leaf - first);
  return way == direction::forward ? layer : 2 * layers_ - 1 - layer;
}

PLAIT_DECL void value_trace::record(recorded_value const& which, void const* elements, std::size_t,
                                    std::size_t element_bytes) {
  auto const& plan = *which.plan;
  auto const& value = plan.values[which.value];
  auto const& context = *which.context;
  bool const is_forward = which.way == direction::forward;
  placement const at = is_forward ? value.at : dual(value.at);
  axis const model_axis = of_.grid.model_axis();
  if (!holds_the_one_copy(plan.samples.on_stage(0).with(model_axis, at), of_.place)) return;

  auto const of = leaf_of_node(plan, *which.node, which.way, which.unit);
  auto& into = sums_[line_of(which.way, of.unit, of.leaf)];

  auto const block = static_cast<std::size_t>(of_.place.along(model_axis));
  auto const blocks = static_cast<std::size_t>(plan.tensor_ranks);
  bool const is_cut = is_shard(at), by_rows = is_cut && at.index == dim::sequence;
  std::size_t const width = value.info.width;
  std::size_t const rows = context.sequence * context.batch / (by_rows ? blocks : 1);
  std::size_t const first_row = by_rows ? block * rows : 0;
  std::size_t const parts = is_cut && !by_rows ? std::size_t(at.parts) : 1;
  std::size_t const part = width / parts, piece = is_cut && !by_rows ? part / blocks : part;
  std::size_t const columns = piece * parts;
  for (std::size_t row = 0; row < rows; ++row) {
    std::size_t const position = (first_row + row) / context.batch;
    std::size_t const sample = (first_row + row) % context.batch;
    if (sample >= context.present()) continue;
    std::size_t const begin =
        ((context.first_sample + sample) * context.sequence + position) * width;
    for (std::size_t column = 0; column < columns; ++column) {
      std::size_t const in_whole =
          column / piece * part + (is_cut && !by_rows ? block * piece : 0) + column % piece;
      into.add(begin + in_whole, traced_element(elements, element_bytes, row * columns + column));
    }
  }
}

PLAIT_DECL void value_trace::record_parameter(parameter_pass which,
                                              parameter_block const& parameter,
                                              element_range const& range, void const* elements,
                                              std::size_t element_bytes) {
  auto const& entry = of_.plan.entries[parameter.entry];
  if (entry.is_frozen || (which == parameter_pass::gradient && !entry.has_gradient())) return;
  if (!holds_the_one_copy(placements_of(entry, of_.plan.rules).owned, of_.place)) return;
  auto const number = std::size_t(parameter.number);
  auto const count = of_.parameters.size();
  auto& into = sums_[2 * layers_ +
                     (which == parameter_pass::gradient ? count - 1 - number : count + number)];
  lean_vector<parameter_rectangle> mine;
  for (auto const& each : parameter.rectangles) planning::add_common(each, range, mine);
  for (auto const& each : mine)
    planning::for_each_run(
        each, entry.info.columns, [&](std::size_t in_whole, std::size_t place, std::size_t length) {
          for (std::size_t i = 0; i < length; ++i)
            into.add(in_whole + i,
                     traced_element(elements, element_bytes, place - range.offset + i));
        });
}

PLAIT_DECL void value_trace::write_step(std::int64_t step, number_gather const& gather) {
  constexpr std::size_t at_a_time = compared_fields / trace_sums::words;
  auto const mine = std::size_t(gather.world_rank);
  for (std::size_t begin = 0; begin < sums_.size(); begin += at_a_time) {
    std::size_t const end = std::min(sums_.size(), begin + at_a_time);
    std::vector<std::uint64_t> packed;
    for (std::size_t i = begin; i < end; ++i) {
      auto const words = sums_[i].to_words();
      packed.insert(packed.end(), words.begin(), words.end());
    }
    auto const all = gather.of_all(packed);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      for (std::size_t i = begin; rank != mine && i < end; ++i) {
        trace_sums::word_list words{};
        std::copy_n(all[rank] + (i - begin) * words.size(), words.size(), words.begin());
        sums_[i].add(words);
      }
  }
  std::string text, problem;
  for (std::size_t i = 0; of_.is_root && i < sums_.size(); ++i) {
    auto const& now = sums_[i];
    if (now.count() == 0) continue;
    auto const space = names_[i].find(' ');
    char numbers[150];
    std::snprintf(numbers, sizeof numbers, " %llu %.17g %.17g %.17g %016llx ",
                  static_cast<unsigned long long>(now.count()), now.sum(), now.norm(),
                  now.weighted_sum(), static_cast<unsigned long long>(now.hash()));
    text +=
        concat({step, " ", names_[i].substr(0, space), numbers, names_[i].substr(space + 1), "\n"});
  }
  sums_.assign(sums_.size(), {});
  try {
    if (file_) file_->append(text);
  } catch (input_error const& error) {
    problem = error.what();
  }
  throw_on_all_ranks(gather, problem);
}

}  // namespace plait::execution
