// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/simulated/simulated_rank.hpp"

#include <cstring>
#include <utility>

#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL simulated_rank::simulated_rank(int number, int ranks,
                                          std::optional<wait_site> const& without)
    : number_(number), without_(without) {
  for (auto& queue : queues_)
    queue.clock = vector_clock(static_cast<std::size_t>(ranks) * shadow_memory::streams);
}

PLAIT_DECL void simulated_rank::enqueue(stream on, std::string_view name,
                                        std::function<void(simulated_operation&)> work) {
  queue(on).items.emplace_back(stream_operation_item{note_of(name), std::move(work)});
  ++pending_;
}

PLAIT_DECL void simulated_rank::meet(stream on, int group, collective_call const& call,
                                     void (*carry_out)(std::span<collective_call const>)) {
  queue(on).items.emplace_back(
      stream_call_item{note_of(to_string(call.kind)), group, call, carry_out});
  ++pending_;
}

PLAIT_DECL std::uint64_t simulated_rank::record(stream on) {
  queue(on).items.emplace_back(stream_record_item{});
  ++pending_;
  return ++queue(on).records_enqueued;
}

PLAIT_DECL void simulated_rank::wait(stream on, stream awaited, std::uint64_t number,
                                     wait_site site) {
  // No wait is needed if the event was never recorded, if both streams are the same, or if the
  // record has been over since the last synchronize().
  if (number <= queue(awaited).records_forgotten || on == awaited) return;
  sites_.insert(site);
  if (site == without_) return;
  queue(on).items.emplace_back(stream_wait_item{awaited, number});
  ++pending_;
}

PLAIT_DECL std::shared_ptr<host_device::arena const> simulated_rank::allocate(std::size_t bytes) {
  auto block = std::make_shared<host_device::arena const>(bytes);
  if (bytes == 0) return block;
  std::memset(block->data(), poison, bytes);
  shadow_.add(address_of(block->data()), bytes, static_cast<int>(arenas_++));
  blocks_.push_back(block);
  return block;
}

PLAIT_DECL std::string_view simulated_rank::mark(std::string_view name) {
  auto const found = marks_.find(name);
  std::string_view const kept = found != marks_.end() ? *found : *marks_.emplace(name).first;
  return std::exchange(mark_, kept);
}

PLAIT_DECL void simulated_rank::settle() {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& now : queues_)
      while (!now.items.empty() && settle_head(now)) {
        now.items.pop_front();
        --pending_;
        moved = true;
      }
  }
}

PLAIT_DECL stream_item const* simulated_rank::head(stream on) const {
  auto const& items = queues_[at(on)].items;
  return items.empty() ? nullptr : &items.front();
}

PLAIT_DECL shadow_memory::accessor simulated_rank::begin(stream on, operation_note const& note) {
  auto& now = queue(on);
  now.notes.push_back(note);
  shadow_memory::accessor out{.on = at(on), .number = now.clock.tick(own_clock() + at(on))};
  for (std::size_t s = 0; s < out.known.size(); ++s) out.known[s] = now.clock[own_clock() + s];
  ++executed_;
  return out;
}

PLAIT_DECL void simulated_rank::end(stream on) {
  queue(on).items.pop_front();
  --pending_;
}

PLAIT_DECL void simulated_rank::synchronize() {
  auto known = queues_[0].clock;
  for (auto const& now : queues_) known.join(now.clock);
  synchronize_with(known);
}

PLAIT_DECL void simulated_rank::synchronize_with(vector_clock const& known) {
  for (std::size_t s = 0; s < queues_.size(); ++s) {
    auto& now = queues_[s];
    now.clock.join(known);
    now.notes.clear();
    now.notes_forgotten = now.clock[own_clock() + s];
    now.records.clear();
    now.records_forgotten = now.records_enqueued;
  }
  std::erase_if(blocks_, [this](auto const& block) {
    if (block.use_count() != 1) return false;
    shadow_.remove(address_of(block->data()));
    return true;
  });
  shadow_.forget_accesses();
}

PLAIT_DECL std::string simulated_rank::race_text(shadow_memory::accessor const& by, bool writes,
                                                 shadow_memory::finding const& found) const {
  auto const first = describe(found.on, found.number);
  auto const second = describe(by.on, by.number);
  auto const verb = [](bool wrote) { return wrote ? " writes them" : " reads them"; };
  bool const in_order = came_before(found, by);
  std::string text =
      concat({place(found), (in_order ? first : second), verb(in_order ? found.wrote : writes),
              ", ", (in_order ? second : first), verb(in_order ? writes : found.wrote),
              ", and nothing orders the two; stream "});
  text += ext::to_string(static_cast<stream>(in_order ? by.on : found.on));
  text += " must wait for stream ";
  text += ext::to_string(static_cast<stream>(in_order ? found.on : by.on));
  text += " after this ";
  text += in_order ? note(found.on, found.number).name : note(by.on, by.number).name;
  return concat({"race on ", text, left_out()});
}

PLAIT_DECL std::string simulated_rank::undefined_text(shadow_memory::accessor const& by,
                                                      shadow_memory::finding const& found) const {
  return concat({"undefined values on ", place(found), describe(by.on, by.number),
                 " reads bytes that were never written", left_out()});
}

PLAIT_DECL std::string simulated_rank::foreign_text(shadow_memory::accessor const& by,
                                                    shadow_memory::finding const& found) const {
  return concat({"rank ", number_, ": ", describe(by.on, by.number), " touches ",
                 found.end - found.begin,
                 " bytes that are not in an arena of this rank's device; allocate() them there and "
                 "upload() their contents"});
}

PLAIT_DECL void simulated_rank::refuse_in_place(char const* operation) const {
  throw input_error({"rank ", number_, ": ", operation,
                     mark_.empty() ? "" : concat({" (", mark_, ")"}),
                     " writes its result over an operand that it still reads: its entry in "
                     "operation/rows.hpp does not contain 'in place'; take may_alias out of the "
                     "layer, or give the operation another buffer for its result"});
}

PLAIT_DECL std::string simulated_rank::failure_text(shadow_memory::accessor const& by,
                                                    std::string const& what) const {
  return concat({"rank ", number_, ": ", describe(by.on, by.number), ": ", what});
}

PLAIT_DECL bool simulated_rank::settle_head(queue_state& now) {
  auto const& head = now.items.front();
  if (std::holds_alternative<stream_record_item>(head)) {
    now.records.push_back(now.clock);
    return true;
  }
  auto const* const waits = std::get_if<stream_wait_item>(&head);
  if (waits == nullptr) return false;
  auto const& other = queue(waits->awaited);
  if (waits->number > other.records_forgotten + other.records.size()) return false;
  now.clock.join(other.records[waits->number - other.records_forgotten - 1]);
  return true;
}

PLAIT_DECL std::string simulated_rank::describe(std::size_t on, std::uint32_t number) const {
  auto const& what = note(on, number);
  std::string out(what.name);
  if (!what.mark.empty()) out.append(" (").append(what.mark).append(")");
  return out.append(" on stream ").append(ext::to_string(static_cast<stream>(on)));
}

PLAIT_DECL std::string simulated_rank::place(shadow_memory::finding const& found) const {
  auto const arena = shadow_.find(found.begin, found.end);
  return concat({"rank ", number_, ", bytes [", found.begin - arena->first, ", ",
                 found.end - arena->first, ") of arena ", arena->second.number, ": "});
}

PLAIT_DECL std::string simulated_rank::left_out() const {
  return without_ ? concat({" (left out: ", to_string(*without_), ")"}) : "";
}

}  // namespace plait::detail
