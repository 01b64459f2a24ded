// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/lean_vector.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/plan/exchanges.hpp"
#include "plait/plan/parameter_blocks.hpp"
#include "plait/plan/step_program.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/move.hpp"
#include "plait/run/step_runner.hpp"

namespace plait::execution {

/// A stored parameter in the words of activations, as `move_value` takes it: a matrix that is cut
/// by rows is one long row that is cut by features, so that `parts` mean the same for both.
constexpr placement as_value_placement(parameter_entry const& entry) {
  return is_shard(entry.stored)
             ? placement{placement_kind::shard, dim::features, entry.stored.parts}
             : entry.stored;
}
/// The shape of the whole parameter in the same words.
constexpr whole_shape as_value_shape(parameter_entry const& entry) {
  bool const cut_rows = is_shard(entry.stored) && entry.info.rank == 2 && entry.stored.index == 0;
  return cut_rows ? whole_shape{1, entry.info.count()}
                  : whole_shape{entry.info.rows, entry.info.columns};
}

/// The placements in which a plan stores parameters, each once.
template <class Plan>
inline constexpr auto stored_placements = [] {
  static_vector<placement, Plan::entries.capacity> out;
  for (auto const& entry : Plan::entries)
    if (std::find(out.begin(), out.end(), as_value_placement(entry)) == out.end())
      out.push_back(as_value_placement(entry));
  return out;
}();

/// Calls body.operator()<placement>() for the one in which `entry` is stored.
template <class Plan, class Body>
void with_stored_placement(parameter_entry const& entry, Body body) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    constexpr auto& all = stored_placements<Plan>;
    ((all[int(I)] == as_value_placement(entry) ? body.template operator()<all[int(I)]>() : void()),
     ...);
  }(std::make_index_sequence<std::size_t(stored_placements<Plan>.size())>{});
}

/// What the operations of an export do. `T`: the type of the arena and of what `sink` is given.
template <class Job, class Rank, class Store, class T, class Sink>
class export_work {
  using plan = typename Job::plan_type;
  using element = typename Job::element;
  using arena = typename Rank::device_type::arena;

 public:
  /// Whether tensors are moved between stages or put together, and whether these moves pack them.
  static constexpr bool needs_staging = plan::tensor_ranks > 1;
  static constexpr bool needs_room = needs_staging || plan::stages > 1;

  /// `room` and `staging`: as long as the longest tensor, if there are moves that need them;
  /// `rooms`: of each region, as long as its longest bucket.
  [[gnu::cold]] export_work(Rank& rank, Store const& store, T* trained, bool of_gradients,
                            arena const& room, arena const& staging,
                            std::array<arena, 3> const& rooms, Sink& sink)
      : rank_(rank),
        store_(store),
        trained_(trained),
        of_gradients_(of_gradients),
        room_(room.data()),
        staging_(staging.data()),
        rooms_(rooms),
        sink_(sink),
        tensors_(plan::blocks_of_model(rank.grid())) {}

  void compute(program_operation const& now) {
    // The arenas rest: averages may have changed places with parameters just before.
    if (now.what == operation_kind::send) rank_.device().synchronize();
    if (now.what == operation_kind::bring) bring(now.bucket);
    if (now.what == operation_kind::take) take(now);
    if (now.what == operation_kind::read) read(now);
  }
  void run(exchange_runner<Rank> const& exchanges, program_operation const& now) {
    auto const& row = exchanges.row(now.row);
    if (row.what.place == exchange_place::blocks)
      return with_bucket(now.bucket, [&](auto*, auto* whole) { exchanges.run(now, whole); });
    if (row.moves != collective::send) return take(now);
    with_tensor(now, [&]<class From>(From const*) {
      exchanges.run(now, reinterpret_cast<From*>(room_), tensor_of(now).number);
    });
  }

 private:
  [[nodiscard]] [[gnu::cold]] parameter_block const& tensor_of(program_operation const& now) const {
    int const first = plan::code.items[plan::entries[now.entry].item].first_unit;
    return *std::find_if(tensors_.begin(), tensors_.end(), [&](parameter_block const& one) {
      return one.entry == now.entry && one.copy == now.units.begin - first;
    });
  }
  /// Calls body(arena, room) with those of a bucket: what is frozen is held as layers see it.
  template <class Body>
  void with_bucket(int bucket, Body body) const {
    auto const& layout = store_.layout();
    auto const region = std::size_t(layout.bucket_at(std::size_t(bucket)).region);
    auto* const room = rooms_[region].data();
    if constexpr (plan::has_frozen)
      if (region == parameter_layout::frozen)
        return body(store_.seen(), reinterpret_cast<element*>(room));
    body(trained_, reinterpret_cast<T*>(room));
  }
  /// This rank's block of a bucket to where ranks gather it.
  [[gnu::cold]] void bring(int bucket) {
    auto const block = store_.exported_block(bucket, of_gradients_);
    auto const& whole = store_.layout().bucket_at(std::size_t(bucket));
    brought_[std::size_t(whole.region)] = whole.elements.offset;
    with_bucket(bucket, [&]<class From>(From const* held, From* room) {
      rank_.device()
          .on(stream::compute)
          .copy_bytes(held + block.held.offset, room + block.behind,
                      block.held.count * sizeof(From));
    });
  }
  /// Calls body(values) with where this rank has its block of a tensor: in an arena, or in a bucket
  /// that has been gathered.
  template <class Body>
  void with_tensor(program_operation const& now, Body body) const {
    auto const& layout = store_.layout();
    auto const region = std::size_t(layout.entries[std::size_t(now.entry)].region);
    std::size_t const offset = tensor_of(now).offset;
    auto const call = [&]<class From>(From const* held) {
      if (planning::plan_numbers<plan>.exports_blocks(int(region), of_gradients_))
        return body(reinterpret_cast<From const*>(rooms_[region].data()) +
                    (offset - brought_[region]));
      body(held +
           layout.place_in(of_gradients_ ? layout.gradients_at : layout.parameters_at, offset));
    };
    if constexpr (plan::has_frozen)
      if (plan::entries[now.entry].is_frozen)
        return call(static_cast<element const*>(store_.seen()));
    call(static_cast<T const*>(trained_));
  }

  /// The tensor, whole, into the room, unless it is read from where it lies.
  [[gnu::cold]] void take(program_operation const& now) const {
    if (!needs_room) return;
    auto const& entry = plan::entries[now.entry];
    with_tensor(now, [&]<class From>(From const* held) {
      // No `if constexpr` around what is captured here: cicc of CUDA 13.0 crashes on it.
      with_stored_placement<plan>(entry, [&]<placement Stored>() {
        constexpr bool moves = communicates(transition_between(Stored, invariant).moves);
        move_value<Stored, invariant>(rank_.device().on(moves ? within_layers : stream::compute),
                                      rank_.tensor_group(), as_value_shape(entry), held,
                                      reinterpret_cast<From*>(room_),
                                      reinterpret_cast<From*>(staging_));
      });
    });
  }

  [[gnu::cold]] void read(program_operation const& now) {
    auto& device = rank_.device();
    // The host reads the tensor, and the program counts on it that all ranks of the stage wait.
    if (!rank_.is_root()) return device.synchronize();
    auto const& tensor = tensor_of(now);
    auto const& info = plan::entries[now.entry].info;
    values_.resize(info.count());
    with_tensor(now, [&]<class From>(From const* held) {
      void const* const whole = needs_room ? static_cast<void const*>(room_) : held;
      if constexpr (std::is_same_v<From, T>) {
        device.download(whole, values_.data(), info.count() * sizeof(T));
        device.synchronize();
      } else {
        std::vector<From> rounded(info.count());
        device.download(whole, rounded.data(), info.count() * sizeof(From));
        device.synchronize();
        for (std::size_t i = 0; i < rounded.size(); ++i) values_[i] = static_cast<T>(rounded[i]);
      }
    });
    auto const unpadded = info.unpadded();
    sink_(tensor.name, unpadded, std::span<T const>(values_).first(unpadded.count()));
  }

  Rank& rank_;
  Store const& store_;
  T* trained_;
  bool of_gradients_;
  std::byte *room_, *staging_;
  std::array<arena, 3> const& rooms_;
  std::array<std::size_t, 3> brought_{};  // where in the layout what is in them begins
  Sink& sink_;
  lean_vector<parameter_block> tensors_{};  // of the model
  std::vector<T> values_{};
};

/// Gathers a tensor of each parameter (its value or its gradient) to the root rank and calls
/// sink(name, parameter_info, whole values) there, without padding, in the order of the layers.
/// Collective. `store`: the rank's parameter_store; `trained`: its arena of parameters, or of
/// gradients, which what is frozen does not have.
///
/// Moves:  what the plan's list has for the part: each bucket of which ranks have blocks shard ->
///         invariant over the axes that cut it, each cut parameter shard -> invariant over the
///         tensor axis, each parameter of another stage only<stage> -> only<0> over the stage axis.
/// Memory: the longest bucket of which ranks have blocks; the longest tensor once where there are
///         several stages, twice where there are several tensor ranks, and once on the root's host.
template <class Job, class Rank, class Store, class T, class Sink>
[[gnu::cold]] void export_tensors(Rank& rank, Store const& store, T* trained, bool of_gradients,
                                  Sink sink) {
  using plan = typename Job::plan_type;
  auto const part = of_gradients ? job_part::export_gradients : job_part::export_parameters;
  static_assert(sizeof(T) >= sizeof(typename Job::element));
  std::size_t const longest =
      greatest_at(exchanges_on<plan>(rank, {}, part, true), exchange_place::parameter);
  using work_type = export_work<Job, Rank, Store, T, Sink>;
  auto const room = rank.device().allocate(work_type::needs_room ? longest * sizeof(T) : 0);
  auto const staging = rank.device().allocate(work_type::needs_staging ? longest * sizeof(T) : 0);
  auto const list = exchanges_on<plan>(rank, {}, part);
  step_runner<Rank> program(rank, list, program_of<plan>(rank.grid(), list, rank.stage(), part));
  std::array<typename Rank::device_type::arena, 3> rooms{};
  auto const& layout = store.layout();
  for (int const region : {0, 1, parameter_layout::frozen}) {
    if (!planning::plan_numbers<plan>.exports_blocks(region, of_gradients)) continue;
    std::size_t most = 0;
    for (std::size_t b = 0; b < layout.buckets.size() + layout.frozen_buckets.size(); ++b)
      if (auto const& one = layout.bucket_at(b); one.region == region)
        most = std::max(most, one.elements.count);
    std::size_t const bytes =
        region == parameter_layout::frozen ? sizeof(typename Job::element) : sizeof(T);
    rooms[std::size_t(region)] = rank.device().allocate(most * bytes);
  }
  work_type work(rank, store, trained, of_gradients, room, staging, rooms, sink);
  program.run(work);
  rank.device().synchronize();  // the room is given back
}

}  // namespace plait::execution
