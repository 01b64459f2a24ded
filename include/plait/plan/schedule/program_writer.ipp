// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/schedule/program_writer.hpp"

#include <algorithm>

namespace plait::planning {

PLAIT_DECL program_writer::program_writer(plan_ir const& plan, lean_vector<transfer> const& list,
                                          int stage, parameter_layout const& parameters,
                                          stage_program const* passes, placed_passes const& places)
    : row_writer(plan, list, stage, parameters),
      passes_(passes),
      places_(places),
      is_done_(std::size_t(plan.unit_count()), false),
      is_reduced_(std::size_t(buckets()), false),
      has_begun_(std::size_t(plan.chunks), false),
      has_run_(std::size_t(plan.chunks), false),
      uses_(plan.bucket_uses_of(parameters)),
      record_(plan.items, plan.recomputes),
      scatter_room_(parameters, parameters.gradients_at.room) {
  span_ = std::max({plan.unit_count(), buckets() + int(parameters.frozen_buckets.size()), 4}) + 1;
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

PLAIT_DECL void program_writer::write(job_part part, program_shape const& shape) {
  part_ = part;
  shape_ = shape;
  switch (part) {
    case job_part::set_up: host_ = {at(name::numbers)}; break;
    case job_part::training: host_ = {at(name::labels), at(name::loss)}; break;
    case job_part::evaluation:
      host_ = {at(name::labels), at(name::loss)};
      for (auto const& row : list_) measures_ = measures_ || row.place == transfer_place::measures;
      break;
    case job_part::prediction:  // all stages, because outputs are sent to all of them
      for (auto const& now : passes_->operations)
        if (now.kind == work::forward) host_.push_back(at(name::outputs, now.microbatch));
      break;
    case job_part::export_parameters:
    case job_part::export_gradients:
    case job_part::state_transfer: host_ = {at(name::state)}; break;
    case job_part::common_update: host_ = joined({at(name::numbers)}, all_gradients()); break;
  }
  order_of_part(*this, part, shape);
}

PLAIT_DECL void program_writer::write_rows(transfer_place place, name touched) {
  host_ = {at(touched)};
  compute(operation_kind::send);
  add_rows(place, host_);
  compute(operation_kind::read);
}

PLAIT_DECL void program_writer::write_reduction() {
  host_ = all_gradients();
  compute(operation_kind::send);
  order_of_reduction(*this);
  compute(operation_kind::read);
}

PLAIT_DECL void program_writer::write_pending(program_shape const& shape) {
  shape_ = shape;
  host_ = joined(of_buckets(name::pending), {at(name::norm_partials)});
  order_of_pending(*this, shape);
}

PLAIT_DECL void program_writer::compute(operation_kind what) {
  buffers const labels{at(name::labels)}, loss{at(name::loss)}, norm{at(name::norm_partials)};
  switch (what) {
    case operation_kind::send:
      compute(what, {}, host_);
      // An export reads the results of earlier work on stream::compute, so the host first waits for
      // this work.
      if (part_ == job_part::export_parameters || part_ == job_part::export_gradients)
        out_.touched.back().host_waits = true;
      return;
    case operation_kind::scale: return compute(what, labels, {at(name::scale)});
    case operation_kind::clear:
      if (plan_.slices > 0) compute(what, {}, all_gradients());
      return;
    case operation_kind::mask: return compute(what, {}, loss);
    case operation_kind::total:
      if (plan_.slices > 0) compute(what, loss, loss);
      return;
    case operation_kind::square: return compute(what, of_buckets(applied()), norm);
    case operation_kind::clip:
      return compute(what, shape_.checks_loss ? joined(norm, loss) : norm, norm);
    case operation_kind::update:
      return compute(what, joined(norm, of_buckets(applied())), of_buckets(name::parameters));
    case operation_kind::hand_over:
      return compute(what, of_buckets(name::gradients), of_buckets(name::pending));
    case operation_kind::read: return compute(what, host_, {});
    case operation_kind::accumulate: return accumulate();
    case operation_kind::row:
    case operation_kind::copy_block:
    case operation_kind::forward:
    case operation_kind::recompute:
    case operation_kind::backward:
    case operation_kind::backward_input:
    case operation_kind::backward_parameters:
    case operation_kind::measure:
    case operation_kind::add:
    case operation_kind::take: refuse_operation(what, "a step without units");
  }
}

PLAIT_DECL void program_writer::rows(transfer_place place) {
  switch (place) {
    case transfer_place::labels: return add_rows(place, {at(name::labels)});
    case transfer_place::slices: return add_rows(place, all_gradients());
    case transfer_place::loss: return add_rows(place, {at(name::loss)});
    case transfer_place::norm_partials: return add_rows(place, {at(name::norm_partials)});
    case transfer_place::measures: return;  // program_of_rows makes a program of its own for them
    case transfer_place::consistency:
    case transfer_place::rank_outputs:
    case transfer_place::outputs:
    case transfer_place::state:
    case transfer_place::replica_numbers: return add_rows(place, host_);
    case transfer_place::differences: return add_rows(place, all_gradients());
    case transfer_place::gather_parameters:
    case transfer_place::parameters:
    case transfer_place::forward:
    case transfer_place::recompute:
    case transfer_place::backward:
    case transfer_place::activation_edge:
    case transfer_place::gradient_edge:
    case transfer_place::microbatch_gradients:
    case transfer_place::ties:
    case transfer_place::gradients:
    case transfer_place::output:
    case transfer_place::blocks:
    case transfer_place::parameter: refuse_row(place, "a step without units");
  }
}

PLAIT_DECL void program_writer::gather_parameters(int region) {
  for (int b = 0; b < buckets(); ++b)
    if (bucket_of(b).region == region)
      add_rows_of_bucket(transfer_place::gather_parameters, b, name::parameters);
}

PLAIT_DECL row_writer::buffers program_writer::pieces_of(live_buffer value, int chunk,
                                                         int microbatch) const {
  buffers out;
  auto const range = places_.of(value, chunk, microbatch);
  for (int i = range.first; i < range.end; ++i) out.push_back(at(name::passed, i));
  return out;
}

PLAIT_DECL program_writer::pass program_writer::pass_of(scheduled_work const& now,
                                                        bool is_last_sum) {
  auto const& chunk = plan_.chunks_of(stage_)[now.chunk];
  int const m = now.microbatch, units_here = chunk.end - chunk.begin;
  int const handed_from = chunk_that_ends_at(chunk.begin);
  auto const stash = pieces_of(live_buffer::stash, now.chunk, m);
  auto const input = chunk.begin == 0 ? buffers{} : pieces_of(live_buffer::input, now.chunk, m);
  auto const gradient =
      chunk.end == plan_.unit_count() ? buffers{} : pieces_of(live_buffer::gradient, now.chunk, m);
  pass out{now.kind, chunk};
  out.run = {.chunk = now.chunk, .units = chunk, .microbatch = m};
  out.reads.push_back(at(name::scale));
  auto& writes = out.writes;
  if (now.kind == work::backward_input || now.kind == work::backward_parameters)
    writes = pieces_of(live_buffer::gradient_stash, now.chunk, m);
  // The last reader of a buffer releases the buffer. The release is treated as a write, so it comes
  // after all other reads.
  out.sums = sums_gradients(now.kind);
  out.is_last_sum = is_last_sum;
  if (out.sums) {
    // With slices, operation `clear` has already set the sums to 0.
    out.run.begins = plan_.slices == 0 && !has_begun_[std::size_t(now.chunk)];
    has_begun_[std::size_t(now.chunk)] = true;
  }
  kept_ = joined(stash, input);
  auto& given_back = out.sums ? writes : out.reads;
  given_back = joined(given_back, now.kind == work::forward ? input : kept_);
  if (now.kind == work::backward || now.kind == work::backward_input) {
    writes = joined(writes, gradient);
    if (handed_from >= 0) writes = joined(writes, pieces_of(live_buffer::gradient, handed_from, m));
    for (int i = 0; i < std::min(units_here, 2); ++i) writes.push_back(at(name::made_gradient, i));
  }
  switch (now.kind) {
    case work::forward:
      out.run.what = operation_kind::forward;
      writes = joined(stash, {at(name::loss)});
      break;
    case work::backward: out.run.what = operation_kind::backward; break;
    case work::backward_input: out.run.what = operation_kind::backward_input; break;
    case work::backward_parameters: out.run.what = operation_kind::backward_parameters; break;
    case work::send_activation: out.message = stash; break;
    case work::receive_activation: out.message = input; break;
    case work::send_gradient: out.message = {at(name::made_gradient, (units_here - 1) % 2)}; break;
    case work::receive_gradient: out.message = gradient; break;
  }
  return out;
}

PLAIT_DECL void program_writer::each_pass() {
  auto const& all = passes_->operations;
  for (std::size_t i = 0; i < all.size(); ++i) {
    bool is_last_sum = sums_gradients(all[i].kind);
    for (std::size_t k = i + 1; is_last_sum && k < all.size(); ++k)
      is_last_sum = !sums_gradients(all[k].kind) || all[k].chunk != all[i].chunk;
    auto one = pass_of(all[i], is_last_sum);
    order_of_pass(*this, one);
  }
}

PLAIT_DECL void program_writer::message(transfer_place place, chunk_side side, pass const& now) {
  bool const sends = now.kind == work::send_activation || now.kind == work::send_gradient;
  int const unit = side == chunk_side::end ? now.chunk.end : now.chunk.begin;
  for (std::size_t i = 0; i < list_.size(); ++i)
    if (list_[i].place == place && list_[i].unit == unit && list_[i].is_sent_by(stage_) == sends)
      add_row(i, {.chunk = now.run.chunk, .microbatch = now.run.microbatch},
              sends ? now.message : buffers{}, sends ? buffers{} : now.message);
}

PLAIT_DECL void program_writer::output(pass const& now) {
  bool const is_kept = part_ == job_part::prediction;
  if (now.chunk.end != plan_.unit_count() || (!measures_ && !is_kept)) return;
  buffers const to{at(name::outputs, is_kept ? now.run.microbatch : 0)};
  program_operation of{.microbatch = now.run.microbatch};
  bool is_moved = false;
  for (std::size_t i = 0; i < list_.size(); ++i)
    if (list_[i].place == transfer_place::output) is_moved = add_row(i, of, kept_, to) || is_moved;
  of.what = operation_kind::take;
  if (!is_moved) add(of, stream::compute, kept_, to);
  if (is_kept) return;
  of.what = operation_kind::measure;
  add(of, stream::compute, to, {});
  out_.touched.back().host_waits = true;
}

PLAIT_DECL int program_writer::chunk_that_ends_at(int unit) const {
  auto const chunks = plan_.chunks_of(stage_);
  for (int c = 0; c < chunks.size(); ++c)
    if (chunks[c].end == unit) return c;
  return -1;
}

PLAIT_DECL void program_writer::each_piece(pass& now) {
  bool const forward = now.kind == work::forward;
  bool is_cut = now.sums && scatters();
  for (int b = 0; now.sums && now.is_last_sum && b < buckets(); ++b)
    is_cut = is_cut || goes_early(b);
  // The first forward is cut, so that parameters of later layers are gathered while earlier layers
  // run.
  if (forward && !has_run_[std::size_t(now.run.chunk)])
    is_cut = moves_at(transfer_place::gather_parameters);
  if (forward) has_run_[std::size_t(now.run.chunk)] = true;
  auto const pieces = pieces_of_pass(uses_, now.chunk, gathers(), is_cut);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    auto one = piece_of(now, pieces[forward ? i : pieces.size() - 1 - i]);
    order_of_piece(*this, now.kind, one);
  }
}

PLAIT_DECL program_writer::piece program_writer::piece_of(pass& now, unit_range units) {
  piece out{units, now.run, now.reads, now.writes};
  out.run.units = units;
  out.sums = now.sums;
  out.is_last_sum = now.is_last_sum;
  if (!now.sums) return out;
  out.writes = joined(out.writes, of_units(name::gradients, units));
  for (tied_use use; find_next(use);)
    if (units.contains(use.unit)) out.writes.push_back(at(name::tied_gradients, use.owner));
  if (!scatters()) return out;
  for (int const number : uses_.of(units, 0, units_use::summed)) {
    scatter_room_.put(number, {}, -1, out.room);
    out.run.bucket = number;
    // Later pieces of the pass that have no bucket get this value, too, which no code reads.
    out.run.at_end = now.run.at_end = out.room.at_end;
  }
  if (out.run.bucket >= 0) out.writes = joined(out.writes, ends_of(out.room));
  return out;
}

PLAIT_DECL void program_writer::gather_for(piece& now) {
  if (now.room.takes_all) accumulate();
  if (gathers()) {
    auto const& all = gathers_.gathers;
    auto const gather_up_to = [&](std::size_t& next, std::size_t end) {
      for (; next < end && all[next].before == piece_; ++next) gather_bucket(all[next]);
    };
    gather_up_to(next_gather_, gathers_.trained);
    gather_up_to(next_frozen_, all.size());
    int const ends = gathers_.ends[std::size_t(piece_)];
    now.run.releases = gathers_.releases[std::size_t(piece_++)];
    for (int end = 0; end < 4; ++end) {
      if ((ends >> end & 1) != 0) now.reads.push_back(at(name::gathered, end));
      if ((now.run.releases >> end & 1) != 0) now.writes.push_back(at(name::gathered, end));
    }
  }
  now.reads = joined(parameters_of(now.run.units), now.reads);
  // A device may compute the loss only now, together with its gradient, so the backward writes the
  // loss, too.
  if (now.run.units.end == plan_.unit_count() &&
      (now.run.what == operation_kind::backward || now.run.what == operation_kind::backward_input))
    now.writes.push_back(at(name::loss));
}

PLAIT_DECL void program_writer::forward(piece const& now) {
  record_.pass_forward(now.run.units, now.run.microbatch);
  add(now.run, stream::compute, now.reads, now.writes);
}

PLAIT_DECL void program_writer::each_unit(piece& now) {
  for (int unit = now.units.end - 1; unit >= now.units.begin; --unit)
    order_of_unit(*this, now, unit);
}

PLAIT_DECL void program_writer::recompute(piece& now, int unit) {
  if (!plan_.recomputes.any() || !record_.is_recomputed(unit, now.run.microbatch)) return;
  auto before = now.run;
  before.units.begin = unit + 1, before.releases = 0;  // only the last operation releases buffers
  if (before.units.count() > 0) add(before, stream::compute, now.reads, now.writes);
  now.run.units.end = unit + 1;
  program_operation const made{.what = operation_kind::recompute,
                               .chunk = now.run.chunk,
                               .units = {unit, unit + 1},
                               .microbatch = now.run.microbatch};
  add(made, stream::compute, joined(now.reads, kept_),
      record_.overwrites_output(unit) ? kept_ : buffers{});
}

PLAIT_DECL void program_writer::backward(piece& now, int unit) {
  if (plan_.recomputes.any() && now.run.what != operation_kind::backward_input)
    record_.end_backward(unit);
  if (unit == now.run.units.begin) add(now.run, stream::compute, now.reads, now.writes);
}

PLAIT_DECL void program_writer::gather_bucket(planned_gather const& one) {
  int const first = bucket_of(one.bucket).region == parameter_layout::over_batch ? 0 : 2,
            end = one.at.at_end ? 1 : 0;
  buffers touches{at(name::gathered, first + end)};
  if (one.at.takes_all) touches.push_back(at(name::gathered, first + 1 - end));
  program_operation made{.what = operation_kind::copy_block,
                         .units = bucket_of(one.bucket).units,
                         .bucket = one.bucket,
                         .at_end = one.at.at_end};
  add(made, stream::compute, {at(name::parameters, one.bucket)}, touches);
  made.what = operation_kind::row;
  add_rows_of_bucket(transfer_place::parameters, made, touches);
}

PLAIT_DECL row_writer::buffers program_writer::parameters_of(unit_range units) const {
  auto out = of_units(name::parameters, units);
  for (tied_use use; find_next(use);)
    if (units.contains(use.unit)) out.push_back(at(name::parameters, use.owner));
  return out;
}

PLAIT_DECL row_writer::buffers program_writer::ends_of(staging_place const& room) const {
  buffers out{at(name::scattered, room.at_end ? 1 : 0)};
  if (room.takes_all) out.push_back(at(name::scattered, room.at_end ? 0 : 1));
  return out;
}

PLAIT_DECL void program_writer::ties(piece const& of) {
  auto const& run = of.run;
  bool const has_ties = of.is_last_sum && add_tie_rows(run.bucket);
  add({.what = operation_kind::add,
       .microbatch = run.microbatch,
       .bucket = run.bucket,
       .begins = !of.is_last_sum,
       .at_end = run.at_end},
      stream::compute, has_ties ? buffers{at(name::tied_gradients, run.bucket)} : buffers{},
      ends_of(of.room));
}

PLAIT_DECL void program_writer::gradients(piece const& of) {
  auto const& run = of.run;
  program_operation made{.units = bucket_of(run.bucket).units,
                         .microbatch = run.microbatch,
                         .bucket = run.bucket,
                         .begins = !of.is_last_sum,
                         .at_end = run.at_end};
  add_rows_of_bucket(transfer_place::microbatch_gradients, made, ends_of(of.room));
  made.what = operation_kind::accumulate;
  made.begins = run.begins;
  accumulated_ = {made, of.is_last_sum};
}

PLAIT_DECL void program_writer::accumulate() {
  auto const [made, is_last] = accumulated_;
  if (made.bucket < 0) return;
  accumulated_.made.bucket = -1;
  add(made, stream::compute, {at(name::scattered, made.at_end ? 1 : 0)},
      {at(name::gradients, made.bucket)});
  if (is_last) reduce(made.bucket);
}

PLAIT_DECL bool program_writer::moves_at(transfer_place place, int number) const {
  for (auto const& row : list_)
    if (row.place == place && (number < 0 || row.moves_bucket(number)) &&
        plan_.grid.size(row.row().over) > 1)
      return true;
  return false;
}

PLAIT_DECL bool program_writer::goes_early(int number) const {
  return plan_.has_buckets && !plan_.delays &&
         bucket_of(number).region == parameter_layout::over_batch && !scatters() &&
         moves_at(transfer_place::gradients, number);
}

PLAIT_DECL void program_writer::each_reduced(piece const& now) {
  if (now.run.bucket >= 0) order_of_buckets(*this, now);
  if (!now.is_last_sum) return;
  for (int unit = now.units.begin; unit < now.units.end; ++unit) is_done_[std::size_t(unit)] = true;
  for (int b = buckets() - 1; b >= 0; --b) {
    auto const& one = bucket_of(b);
    if (is_reduced_[std::size_t(b)] || !goes_early(b)) continue;
    bool is_whole = true;
    for (auto const& chunk : plan_.chunks_of(stage_)) {
      auto const here = overlap(chunk, one.units);
      for (int unit = here.begin; unit < here.end; ++unit)
        is_whole = is_whole && is_done_[std::size_t(unit)];
    }
    for (tied_use use; find_next(use);)
      is_whole = is_whole && (use.owner != b || is_done_[std::size_t(use.unit)]);
    if (is_whole) reduce(b);
  }
}

PLAIT_DECL void program_writer::each_reduced() {
  for (int const region : reduced_regions)
    for (int b = buckets() - 1; b >= 0; --b)
      if (bucket_of(b).region == region && !is_reduced_[std::size_t(b)]) reduce(b);
}

PLAIT_DECL void program_writer::reduce(int bucket) {
  is_reduced_[std::size_t(bucket)] = true;
  order_of_buckets(*this, bucket);
}

PLAIT_DECL void program_writer::ties(int bucket) {
  auto const& one = bucket_of(bucket);
  // For such a bucket, the gradients of tied uses have already been added after a piece of the last
  // backward.
  if (scatters() && one.region == parameter_layout::over_batch) return;
  bool const has_ties = add_tie_rows(bucket);
  if (has_ties || has_padding(one))
    add({.what = operation_kind::add, .bucket = bucket}, stream::compute,
        has_ties ? buffers{at(name::tied_gradients, bucket)} : buffers{},
        {at(name::gradients, bucket)});
}

PLAIT_DECL void program_writer::gradients(int bucket) {
  if (!plan_.delays) add_rows_of_bucket(transfer_place::gradients, bucket, name::gradients);
}

PLAIT_DECL void program_writer::pending_gradients() {
  for (int const region : reduced_regions)
    for (int b = buckets() - 1; b >= 0; --b)
      if (bucket_of(b).region == region)
        add_rows_of_bucket(transfer_place::gradients, b, name::pending);
}

PLAIT_DECL bool program_writer::add_tie_rows(int number) {
  buffers const tied{at(name::tied_gradients, number)};
  bool has_ties = false;
  for (tied_use use; find_next(use);) {
    if (use.owner != number) continue;
    has_ties = true;
    for (std::size_t i = 0; i < list_.size(); ++i)
      if (list_[i].place == transfer_place::ties && list_[i].entry == use.entry)
        add_row(i, {}, tied, tied);
  }
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

PLAIT_DECL void program_writer::each_exported() {
  int unit = 0;
  for (int item = 0; item < plan_.items.size(); ++item)
    for (int copy = 0; copy < plan_.items[item].count; ++copy)
      order_of_exported(*this, exported{unit++, item});
}

PLAIT_DECL void program_writer::each_tensor(exported const& of) {
  for (int e = 0; e < plan_.entries.size(); ++e) {
    auto const& entry = plan_.entries[e];
    if (entry.item == of.item && entry.owner < 0 &&
        !(part_ == job_part::export_gradients && !entry.has_gradient()))
      order_of_tensor(*this, program_operation{.units = {of.unit, of.unit + 1}, .entry = e});
  }
}

PLAIT_DECL void program_writer::blocks(exported const& of, int region) {
  if (plan_.stage_of(of.unit) != stage_ ||
      !plan_.exports_blocks(region, part_ == job_part::export_gradients))
    return;
  for (int const number : uses_.of(of.unit, region, units_use::summed)) {
    if (exported_[std::size_t(region)] == number) continue;
    exported_[std::size_t(region)] = number;
    buffers const room{at(name::gathered, region)};
    program_operation made{.what = operation_kind::copy_block, .bucket = number};
    add(made, stream::compute, {at(name::state)}, room);
    made.what = operation_kind::row;
    add_rows_of_bucket(transfer_place::blocks, made, room);
  }
}

PLAIT_DECL bool program_writer::add_rows_of(program_operation const& tensor, bool messages,
                                            buffers const& reads) {
  bool any = false;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    auto const& row = list_[i];
    if (row.place == transfer_place::parameter && row.entry == tensor.entry &&
        row.from.stage() == plan_.stage_of(tensor.units.begin) &&
        (row.row().moves == collective::send) == messages)
      any = add_row(i, tensor, reads, {at(name::tensor)}) || any;
  }
  return any;
}

PLAIT_DECL void program_writer::make_whole(program_operation const& tensor) {
  if (plan_.stage_of(tensor.units.begin) != stage_) return;
  int const region = parameters_.entries[std::size_t(tensor.entry)].region;
  buffers const from{plan_.exports_blocks(region, part_ == job_part::export_gradients)
                         ? at(name::gathered, region)
                         : at(name::state)};
  if (add_rows_of(tensor, false, from)) return;
  auto taken = tensor;
  taken.what = operation_kind::take;
  add(taken, stream::compute, from, {at(name::tensor)});
}

PLAIT_DECL void program_writer::send_to_root(program_operation const& tensor) {
  buffers const from{at(name::tensor)};
  add_rows_of(tensor, true, from);
  if (stage_ != 0) return;
  auto read = tensor;
  read.what = operation_kind::read;
  add(read, stream::compute, from, {});
  out_.touched.back().host_waits = true;
}

}  // namespace plait::planning
