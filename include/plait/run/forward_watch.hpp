// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/plan/model/moves.hpp"
#include "plait/plan/schedule/plan_ir.hpp"
#include "plait/run/context.hpp"

namespace plait::execution {

/// A value that a pass has computed, or the gradient of a value.
struct recorded_value {
  plan_ir const* plan = nullptr;
  program_node const* node = nullptr;  ///< the node of the plan that has run
  int value = -1;                      ///< the number of the value in the plan; -1: no value
  direction way = direction::forward;  ///< in a backward, the gradient of the value is recorded
  int unit = 0;                        ///< the number of the unit in the model
  layer_context const* context = nullptr;
};

/// The interface through which a trainer passes the values of its steps to a tool, such as
/// `plait::ext::step_trace`. A trainer calls the functions only while a recorder is set.
///
/// Threads: used by the one thread that runs the rank.
class value_recorder {
 public:
  /// Returns the number of the value to record after `node` of a unit of a plan has run in
  /// direction `way`; -1: none.
  [[nodiscard]] virtual int value_after(plan_ir const& plan, program_node const& node,
                                        direction way, int unit) const = 0;
  /// Takes the `count` elements of this rank's block of a value, row by row. `elements`: their
  /// copy in host memory; `element_bytes`: 8 for double, 4 for float, 2 for bfloat16.
  virtual void record(recorded_value const& which, void const* elements, std::size_t count,
                      std::size_t element_bytes) = 0;
  /// Called after the update of a step, when the device has completed the step.
  virtual void end_step(std::int64_t step) = 0;

 protected:
  ~value_recorder() = default;
};

/// Looks at the values of passes: finds the first layer in a forward whose output is not finite or,
/// if there is a recorder, passes the values on to the recorder.
struct forward_watch {
  bool found = false;
  int microbatch = 0;
  std::uint32_t site = 0;  ///< layer_context::site of the layer; greater for a later layer
  int leaf = 0, copy = 0;
  value_recorder* recorder = nullptr;

  /// Returns the number of the value to look at after a node has run; -1: none.
  [[nodiscard]] int value_after(plan_ir const& plan, program_node const& node, direction way,
                                int unit) const {
    if (recorder != nullptr) return recorder->value_after(plan, node, way, unit);
    return node.kind == program_node_kind::leaf && !plan.leaves[node.leaf].is_loss ? node.out : -1;
  }
  /// Returns true if the watch also looks at the term that a node adds to the loss.
  [[nodiscard]] bool looks_at_term(plan_ir const& plan, program_node const& node) const {
    return recorder == nullptr && node.kind == program_node_kind::leaf &&
           plan.leaves[node.leaf].has_term();
  }
  /// Copies `count` elements to the host. With a recorder, passes them on; otherwise sets `found`
  /// to true if one of them is not finite.
  ///
  /// Cost: waits for the device.
  template <class Device, class T>
  [[gnu::cold]] void look(Device& device, T const* made, std::size_t count,
                          recorded_value const& which) {
    std::vector<T> values(count);
    device.synchronize();  // the value may be the result of a transfer on another stream
    device.download(made, values.data(), count * sizeof(T));
    device.synchronize();
    if (recorder != nullptr) return recorder->record(which, values.data(), count, sizeof(T));
    for (T const x : values)
      if (!std::isfinite(static_cast<double>(x))) found = true;
  }
};

}  // namespace plait::execution
