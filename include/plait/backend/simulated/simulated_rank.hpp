// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/host/host_device.hpp"
#include "plait/backend/host/host_workspace.hpp"
#include "plait/backend/simulated/shadow_memory.hpp"
#include "plait/backend/simulated/vector_clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/synchronization.hpp"

namespace plait::detail {

// What reports say of an operation.
struct operation_note {
  std::string_view name;
  std::string_view mark;
  std::uint32_t sequence = 0;  // its place among all that the rank has enqueued
};

class simulated_operation;

// What a stream's queue holds.
struct stream_operation_item {
  operation_note note;
  std::function<void(simulated_operation&)> work;
};
struct stream_call_item {  // a call that waits for other ranks
  operation_note note;
  int group = 0;
  collective_call call;
  void (*carry_out)(std::span<collective_call const>) = nullptr;
};
struct stream_record_item {};
struct stream_wait_item {
  stream awaited = stream::compute;
  std::uint64_t number = 0;  // of the record, 1 for the first of its stream
};
using stream_item =
    std::variant<stream_operation_item, stream_call_item, stream_record_item, stream_wait_item>;

// One rank's device: its queues of what has been enqueued and not yet executed, and its memory.
//
// Threads: the rank's own thread while it runs, the one that executes while all ranks wait.
class simulated_rank {
 public:
  simulated_rank(int number, int ranks, std::optional<wait_site> const& without)
      : number_(number), without_(without) {
    for (auto& queue : queues_)
      queue.clock = vector_clock(static_cast<std::size_t>(ranks) * shadow_memory::streams);
  }

  simulated_rank(simulated_rank const&) = delete;
  simulated_rank& operator=(simulated_rank const&) = delete;

  [[nodiscard]] int number() const { return number_; }

  // --- while the rank's thread runs ---

  void enqueue(stream on, std::string_view name, std::function<void(simulated_operation&)> work) {
    queue(on).items.emplace_back(stream_operation_item{note_of(name), std::move(work)});
    ++pending_;
  }

  void meet(stream on, int group, collective_call const& call,
            void (*carry_out)(std::span<collective_call const>)) {
    queue(on).items.emplace_back(
        stream_call_item{note_of(to_string(call.kind)), group, call, carry_out});
    ++pending_;
  }

  std::uint64_t record(stream on) {
    queue(on).items.emplace_back(stream_record_item{});
    ++pending_;
    return ++queue(on).records_enqueued;
  }

  void wait(stream on, stream awaited, std::uint64_t number, wait_site site) {
    // Nothing to wait for: never recorded, in order anyway, or over since the last synchronize().
    if (number <= queue(awaited).records_forgotten || on == awaited) return;
    sites_.insert(site);
    if (site == without_) return;
    queue(on).items.emplace_back(stream_wait_item{awaited, number});
    ++pending_;
  }

  // Memory is given back when nobody holds it and every operation on it is over.
  std::shared_ptr<host_device::arena const> allocate(std::size_t bytes) {
    auto block = std::make_shared<host_device::arena const>(bytes);
    if (bytes == 0) return block;
    std::memset(block->data(), poison, bytes);
    shadow_.add(address_of(block->data()), bytes, static_cast<int>(arenas_++));
    blocks_.push_back(block);
    return block;
  }

  // Names what is enqueued from now on; returns the name before.
  std::string_view mark(std::string_view name) {
    auto const found = marks_.find(name);
    std::string_view const kept = found != marks_.end() ? *found : *marks_.emplace(name).first;
    return std::exchange(mark_, kept);
  }
  void restore_mark(std::string_view kept) { mark_ = kept; }

  // --- while all ranks wait ---

  [[nodiscard]] bool is_idle() const { return pending_ == 0; }

  // Carries out records, and waits that are over, at the heads of the queues.
  void settle() {
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

  [[nodiscard]] stream_item const* head(stream on) const {
    auto const& items = queues_[at(on)].items;
    return items.empty() ? nullptr : &items.front();
  }

  [[nodiscard]] vector_clock const& clock(stream on) const { return queues_[at(on)].clock; }
  void join(stream on, vector_clock const& known) { queue(on).clock.join(known); }

  // Gives the operation at the head its number.
  shadow_memory::accessor begin(stream on, operation_note const& note) {
    auto& now = queue(on);
    now.notes.push_back(note);
    shadow_memory::accessor out{.on = at(on), .number = now.clock.tick(own_clock() + at(on))};
    for (std::size_t s = 0; s < out.known.size(); ++s) out.known[s] = now.clock[own_clock() + s];
    ++executed_;
    return out;
  }
  void end(stream on) {
    queue(on).items.pop_front();
    --pending_;
  }

  // The rank's thread knows that all of its streams are empty, and so do all operations to come.
  void synchronize() {
    auto known = queues_[0].clock;
    for (auto const& now : queues_) known.join(now.clock);
    synchronize_with(known);
  }
  void synchronize_with(vector_clock const& known) {
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

  [[nodiscard]] shadow_memory& shadow() { return shadow_; }
  // What kernels work in.
  [[nodiscard]] host_workspace& workspace() { return workspace_; }
  [[nodiscard]] std::set<wait_site> const& sites() const { return sites_; }
  [[nodiscard]] std::uint64_t executed() const { return executed_; }

  // The thread has left its program, so host memory that it named may be gone.
  void leave() { has_left_ = true; }
  [[nodiscard]] bool has_left() const { return has_left_; }

  static constexpr int poison = 0xff;

  static shadow_memory::address address_of(void const* data) {
    return reinterpret_cast<shadow_memory::address>(data);
  }

  // True if the operation found was enqueued before `by`.
  [[nodiscard]] bool came_before(shadow_memory::finding const& found,
                                 shadow_memory::accessor const& by) const {
    return note(found.on, found.number).sequence < note(by.on, by.number).sequence;
  }

  [[nodiscard]] [[gnu::cold]] std::string race_text(shadow_memory::accessor const& by, bool writes,
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

  [[nodiscard]] [[gnu::cold]] std::string undefined_text(
      shadow_memory::accessor const& by, shadow_memory::finding const& found) const {
    return concat({"undefined values on ", place(found), describe(by.on, by.number),
                   " reads what nobody has written", left_out()});
  }

  [[nodiscard]] [[gnu::cold]] std::string foreign_text(shadow_memory::accessor const& by,
                                                       shadow_memory::finding const& found) const {
    return concat(
        {"rank ", number_, ": ", describe(by.on, by.number), " touches ", found.end - found.begin,
         " bytes that are not in an arena of this rank's device; allocate() them there and "
         "upload() what they hold"});
  }

  [[nodiscard]] [[gnu::cold]] std::string failure_text(shadow_memory::accessor const& by,
                                                       std::string const& what) const {
    return concat({"rank ", number_, ": ", describe(by.on, by.number), ": ", what});
  }

 private:
  struct queue_state {
    std::deque<stream_item> items;
    vector_clock clock;  // what the next operation knows
    std::vector<operation_note> notes;
    std::uint32_t notes_forgotten = 0;
    std::vector<vector_clock> records;
    std::uint64_t records_enqueued = 0;
    std::uint64_t records_forgotten = 0;  // all of these are known to be over
  };

  static std::size_t at(stream on) { return static_cast<std::size_t>(on); }
  [[nodiscard]] queue_state& queue(stream on) { return queues_[at(on)]; }
  [[nodiscard]] std::size_t own_clock() const {
    return static_cast<std::size_t>(number_) * shadow_memory::streams;
  }

  operation_note note_of(std::string_view name) { return {name, mark_, ++sequence_}; }

  [[nodiscard]] operation_note const& note(std::size_t on, std::uint32_t number) const {
    return queues_[on].notes[number - queues_[on].notes_forgotten - 1];
  }

  // True if the head of the queue is done with.
  bool settle_head(queue_state& now) {
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

  // "matmul (h.0.mlp forward) on stream compute"
  [[nodiscard]] std::string describe(std::size_t on, std::uint32_t number) const {
    auto const& what = note(on, number);
    std::string out(what.name);
    if (!what.mark.empty()) out.append(" (").append(what.mark).append(")");
    return out.append(" on stream ").append(ext::to_string(static_cast<stream>(on)));
  }

  // "rank 0, bytes [0, 64) of arena 2: "
  [[nodiscard]] std::string place(shadow_memory::finding const& found) const {
    auto const arena = shadow_.find(found.begin, found.end);
    return concat({"rank ", number_, ", bytes [", found.begin - arena->first, ", ",
                   found.end - arena->first, ") of arena ", arena->second.number, ": "});
  }

  [[nodiscard]] std::string left_out() const {
    return without_ ? concat({" (left out: ", to_string(*without_), ")"}) : "";
  }

  int number_;
  std::optional<wait_site> without_;
  std::array<queue_state, shadow_memory::streams> queues_;
  std::size_t pending_ = 0;
  std::uint32_t sequence_ = 0;
  std::uint64_t executed_ = 0;
  shadow_memory shadow_;
  host_workspace workspace_;
  std::vector<std::shared_ptr<host_device::arena const>> blocks_;
  std::size_t arenas_ = 0;
  std::set<std::string, std::less<>> marks_;
  std::string_view mark_;
  std::set<wait_site> sites_;
  bool has_left_ = false;
};

}  // namespace plait::detail
