// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/function_reference.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/plan/plan_facts.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"
#include "plait/run/move.hpp"
#include "plait/run/step_executor.hpp"
#include "plait/run/transfer_runner.hpp"

namespace plait::execution {

/// Converts the placement in which a parameter is stored to a placement of activations, because
/// `move_value` takes only placements of activations. A matrix that is cut by rows becomes one long
/// row that is cut by features: a (4, 6) matrix in 2 blocks of rows is a (1, 24) row in 2 halves.
/// So `parts` has the same meaning in both placements.
constexpr placement as_value_placement(parameter_entry const& entry) {
  return is_shard(entry.stored)
             ? placement{placement_kind::shard, dim::features, entry.stored.parts}
             : entry.stored;
}
/// Returns the shape of the whole parameter that belongs to the placement as_value_placement().
constexpr whole_shape as_value_shape(parameter_entry const& entry) {
  bool const cut_rows = is_shard(entry.stored) && entry.info.rank == 2 && entry.stored.index == 0;
  return cut_rows ? whole_shape{1, entry.info.count()}
                  : whole_shape{entry.info.rows, entry.info.columns};
}

/// The list of all placements in which a plan stores parameters, without repetitions.
template <class Plan>
inline constexpr auto stored_placements = [] {
  static_vector<placement, Plan::entries.capacity> out;
  for (auto const& entry : Plan::entries)
    if (std::find(out.begin(), out.end(), as_value_placement(entry)) == out.end())
      out.push_back(as_value_placement(entry));
  return out;
}();

/// Calls body.operator()<placement>() with the placement in which `entry` is stored.
template <class Plan, class Body>
void with_stored_placement(parameter_entry const& entry, Body body) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    constexpr auto& all = stored_placements<Plan>;
    ((all[int(I)] == as_value_placement(entry) ? body.template operator()<all[int(I)]>() : void()),
     ...);
  }(std::make_index_sequence<std::size_t(stored_placements<Plan>.size())>{});
}

/// Gathers a whole tensor into the buffer `room` on each tensor rank, from the blocks that the
/// tensor ranks hold at address `held`. If there are several tensor ranks, `staging` is a buffer
/// for packed blocks. Both buffers are as long as the tensor.
template <class Plan, class From, class Rank>
[[gnu::cold]] void make_tensor_whole(Rank& rank, parameter_entry const& entry, From const* held,
                                     std::byte* room, std::byte* staging) {
  // There is no `if constexpr` around the use of the captured names, because cicc of CUDA 13.0
  // would crash.
  with_stored_placement<Plan>(entry, [&]<placement Stored>() {
    constexpr bool moves = communicates(transition_between(Stored, invariant).moves);
    move_value<Stored, invariant>(rank.device().on(moves ? within_layers : stream::compute),
                                  rank.tensor_group(), as_value_shape(entry), held,
                                  reinterpret_cast<From*>(room), reinterpret_cast<From*>(staging));
  });
}
template <class Rank, class From>
using whole_tensor_function = void (*)(Rank& rank, parameter_entry const& entry, From const* held,
                                       std::byte* room, std::byte* staging);

/// The function that an export calls for each tensor.
template <class T>
using tensor_sink = function_reference<void(std::string const& name, parameter_info const& shape,
                                            std::span<T const> values)>;

/// Runs the program of an export, which brings one tensor after the other to the root rank. A
/// tensor may be distributed in three ways: ranks own blocks of its bucket, tensor ranks have
/// blocks of the tensor, and the tensor may be on another pipeline stage. So the program first
/// gathers the bucket (the operation `copy_block` and an entry of the plan's list of transfers). It
/// then gathers the tensor over the tensor ranks (`take`), sends the tensor to the first stage (a
/// transfer) and passes it to the sink (`read`). The buffers (rooms) hold one bucket and one tensor
/// at a time. For a model of 10 GB whose greatest bucket and greatest tensor have 200 MB each, the
/// buffers need a few hundred MB.
///
/// `Store`: the rank's parameter_store; `T`: the type of elements of the arena and of the values
/// for the sink.
template <class Store, class Rank, class T>
class export_work {
  using element = typename Store::element;
  using arena = typename Rank::device_type::arena;

 public:
  /// The arenas and the functions that an export uses. They outlive the export.
  struct parts {
    plan_facts const& plan;
    T* trained;  ///< the arena of parameters, or of gradients
    bool of_gradients;
    whole_tensor_function<Rank, T> make_whole;
    whole_tensor_function<Rank, element> make_frozen_whole;
    tensor_sink<T> sink;
  };

  /// Allocates the buffers: one for the longest tensor, if tensors move between ranks, and one for
  /// the longest bucket of each region of the arena whose buckets are divided into blocks among
  /// ranks.
  [[gnu::cold]] export_work(Rank& rank, Store const& store, parts const& of);

  [[gnu::cold]] void run();

 private:
  void compute(program_operation const& now);
  void transfer(transfer_runner<Rank> const& transfers, program_operation const& now);
  [[nodiscard]] job_part part() const {
    return of_.of_gradients ? job_part::export_gradients : job_part::export_parameters;
  }
  [[nodiscard]] parameter_entry const& entry_of(program_operation const& now) const {
    return of_.plan.numbers.entries[now.entry];
  }
  [[nodiscard]] [[gnu::cold]] parameter_block const& tensor_of(program_operation const& now) const;
  /// Calls body(arena, room) with the arena that contains a bucket and the buffer in which ranks
  /// gather the bucket. Frozen parameters are in the arena that layers see.
  template <class Body>
  void with_bucket(int bucket, Body body) const;
  /// Copies this rank's block of a bucket to the buffer in which ranks gather the bucket.
  [[gnu::cold]] void copy_block(int bucket);
  /// Calls body(values) with the address of this rank's block of a tensor, in an arena or in a
  /// gathered bucket.
  template <class Body>
  void with_tensor(program_operation const& now, Body body) const;

  /// Gathers the whole tensor in `room_`. If there is only one tensor rank and one stage, it does
  /// nothing, because read() then reads the arena directly.
  [[gnu::cold]] void take(program_operation const& now) const;

  [[gnu::cold]] void read(program_operation const& now);

  Rank& rank_;
  Store const& store_;
  parts of_;
  bool needs_staging_, needs_room_;  // true with several tensor ranks; true with several tensor
                                     // ranks or several stages
  arena room_{}, staging_{};
  std::array<arena, 3> rooms_{};            // the gathered bucket of each region
  std::array<std::size_t, 3> brought_{};    // the offset of each gathered bucket in the layout
  lean_vector<parameter_block> tensors_{};  // all tensors of the model
  std::vector<T> values_{};
};

template <class Store, class Rank, class T>
export_work<Store, Rank, T>::export_work(Rank& rank, Store const& store, parts const& of)
    : rank_(rank),
      store_(store),
      of_(of),
      needs_staging_(of.plan.numbers.tensor_ranks > 1),
      needs_room_(needs_staging_ || of.plan.numbers.stages() > 1),
      tensors_(of.plan.blocks_of_model(rank.grid())) {
  std::size_t const longest =
      greatest_at(transfers_on(of.plan, rank, {}, part(), true), transfer_place::parameter);
  room_ = rank.device().allocate(needs_room_ ? longest * sizeof(T) : 0);
  staging_ = rank.device().allocate(needs_staging_ ? longest * sizeof(T) : 0);
  auto const& layout = store.layout();
  for (int const region :
       {parameter_layout::over_batch, parameter_layout::over_tensor, parameter_layout::frozen}) {
    if (!of.plan.numbers.exports_blocks(region, of.of_gradients)) continue;
    std::size_t most = 0;
    for (std::size_t b = 0; b < layout.buckets.size() + layout.frozen_buckets.size(); ++b)
      if (auto const& one = layout.bucket_at(b); one.region == region)
        most = std::max(most, one.elements.count);
    std::size_t const bytes = region == parameter_layout::frozen ? sizeof(element) : sizeof(T);
    rooms_[std::size_t(region)] = rank.device().allocate(most * bytes);
  }
}

template <class Store, class Rank, class T>
void export_work<Store, Rank, T>::run() {
  auto const list = transfers_on(of_.plan, rank_, {}, part());
  plan_ir complete = of_.plan.numbers;
  complete.grid = rank_.grid();
  step_executor<Rank> program(
      rank_, list, make_program_of_rows(complete, list, rank_.stage(), part(), store_.layout()));
  for (auto const& reached : program)
    if (reached.now.row < 0) compute(reached.now);
    else transfer(program.transfers(), reached.now);
  rank_.device().synchronize();  // the caller releases the buffers next
}

template <class Store, class Rank, class T>
void export_work<Store, Rank, T>::compute(program_operation const& now) {
  switch (now.what) {
    // Waits until no stream writes to the arenas, because a swap of parameters and averages may
    // still be running.
    case operation_kind::send: return rank_.device().synchronize();
    case operation_kind::copy_block: return copy_block(now.bucket);
    case operation_kind::take: return take(now);
    case operation_kind::read: return read(now);
    case operation_kind::row:
    case operation_kind::scale:
    case operation_kind::clear:
    case operation_kind::forward:
    case operation_kind::recompute:
    case operation_kind::backward:
    case operation_kind::backward_input:
    case operation_kind::backward_parameters:
    case operation_kind::measure:
    case operation_kind::mask:
    case operation_kind::add:
    case operation_kind::accumulate:
    case operation_kind::total:
    case operation_kind::square:
    case operation_kind::clip:
    case operation_kind::update:
    case operation_kind::hand_over: planning::refuse_operation(now.what, "an export");
  }
}

template <class Store, class Rank, class T>
void export_work<Store, Rank, T>::transfer(transfer_runner<Rank> const& transfers,
                                           program_operation const& now) {
  auto const& row = transfers.row(now.row);
  if (row.what.place == transfer_place::blocks)
    return with_bucket(now.bucket, [&](auto*, auto* whole) { transfers.run(now, whole); });
  if (row.moves != collective::send) return take(now);
  with_tensor(now, [&]<class From>(From const*) {
    transfers.run(now, reinterpret_cast<From*>(room_.data()), tensor_of(now).number);
  });
}

template <class Store, class Rank, class T>
auto export_work<Store, Rank, T>::tensor_of(program_operation const& now) const
    -> parameter_block const& {
  int const first = of_.plan.numbers.items[entry_of(now).item].first_unit;
  return *std::find_if(tensors_.begin(), tensors_.end(), [&](parameter_block const& one) {
    return one.entry == now.entry && one.copy == now.units.begin - first;
  });
}

template <class Store, class Rank, class T>
template <class Body>
void export_work<Store, Rank, T>::with_bucket(int bucket, Body body) const {
  auto const region = std::size_t(store_.layout().bucket_at(std::size_t(bucket)).region);
  auto* const room = rooms_[region].data();
  if (region == parameter_layout::frozen)
    return body(static_cast<element const*>(store_.compute_parameters()),
                reinterpret_cast<element*>(room));
  body(static_cast<T const*>(of_.trained), reinterpret_cast<T*>(room));
}

template <class Store, class Rank, class T>
void export_work<Store, Rank, T>::copy_block(int bucket) {
  auto const block = store_.exported_block(bucket, of_.of_gradients);
  auto const& whole = store_.layout().bucket_at(std::size_t(bucket));
  brought_[std::size_t(whole.region)] = whole.elements.offset;
  with_bucket(bucket, [&]<class From>(From const* held, From* room) {
    rank_.device()
        .on(stream::compute)
        .copy_bytes(held + block.held.offset, room + block.in_bucket,
                    block.held.count * sizeof(From));
  });
}

template <class Store, class Rank, class T>
template <class Body>
void export_work<Store, Rank, T>::with_tensor(program_operation const& now, Body body) const {
  auto const& layout = store_.layout();
  auto const region = std::size_t(layout.entries[std::size_t(now.entry)].region);
  std::size_t const offset = tensor_of(now).offset;
  auto const call = [&]<class From>(From const* held) {
    if (of_.plan.numbers.exports_blocks(int(region), of_.of_gradients))
      return body(reinterpret_cast<From const*>(rooms_[region].data()) +
                  (offset - brought_[region]));
    body(held +
         layout.place_in(of_.of_gradients ? layout.gradients_at : layout.parameters_at, offset));
  };
  if (entry_of(now).is_frozen)
    return call(static_cast<element const*>(store_.compute_parameters()));
  call(static_cast<T const*>(of_.trained));
}

template <class Store, class Rank, class T>
void export_work<Store, Rank, T>::take(program_operation const& now) const {
  if (!needs_room_) return;
  auto const& entry = entry_of(now);
  with_tensor(now, [&]<class From>(From const* held) {
    if constexpr (std::is_same_v<From, T>)
      of_.make_whole(rank_, entry, held, room_.data(), staging_.data());
    else of_.make_frozen_whole(rank_, entry, held, room_.data(), staging_.data());
  });
}

template <class Store, class Rank, class T>
void export_work<Store, Rank, T>::read(program_operation const& now) {
  auto& device = rank_.device();
  // Only the root's host reads the tensor. The other ranks of the stage wait for their devices as
  // well, because the calling program may assume that the work is done on every rank.
  if (!rank_.is_root()) return device.synchronize();
  auto const& tensor = tensor_of(now);
  auto const& info = entry_of(now).info;
  values_.resize(info.count());
  with_tensor(now, [&]<class From>(From const* held) {
    void const* const whole = needs_room_ ? static_cast<void const*>(room_.data()) : held;
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
  of_.sink(tensor.name, unpadded, std::span<T const>(values_).first(unpadded.count()));
}

/// Gathers the values, or the gradients, of all parameters to the root rank, one parameter after
/// the other in the order of the layers. On the root rank it calls sink(name, parameter_info, whole
/// values), without padding. All ranks call this function. `store`: the rank's parameter_store;
/// `trained`: its arena of parameters or of gradients. Frozen parameters are read from
/// `store.compute_parameters()`.
///
/// Moves:  the transfers that the plan lists for an export: for each bucket of which ranks have
///         blocks, shard -> invariant over the axes that cut the bucket; for each cut parameter,
///         shard -> invariant over the tensor axis; for each parameter of another stage,
///         only<stage> -> only<0> over the stage axis.
/// Memory: for each region, the size of the longest bucket of which ranks have blocks; the size of
///         the longest tensor, once if there are several stages or twice if there are several
///         tensor ranks, and once more on the root's host.
template <class Plan, class Store, class Rank, class T>
[[gnu::cold]] void export_tensors(Rank& rank, Store const& store, T* trained, bool of_gradients,
                                  tensor_sink<std::type_identity_t<T>> sink) {
  static_assert(sizeof(T) >= sizeof(typename Store::element));
  export_work<Store, Rank, T>(
      rank, store,
      {.plan = facts_of_plan<Plan>,
       .trained = trained,
       .of_gradients = of_gradients,
       .make_whole = make_tensor_whole<Plan, T, Rank>,
       .make_frozen_whole = make_tensor_whole<Plan, typename Store::element, Rank>,
       .sink = sink})
      .run();
}

}  // namespace plait::execution
