// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/observe/trace_sums.hpp"
#include "plait/plan/schedule/plan_ir.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/train/checks/consistency_check.hpp"

namespace plait::execution {

/// The part of a step_trace that does not depend on the trainer's type: it adds up the elements of
/// each tensor of a step on its rank, adds up the sums of all ranks, and writes the lines of the
/// step on the root rank.
///
/// A value is recorded after the node that completes it. For example, a layer whose output is
/// partial is followed by a transfer that sums the outputs of the ranks, so the result of the
/// transfer is recorded as the layer's output. At the end of a residual, the sum is recorded as the
/// output of the last layer, because some plans compute both at once. The gradients of a backward
/// follow the same rules with the nodes before the layer: the gradient of a layer's input is
/// recorded after the transfer that sums it, and at the beginning of a residual after the sum. If a
/// layer overwrites its input, the output of the layer in front of it is not recorded.
///
/// Threads: used by the one thread that runs the rank.
class value_trace : public value_recorder {
 public:
  /// The facts of the job and of the rank.
  struct facts {
    plan_ir const& plan;
    mesh const& grid;
    coordinates place{};
    std::vector<std::string> layers{};          ///< the names of the leaves
    lean_vector<parameter_block> parameters{};  ///< all parameters of the model
    bool is_root = false;
  };

  /// Creates the file on the root rank. All ranks call this function.
  ///
  /// Errors: input_error, the same on all ranks, if the file exists or cannot be made.
  [[gnu::cold]] value_trace(std::string const& path, facts of, number_gather const& gather);

  [[nodiscard]] int value_after(plan_ir const& plan, program_node const& node, direction way,
                                int unit) const override;
  void record(recorded_value const& which, void const* elements, std::size_t count,
              std::size_t element_bytes) override;

 protected:
  ~value_trace() = default;

  /// The tensors of a parameter that are recorded.
  enum class parameter_pass : int { gradient, parameter };

  /// Adds the elements of a parameter that are in `range` of the rank's arena. `elements`: the
  /// address of the first element of `range`, in host memory.
  void record_parameter(parameter_pass which, parameter_block const& parameter,
                        element_range const& range, void const* elements,
                        std::size_t element_bytes);
  /// Adds up the sums of all ranks and writes the lines of a step. All ranks call this function.
  ///
  /// Moves:  one all_reduce of `compared_fields` numbers for every two tensors.
  /// Errors: input_error, the same on all ranks, if the file cannot be written.
  void write_step(std::int64_t step, number_gather const& gather);

 private:
  /// Returns the number of a line of a step; lines are numbered in the order of the file.
  [[nodiscard]] std::size_t line_of(direction way, int unit, int leaf) const;
  [[nodiscard]] bool overwrites(plan_ir const& plan, int value) const;

  facts of_;
  std::string path_;
  std::vector<std::string> names_;          ///< the pass and the name of each line
  std::vector<std::size_t> first_of_unit_;  ///< the number of the first leaf of each unit
  std::size_t layers_ = 0;                  ///< the number of all leaves of all units
  std::vector<trace_sums> sums_;
  std::optional<detail::growing_file> file_{};
};

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/observe/value_trace.ipp"
#endif
