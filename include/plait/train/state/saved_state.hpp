// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/function_reference.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/layer/parameter.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"

namespace plait::ext {

/// A tensor of a model's state as a whole, without padding.
struct saved_tensor {
  std::string name;
  parameter_info info{};
};

/// A rectangle of a parameter that a rank saves; its place is in the rank's copy.
struct saved_rectangle {
  std::string name;  ///< of the parameter
  parameter_info info{};
  parameter_rectangle where{};
  bool is_alone = false;  ///< frozen, or a buffer: no state of an optimizer, no average
};

/// The origin of a resumed run: step `step` has taken batch `batch`, each step after it one more.
struct run_origin {
  std::int64_t step = 0;
  std::uint64_t batch = 0;
};

/// The generation of an elastic job in which a trainer is; no id: its ranks do not change.
struct job_generation {
  std::string job_id{};  ///< another one each time that the job is started
  std::int64_t number = 0;
};

/// A source of elements of whole tensors, from which a rank takes a state back.
class state_source {
 public:
  state_source() = default;
  state_source(state_source const&) = delete;
  state_source& operator=(state_source const&) = delete;
  virtual ~state_source() = default;

  /// Returns true if there is such a tensor. import_parameters keeps the parameters that a source
  /// lacks. Tensors of other kinds that a source lacks are reset.
  [[nodiscard]] virtual bool contains(std::string_view name) const;
  /// Returns the number of updates that the optimizer's states of a parameter have seen; nothing:
  /// as many as there were steps.
  [[nodiscard]] virtual std::optional<std::int64_t> age(std::string_view name) const;
  /// Fills `out` with the elements of a rectangle of tensor `name`, row by row, in the type of the
  /// state that asks.
  virtual void read(std::string const& name, parameter_info const& info,
                    parameter_rectangle const& where, void* out) = 0;
};

}  // namespace plait::ext

namespace plait::detail {

/// The name of the setting for the hardware and library that decide on the last bits of results:
/// device::kind of the first rank.
inline constexpr char const* kind_setting = "kind";

}  // namespace plait::detail

namespace plait {

/// The state of a trainer as checkpoints see it, one type for all trainers: it says what a rank
/// saves and how it takes it back. A state is the parameters as the optimizer has them and, for
/// each trained one, the optimizer's states and the averages, if there are any. Each of these is a
/// kind, named by what follows the parameter's name: "" is the parameter itself.
///
/// All ranks of a job together have each element of each kind once: ranks that hold the same share
/// it out. What they take back may have been saved under any other plan.
/// Threads: used by the thread of its rank; what has been copied belongs to the caller.
class saved_state {
 public:
  saved_state() = default;
  saved_state(saved_state const&) = delete;
  saved_state& operator=(saved_state const&) = delete;
  virtual ~saved_state() = default;

  static constexpr std::size_t most_numbers = 64;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int world_size() const = 0;
  /// Up to `most_numbers` of each rank, those of rank r at [r]. Collective.
  ///
  /// Moves: the row of the plan's list by which ranks compare what must be the same.
  [[nodiscard]] virtual std::vector<std::vector<std::uint64_t>> of_all_ranks(
      std::vector<std::uint64_t> numbers) const = 0;

  /// Names and values of what a run must have again to go on as if nothing had been. How many ranks
  /// there are and how they share the work is none of it.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> settings() const = 0;
  /// All tensors of all kinds, of the whole model.
  [[nodiscard]] virtual std::vector<ext::saved_tensor> tensors() const = 0;
  /// Those of the parameters alone.
  [[nodiscard]] virtual std::vector<ext::saved_tensor> parameters() const = 0;
  [[nodiscard]] virtual std::vector<std::string> const& kinds() const = 0;
  /// Bytes of an element: 8 for double, 4 for float, 2 for bfloat16.
  [[nodiscard]] virtual std::size_t element_bytes() const = 0;

  /// The rectangles of all parameters that this rank saves, in the order of the layers.
  [[nodiscard]] virtual std::vector<ext::saved_rectangle> rectangles() const = 0;
  /// Elements of this rank's copy of one kind.
  [[nodiscard]] virtual std::size_t count() const = 0;
  /// Copies this rank's elements of a kind to the host.
  virtual void copy(std::size_t kind, void* to) const = 0;

  /// Restores a kind, the parameters first. A tensor of another kind that the source lacks is
  /// reset, as if training began with the present parameters: the optimizer's states are zeros, and
  /// averages are the parameters. The optimizer's states of a parameter belong together: if the
  /// source lacks one, all of them are reset.
  ///
  /// Errors: what the source throws; the trainer is then of no more use.
  virtual void restore(std::size_t kind, ext::state_source& from) = 0;
  /// Restores the ages of the optimizer's states, after go_on_at: the ages of the source, and 0 for
  /// states that restore() has reset. All ranks call it.
  virtual void restore_ages(ext::state_source const& from) = 0;
  /// Returns the parameters whose states have seen another number of updates than there were steps,
  /// with that number; the same on all ranks.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::int64_t>> ages() const = 0;

  /// Takes the parameters alone, as a start: of each that the source has, this rank's block. Ranks
  /// that have the same block compare it. All ranks call it. What `trainer.import_parameters` says
  /// of elastic jobs, of states and averages, of values that are not finite and of ranks that
  /// differ holds here, too.
  virtual void import_parameters(ext::state_source& from) = 0;

  /// Steps that are done.
  [[nodiscard]] virtual std::int64_t step() const = 0;
  /// The next step is step `from.step` and takes batch `from.batch`; the optimizer's states have
  /// seen as many updates as steps are done. All ranks call it.
  virtual void go_on_at(ext::run_origin const& from) = 0;
  [[nodiscard]] virtual ext::run_origin origin() const = 0;
  /// Whether it comes from the generation before, in an elastic job: then there is nothing to take
  /// back.
  [[nodiscard]] virtual bool is_held() const = 0;
  [[nodiscard]] virtual ext::job_generation generation() const { return {}; }
  /// Ends the generation of an elastic job in which newcomers alone have something wrong:
  /// `wrong(rank, reference)`, the same on all ranks, says how a rank differs from one that has
  /// been accepted, "" if it does not.
  ///
  /// Errors: refused_newcomer, generation_ended.
  virtual void refuse_newcomers(ext::function_reference<std::string(int, int)> wrong) const {
    (void)wrong;
  }
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/train/state/saved_state.ipp"
#endif
