// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/stable_sort.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"
#include "plait/plan/sharding/parameter_plan.hpp"
#include "plait/train/options/optimizer.hpp"
#include "plait/train/state/state_ages.hpp"

namespace plait::execution {

/// Cuts the blocks that an optimizer updates, so that each matrix that it updates as a whole is a
/// block of its own. An optimizer defines `using whole_matrices = plait::ext::whole_matrices;`, and
/// trainers then call this type; see matrix_optimizer.
///
/// Example: a rank has a bias, a matrix (8, 16), another bias, a vector and a matrix (16, 4). The
/// optimizer gets 4 blocks: the bias, the matrix (8, 16), the bias and the vector, and the matrix
/// (16, 4).
struct whole_matrices {
  /// Returns the bytes of scratch memory that the largest matrix of the model needs. All ranks get
  /// the same number, because one number describes it in a workload.
  ///
  /// Errors: input_error, on all ranks, that names the first matrix that the tensor axis or a block
  ///         of an optimizer cuts, or if the optimizer selects no trained matrix of the model. A
  ///         single stage may be without a matrix.
  template <class Job, class Optimizer>
  [[nodiscard]] [[gnu::cold]] static std::size_t scratch_bytes(mesh const& grid,
                                                               Optimizer const& rule) {
    using plan = typename Job::plan_type;
    static_assert(
        !plan::cuts_arenas || plan::rules.deals_parameters,
        "trainer<Job>(rank, optimizer): the optimizer updates whole matrices, but under "
        "zero<Level> each rank owns a block of the parameters, which cuts matrices; write "
        "plait::ext::zero_of_matrices<Level> of plait/plan/zero_of_matrices.hpp instead "
        "of zero<Level>, or an optimizer of single elements such as plait::adamw{}");
    std::size_t most = 0, trained = 0;
    std::string a_matrix;  // the name of the first trained matrix
    bool any = false;
    for (int stage = 0; stage < plan::stages; ++stage) {
      auto const layout = plan::parameter_layout_for(stage, grid);
      for (auto const& parameter : plan::blocks(stage, 0, grid)) {
        auto const& entry = plan::entries[parameter.entry];
        if (!entry.is_trained()) continue;
        ++trained;
        if (entry.info.rank == 2 && a_matrix.empty()) a_matrix = parameter.name;
        if (!is_whole_matrix(entry, parameter, rule)) continue;
        any = true;
        if (entry.local_count() != entry.info.count())
          refuse(parameter, entry, std::size_t(plan::tensor_ranks),
                 " tensor ranks each have a part of a matrix",
                 "pin a form that keeps it whole by use_form, or leave out tensor_parallel");
        if (std::size_t const owners =
                count_owners(layout, parameter, std::size_t(grid.size(plan::rules.cut_axes())));
            owners > 1)
          refuse(
              parameter, entry, owners,
              " ranks each own a part of a matrix, because a bucket of whole parameters would be "
              "twice as long",
              "set larger buckets, such as buckets<64_MiB>, or take fewer data ranks");
        auto const whole = entry.info.unpadded();
        most = std::max(most, rule.template scratch_bytes<typename Job::parameter_element>(
                                  whole.rows, whole.columns));
      }
    }
    if (!any) refuse_no_matrix(optimizer_name_of<Optimizer>(), trained, a_matrix);
    return most;
  }

  /// Returns true if an optimizer updates a parameter as a whole matrix.
  template <class Optimizer>
  static bool is_whole_matrix(parameter_entry const& entry, parameter_block const& parameter,
                              Optimizer const& rule) {
    return entry.is_trained() && entry.info.rank == 2 &&
           rule.matrices({parameter.name, entry.info.rank});
  }

  /// Replaces the suffixes of an optimizer's states by the suffixes for whole matrices. `kinds[i]`:
  /// the suffix of state i - 1. The names are `matrix_state_names` of the optimizer. If there are
  /// fewer names than states, matrices do not use the last states, and checkpoints leave them out.
  /// Without `matrix_state_names`, the names are `matrix_` and the names of the states.
  ///
  /// A state of a matrix has another name than a state of other parameters, so that it is reset if
  /// a run resumes with an optimizer that updates the parameter by another rule. For example, the
  /// momentum of Muon, without AdamW's second moment, would let AdamW's first steps explode.
  template <class Optimizer>
  [[gnu::cold]] static void name_states(std::vector<std::string>& kinds) {
    for (std::size_t i = 0; i < std::size_t(Optimizer::states); ++i)
      if constexpr (requires { Optimizer::matrix_state_names; })
        kinds[1 + i] = i < Optimizer::matrix_state_names.size()
                           ? concat({".", Optimizer::matrix_state_names[i]})
                           : std::string{};
      else kinds[1 + i].insert(1, "matrix_");
  }

  /// Adds to `out` the blocks into which `part` is cut.
  template <class Plan, class Optimizer>
  [[gnu::cold]] static void cut(lean_vector<parameter_block> const& parameters,
                                aged_block const& part, Optimizer const& rule,
                                lean_vector<aged_block>& out) {
    lean_vector<begin> begins;
    for (auto const& parameter : parameters) {
      auto const& entry = Plan::entries[parameter.entry];
      if (!entry.is_owner() || entry.is_frozen) continue;
      auto const common = overlap(part.block.elements, parameter);
      if (common.count == 0) continue;
      auto const whole = entry.info.unpadded();
      if (is_whole_matrix(entry, parameter, rule))
        begins.push_back({common.offset, whole.rows, whole.columns});
      else begins.push_back({common.offset});
    }
    plait::detail::stable_sort(begins,
                               [](begin const& a, begin const& b) { return a.offset < b.offset; });
    cut(begins, part, out);
  }

 private:
  /// The first element of a parameter, and the shape of a matrix that is updated as a whole.
  struct begin {
    std::size_t offset = 0, rows = 0, columns = 0;
  };

  /// Returns the number of ranks whose optimizers own a part of a parameter, among the ranks of the
  /// axes that cut the arena into `blocks` blocks.
  [[gnu::cold]] static std::size_t count_owners(parameter_layout const& layout,
                                                parameter_block const& parameter,
                                                std::size_t blocks) {
    for (auto const& bucket : layout.buckets) {
      if (overlap(bucket.elements, parameter).count == 0) continue;
      std::size_t const block = bucket.elements.count / blocks;
      std::size_t const first = parameter.offset - bucket.elements.offset;
      return (first + parameter.count - 1) / block - first / block + 1;
    }
    return 1;
  }
  [[noreturn]] [[gnu::cold]] static void refuse(parameter_block const& parameter,
                                                parameter_entry const& entry, std::size_t ranks,
                                                char const* what, char const* instead) {
    throw input_error({"trainer: the optimizer updates whole matrices, but ", ranks, what,
                       ": the matrix '", parameter.name, "' of ", entry.info.rows, " x ",
                       entry.info.columns,
                       " elements; exclude the matrix by the optimizer's "
                       "function `matrices`, ",
                       instead});
  }

  [[noreturn]] [[gnu::cold]] static void refuse_no_matrix(char const* name, std::size_t trained,
                                                          std::string const& a_matrix) {
    if (name == nullptr) name = "the optimizer";
    if (a_matrix.empty())
      throw input_error({"trainer: ", name, " updates matrices, but none of the ", trained,
                         " trained parameters of the model has two dimensions; train with "
                         "plait::adamw{} or another optimizer of single elements"});
    throw input_error({"trainer: ", name, ": `matrices` selects none of the ", trained,
                       " trained parameters as a matrix; let it return true for parameters of two "
                       "dimensions, such as '",
                       a_matrix, "', or train with plait::adamw{}"});
  }

  // Padding belongs to the parameter in front of it.
  [[gnu::cold]] static void cut(lean_vector<begin> const& begins, aged_block const& part,
                                lean_vector<aged_block>& out) {
    std::size_t const first = out.size();
    auto const& all = part.block;
    for (auto const& at : begins) {
      bool const is_matrix = at.rows > 0, begins_block = out.size() == first;
      if (!begins_block && !is_matrix && out.back().rows == 0)
        continue;  // the parameter joins the block in front of it
      std::size_t const skipped = begins_block ? 0 : at.offset - all.elements.offset;
      if (!begins_block)
        out.back().block.elements.count = at.offset - out.back().block.elements.offset;
      auto piece = part;
      piece.block = {{all.elements.offset + skipped, all.elements.count - skipped},
                     all.state_offset + skipped,
                     all.parameters_at + skipped,
                     all.gradients_at + skipped};
      piece.rows = at.rows;
      piece.columns = at.columns;
      out.push_back(piece);
    }
    if (out.size() == first) out.push_back(part);
  }
};

}  // namespace plait::execution

namespace plait::ext {

using execution::whole_matrices;

}  // namespace plait::ext
