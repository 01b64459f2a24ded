// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/schedule/row_writer.hpp"

#include <cstdint>

namespace plait::planning {

PLAIT_DECL row_writer::buffers row_writer::of_buckets(name what) const {
  buffers out;
  for (int b = 0; b < buckets(); ++b) out.push_back(at(what, b));
  return out;
}

PLAIT_DECL row_writer::buffers row_writer::of_units(name what, unit_range units) const {
  buffers out;
  for (int b = 0; b < buckets(); ++b)
    if (overlap(bucket_of(b).units, units).count() > 0) out.push_back(at(what, b));
  return out;
}

PLAIT_DECL bool row_writer::find_next(tied_use& now) const {
  for (++now.owner; now.entry < plan_.entries.size(); ++now.entry, now.owner = 0) {
    if (now.entry < 0 || !parameters_.entries[std::size_t(now.entry)].is_tied) continue;
    auto const& place = parameters_.entries[std::size_t(now.entry)];
    now.unit = plan_.items[plan_.entries[now.entry].item].first_unit;
    for (; now.owner < buckets(); ++now.owner)
      if (bucket_of(now.owner).region == place.region &&
          bucket_of(now.owner).units.contains(place.unit))
        return true;
  }
  return false;
}

PLAIT_DECL row_writer::buffers row_writer::all_gradients() const {
  auto out = of_buckets(name::gradients);
  for (tied_use use; find_next(use);) out.push_back(at(name::tied_gradients, use.owner));
  return out;
}

PLAIT_DECL row_writer::buffers row_writer::joined(buffers some, buffers const& others) {
  for (int const one : others) some.push_back(one);
  return some;
}

PLAIT_DECL void row_writer::add(program_operation const& made, stream on, buffers const& reads,
                                buffers const& writes) {
  out_.operations.push_back(made);
  out_.touched.push_back({on, reads, writes});
}

PLAIT_DECL bool row_writer::add_row(std::size_t number, program_operation made,
                                    buffers const& reads, buffers const& writes) {
  auto const over = list_[number].row().over;
  if (plan_.grid.size(over) == 1) return false;
  made.row = static_cast<int>(number);
  add(made, stream_of_row(list_[number], stage_, plan_.stages()), reads, writes);
  return true;
}

PLAIT_DECL void row_writer::add_rows(transfer_place place, buffers const& touched) {
  for (std::size_t i = 0; i < list_.size(); ++i)
    for (std::int64_t k = 0; list_[i].place == place && k < list_[i].buckets; ++k)
      add_row(i, {.bucket = list_[i].bucket < 0 ? -1 : list_[i].bucket + int(k)}, touched, touched);
}

PLAIT_DECL void row_writer::add_rows_of_bucket(transfer_place place, int number, name touched) {
  buffers const touches{at(touched, number)};
  program_operation made{.bucket = number};
  if (plan_.has_buckets && bucket_of(number).region == parameter_layout::over_batch)
    made.units = bucket_of(number).units;
  add_rows_of_bucket(place, made, touches);
}

PLAIT_DECL void row_writer::add_rows_of_bucket(transfer_place place, program_operation const& made,
                                               buffers const& touches) {
  for (std::size_t i = 0; i < list_.size(); ++i)
    if (list_[i].place == place && list_[i].moves_bucket(made.bucket))
      add_row(i, made, touches, touches);
}

}  // namespace plait::planning
