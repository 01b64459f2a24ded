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

/// A saved_tensor with the index of its kind in saved_state::kinds().
struct tensor_of_state {
  std::string name;
  parameter_info info{};
  std::size_t kind = 0;
};

/// A rectangle of a parameter that a rank saves. The offset in `where` is the rectangle's offset in
/// the copy that saved_state::copy() makes.
struct saved_rectangle {
  std::string name;  ///< the name of the parameter
  parameter_info info{};
  parameter_rectangle where{};
  bool is_alone = false;  ///< true for a frozen parameter or a buffer, which has no optimizer state
                          ///< and no average
  bool is_matrix = false;  ///< true for a matrix that the optimizer updates as a whole; the
                           ///< suffixes of its tensors are saved_state::matrix_kinds()
};

/// The first step of a resumed run, and the batch of this step: step `step` takes batch `batch`,
/// and each later step takes the next batch. If step 1000 takes batch 0 of new data, step 1001
/// takes batch 1.
struct run_origin {
  std::int64_t step = 0;
  std::uint64_t batch = 0;
};

/// The generation of an elastic job to which a trainer belongs. If the id is empty, the job is not
/// elastic: its ranks never change.
struct job_generation {
  std::string job_id{};  ///< an identifier that is new for each start of the job; empty if the job
                         ///< is not elastic
  std::int64_t number = 0;
};

/// A source of saved tensors, such as a checkpoint, from which a rank restores its part of a state.
class state_source {
 public:
  state_source() = default;
  state_source(state_source const&) = delete;
  state_source& operator=(state_source const&) = delete;
  virtual ~state_source() = default;

  /// Returns true if the source has a tensor with this name. If the source lacks a parameter,
  /// import_parameters keeps the present values. If the source lacks a tensor of another kind, such
  /// as an optimizer state, the tensor is reset.
  [[nodiscard]] virtual bool contains(std::string_view name) const;
  /// Returns the number of updates that the optimizer's states of a parameter have had; nullopt
  /// means the number of steps of the run.
  [[nodiscard]] virtual std::optional<std::int64_t> age(std::string_view name) const;
  /// Fills `out` with the elements of a rectangle of tensor `name`, row by row, in the element type
  /// of the parameters that are restored, also for tensors of other kinds.
  virtual void read(std::string const& name, parameter_info const& info,
                    parameter_rectangle const& where, void* out) = 0;
};

}  // namespace plait::ext

namespace plait::detail {

/// The name of the setting that identifies the hardware and the library of the first rank
/// (device::kind), on which the last bits of results depend.
inline constexpr char const* kind_setting = "kind";

}  // namespace plait::detail

namespace plait {

/// The interface through which checkpoints save and restore the state of any trainer. The state
/// consists of the parameters in the optimizer's type and, for each trained parameter, of the
/// optimizer's states and the average, if there are any. Each of these is a kind of tensor and is
/// identified by the suffix of its tensors' names: with AdamW, the tensors of parameter
/// `wte.weight` are `wte.weight` (kind ""), `wte.weight.exp_avg` and `wte.weight.exp_avg_sq`. Under
/// delayed<1> the gradients of the last step, which are not applied yet, are one more kind:
/// `wte.weight.pending_gradient`. Under local_steps<H> the states of replica 1 are named
/// `wte.weight.replica1.exp_avg`, and the outer momentum is one more kind, which replica 0 saves
/// together with the common parameters: `wte.weight.outer_momentum`.
///
/// The ranks of a job together save each element of each kind once. Ranks that hold the same
/// elements divide the elements among themselves, so that each of 4 data ranks writes a quarter. A
/// rank restores rectangles of whole tensors, by name, so a state may have been saved under any
/// other plan.
/// Threads: used by the thread of its rank; copies belong to the caller.
class saved_state {
 public:
  saved_state() = default;
  saved_state(saved_state const&) = delete;
  saved_state& operator=(saved_state const&) = delete;
  virtual ~saved_state() = default;

  static constexpr std::size_t most_numbers = 64;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int world_size() const = 0;
  /// Sends up to `most_numbers` numbers of this rank to all ranks and returns the numbers of all
  /// ranks; [r] has the numbers of rank r. All ranks call this function.
  ///
  /// Moves: the all_reduce by which ranks compare numbers that must be equal.
  [[nodiscard]] virtual std::vector<std::vector<std::uint64_t>> of_all_ranks(
      std::vector<std::uint64_t> numbers) const = 0;

  /// Returns the names and values of the settings that a resumed run must have in common with the
  /// saved run, so that it continues as if the run had not been interrupted. The number of ranks
  /// and the policies are not among these settings.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> settings() const = 0;
  /// Returns the tensors of all kinds for the whole model.
  [[nodiscard]] virtual std::vector<ext::tensor_of_state> tensors() const = 0;
  /// Returns only the tensors of the parameters, for the whole model.
  [[nodiscard]] virtual std::vector<ext::saved_tensor> parameters() const = 0;
  /// Returns the suffixes of the kinds that this rank saves and restores; with replicas, of the
  /// states of its replica.
  [[nodiscard]] virtual std::vector<std::string> const& kinds() const = 0;
  /// Returns the suffixes for matrices that a matrix_optimizer updates as a whole, in the order of
  /// kinds(); after the first, "" means that matrices have no tensor of the kind. Their states have
  /// names of their own, because they mean something else than the states of other parameters.
  [[nodiscard]] virtual std::vector<std::string> const& matrix_kinds() const = 0;
  /// Returns the number of bytes of an element of a kind: 8 for double, 4 for float, 2 for
  /// bfloat16. Only optimizer states may have another type than the parameters.
  [[nodiscard]] virtual std::size_t element_bytes(std::size_t kind) const = 0;

  /// Returns H for a job with local_steps<H>, whose replicas have the same parameters only after a
  /// multiple of H steps; else 1. A state can be saved only then, and only then may a save in
  /// progress communicate.
  [[nodiscard]] virtual int steps_between_saves() const { return 1; }
  /// Completes the tensors of all kinds, such as pending gradients, which ranks first have to
  /// reduce. All ranks call this function before tensors() and copy().
  ///
  /// Errors: error, on all ranks, if replicas have parameters of their own at this step.
  virtual void complete() {}
  /// Returns false if this rank saves no tensors of a kind. With delayed updates, before the first
  /// step, no gradients are pending. With replicas, only replica 0 saves the common parameters.
  [[nodiscard]] virtual bool contains(std::size_t kind) const { return kind < kinds().size(); }

  /// Returns the rectangles of all parameters that this rank saves, in the order of the layers.
  [[nodiscard]] virtual std::vector<ext::saved_rectangle> rectangles() const = 0;
  /// Returns the number of elements of this rank's copy of one kind.
  [[nodiscard]] virtual std::size_t count() const = 0;
  /// Copies the elements of a kind that this rank saves to the host, to the address `to`.
  virtual void copy(std::size_t kind, void* to) const = 0;

  /// Restores the tensors of a kind. The caller restores the parameters first. If the source lacks
  /// a tensor of another kind, the tensor is reset, as if training began with the present
  /// parameters: the optimizer's states become zeros, and averages become the parameters. The
  /// optimizer's states of a parameter belong together: if the source lacks one of them, all of
  /// them are reset.
  ///
  /// Errors: the exceptions of the source; the trainer cannot be used afterwards.
  virtual void restore(std::size_t kind, ext::state_source& from) = 0;
  /// Restores the ages of the optimizer's states: the ages in the source, and 0 for states that
  /// restore() has reset. All ranks call this function after go_on_at.
  virtual void restore_ages(ext::state_source const& from) = 0;
  /// Returns a list of the parameters whose optimizer states have had another number of updates
  /// than there were steps, and this number for each parameter. All ranks return the same list.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::int64_t>> ages() const = 0;

  /// Imports only parameters, for example pretrained weights: this rank's block of each parameter
  /// that the source has. Ranks that have the same block compare hashes of the block. All ranks
  /// call this function. As with `trainer.import_parameters`, the states and averages of imported
  /// parameters are reset. Values that are not finite, or that differ between ranks, are errors. A
  /// later generation of an elastic job imports nothing.
  virtual void import_parameters(ext::state_source& from) = 0;

  /// Returns the number of completed steps.
  [[nodiscard]] virtual std::int64_t step() const = 0;
  /// Makes `from.step` the next step, and `from.batch` the batch of this step. The ages of the
  /// optimizer's states are set to `from.step`. All ranks call this function.
  virtual void go_on_at(ext::run_origin const& from) = 0;
  [[nodiscard]] virtual ext::run_origin origin() const = 0;
  /// Returns true if the state comes from an earlier generation of an elastic job; then there is
  /// nothing to restore.
  [[nodiscard]] virtual bool is_held() const = 0;
  [[nodiscard]] virtual ext::job_generation generation() const { return {}; }
  /// Ends the generation of an elastic job if joining ranks, but no accepted ranks, differ from the
  /// ranks that have trained the job. `wrong(rank, reference)` returns a sentence that describes
  /// the difference between a rank and an accepted rank, or "" if they are equal. It returns the
  /// same text on all ranks.
  ///
  /// Errors: refused_rank, generation_ended.
  virtual void refuse_joining_ranks(ext::function_reference<std::string(int, int)> wrong) const {
    (void)wrong;
  }
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/train/state/saved_state.ipp"
#endif
