// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/measure_work.hpp"

#include <algorithm>
#include <cmath>

namespace plait::detail::doctor {

PLAIT_DECL std::vector<ext::product_shape> usual_products(bool full) {
  // A quick measurement has 54 shapes of a grid. Instead of the other 10 shapes of the grid, which
  // have more than 2^27 multiplications, it has 10 shapes with a length of 4096 or 1024.
  std::vector<ext::product_shape> shapes;
  std::size_t const lengths[]{32, 128, 512, 2048}, wide[]{32, 160, 800, 4096};
  std::size_t const most = full ? std::size_t{1} << 40 : std::size_t{1} << 27;
  for (std::size_t const rows : full ? wide : lengths)
    for (std::size_t const columns : full ? wide : lengths)
      for (std::size_t const inner : full ? wide : lengths)
        if (rows * columns * inner <= most) shapes.push_back({rows, columns, inner});
  if (!full) {
    for (std::size_t const small : {std::size_t{32}, std::size_t{128}, std::size_t{512}}) {
      std::size_t const other = std::min<std::size_t>(512, most / 4096 / small);
      shapes.push_back({4096, small, other});
      shapes.push_back({small, 4096, other});
      shapes.push_back({other, small, 4096});
    }
    shapes.push_back({1024, 1024, 128});
  }
  std::vector<ext::product_shape> out;
  using transposed = ext::transposed_operand;
  for (auto const one : {transposed::none, transposed::a, transposed::b})
    for (auto shape : shapes) {
      shape.transposed = one;
      if (std::find(out.begin(), out.end(), shape) == out.end()) out.push_back(shape);
    }
  return out;
}

PLAIT_DECL double mean_of_ranks(std::vector<double> const& of_each) {
  double sum = 0;
  for (double const one : of_each) sum += std::log(one);
  return of_each.empty() ? 0 : std::exp(sum / double(of_each.size()));
}

PLAIT_DECL void work_of_kinds::add(std::string_view kind, std::vector<double> const& together,
                                   std::vector<double> const& alone) {
  std::size_t i = 0;
  while (i < logarithms_.size() && logarithms_[i].name != kind) ++i;
  if (i == logarithms_.size()) {
    logarithms_.push_back({std::string(kind), std::vector<double>(together.size()),
                           std::vector<double>(alone.size())});
    counts_.push_back(0);
  }
  ++counts_[i];
  for (std::size_t rank = 0; rank < together.size(); ++rank)
    logarithms_[i].together[rank] += std::log(together[rank]);
  for (std::size_t rank = 0; rank < alone.size(); ++rank)
    logarithms_[i].alone[rank] += std::log(alone[rank]);
}

PLAIT_DECL std::vector<ext::measured_work> work_of_kinds::means() const {
  auto out = logarithms_;
  for (std::size_t i = 0; i < out.size(); ++i)
    for (auto* const speeds : {&out[i].together, &out[i].alone})
      for (double& one : *speeds) one = std::exp(one / counts_[i]);
  return out;
}

}  // namespace plait::detail::doctor
