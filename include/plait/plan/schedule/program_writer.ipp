// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/schedule/program_writer.hpp"

#include <algorithm>

namespace plait::planning {

PLAIT_DECL program_writer::program_writer(plan_ir const& plan, lean_vector<exchange> const& list,
                                          int stage, parameter_layout const& parameters,
                                          stage_program const* passes, placed_passes const& places)
    : row_writer(plan, list, stage, parameters),
      passes_(passes),
      places_(places),
      is_done_(std::size_t(plan.unit_count()), false),
      is_reduced_(std::size_t(buckets()), false),
      uses_(plan.bucket_uses_of(parameters)),
      record_(plan.items, plan.recomputes),
      scatter_room_(parameters, parameters.gradients_at.room) {
  span_ = std::max({plan.unit_count(), buckets() + int(parameters.frozen_buckets.size()), 4}) + 1;
  has_run_ = lean_vector(std::size_t(plan.chunks), 0);
  if (passes == nullptr) return;
  if (places_.pieces == 0) {
    constexpr chunk_arena has_all{.receives_gradient = true,
                                  .activation_stash_bytes = 1,
                                  .gradient_stash_bytes = 1,
                                  .input_bytes = 1,
                                  .output_bytes = 1};
    places_ = place_in_turn(has_all, passes->slots);
  }
  span_ = std::max(span_, places_.pieces + 1);
  for (auto const& now : passes->operations) span_ = std::max(span_, now.microbatch + 1);
  if (gathers())
    gathers_ =
        gathers_of_passes(parameters, uses_, plan.chunks_of(stage), passes->operations, scatters());
  next_frozen_ = gathers_.trained;
}

PLAIT_DECL void program_writer::write_rows(exchange_place place, name touched) {
  buffers const all{at(touched)};
  compute(operation_kind::send, {}, all);
  add_rows(place, all);
  compute(operation_kind::read, all, {});
}

PLAIT_DECL void program_writer::write_reduction() {
  auto const gradients = all_gradients();
  compute(operation_kind::send, {}, gradients);
  reduce_gradients();
  compute(operation_kind::read, gradients, {});
}

PLAIT_DECL void program_writer::write_training(program_shape const& shape) {
  begin_step();
  for (int const region : {parameter_layout::over_tensor, parameter_layout::over_batch})
    for (int b = 0; b < buckets(); ++b)
      if (bucket_of(b).region == region)
        add_rows_of_bucket(exchange_place::gather_parameters, b, name::parameters);
  if (plan_.slices > 0) compute(operation_kind::clear, {}, all_gradients());
  add_passes(outputs_are::ignored);
  if (shape.masks_loss) compute(operation_kind::mask, {}, {at(name::loss)});
  reduce_gradients();
  sum_loss();
  if (shape.clips) {
    compute(operation_kind::square, of_buckets(name::gradients), {at(name::norm_partials)});
    add_rows(exchange_place::norm_partials, {at(name::norm_partials)});
  }
  if (shape.updates) update(shape);
  compute(operation_kind::read, {at(name::labels), at(name::loss)}, {});
}

PLAIT_DECL void program_writer::write_evaluation(program_shape const& shape) {
  bool measures = false;
  for (auto const& row : list_) measures = measures || row.place == exchange_place::measures;
  if (shape.counts) begin_step();
  add_passes(measures ? outputs_are::measured : outputs_are::ignored);
  if (shape.counts) sum_loss();
  compute(operation_kind::read, {at(name::labels), at(name::loss)}, {});
}

PLAIT_DECL void program_writer::write_prediction() {
  add_passes(outputs_are::kept);
  buffers all;  // also where none of them is made
  for (auto const& now : passes_->operations)
    if (now.kind == work::forward) all.push_back(at(name::outputs, now.microbatch));
  add_rows(exchange_place::rank_outputs, all);
  add_rows(exchange_place::outputs, all);
  compute(operation_kind::read, all, {});
}

PLAIT_DECL void program_writer::write_export(bool gradients) {
  compute(operation_kind::send, {}, {at(name::state)});
  out_.touched.back().host_waits = true;  // for what was handed to stream compute before
  int unit = 0;
  for (int item = 0; item < plan_.items.size(); ++item)
    for (int copy = 0; copy < plan_.items[item].count; ++copy, ++unit) {
      bring_for_export(unit, gradients);
      for (int e = 0; e < plan_.entries.size(); ++e) {
        auto const& entry = plan_.entries[e];
        if (entry.item == item && entry.owner < 0 && !(gradients && !entry.has_gradient()))
          add_tensor({.units = {unit, unit + 1}, .entry = e}, plan_.stage_of(unit), gradients);
      }
    }
}

PLAIT_DECL void program_writer::add_message(exchange_place place, int unit, bool sends,
                                            scheduled_work const& now, buffers const& touched) {
  for (std::size_t i = 0; i < list_.size(); ++i)
    if (list_[i].place == place && list_[i].unit == unit && list_[i].is_sent_by(stage_) == sends)
      add_row(i, {.chunk = now.chunk, .microbatch = now.microbatch}, sends ? touched : buffers{},
              sends ? buffers{} : touched);
}

PLAIT_DECL void program_writer::begin_step() {
  compute(operation_kind::send, {}, {at(name::labels), at(name::loss)});
  add_rows(exchange_place::labels, {at(name::labels)});
  compute(operation_kind::scale, {at(name::labels)}, {at(name::scale)});
}

PLAIT_DECL void program_writer::add_passes(outputs_are what) {
  auto const& all = passes_->operations;
  lean_vector<char> has_begun(std::size_t(plan_.chunks), false);
  for (auto now = all.begin(); now != all.end(); ++now)
    add_work(*now, what, has_begun, sums_gradients(now->kind) && is_last_of_chunk(now, all.end()));
}

PLAIT_DECL void program_writer::add_work(scheduled_work const& now, outputs_are what,
                                         lean_vector<char>& has_begun, bool is_last) {
  auto const& chunk = plan_.chunks_of(stage_)[now.chunk];
  bool const ends_model = chunk.end == plan_.unit_count();
  int const m = now.microbatch, units_here = chunk.end - chunk.begin;
  auto const pieces = [&](passed_value passed, int of_chunk) {
    buffers out;
    auto const range = places_.of(passed, of_chunk, m);
    for (int piece = range.first; piece < range.end; ++piece)
      out.push_back(at(name::passed, piece));
    return out;
  };
  int const handed_from = chunk_that_ends_at(chunk.begin);
  auto const stash = pieces(passed_value::stash, now.chunk);
  auto const input = chunk.begin == 0 ? buffers{} : pieces(passed_value::input, now.chunk);
  auto const gradient = ends_model ? buffers{} : pieces(passed_value::gradient, now.chunk);
  int const made = at(name::made_gradient, (units_here - 1) % 2);
  bool splits = false;
  program_operation run{.chunk = now.chunk, .units = chunk, .microbatch = m};
  buffers reads{at(name::scale)}, writes;
  bool const is_half = now.kind == work::backward_input || now.kind == work::backward_parameters;
  if (is_half) writes = pieces(passed_value::gradient_stash, now.chunk);
  // Memory that its last reader gives back counts as written for all others.
  bool const gives_back = sums_gradients(now.kind);
  if (gives_back) {
    run.begins = plan_.slices == 0 && !has_begun[std::size_t(now.chunk)];  // else cleared
    has_begun[std::size_t(now.chunk)] = true;
  }
  kept_ = joined(stash, input);
  auto& given_back = gives_back ? writes : reads;
  given_back = joined(given_back, now.kind == work::forward ? input : kept_);
  if (now.kind == work::backward || now.kind == work::backward_input) {
    writes = joined(writes, gradient);
    if (handed_from >= 0) writes = joined(writes, pieces(passed_value::gradient, handed_from));
    for (int i = 0; i < std::min(units_here, 2); ++i) writes.push_back(at(name::made_gradient, i));
  }
  switch (now.kind) {
    case work::forward:
      run.what = operation_kind::forward;
      // Parameters of layers are gathered while the layers before them run.
      splits = std::exchange(has_run_[std::size_t(now.chunk)], 1) == 0 &&
               moves_at(exchange_place::gather_parameters);
      for (auto const& units : pieces_of_pass(uses_, chunk, gathers(), splits))
        add_piece(run, units, reads, joined(stash, {at(name::loss)}));
      if (ends_model && what != outputs_are::ignored)
        gather_output(joined(stash, input), m, what == outputs_are::measured);
      return;
    case work::backward: run.what = operation_kind::backward; break;
    case work::backward_input: run.what = operation_kind::backward_input; break;
    case work::backward_parameters: run.what = operation_kind::backward_parameters; break;
    case work::send_activation:
      return add_message(exchange_place::activation_edge, chunk.end, true, now, stash);
    case work::receive_activation:
      return add_message(exchange_place::activation_edge, chunk.begin, false, now, input);
    case work::send_gradient:
      return add_message(exchange_place::gradient_edge, chunk.begin, true, now, {made});
    case work::receive_gradient:
      return add_message(exchange_place::gradient_edge, chunk.end, false, now, gradient);
  }
  add_backward(run, gives_back, is_last, reads, writes);
}

PLAIT_DECL int program_writer::chunk_that_ends_at(int unit) const {
  auto const chunks = plan_.chunks_of(stage_);
  for (int c = 0; c < chunks.size(); ++c)
    if (chunks[c].end == unit) return c;
  return -1;
}

PLAIT_DECL void program_writer::add_piece(program_operation run, unit_range units, buffers reads,
                                          buffers writes) {
  if (gathers()) {
    auto const& all = gathers_.gathers;
    auto const gather_up_to = [&](std::size_t& next, std::size_t end) {
      for (; next < end && all[next].before == piece_; ++next) gather(all[next]);
    };
    gather_up_to(next_gather_, gathers_.trained);
    gather_up_to(next_frozen_, all.size());
    int const ends = gathers_.ends[std::size_t(piece_)];
    run.lets_go = gathers_.lets_go[std::size_t(piece_++)];
    for (int end = 0; end < 4; ++end) {
      if ((ends >> end & 1) != 0) reads.push_back(at(name::gathered, end));
      if ((run.lets_go >> end & 1) != 0) writes.push_back(at(name::gathered, end));
    }
  }
  run.units = units;
  reads = joined(parameters_of(units), reads);
  // A device may make the loss together with its gradient, when the backward begins.
  if (units.end == plan_.unit_count() &&
      (run.what == operation_kind::backward || run.what == operation_kind::backward_input))
    writes.push_back(at(name::loss));
  if (run.what == operation_kind::forward) record_.pass_forward(units, run.microbatch);
  else add_reruns(run, reads, writes);
  add(run, stream::compute, reads, writes);
}

PLAIT_DECL void program_writer::add_reruns(program_operation& run, buffers const& reads,
                                           buffers const& writes) {
  for (int unit = run.units.end - 1; plan_.recomputes.any() && unit >= run.units.begin; --unit) {
    if (record_.is_made_again(unit, run.microbatch)) {
      auto before = run;
      before.units.begin = unit + 1, before.lets_go = 0;  // the last does
      if (before.units.count() > 0) add(before, stream::compute, reads, writes);
      run.units.end = unit + 1;
      program_operation const made{.what = operation_kind::forward_again,
                                   .chunk = run.chunk,
                                   .units = {unit, unit + 1},
                                   .microbatch = run.microbatch};
      add(made, stream::compute, joined(reads, kept_),
          record_.overwrites_output(unit) ? kept_ : buffers{});
    }
    if (run.what != operation_kind::backward_input) record_.end_backward(unit);
  }
}

PLAIT_DECL void program_writer::gather(planned_gather const& one) {
  int const first = bucket_of(one.bucket).region == parameter_layout::over_batch ? 0 : 2,
            end = one.at.at_end ? 1 : 0;
  buffers touches{at(name::gathered, first + end)};
  if (one.at.takes_all) touches.push_back(at(name::gathered, first + 1 - end));
  program_operation made{.what = operation_kind::bring,
                         .units = bucket_of(one.bucket).units,
                         .bucket = one.bucket,
                         .at_end = one.at.at_end};
  add(made, stream::compute, {at(name::parameters, one.bucket)}, touches);
  made.what = operation_kind::row;
  add_rows_of_bucket(exchange_place::parameters, made, touches);
}

PLAIT_DECL row_writer::buffers program_writer::parameters_of(unit_range units) const {
  auto out = of_units(name::parameters, units);
  for_each_tied_use([&](int, int unit, int owner) {
    if (units.contains(unit)) out.push_back(at(name::parameters, owner));
  });
  return out;
}

PLAIT_DECL void program_writer::add_backward(program_operation run, bool sums, bool is_last,
                                             buffers const& reads, buffers const& writes) {
  bool goes_on = sums && scatters();
  for (int b = 0; sums && is_last && b < buckets(); ++b) goes_on = goes_on || goes_early(b);
  auto const pieces = pieces_of_pass(uses_, run.units, gathers(), goes_on);
  for (int i = int(pieces.size()) - 1; i >= 0; --i) {
    auto const& units = pieces[std::size_t(i)];
    auto writes_here = sums ? joined(writes, of_units(name::gradients, units)) : writes;
    for_each_tied_use([&](int, int unit, int owner) {
      if (sums && units.contains(unit)) writes_here.push_back(at(name::tied_gradients, owner));
    });
    room_place room;
    run.bucket = -1;
    if (sums && scatters())
      for (int const number : uses_.of(units, 0, units_use::summed)) {
        scatter_room_.put(number, {}, -1, room);
        run.bucket = number;
        run.at_end = room.at_end;
      }
    auto const scattered = ends_of(room);
    if (run.bucket >= 0) writes_here = joined(writes_here, scattered);
    if (room.takes_all) accumulate_scattered();
    add_piece(run, units, reads, writes_here);
    accumulate_scattered();  // what was reduced while this computed
    if (run.bucket >= 0) reduce_microbatch(run, is_last, scattered);
    if (!is_last) continue;
    for (int unit = units.begin; unit < units.end; ++unit) is_done_[std::size_t(unit)] = true;
    reduce_what_is_whole();
  }
}

PLAIT_DECL row_writer::buffers program_writer::ends_of(room_place const& room) const {
  buffers out{at(name::scattered, room.at_end ? 1 : 0)};
  if (room.takes_all) out.push_back(at(name::scattered, room.at_end ? 0 : 1));
  return out;
}

PLAIT_DECL void program_writer::reduce_microbatch(program_operation const& run, bool is_last,
                                                  buffers const& scattered) {
  program_operation made{.what = operation_kind::add,
                         .microbatch = run.microbatch,
                         .bucket = run.bucket,
                         .begins = !is_last,
                         .at_end = run.at_end};
  buffers tied;
  if (is_last && add_tie_rows(run.bucket)) tied.push_back(at(name::tied_gradients, run.bucket));
  add(made, stream::compute, tied, scattered);
  made.what = operation_kind::row;
  made.units = bucket_of(run.bucket).units;
  add_rows_of_bucket(exchange_place::microbatch_gradients, made, scattered);
  made.what = operation_kind::accumulate;
  made.begins = run.begins;
  scattered_ = {made, is_last};
}

PLAIT_DECL void program_writer::accumulate_scattered() {
  auto const [made, is_last] = std::exchange(scattered_, {});
  if (made.bucket < 0) return;
  add(made, stream::compute, {at(name::scattered, made.at_end ? 1 : 0)},
      {at(name::gradients, made.bucket)});
  if (is_last) reduce_bucket(made.bucket);
}

PLAIT_DECL bool program_writer::moves_at(exchange_place place, int number) const {
  for (auto const& row : list_)
    if (row.place == place && (number < 0 || row.moves_bucket(number)) &&
        plan_.grid.size(row.row().over) > 1)
      return true;
  return false;
}

PLAIT_DECL bool program_writer::goes_early(int number) const {
  return plan_.has_buckets && bucket_of(number).region == parameter_layout::over_batch &&
         !scatters() && moves_at(exchange_place::gradients, number);
}

PLAIT_DECL void program_writer::reduce_what_is_whole() {
  for (int b = buckets() - 1; b >= 0; --b) {
    auto const& one = bucket_of(b);
    if (is_reduced_[std::size_t(b)] || !goes_early(b)) continue;
    bool is_whole = true;
    for (auto const& chunk : plan_.chunks_of(stage_)) {
      auto const here = overlap(chunk, one.units);
      for (int unit = here.begin; unit < here.end; ++unit)
        is_whole = is_whole && is_done_[std::size_t(unit)];
    }
    for_each_tied_use([&](int, int unit, int owner) {
      is_whole = is_whole && (owner != b || is_done_[std::size_t(unit)]);
    });
    if (is_whole) reduce_bucket(b);
  }
}

PLAIT_DECL void program_writer::reduce_bucket(int number) {
  is_reduced_[std::size_t(number)] = true;
  bool const is_in_blocks = scatters() && bucket_of(number).region == parameter_layout::over_batch;
  bool const has_ties = !is_in_blocks && add_tie_rows(number);
  if (has_ties || (!is_in_blocks && has_padding(bucket_of(number))))
    add({.what = operation_kind::add, .bucket = number}, stream::compute,
        has_ties ? buffers{at(name::tied_gradients, number)} : buffers{},
        {at(name::gradients, number)});
  add_rows_of_bucket(exchange_place::gradients, number, name::gradients);
}

PLAIT_DECL bool program_writer::add_tie_rows(int number) {
  buffers const tied{at(name::tied_gradients, number)};
  bool has_ties = false;
  for_each_tied_use([&](int entry, int, int owner) {
    if (owner != number) return;
    has_ties = true;
    for (std::size_t i = 0; i < list_.size(); ++i)
      if (list_[i].place == exchange_place::ties && list_[i].entry == entry)
        add_row(i, {}, tied, tied);
  });
  return has_ties;
}

PLAIT_DECL bool program_writer::has_padding(bucket const& of) const {
  for (int e = 0; e < plan_.entries.size(); ++e) {
    auto const& entry = plan_.entries[e];
    if (entry.is_trained() && entry.info.padding > 0 &&
        parameters_.entries[std::size_t(e)].region == of.region &&
        overlap(plan_.items[entry.item].units(), of.units).count() > 0)
      return true;
  }
  return false;
}

PLAIT_DECL void program_writer::reduce_gradients() {
  accumulate_scattered();
  add_rows(exchange_place::slices, all_gradients());
  for (int const region : {parameter_layout::over_batch, parameter_layout::over_tensor})
    for (int b = buckets() - 1; b >= 0; --b)
      if (bucket_of(b).region == region && !is_reduced_[std::size_t(b)]) reduce_bucket(b);
}

PLAIT_DECL void program_writer::update(program_shape const& shape) {
  buffers const norm{at(name::norm_partials)};
  compute(operation_kind::clip, shape.checks_loss ? joined(norm, {at(name::loss)}) : norm, norm);
  compute(operation_kind::update, joined(norm, of_buckets(name::gradients)),
          of_buckets(name::parameters));
}

PLAIT_DECL void program_writer::sum_loss() {
  add_rows(exchange_place::loss, {at(name::loss)});
  if (plan_.slices > 0) compute(operation_kind::total, {at(name::loss)}, {at(name::loss)});
}

PLAIT_DECL void program_writer::gather_output(buffers const& made, int microbatch, bool measured) {
  buffers const to{at(name::outputs, measured ? 0 : microbatch)};
  program_operation of{.microbatch = microbatch};
  bool is_moved = false;
  for (std::size_t i = 0; i < list_.size(); ++i)
    if (list_[i].place == exchange_place::output) is_moved = add_row(i, of, made, to) || is_moved;
  of.what = operation_kind::take;
  if (!is_moved) add(of, stream::compute, made, to);
  if (!measured) return;
  of.what = operation_kind::measure;
  add(of, stream::compute, to, {});
  out_.touched.back().host_waits = true;
}

PLAIT_DECL void program_writer::bring_for_export(int unit, bool gradients) {
  if (plan_.stage_of(unit) != stage_) return;
  for (int const region :
       {parameter_layout::over_batch, parameter_layout::over_tensor, parameter_layout::frozen}) {
    if (!plan_.exports_blocks(region, gradients)) continue;
    for (int const number : uses_.of(unit, region, units_use::summed)) {
      if (std::exchange(exported_[std::size_t(region)], number) == number) continue;
      buffers const state{at(name::state)}, room{at(name::gathered, region)};
      program_operation made{.what = operation_kind::bring, .bucket = number};
      add(made, stream::compute, state, room);
      made.what = operation_kind::row;
      add_rows_of_bucket(exchange_place::blocks, made, room);
    }
  }
}

PLAIT_DECL void program_writer::add_tensor(program_operation of, int owner, bool gradients) {
  int const region = parameters_.entries[std::size_t(of.entry)].region;
  buffers const state{plan_.exports_blocks(region, gradients) ? at(name::gathered, region)
                                                              : at(name::state)};
  buffers const tensor{at(name::tensor)};
  auto const add_rows_of = [&](bool message, buffers const& reads) {
    bool any = false;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      auto const& row = list_[i];
      if (row.place == exchange_place::parameter && row.entry == of.entry &&
          row.from.stage() == owner && (row.row().moves == collective::send) == message)
        any = add_row(i, of, reads, tensor) || any;
    }
    return any;
  };
  if (stage_ == owner && !add_rows_of(false, state)) {
    auto taken = of;
    taken.what = operation_kind::take;
    add(taken, stream::compute, state, tensor);
  }
  add_rows_of(true, tensor);
  if (stage_ != 0) return;
  of.what = operation_kind::read;
  add(of, stream::compute, tensor, {});
  out_.touched.back().host_waits = true;
}

}  // namespace plait::planning
