// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plait/checkpoint/best_checkpoint.hpp"
#include "plait/checkpoint/checkpoint_folder.hpp"
#include "plait/checkpoint/checkpoint_options.hpp"
#include "plait/checkpoint/manifest.hpp"
#include "plait/checkpoint/state_files.hpp"
#include "plait/checkpoint/state_reader.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/state/saved_state.hpp"

namespace plait {

/// Saves the state of a trainer every few steps and resumes training from it, under the same plan
/// or any other plan.
///
/// If a folder has checkpoints, a run must call `resume`; without it, the first `after_step`
/// throws. To save the last steps, call `save` after the loop.
///
/// A checkpoint stores whole parameters and does not depend on the number of ranks: a run of 8
/// ranks can be resumed with 4. Each rank copies its part at the end of a step, and a separate
/// thread of the rank writes the copy while training continues. Every element is written once. All
/// ranks call the same functions in the same order. If `allow` accepts other settings, a tensor
/// that the checkpoint lacks starts as in a new training.
///
/// Moves:  while a checkpoint is written, one small all-reduce in each step, by which all ranks
///         learn at the same step that the checkpoint is complete or has failed.
/// Cost:   on the host, as many bytes as this rank saves, `plan::host_bytes`. The step at whose end
///         a checkpoint is saved waits until these bytes are copied, and also for the previous
///         checkpoint if it is still being written.
/// Errors: input_error, on all ranks, for a checkpoint of another model or of other settings, for a
///         name in `allow` that is not a setting, and if none of the existing checkpoints can be
///         used.
/// Threads: used by the thread of its rank.
///
/// Example (tests/reference/names_in_use_test.cpp checkpoints):
///     plait::checkpoints saves(trainer, batches, {.folder = folder, .every = 1});
///     for (auto const& batch : batches.from(saves.resume())) {
///       trainer.step(batch);
///       saves.after_step();
///     }
///     saves.finish();
class checkpoints {
 public:
  /// Makes the object that saves a trainer and the position in the batches on which it is trained.
  template <class Trainer, class Batches>
  [[gnu::cold]] checkpoints(Trainer& trainer, Batches& batches, checkpoint_options options)
      : checkpoints(trainer.state(), batches.description(), batches.steps_per_epoch(),
                    std::move(options)) {}

  [[gnu::cold]] checkpoints(std::unique_ptr<saved_state> state,
                            ext::batch_description const& batches, std::uint64_t steps_per_epoch,
                            checkpoint_options options);
  checkpoints(checkpoints const&) = delete;
  checkpoints& operator=(checkpoints const&) = delete;
  /// Waits for the checkpoint that is being written, unless an exception is ending the job.
  ~checkpoints() noexcept(false) {
    if (std::uncaught_exceptions() == exceptions_) finish();
  }

  /// Resumes from the newest complete checkpoint, if there is one; in an elastic job, ranks that
  /// have already trained resume from the state in their memory. Returns the number of the next
  /// batch: `for (auto const& batch : batches.from(saves.resume()))`.
  ///
  /// Errors: input_error that names the settings that differ, with both values, or the part of the
  ///         checkpoint that cannot be read; also if there are checkpoints and all are damaged.
  [[gnu::cold]] std::uint64_t resume();

  /// Makes a checkpoint if the number of steps is a multiple of `every`; call it after each step.
  void after_step();

  /// Makes a checkpoint of the trainer's present state. Returns when the state is copied, while the
  /// copy is being written.
  void save() { save_as({}); }

  /// Takes the value of `checkpoint_options::best`; call it after an evaluation. `value` is equal
  /// on all ranks, as trainer.evaluate returns it. If `value` is better than all earlier values,
  /// including values before the run was resumed, the trainer's present weights replace the best
  /// weights, and the result is true.
  ///
  /// Waits for a checkpoint that is being written.
  /// Errors: input_error, on all ranks, if checkpoint_options::best has no measure, for values that
  ///         differ between ranks, and for a NaN.
  bool after_evaluation(double value);
  /// The complete checkpoint of the best weights so far, including weights from before the run was
  /// resumed.
  [[nodiscard]] std::optional<best_checkpoint> const& best() const { return best_; }

  /// Waits until no checkpoint is being written.
  void finish();

  /// Returns the reason why the last checkpoint that was begun is missing; "" if it exists. The
  /// root has written the reason to stderr.
  [[nodiscard]] std::string const& problem() const { return problem_; }
  /// Returns a sentence about an older checkpoint that could not be removed after the last
  /// checkpoint; "" if all could.
  [[nodiscard]] std::string const& warning() const { return warning_; }
  /// Returns the checkpoint from which the job was resumed; an empty path if it was not resumed.
  [[nodiscard]] std::filesystem::path const& from() const { return from_; }
  /// Returns the reasons why `resume` has skipped newer checkpoints. Rank 0 has the reasons for all
  /// that it read.
  [[nodiscard]] std::vector<std::string> const& left_out() const { return left_out_; }
  /// Returns true if no step has been trained since the last checkpoint that was begun or from
  /// which the run was resumed.
  [[nodiscard]] bool is_saved() const {
    return state_->step() == std::max<std::int64_t>(last_saved_, 0);
  }
  /// Sets the bytes of the program's own that each later checkpoint stores; rank 0's bytes are
  /// stored.
  ///
  /// Errors: input_error for more than 16 MiB.
  void set_extra(std::vector<std::byte> extra);
  /// The program's own bytes, as last set by set_extra, the resumed checkpoint or
  /// checkpoint_options.
  [[nodiscard]] std::vector<std::byte> const& extra() const { return extra_; }

 private:
  enum class progress : int { running, done, failed };
  /// A checkpoint that is being written.
  struct saving {
    ext::checkpoint_save at;
    ext::checkpoint_manifest manifest;
    std::optional<double> value{};  // the measure's value; only for best weights
    bool is_committing = false;
    std::atomic<progress> mine{progress::running};
    std::string problem{};
    std::jthread thread{};
  };

  [[nodiscard]] bool is_root() const { return state_->rank() == 0; }

  /// Makes a checkpoint; if `value` is given, a checkpoint of the best weights, for which the
  /// measure has this value.
  [[gnu::cold]] void save_as(std::optional<double> value);

  /// Runs work() in the thread that writes checkpoints.
  template <class Work>
  void run(Work work) {
    saving_->mine = progress::running;
    try {
      saving_->thread = std::jthread([now = saving_.get(), work] {
        try {
          work();
          now->mine = progress::done;
        } catch (std::exception const& problem) {
          now->problem = problem.what();
          now->mine = progress::failed;
        }
      });
    } catch (std::exception const& problem) {  // the thread could not be started
      fail(problem.what());
    }
  }
  void fail(char const* why);

  /// Exchanges the state of the checkpoint that is being written with the other ranks, and takes
  /// the next step of its completion.
  void proceed();

  /// Encodes the message that a rank sends to all others: two numbers, and the text of its error.
  [[nodiscard]] static std::vector<std::uint64_t> said(std::uint64_t first, std::uint64_t second,
                                                       std::string text);
  [[nodiscard]] static std::string text_of(std::vector<std::uint64_t> const& row);

  [[gnu::cold]] void give_up(std::size_t rank, std::string const& why);
  void say_problem(std::int64_t step) const {
    if (is_root()) detail::say_missing(step, problem_);
  }

  /// Calls work() on each rank. If it throws on one rank, all ranks throw.
  template <class Work>
  void on_all(char const* what, Work work) {
    std::string mine;
    try {
      work();
    } catch (std::exception const& problem) {
      mine = problem.what();
    }
    auto const all = state_->of_all_ranks(said(mine.empty() ? 0 : 1, 0, mine));
    state_->refuse_joining_ranks([&](int rank, int) {
      return all[std::size_t(rank)][0] == 0 ? std::string{} : text_of(all[std::size_t(rank)]);
    });
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank][0] != 0)
        throw input_error(!mine.empty() ? mine : cannot(what, rank, text_of(all[rank])));
  }
  [[nodiscard]] std::string cannot(char const* what, std::size_t rank,
                                   std::string const& why) const;
  /// Makes the folder and a probe file in it on the root, and checks that all ranks see the file.
  [[gnu::cold]] void open_folder();
  /// Finds the best weights of the run that may be resumed.
  [[gnu::cold]] void find_best_so_far();
  /// Calls work() on the root only. If `name` is given, the other ranks receive the root's name,
  /// and an exception of work() is an error only if checkpoints are required.
  template <class Work>
  bool on_root(char const* what, Work work, std::string* name = nullptr) {
    std::string mine;
    if (is_root()) try {
        work();
      } catch (std::exception const& problem) {
        mine = problem.what();
      }
    bool const has_failed = !mine.empty();
    auto const all = state_->of_all_ranks(
        said(has_failed ? 1 : 0, 0, has_failed || name == nullptr ? mine : *name));
    if (name != nullptr) *name = text_of(all[0]);
    if (all[0][0] == 0) return true;
    problem_ = !mine.empty() ? mine : cannot(what, 0, text_of(all[0]));
    if (name == nullptr || options_.required) throw input_error(problem_);
    return false;
  }

  struct found_here {
    std::int64_t step = 0;
    /// The name of its folder, which is not the usual one for a replaced checkpoint.
    std::string name{};
  };
  /// Returns the newest complete checkpoint after skipping the `older` newest. If checkpoints exist
  /// and none can be used, `problem_` has the reason on all ranks; if none exists, it is empty.
  ///
  /// Errors: input_error if the folder cannot be listed.
  [[nodiscard]] [[gnu::cold]] std::optional<found_here> newest(std::uint64_t older);

  [[gnu::cold]] void check(ext::checkpoint_manifest const& manifest,
                           std::filesystem::path const& folder) const;

  void refuse_mixed_runs() const;

  [[nodiscard]] bool is_undamaged(detail::state_reader& reader);

  [[gnu::cold]] void compare_options() const;

  /// Returns the number of the next batch: each step takes one batch.
  [[nodiscard]] std::uint64_t next() const;
  /// Returns the number of samples before the next batch, in whole epochs and in the batches of the
  /// present epoch.
  [[nodiscard]] std::uint64_t samples_so_far() const;
  /// Returns the number of the batch that begins after `samples` samples.
  [[nodiscard]] std::uint64_t next_batch(std::uint64_t samples,
                                         std::filesystem::path const& folder) const;

  [[gnu::cold]] ext::checkpoint_manifest manifest_now() const;

  std::unique_ptr<saved_state> state_;
  ext::batch_description batches_;
  std::uint64_t steps_per_epoch_;
  checkpoint_options options_;
  detail::checkpoint_settings settings_;
  std::optional<ext::checkpoint_folder> folder_{};  // null except on the root
  detail::rank_copies copies_{};
  std::unique_ptr<saving> saving_{};
  std::string problem_{}, warning_{};
  std::vector<std::string> left_out_{};
  std::vector<std::byte> extra_{};
  std::filesystem::path from_{};
  std::int64_t last_saved_ = -1;
  bool is_new_run_ = !state_->is_held();
  // The step of the newest checkpoint when this object was made.
  std::optional<std::int64_t> found_{};
  std::optional<best_checkpoint> best_{};
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/checkpoints.ipp"
#endif
