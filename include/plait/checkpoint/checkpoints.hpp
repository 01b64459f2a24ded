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
/// thread of the rank writes the copy while training continues. Every element is written by exactly
/// one rank. All ranks call the same functions in the same order. If `allow` accepts settings that
/// differ, a tensor that the checkpoint lacks starts with the values of a new training.
///
/// Moves:  while a checkpoint is being written, one small all-reduce in each step. From it, all
///         ranks learn at the same step that the checkpoint is complete or has failed.
/// Cost:   host memory for the bytes that this rank saves (`plan::host_bytes`). The step at whose
///         end a checkpoint is saved waits until these bytes are copied and, if the previous
///         checkpoint is still being written, also for that checkpoint.
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
  /// Makes the object that saves the state of a trainer, and the position in the batches on which
  /// the trainer is trained.
  template <class Trainer, class Batches>
  [[gnu::cold]] checkpoints(Trainer& trainer, Batches& batches, checkpoint_options options)
      : checkpoints(trainer.state(), batches.description(), batches.steps_per_epoch(),
                    std::move(options)) {}

  [[gnu::cold]] checkpoints(std::unique_ptr<saved_state> state,
                            ext::batch_description const& batches, std::uint64_t steps_per_epoch,
                            checkpoint_options options);
  checkpoints(checkpoints const&) = delete;
  checkpoints& operator=(checkpoints const&) = delete;
  /// Waits until no checkpoint is being written, unless an exception is ending the job.
  ~checkpoints() noexcept(false) {
    if (std::uncaught_exceptions() == exceptions_) finish();
  }

  /// Resumes from the newest complete checkpoint, if there is one; in an elastic job, ranks that
  /// have already trained resume from the state in their memory. Returns the number of the next
  /// batch: `for (auto const& batch : batches.from(saves.resume()))`.
  ///
  /// Errors: input_error that names the settings that differ, with both values, or the part of the
  ///         checkpoint that cannot be read; also input_error if there are checkpoints and all of
  ///         them are damaged.
  [[gnu::cold]] std::uint64_t resume();

  /// Makes a checkpoint if the number of steps is a multiple of `every`; call this function after
  /// each step. With local_steps<H>, `every` is a multiple of H, and the call returns only when
  /// the checkpoint is complete, because replicas exchange nothing in the steps that follow.
  void after_step();

  /// Makes a checkpoint of the trainer's present state. Returns as soon as the state is copied; the
  /// copy is then written in the background.
  void save() { save_as({}); }

  /// Receives the value of the measure `checkpoint_options::best`; call this function after an
  /// evaluation. `value` must be equal on all ranks, as the results of trainer.evaluate are. If
  /// `value` is better than all earlier values, including values before the run was resumed, the
  /// trainer's present weights replace the best weights, and the result is true.
  ///
  /// Waits first if a checkpoint is still being written.
  /// Errors: input_error, on all ranks, if checkpoint_options::best has no measure, for values that
  ///         differ between ranks, and for a NaN.
  bool after_evaluation(double value);
  /// Returns the complete checkpoint of the best weights so far, including weights from before the
  /// run was resumed.
  [[nodiscard]] std::optional<best_checkpoint> const& best() const { return best_; }

  /// Waits until no checkpoint is being written.
  void finish();

  /// Returns the reason why the last checkpoint that was begun could not be written; "" if it was
  /// written. The root has written the reason to stderr.
  [[nodiscard]] std::string const& problem() const { return problem_; }
  /// Returns a sentence about an older checkpoint that could not be removed after the last
  /// checkpoint; "" if all could be removed.
  [[nodiscard]] std::string const& warning() const { return warning_; }
  /// Returns the checkpoint from which the job was resumed; an empty path if it was not resumed.
  [[nodiscard]] std::filesystem::path const& from() const { return from_; }
  /// Returns the reasons why `resume` has skipped newer checkpoints. Rank 0 has the reasons for all
  /// checkpoints that it has read.
  [[nodiscard]] std::vector<std::string> const& left_out() const { return left_out_; }
  /// Returns true if no step has been trained since the last checkpoint that was begun or from
  /// which the run was resumed.
  [[nodiscard]] bool is_saved() const {
    return state_->step() == std::max<std::int64_t>(last_saved_, 0);
  }
  /// Sets the program's own data that is stored in each later checkpoint. Only the data of rank 0
  /// is stored.
  ///
  /// Errors: input_error for more than 16 MiB.
  void set_extra(std::vector<std::byte> extra);
  /// Returns the program's own data: the value that was set last, with set_extra(), with
  /// checkpoint_options::extra, or with the checkpoint from which the run was resumed.
  [[nodiscard]] std::vector<std::byte> const& extra() const { return extra_; }

 private:
  enum class progress : int { running, done, failed };
  /// A checkpoint that is being written.
  struct saving {
    ext::checkpoint_save at;
    ext::checkpoint_manifest manifest;
    std::optional<double>
        value{};  // the value of the measure; only for a checkpoint of the best weights
    bool is_committing = false;
    std::atomic<progress> mine{progress::running};
    std::string problem{};
    std::jthread thread{};
  };

  [[nodiscard]] bool is_root() const { return state_->rank() == 0; }

  /// Makes a checkpoint. If `value` is given, it is a checkpoint of the best weights, and `value`
  /// is the value of the measure for these weights.
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

  /// Exchanges with the other ranks how far each rank has written its part of the checkpoint, and
  /// begins the next phase of the checkpoint when all ranks are ready for it.
  void proceed();

  /// Encodes the message that a rank sends to all others: two numbers, and the text of its error.
  [[nodiscard]] static std::vector<std::uint64_t> said(std::uint64_t first, std::uint64_t second,
                                                       std::string text);
  [[nodiscard]] static std::string text_of(std::vector<std::uint64_t> const& row);

  [[gnu::cold]] void give_up(std::size_t rank, std::string const& why);
  void say_problem(std::int64_t step) const {
    if (is_root()) detail::say_missing(step, problem_);
  }

  /// Calls work() on each rank. If work() throws on one rank, all ranks throw input_error with its
  /// message. `what`: a name of the work for the message.
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
  /// Looks in the folder for the checkpoint of the best weights, because the run may be resumed,
  /// and stores it in `best_`.
  [[gnu::cold]] void find_best_so_far();
  /// Calls work() on the root only, and returns true on all ranks if work() does not throw. If
  /// work() throws, all ranks throw; but if `name` is given and checkpoints are not required, all
  /// ranks return false. If `name` is given, all ranks receive the root's `*name`.
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
    /// The name of the checkpoint's folder, which differs from the usual name if the checkpoint is
    /// being replaced.
    std::string name{};
  };
  /// Skips the newest `older` checkpoints and returns the newest complete checkpoint among the
  /// others. If checkpoints exist but none can be used, `problem_` has the reason on all ranks; if
  /// no checkpoint exists, `problem_` is empty.
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
  /// Returns the number of samples that all batches before the next batch have used: the samples of
  /// whole epochs and of the batches of the present epoch.
  [[nodiscard]] std::uint64_t samples_so_far() const;
  /// Returns the number of the batch that begins after the first `samples` samples of the training.
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
  // The step of the newest checkpoint in the folder at the time when this object was made.
  std::optional<std::int64_t> found_{};
  std::optional<best_checkpoint> best_{};
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/checkpoints.ipp"
#endif
