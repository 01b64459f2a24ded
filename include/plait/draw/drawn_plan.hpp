// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/lean_vector.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/plan/schedule/bytes_sent.hpp"
#include "plait/plan/schedule/plan_ir.hpp"
#include "plait/plan/schedule/transfer.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// A plan with a workload, in the form that pictures need: one type for all plans, so that the
/// drawing code is compiled once. Its views point to constants of the plan.
struct drawn_plan {
  plan_ir numbers{};  ///< the numbers of the plan, with all sizes of its mesh
  workload load{};    ///< the workload, including the numbers that the plan itself determines
  std::size_t parameter_count = 0;
  element_sizes sizes{};
  std::vector<std::string> names;        ///< names of all layers, each with a dot at the end
  std::vector<std::string_view> types;   ///< names of the types of all layers
  std::vector<unsigned char> is_frozen;  ///< for each layer: 1 if it is frozen
  lean_vector<lean_vector<transfer>> transfers;  ///< for each stage: transfers of a training step
  lean_vector<parameter_layout> layouts;         ///< for each stage: layout of its parameters
  lean_vector<memory_need> memory;               ///< for each stage: bytes that one rank needs
  timetable table;                               ///< timetable of a training step
  std::string_view schedule;
};

}  // namespace plait::planning

namespace plait::ext {

using planning::drawn_plan;

/// The pictures of a plan.
enum class picture : int {
  mesh,      ///< the grid of ranks, and the groups in which they communicate
  plan,      ///< the layers with their forms, the cuts into stages, and all communication
  memory,    ///< the memory of a rank of each stage
  timetable  ///< the order of the forwards and backwards of each stage
};

/// Options of `draw`: the picture and its theme.
struct draw_options {
  picture what = picture::plan;
  bool dark = false;  ///< light lines on a dark ground
};

}  // namespace plait::ext
