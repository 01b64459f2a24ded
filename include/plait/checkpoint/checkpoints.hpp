// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "plait/checkpoint/checkpoint_folder.hpp"
#include "plait/checkpoint/checkpoint_list.hpp"
#include "plait/checkpoint/manifest.hpp"
#include "plait/checkpoint/manifest_text.hpp"
#include "plait/checkpoint/state_files.hpp"
#include "plait/checkpoint/state_reader.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/saved_state.hpp"

namespace plait {

/// Where checkpoints are and when they are made.
struct checkpoint_options {
  /// All ranks see it; it is made if it is not there.
  std::filesystem::path folder{};
  /// Steps from one checkpoint to the next; 0 makes those alone that `save` asks for.
  std::int64_t every = 0;
  /// How many are kept; older ones are removed when a newer one is complete.
  int keep = 3;
  /// Whether a checkpoint that cannot be written is an error; otherwise training goes on.
  bool required = false;
  /// Whether the bytes of a checkpoint are compared with their CRCs before they are used.
  bool verify = true;
  /// Settings that may be others than in the checkpoint: "schedule", "learning_rate",
  /// "global_batch", ...
  std::vector<std::string> allow{};
  /// Kept in each checkpoint, for the program.
  std::vector<std::byte> extra{};
};

/// Saves what a trainer has, step by step, and goes on from there, under the same plan or any
/// other:
///
///     plait::checkpoints saves(trainer, batches, {.folder = "run", .every = 100});
///     for (auto const& batch : batches.from(saves.resume())) {
///       trainer.step(batch);
///       saves.after_step();
///     }
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
/// Errors: input_error, on all ranks, for a checkpoint of another model or of other settings.
/// Threads: used by the thread of its rank.
class checkpoints {
 public:
  /// Of a trainer and the batches that it is trained on.
  template <class Trainer, class Batches>
  [[gnu::cold]] checkpoints(Trainer& trainer, Batches& batches, checkpoint_options options)
      : checkpoints(trainer.state(), batches.description(), batches.steps_per_epoch(),
                    std::move(options)) {}

  [[gnu::cold]] checkpoints(std::unique_ptr<saved_state> state, batch_description const& batches,
                            std::uint64_t steps_per_epoch, checkpoint_options options)
      : state_(std::move(state)),
        batches_(batches),
        steps_per_epoch_(steps_per_epoch),
        options_(std::move(options)),
        settings_(state_->settings()) {
    if (options_.keep < 1 || options_.every < 0)
      throw input_error("checkpoint_options: .keep is " + std::to_string(options_.keep) +
                        " and .every " + std::to_string(options_.every) +
                        "; at least one checkpoint is kept, and .every is 0 or more");
    add_settings_of_batches();
    copies_.rank = state_->rank();
    copies_.element_bytes = state_->element_bytes();
    copies_.kinds = state_->kinds();
    copies_.rectangles = state_->rectangles();
    copies_.bytes.resize(copies_.kinds.size());
    open_folder();
  }
  checkpoints(checkpoints const&) = delete;
  checkpoints& operator=(checkpoints const&) = delete;
  /// Waits for the checkpoint that is written, unless an exception ends the job.
  ~checkpoints() noexcept(false) {
    if (std::uncaught_exceptions() == exceptions_) finish();
  }

  /// Goes on from the newest complete checkpoint, if there is one. Returns the number of the next
  /// batch: `for (auto const& batch : batches.from(saves.resume()))`.
  ///
  /// Errors: input_error that names the first setting that differs, with both values, and what in
  ///         the checkpoint cannot be read.
  [[gnu::cold]] std::uint64_t resume() {
    finish();
    for (std::uint64_t older = 0;; ++older) {
      std::optional<checkpoint_manifest> manifest;
      auto const step = newest(older);
      if (!step) return next_ = 0;
      auto const folder = options_.folder / detail::checkpoint_name::of(*step);
      on_all("be used", [&] {
        manifest = read_manifest(folder);
        check(*manifest, folder);
      });
      detail::state_reader reader(folder, *manifest, state_->element_bytes());
      if (options_.verify && !is_undamaged(reader)) continue;
      on_all("be read", [&] { restore(reader); });
      state_->go_on_at(manifest->step);
      extra_ = manifest->extra;
      return next_ = next_batch(manifest->samples);
    }
  }

  /// To be called after each step: makes a checkpoint if it is time for one.
  void after_step() {
    ++next_;
    if (saving_) proceed(false);
    if (options_.every > 0 && state_->step() % options_.every == 0) save();
  }

  /// Makes a checkpoint of what the trainer has now, and returns when it is copied.
  [[gnu::cold]] void save() {
    finish();
    std::uint64_t number = 0;
    auto const begin = [&] {
      auto const save = folder_->begin(state_->step());
      number = std::stoull(save.name.substr(save.name.size() - 16), nullptr, 16);
    };
    if (!on_root("be written", begin, &number)) return;
    saving_ = std::make_unique<saving>();
    saving_->at = save_of(number);
    saving_->manifest = manifest_now();
    for (std::size_t kind = 0; kind < copies_.bytes.size(); ++kind) {
      copies_.bytes[kind].resize(state_->count() * copies_.element_bytes);
      state_->copy(kind, copies_.bytes[kind].data());
    }
    run([this] { detail::state_writer(copies_).write(saving_->at.path); });
  }

  /// Waits until no checkpoint is written any more.
  void finish() {
    while (saving_) proceed(true);
  }

  /// Why the last checkpoint that was begun is not there; "" if it is.
  [[nodiscard]] std::string const& problem() const { return problem_; }
  /// `checkpoint_options::extra` of the checkpoint from which the job goes on.
  [[nodiscard]] std::vector<std::byte> const& extra() const { return extra_; }

 private:
  enum class progress : int { running, done, failed };
  /// A checkpoint that is being written.
  struct saving {
    checkpoint_save at;
    checkpoint_manifest manifest;
    bool is_committing = false;
    std::atomic<progress> mine{progress::running};
    std::string problem{};
    std::jthread thread{};
  };

  [[nodiscard]] bool is_root() const { return state_->rank() == 0; }

  /// What the root has begun, for all ranks: `number` is the random part of its name.
  [[nodiscard]] checkpoint_save save_of(std::uint64_t number) const {
    using detail::checkpoint_name;
    auto const name = checkpoint_name::of(state_->step(), checkpoint_name::partial,
                                          checkpoint_name::digits_of(number));
    return {state_->step(), name, options_.folder / name};
  }

  /// Runs work() in the saver's thread.
  template <class Work>
  void run(Work work) {
    saving_->mine = progress::running;
    saving_->thread = std::jthread([now = saving_.get(), work] {
      try {
        work();
        now->mine = progress::done;
      } catch (std::exception const& problem) {
        now->problem = problem.what();
        now->mine = progress::failed;
      }
    });
  }

  /// All ranks learn how far the checkpoint is, and go on with it.
  void proceed(bool waits) {
    if (waits && saving_->thread.joinable()) saving_->thread.join();
    auto const mine = saving_->mine.load();
    auto const all = state_->of_all_ranks(said(static_cast<std::uint64_t>(mine), 0,
                                               mine == progress::failed ? saving_->problem : ""));
    bool is_running = false;
    std::optional<std::size_t> failed;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      is_running = is_running || all[rank][0] == std::uint64_t(progress::running);
      if (all[rank][0] == std::uint64_t(progress::failed) && !failed) failed = rank;
    }
    if (is_running) return;
    if (saving_->thread.joinable()) saving_->thread.join();
    if (failed) return give_up(*failed, text_of(all[*failed]));
    if (saving_->is_committing) {
      problem_ = saving_->problem;
      saving_.reset();
      return;
    }
    saving_->is_committing = true;
    if (is_root())
      run([this] {
        saving_->manifest.blocks = detail::blocks_in(saving_->at.path);
        folder_->commit(saving_->at, saving_->manifest);
        for (auto const& problem :
             folder_->remove_older(saving_->at.step, static_cast<std::size_t>(options_.keep)))
          saving_->problem = problem;
      });
  }

  /// What a rank tells all others: two numbers, and what is wrong.
  [[nodiscard]] static std::vector<std::uint64_t> said(std::uint64_t first, std::uint64_t second,
                                                       std::string text) {
    std::vector<std::uint64_t> out(saved_state::most_numbers);
    std::size_t const room = (out.size() - 2) * sizeof(std::uint64_t);
    if (text.size() > room) text.replace(room - 3, std::string::npos, "...");
    out[0] = first;
    out[1] = second;
    std::memcpy(out.data() + 2, text.data(), text.size());
    return out;
  }
  [[nodiscard]] static std::string text_of(std::vector<std::uint64_t> const& row) {
    std::string text((row.size() - 2) * sizeof(std::uint64_t), '\0');
    std::memcpy(text.data(), row.data() + 2, text.size());
    return text.substr(0, text.find('\0'));
  }

  [[gnu::cold]] void give_up(std::size_t rank, std::string const& why) {
    problem_ = "checkpoint " + detail::path_in_quotes(saving_->at.path) +
               " could not be written by rank " + std::to_string(rank) + ": " + why;
    if (is_root()) folder_->abandon(saving_->at);
    saving_.reset();
    if (options_.required) throw input_error(problem_);
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
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank][0] != 0)
        throw input_error(!mine.empty() ? mine : cannot(what, rank, text_of(all[rank])));
  }
  [[nodiscard]] std::string cannot(char const* what, std::size_t rank,
                                   std::string const& why) const {
    return "checkpoints in " + detail::path_in_quotes(options_.folder) + " cannot " + what +
           " by rank " + std::to_string(rank) + ": " + why;
  }
  /// The root makes the folder and puts something into it; all must see that.
  [[gnu::cold]] void open_folder() {
    std::array<std::byte, 8> const bytes{std::byte{'p'}, std::byte{'l'}, std::byte{'a'}};
    std::string probe;
    std::uint64_t number = 0;
    auto const make = [&] {
      folder_.emplace(options_.folder, settings_.front().second);
      probe = folder_->make_probe(bytes);
      number = std::stoull(probe.substr(probe.size() - 16), nullptr, 16);
    };
    if (!on_root("be used", make, &number)) throw input_error(problem_);
    try {
      on_all("be used", [&] {
        constexpr std::chrono::seconds patience{2};
        if (!sees_probe(options_.folder, checkpoint_folder::probe_name(number), bytes, patience))
          throw input_error("folder of checkpoints " + detail::path_in_quotes(options_.folder) +
                            ": rank " + std::to_string(state_->rank()) +
                            " does not see there what rank 0 has written; give one that all hosts "
                            "share");
      });
    } catch (...) {
      if (folder_) folder_->remove_probe(probe);
      throw;
    }
    if (folder_) folder_->remove_probe(probe);
  }
  /// The same on the root alone. With a number that all ranks are told, failing is no error but
  /// where checkpoints are required.
  template <class Work>
  bool on_root(char const* what, Work work, std::uint64_t* number = nullptr) {
    std::string mine;
    if (is_root()) try {
        work();
      } catch (std::exception const& problem) {
        mine = problem.what();
      }
    auto const all =
        state_->of_all_ranks(said(mine.empty() ? 0 : 1, number == nullptr ? 0 : *number, mine));
    if (number != nullptr) *number = all[0][1];
    if (all[0][0] == 0) return true;
    problem_ = !mine.empty() ? mine : cannot(what, 0, text_of(all[0]));
    if (number == nullptr || options_.required) throw input_error(problem_);
    return false;
  }

  /// The step of the newest complete checkpoint, but for so many.
  [[nodiscard]] std::optional<std::int64_t> newest(std::uint64_t older) {
    std::uint64_t found = 0;  // a step + 1
    bool const is_there = on_root(
        "be listed",
        [&] {
          for (auto const& one : list_checkpoints(options_.folder)) {
            if (!one.complete()) problem_ = one.damage;
            else if (older-- == 0) {
              found = static_cast<std::uint64_t>(one.step) + 1;
              break;
            }
          }
        },
        &found);
    if (!is_there) throw input_error(problem_);
    if (found == 0) return std::nullopt;
    return static_cast<std::int64_t>(found - 1);
  }

  [[gnu::cold]] void check(checkpoint_manifest const& manifest,
                           std::filesystem::path const& folder) const {
    std::vector<std::string_view> const allowed(options_.allow.begin(), options_.allow.end());
    if (auto const found = first_difference(manifest.settings, settings_, allowed))
      throw input_error("checkpoint " + detail::path_in_quotes(folder) + ": " + *found +
                        "; go on with the same, or name it in checkpoint_options::allow");
  }

  [[nodiscard]] bool is_undamaged(detail::state_reader& reader) {
    std::uint64_t damaged = 0;
    try {
      reader.verify(static_cast<std::size_t>(state_->rank()),
                    static_cast<std::size_t>(state_->world_size()));
    } catch (std::exception const& problem) {
      problem_ = problem.what();
      damaged = 1;
    }
    for (auto const& one : state_->of_all_ranks(said(damaged, 0, damaged != 0 ? problem_ : "")))
      if (one[0] != 0) {
        problem_ = text_of(one);
        return false;
      }
    return true;
  }

  void restore(detail::state_reader& reader) {
    for (std::size_t kind = 0; kind < copies_.kinds.size(); ++kind) state_->restore(kind, reader);
  }

  /// Samples that have gone before batch number `next_`: whole epochs, and batches of one.
  [[nodiscard]] std::uint64_t samples_so_far() const {
    return next_ / steps_per_epoch_ * batches_.data_set +
           next_ % steps_per_epoch_ * batches_.samples;
  }
  /// The batch that begins behind so many samples.
  [[nodiscard]] std::uint64_t next_batch(std::uint64_t samples) const {
    auto const& of = batches_;
    std::uint64_t const epoch = samples / of.data_set, rest = samples % of.data_set;
    if (rest % of.samples != 0)
      throw input_error("the checkpoint was made after " + std::to_string(rest) +
                        " samples of an epoch, which are no whole number of global batches of " +
                        std::to_string(of.samples) + " samples");
    return epoch * steps_per_epoch_ + std::min<std::uint64_t>(rest / of.samples, steps_per_epoch_);
  }

  [[gnu::cold]] checkpoint_manifest manifest_now() const {
    checkpoint_manifest out;
    out.step = state_->step();
    out.samples = samples_so_far();
    out.settings = settings_;
    out.job = settings_.front().second;
    out.extra = options_.extra;
    if (!is_root()) return out;
    for (auto const& [name, info] : state_->tensors())
      out.tensors.push_back({name, detail::sizes_of(info, info.rows, info.columns),
                             to_string(detail::type_in_files(copies_.element_bytes))});
    return out;
  }

  [[gnu::cold]] void add_settings_of_batches() {
    auto const& of = batches_;
    settings_.emplace_back("global_batch", std::to_string(of.samples));
    settings_.emplace_back("data_set", std::to_string(of.data_set) + " samples, fingerprint " +
                                           detail::checkpoint_name::digits_of(of.content));
    settings_.emplace_back("order", of.is_shuffled ? "shuffled by seed " + std::to_string(of.seed)
                                                   : std::string("sequential"));
    settings_.emplace_back("last_batch", of.keeps_last ? "keep" : "drop");
  }

  std::unique_ptr<saved_state> state_;
  batch_description batches_;
  std::uint64_t steps_per_epoch_;
  checkpoint_options options_;
  std::vector<std::pair<std::string, std::string>> settings_;
  std::optional<checkpoint_folder> folder_{};  // on the root
  detail::rank_copies copies_{};
  std::unique_ptr<saving> saving_{};
  std::uint64_t next_ = static_cast<std::uint64_t>(state_->step());  // number of the next batch
  std::string problem_{};
  std::vector<std::byte> extra_{};
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace plait
