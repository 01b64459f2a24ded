// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/host/host_device.hpp"
#include "plait/backend/host/host_workspace.hpp"
#include "plait/backend/simulated/shadow_memory.hpp"
#include "plait/backend/simulated/vector_clock.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/schedule/synchronization.hpp"

namespace plait::detail {

// The description of an operation for error texts.
struct operation_note {
  std::string_view name;
  std::string_view mark;
  // Number of the operation among all operations that the rank has enqueued.
  std::uint32_t sequence = 0;
};

class simulated_operation;

// The items of a stream's queue: an operation, a call of a communicator, a record of an event, or a
// wait for an event.
struct stream_operation_item {
  operation_note note;
  std::function<void(simulated_operation&)> work;
};
struct stream_call_item {  // a call of a communicator, which waits for the calls of other ranks
  operation_note note;
  int group = 0;
  collective_call call;
  void (*carry_out)(std::span<collective_call const>) = nullptr;
};
struct stream_record_item {};
struct stream_wait_item {
  stream awaited = stream::compute;
  // Number of the awaited record among the records of stream `awaited`, from 1 on.
  std::uint64_t number = 0;
};
using stream_item =
    std::variant<stream_operation_item, stream_call_item, stream_record_item, stream_wait_item>;

// The device of one rank: the queues of its streams, with operations that have not been executed
// yet, and its memory.
//
// Threads: used by the rank's own thread while that thread runs, and by the thread that executes
//          operations while all ranks wait.
class simulated_rank {
 public:
  simulated_rank(int number, int ranks, std::optional<wait_site> const& without);

  simulated_rank(simulated_rank const&) = delete;
  simulated_rank& operator=(simulated_rank const&) = delete;

  [[nodiscard]] int number() const { return number_; }

  // --- while the rank's thread runs ---

  void enqueue(stream on, std::string_view name, std::function<void(simulated_operation&)> work);

  void meet(stream on, int group, collective_call const& call,
            void (*carry_out)(std::span<collective_call const>));

  std::uint64_t record(stream on);

  void wait(stream on, stream awaited, std::uint64_t number, wait_site site);

  // Returns memory, which is freed when it has no owner and all queued operations have been
  // executed.
  std::shared_ptr<host_device::arena const> allocate(std::size_t bytes);

  // Sets the name of operations that are enqueued from now on; returns the previous name.
  std::string_view mark(std::string_view name);
  void restore_mark(std::string_view kept) { mark_ = kept; }

  // --- while all ranks wait ---

  [[nodiscard]] bool is_idle() const { return pending_ == 0; }

  // Removes records, and waits that are over, from the heads of the queues.
  void settle();

  [[nodiscard]] stream_item const* head(stream on) const;

  [[nodiscard]] vector_clock const& clock(stream on) const { return queues_[at(on)].clock; }
  void join(stream on, vector_clock const& known) { queue(on).clock.join(known); }

  // Begins the operation at the head of a stream's queue: gives it a number, and returns it with
  // the operations that it knows to have ended.
  shadow_memory::accessor begin(stream on, operation_note const& note);
  void end(stream on);

  // Notes that all streams of the rank are empty, and that the rank's thread and every later
  // operation know this.
  void synchronize();
  void synchronize_with(vector_clock const& known);

  [[nodiscard]] shadow_memory& shadow() { return shadow_; }
  // The scratch memory of kernels.
  [[nodiscard]] host_workspace& workspace() { return workspace_; }
  [[nodiscard]] std::set<wait_site> const& sites() const { return sites_; }
  [[nodiscard]] std::uint64_t executed() const { return executed_; }

  // Notes that the rank's program has ended, so host memory that queued operations refer to may
  // have been freed.
  void leave() { has_left_ = true; }
  [[nodiscard]] bool has_left() const { return has_left_; }

  static constexpr int poison = 0xff;

  static shadow_memory::address address_of(void const* data) {
    return reinterpret_cast<shadow_memory::address>(data);
  }

  // Returns true if the rank enqueued the operation that `found` names before operation `by`.
  [[nodiscard]] bool came_before(shadow_memory::finding const& found,
                                 shadow_memory::accessor const& by) const {
    return note(found.on, found.number).sequence < note(by.on, by.number).sequence;
  }

  [[nodiscard]] [[gnu::cold]] std::string race_text(shadow_memory::accessor const& by, bool writes,
                                                    shadow_memory::finding const& found) const;

  [[nodiscard]] [[gnu::cold]] std::string undefined_text(shadow_memory::accessor const& by,
                                                         shadow_memory::finding const& found) const;

  [[nodiscard]] [[gnu::cold]] std::string foreign_text(shadow_memory::accessor const& by,
                                                       shadow_memory::finding const& found) const;

  // Throws input_error: a result of the operation overlaps an operand, which the operation does not
  // allow.
  [[noreturn]] [[gnu::cold]] void refuse_in_place(char const* operation) const;
  [[nodiscard]] [[gnu::cold]] std::string failure_text(shadow_memory::accessor const& by,
                                                       std::string const& what) const;

 private:
  struct queue_state {
    std::deque<stream_item> items;
    vector_clock
        clock;  // operations that have ended for certain before the stream's next operation
    std::vector<operation_note> notes;
    std::uint32_t notes_forgotten = 0;
    std::vector<vector_clock> records;
    std::uint64_t records_enqueued = 0;
    // The number of records, counted from the first, that are known to be over and are no longer
    // stored.
    std::uint64_t records_forgotten = 0;
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

  // Returns true if the item at the head of a queue is a record, or a wait that is over; such items
  // need no execution.
  bool settle_head(queue_state& now);

  // Returns text such as "matmul (h.0.mlp forward) on stream compute".
  [[nodiscard]] std::string describe(std::size_t on, std::uint32_t number) const;

  // Returns text such as "rank 0, bytes [0, 64) of arena 2: ".
  [[nodiscard]] std::string place(shadow_memory::finding const& found) const;

  [[nodiscard]] std::string left_out() const;

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

#if PLAIT_HEADER_ONLY
#include "plait/backend/simulated/simulated_rank.ipp"
#endif
