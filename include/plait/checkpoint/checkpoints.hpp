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

/// Saves what a trainer has, step by step, and goes on from there, under the same plan or any
/// other.
///
/// A folder with checkpoints in it is gone on with by `resume`; without it, the first step is an
/// error. The last steps are saved by `save` behind the loop.
///
/// A checkpoint knows elements of parameters, not ranks. Each rank copies what it saves at the end
/// of a step, and a thread of its own writes the copy while training goes on; every element is
/// written once. All ranks call the same functions in the same order.
///
/// Moves:  while a checkpoint is written, one small sum a step, by which all ranks learn at the
///         same step that it is complete or has failed.
/// Cost:   on the host, as many bytes as this rank saves, `plan::host_bytes`; the step at whose end
///         it is saved waits until they are copied, and for the checkpoint before if that is still
///         written.
/// A tensor that a checkpoint lacks, where settings may differ, starts as in a new training.
/// Errors: input_error, on all ranks, for a checkpoint of another model or of other settings, for a
///         name in `allow` that no setting has, and where there are checkpoints but none that can
///         be used.
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
  /// Of a trainer and the batches that it is trained on.
  template <class Trainer, class Batches>
  [[gnu::cold]] checkpoints(Trainer& trainer, Batches& batches, checkpoint_options options)
      : checkpoints(trainer.state(), batches.description(), batches.steps_per_epoch(),
                    std::move(options)) {}

  [[gnu::cold]] checkpoints(std::unique_ptr<saved_state> state,
                            ext::batch_description const& batches, std::uint64_t steps_per_epoch,
                            checkpoint_options options);
  checkpoints(checkpoints const&) = delete;
  checkpoints& operator=(checkpoints const&) = delete;
  /// Waits for the checkpoint that is written, unless an exception ends the job.
  ~checkpoints() noexcept(false) {
    if (std::uncaught_exceptions() == exceptions_) finish();
  }

  /// Goes on from the newest complete checkpoint, if there is one; in an elastic job from what the
  /// ranks have, if they have been trained. Returns the number of the next
  /// batch: `for (auto const& batch : batches.from(saves.resume()))`.
  ///
  /// Errors: input_error that names the settings that differ, with both values, and what in the
  ///         checkpoint cannot be read; if there are checkpoints and all are damaged.
  [[gnu::cold]] std::uint64_t resume();

  /// To be called after each step: makes a checkpoint if it is time for one.
  void after_step();

  /// Makes a checkpoint of what the trainer has now, and returns when it is copied.
  void save() { save_as({}); }

  /// To be called after an evaluation with the value of `checkpoint_options::best`, the same on all
  /// ranks, as trainer.evaluate returns it. If it is better than all before, also those of before
  /// the run was gone on with, what the trainer has now becomes the best weights, in the place of
  /// the last ones, and it returns true.
  ///
  /// Waits for a checkpoint that is being written.
  /// Errors: input_error, on all ranks, without such a measure, for values that differ between
  ///         ranks, and for one that is not a number.
  bool after_evaluation(double value);
  /// The best weights that are complete, those of before it was gone on with, too.
  [[nodiscard]] std::optional<best_checkpoint> const& best() const { return best_; }

  /// Waits until no checkpoint is written any more.
  void finish();

  /// Returns why the last checkpoint that was begun is missing; "" if it is not. The root has
  /// written it to stderr.
  [[nodiscard]] std::string const& problem() const { return problem_; }
  /// Of the last one that is there: which older one could not be removed; "" if all could.
  [[nodiscard]] std::string const& warning() const { return warning_; }
  /// The checkpoint from which the job goes on; empty if it began anew.
  [[nodiscard]] std::filesystem::path const& from() const { return from_; }
  /// Why `resume` has left out newer ones; on the first rank, of all that it looked at.
  [[nodiscard]] std::vector<std::string> const& left_out() const { return left_out_; }
  /// Whether nothing has been trained since the last checkpoint that was begun or gone on from.
  [[nodiscard]] bool is_saved() const {
    return state_->step() == std::max<std::int64_t>(last_saved_, 0);
  }
  /// What each checkpoint from now on keeps for the program; that of the first rank counts.
  ///
  /// Errors: input_error if it has more than 16 MiB.
  void set_extra(std::vector<std::byte> extra);
  /// That of the checkpoint from which the job goes on, of checkpoint_options, or set since.
  [[nodiscard]] std::vector<std::byte> const& extra() const { return extra_; }

 private:
  enum class progress : int { running, done, failed };
  /// A checkpoint that is being written.
  struct saving {
    ext::checkpoint_save at;
    ext::checkpoint_manifest manifest;
    std::optional<double> value{};  // of best weights
    bool is_committing = false;
    std::atomic<progress> mine{progress::running};
    std::string problem{};
    std::jthread thread{};
  };

  [[nodiscard]] bool is_root() const { return state_->rank() == 0; }

  /// Makes a checkpoint, or, with the value of their measure, the best weights.
  [[gnu::cold]] void save_as(std::optional<double> value);

  /// Runs work() in the saver's thread.
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
    } catch (std::exception const& problem) {  // no thread is to be had
      fail(problem.what());
    }
  }
  void fail(char const* why);

  /// All ranks learn how far the checkpoint is, and go on with it.
  void proceed();

  /// What a rank tells all others: two numbers, and what is wrong.
  [[nodiscard]] static std::vector<std::uint64_t> said(std::uint64_t first, std::uint64_t second,
                                                       std::string text);
  [[nodiscard]] static std::string text_of(std::vector<std::uint64_t> const& row);

  [[gnu::cold]] void give_up(std::size_t rank, std::string const& why);
  void say_problem(std::int64_t step) const {
    if (is_root()) detail::say_missing(step, problem_);
  }

  /// Calls work() on each rank; what one cannot do is an error on all.
  template <class Work>
  void on_all(char const* what, Work work) {
    std::string mine;
    try {
      work();
    } catch (std::exception const& problem) {
      mine = problem.what();
    }
    auto const all = state_->of_all_ranks(said(mine.empty() ? 0 : 1, 0, mine));
    state_->refuse_newcomers([&](int rank, int) {
      return all[std::size_t(rank)][0] == 0 ? std::string{} : text_of(all[std::size_t(rank)]);
    });
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank][0] != 0)
        throw input_error(!mine.empty() ? mine : cannot(what, rank, text_of(all[rank])));
  }
  [[nodiscard]] std::string cannot(char const* what, std::size_t rank,
                                   std::string const& why) const;
  /// The root makes the folder and puts something into it; all must see that.
  [[gnu::cold]] void open_folder();
  /// The best weights of the run that may be gone on with.
  [[gnu::cold]] void find_best_so_far();
  /// The same on the root alone. With a name that all ranks are told, failing is no error but where
  /// checkpoints are required.
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
    std::string
        name{};  ///< which is another than that of its step where it was about to be replaced
  };
  /// The newest complete checkpoint, but for so many; with none of use `problem_` says on all ranks
  /// why, and is empty if there is none at all.
  ///
  /// Errors: input_error if the folder cannot be listed.
  [[nodiscard]] [[gnu::cold]] std::optional<found_here> newest(std::uint64_t older);

  [[gnu::cold]] void check(ext::checkpoint_manifest const& manifest,
                           std::filesystem::path const& folder) const;

  void refuse_mixed_runs() const;

  [[nodiscard]] bool is_undamaged(detail::state_reader& reader);

  [[gnu::cold]] void compare_options() const;

  /// The number of the next batch: each step takes one.
  [[nodiscard]] std::uint64_t next() const;
  /// Samples that have gone before it: whole epochs, and batches of one.
  [[nodiscard]] std::uint64_t samples_so_far() const;
  /// The batch that begins behind so many samples.
  [[nodiscard]] std::uint64_t next_batch(std::uint64_t samples,
                                         std::filesystem::path const& folder) const;

  [[gnu::cold]] ext::checkpoint_manifest manifest_now() const;

  std::unique_ptr<saved_state> state_;
  ext::batch_description batches_;
  std::uint64_t steps_per_epoch_;
  checkpoint_options options_;
  detail::checkpoint_settings settings_;
  std::optional<ext::checkpoint_folder> folder_{};  // on the root
  detail::rank_copies copies_{};
  std::unique_ptr<saving> saving_{};
  std::string problem_{}, warning_{};
  std::vector<std::string> left_out_{};
  std::vector<std::byte> extra_{};
  std::filesystem::path from_{};
  std::int64_t last_saved_ = -1;
  bool is_new_run_ = !state_->is_held();
  std::optional<std::int64_t> found_{};  // the newest that was there at first
  std::optional<best_checkpoint> best_{};
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/checkpoints.ipp"
#endif
