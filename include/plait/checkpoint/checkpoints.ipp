// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/checkpoints.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "plait/checkpoint/batch_settings.hpp"
#include "plait/checkpoint/checkpoint_list.hpp"
#include "plait/checkpoint/manifest_text.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/number_range.hpp"
#include "plait/core/quote.hpp"

namespace plait {

PLAIT_DECL checkpoints::checkpoints(std::unique_ptr<saved_state> state,
                                    ext::batch_description const& batches,
                                    std::uint64_t steps_per_epoch, checkpoint_options options)
    : state_(std::move(state)),
      batches_(batches),
      steps_per_epoch_(steps_per_epoch),
      options_(std::move(options)),
      settings_(state_->settings()) {
  detail::require_range("checkpoint_options::keep", options_.keep, number_ranges::at_least_1);
  detail::require_range("checkpoint_options::every", static_cast<double>(options_.every),
                        number_ranges::at_least_0);
  if (int const each = state_->steps_between_saves(); options_.every % each != 0)
    throw input_error({"checkpoint_options::every is ", options_.every, ", but replicas of ",
                       "local_steps<", each, "> have the same parameters only after every ", each,
                       " steps; set .every to a multiple of ", each});
  detail::add_settings_of_batches(settings_, batches_);
  set_extra(std::move(options_.extra));
  copies_.rank = state_->rank();
  copies_.kinds = state_->kinds();
  copies_.matrix_kinds = state_->matrix_kinds();
  for (std::size_t kind = 0; kind < copies_.kinds.size(); ++kind)
    copies_.element_bytes.push_back(state_->element_bytes(kind));
  copies_.rectangles = state_->rectangles();
  copies_.bytes.resize(copies_.kinds.size());
  compare_options();
  open_folder();
}

PLAIT_DECL std::uint64_t checkpoints::resume() {
  finish();
  is_new_run_ = false;
  problem_.clear();
  if (state_->is_held()) return next();
  for (std::uint64_t older = 0;; ++older) {
    std::optional<ext::checkpoint_manifest> manifest;
    auto const found = newest(older);
    if (!found && problem_.empty()) return next();
    if (!found)
      throw input_error(
          {"folder of checkpoints ", detail::path_in_quotes(options_.folder),
           " has checkpoints, but none can be used; to start again, use another folder: ",
           problem_});
    auto const folder = options_.folder / found->name;
    std::uint64_t batch = 0;
    on_all("be used", [&] {
      manifest = ext::read_manifest(folder);
      check(*manifest, folder);
      batch = next_batch(manifest->samples, folder);
    });
    detail::state_reader reader(folder, *manifest, copies_.element_bytes[0]);
    if (options_.verify && !is_undamaged(reader)) {
      left_out_.push_back(std::exchange(problem_, {}));
      continue;
    }
    on_all("be read", [&] {
      for (std::size_t kind = 0; kind < copies_.kinds.size(); ++kind) state_->restore(kind, reader);
    });
    state_->go_on_at({manifest->step, batch});
    state_->restore_ages(reader);
    extra_ = manifest->extra;
    from_ = folder;
    last_saved_ = manifest->step;
    problem_.clear();
    return next();
  }
}

PLAIT_DECL void checkpoints::after_step() {
  refuse_mixed_runs();
  if (saving_ && state_->step() % state_->steps_between_saves() == 0) proceed();
  if (options_.every == 0 || state_->step() % options_.every != 0) return;
  save();
  // Replicas would complete the checkpoint only after the next common update.
  if (state_->steps_between_saves() > 1) finish();
}

PLAIT_DECL bool checkpoints::after_evaluation(double value) {
  if (!options_.best.is_given())
    throw input_error(
        "checkpoints: after_evaluation was called, but no measure is set; set "
        "checkpoint_options{.best = plait::measures::mean_loss{}}, or another measure");
  refuse_mixed_runs();
  detail::check_best_value(options_.best,
                           state_->of_all_ranks({std::bit_cast<std::uint64_t>(value)}));
  finish();
  if (best_ && !options_.best.is_better(value, best_->value)) return false;
  save_as(value);
  return true;
}

PLAIT_DECL void checkpoints::finish() {
  // All ranks exchange their state in each iteration, so that a rank that has finished learns at
  // most one iteration later that the other ranks have finished.
  while (saving_) {
    proceed();
    if (saving_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

PLAIT_DECL void checkpoints::set_extra(std::vector<std::byte> extra) {
  if (extra.size() > detail::most_extra_bytes)
    throw input_error({"checkpoints: the program's extra data has ", extra.size(),
                       " bytes; at most ", detail::most_extra_bytes, " are allowed"});
  extra_ = std::move(extra);
}

PLAIT_DECL void checkpoints::save_as(std::optional<double> value) {
  refuse_mixed_runs();
  finish();
  state_->complete();
  if (!value) last_saved_ = state_->step();
  std::string name;
  auto const begin = [&] { name = folder_->begin(state_->step(), value.has_value()).name; };
  if (!on_root("be written", begin, &name)) return say_problem(state_->step());
  saving_ = std::make_unique<saving>();
  saving_->at = {state_->step(), name, options_.folder / name};
  saving_->value = value;
  try {
    saving_->manifest = manifest_now();
    for (std::size_t kind = 0; kind < copies_.bytes.size(); ++kind)
      copies_.bytes[kind].resize(
          state_->contains(kind) ? state_->count() * copies_.element_bytes[kind] : 0);
  } catch (std::exception const& problem) {  // proceed() tells all ranks about it
    return fail(problem.what());
  }
  for (std::size_t kind = 0; kind < copies_.bytes.size(); ++kind)
    if (state_->contains(kind)) state_->copy(kind, copies_.bytes[kind].data());
  run([of = &copies_, now = saving_.get()] { detail::state_writer(*of).write(now->at.path); });
}

PLAIT_DECL void checkpoints::fail(char const* why) {
  saving_->problem = why;
  saving_->mine = progress::failed;
}

PLAIT_DECL void checkpoints::proceed() {
  auto const mine = saving_->mine.load();
  auto const all = state_->of_all_ranks(
      said(static_cast<std::uint64_t>(mine), 0, mine != progress::running ? saving_->problem : ""));
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
    warning_ = text_of(all[0]);
    problem_.clear();
    if (saving_->value) {
      using detail::checkpoint_name;
      auto const last = checkpoint_name::from(saving_->at.name)->as(checkpoint_name::complete);
      best_ = {saving_->at.step, *saving_->value, options_.best.text(),
               options_.folder / last.text()};
    }
    saving_.reset();
    return;
  }
  saving_->is_committing = true;
  if (is_root())
    run([now = saving_.get(), folder = &*folder_, keep = std::size_t(options_.keep)] {
      now->manifest.blocks = detail::blocks_in(now->at.path);
      folder->commit(now->at, now->manifest);
      try {  // the checkpoint is complete even if older checkpoints cannot be removed
        for (auto const& problem : now->value ? folder->remove_other_best(now->at.step)
                                              : folder->remove_older(now->at.step, keep))
          now->problem = problem;
      } catch (std::exception const& problem) {
        now->problem = problem.what();
      }
    });
}

PLAIT_DECL std::vector<std::uint64_t> checkpoints::said(std::uint64_t first, std::uint64_t second,
                                                        std::string text) {
  std::vector<std::uint64_t> out(saved_state::most_numbers);
  std::size_t const room = (out.size() - 2) * sizeof(std::uint64_t);
  if (text.size() > room) text.replace(room - 3, std::string::npos, "...");
  out[0] = first;
  out[1] = second;
  std::memcpy(out.data() + 2, text.data(), text.size());
  return out;
}

PLAIT_DECL std::string checkpoints::text_of(std::vector<std::uint64_t> const& row) {
  std::string text((row.size() - 2) * sizeof(std::uint64_t), '\0');
  std::memcpy(text.data(), row.data() + 2, text.size());
  return text.substr(0, text.find('\0'));
}

PLAIT_DECL void checkpoints::give_up(std::size_t rank, std::string const& why) {
  problem_ = ext::concat({"checkpoint ", detail::path_in_quotes(saving_->at.path),
                          " could not be written by rank ", rank, ": ", why});
  if (is_root()) folder_->abandon(saving_->at);
  auto const step = std::exchange(saving_, nullptr)->at.step;
  if (options_.required) throw input_error(problem_);
  say_problem(step);
}

PLAIT_DECL std::string checkpoints::cannot(char const* what, std::size_t rank,
                                           std::string const& why) const {
  return ext::concat({"checkpoints in ", detail::path_in_quotes(options_.folder), " cannot ", what,
                      " by rank ", rank, ": ", why});
}

PLAIT_DECL void checkpoints::open_folder() {
  std::array<std::byte, 8> const bytes{std::byte{'p'}, std::byte{'l'}, std::byte{'a'}};
  std::string probe;
  auto const make = [&] {
    auto const now = state_->generation();
    folder_.emplace(options_.folder,
                    ext::folder_owner{settings_.front().second, now.job_id, now.number});
    probe = folder_->make_probe(bytes);
  };
  if (!on_root("be used", make, &probe)) throw input_error(problem_);
  try {
    on_all("be used", [&] {
      constexpr std::chrono::seconds patience{2};
      if (!ext::sees_probe(options_.folder, probe, bytes, patience))
        throw input_error({"folder of checkpoints ", detail::path_in_quotes(options_.folder),
                           ": rank ", state_->rank(),
                           " does not see a file that rank 0 has written there; use a folder that "
                           "all hosts share"});
    });
  } catch (...) {
    if (folder_) folder_->remove_probe(probe);
    throw;
  }
  if (folder_) folder_->remove_probe(probe);
  if (auto const found = newest(0)) found_ = found->step;
  if (options_.best.is_given()) find_best_so_far();
  if (!found_ && best_) found_ = best_->step;
  problem_.clear();
  left_out_.clear();
}

PLAIT_DECL void checkpoints::find_best_so_far() {
  std::optional<best_checkpoint> found;
  on_root("be used", [&] { found = detail::find_best_by(options_.best, options_.folder); });
  auto const root = state_->of_all_ranks(!found ? said(0, 0, "")
                                                : said(std::uint64_t(found->step) + 1,
                                                       std::bit_cast<std::uint64_t>(found->value),
                                                       found->path.filename().string()));
  if (root[0][0] != 0)
    best_ = {std::int64_t(root[0][0] - 1), std::bit_cast<double>(root[0][1]), options_.best.text(),
             options_.folder / text_of(root[0])};
}

PLAIT_DECL std::optional<checkpoints::found_here> checkpoints::newest(std::uint64_t older) {
  enum : std::uint64_t { is_listed, is_unusable, is_unlisted } outcome = is_listed;
  std::uint64_t found = 0;  // the step of the checkpoint + 1; 0 if there is no checkpoint
  std::string text;         // the name of its folder, or the error
  if (is_root()) try {
      for (auto const& one : ext::list_checkpoints(options_.folder)) {
        if (!one.complete()) {
          if (std::ranges::find(left_out_, one.damage) == left_out_.end())
            left_out_.push_back(one.damage);
        } else if (older-- == 0) {
          found = static_cast<std::uint64_t>(one.step) + 1;
          text = one.path.filename().string();
          break;
        }
      }
      if (found == 0 && !left_out_.empty()) outcome = is_unusable, text = left_out_.front();
    } catch (std::exception const& problem) {
      outcome = is_unlisted;
      text = problem.what();
    }
  auto const root = state_->of_all_ranks(said(found, outcome, text)).front();
  if (root[1] != is_listed) problem_ = text_of(root);
  if (root[1] == is_unlisted) throw input_error(cannot("be listed", 0, problem_));
  if (root[0] == 0) return std::nullopt;
  return found_here{static_cast<std::int64_t>(root[0] - 1), text_of(root)};
}

PLAIT_DECL void checkpoints::check(ext::checkpoint_manifest const& manifest,
                                   std::filesystem::path const& folder) const {
  auto const allowed = detail::allowed_settings(options_.allow, manifest.settings, settings_);
  auto const now = detail::settings_to_compare(settings_, manifest.settings);
  auto const hidden = detail::with_settings_of_optimizer(allowed, manifest.settings, now);
  auto const found = ext::differences(manifest.settings, now, hidden);
  if (found.empty()) return;
  std::string all;
  for (auto const& one : found) all += (all.empty() ? "" : ", ") + one;
  throw input_error({"checkpoint ", detail::path_in_quotes(folder), ": ", all,
                     "; resume with the same settings, or list the settings that may differ in "
                     "checkpoint_options::allow (--allow of train_gpt)"});
}

PLAIT_DECL void checkpoints::refuse_mixed_runs() const {
  if (!is_new_run_ || !found_) return;
  throw input_error(
      {"folder of checkpoints ", detail::path_in_quotes(options_.folder),
       " has checkpoints of another run, up to step ", *found_,
       "; continue that run (call resume, or pass --resume to train_gpt), or use another folder"});
}

PLAIT_DECL bool checkpoints::is_undamaged(detail::state_reader& reader) {
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

PLAIT_DECL void checkpoints::compare_options() const {
  using execution::rank_difference;
  auto const all = state_->of_all_ranks(detail::numbers_of(options_));
  auto const best = state_->of_all_ranks(said(0, 0, options_.best.text()));
  auto const differ = [&](int rank, int other) -> rank_difference {
    auto const &one = all[std::size_t(rank)], &two = all[std::size_t(other)];
    for (std::size_t i = 0; i < one.size(); ++i)
      if (one[i] != two[i])
        return {detail::compared_options[i], std::to_string(one[i]), std::to_string(two[i])};
    auto const mine = text_of(best[std::size_t(rank)]), others = text_of(best[std::size_t(other)]);
    if (mine == others) return {};
    return {".best", detail::in_quotes(mine), detail::in_quotes(others)};
  };
  constexpr char const* subject = "checkpoint_options";
  state_->refuse_joining_ranks([&](int rank, int reference) {
    return execution::joining_text(subject, differ(rank, reference));
  });
  execution::require_same(nullptr, all.size(), subject, differ);
}

PLAIT_DECL std::uint64_t checkpoints::next() const {
  auto const origin = state_->origin();
  return origin.batch + static_cast<std::uint64_t>(state_->step() - origin.step);
}

PLAIT_DECL std::uint64_t checkpoints::samples_so_far() const {
  return next() / steps_per_epoch_ * batches_.data_set +
         next() % steps_per_epoch_ * batches_.samples;
}

PLAIT_DECL std::uint64_t checkpoints::next_batch(std::uint64_t samples,
                                                 std::filesystem::path const& folder) const {
  auto const& of = batches_;
  std::uint64_t const epoch = samples / of.data_set, rest = samples % of.data_set;
  if (rest % of.samples != 0)
    throw input_error(
        {"checkpoint ", detail::path_in_quotes(folder), ": global_batch is ", of.samples,
         " samples now, and ", rest,
         " samples of the epoch have been used, which is not a multiple of this global batch"});
  return epoch * steps_per_epoch_ + std::min<std::uint64_t>(rest / of.samples, steps_per_epoch_);
}

PLAIT_DECL ext::checkpoint_manifest checkpoints::manifest_now() const {
  ext::checkpoint_manifest out;
  out.step = state_->step();
  out.samples = samples_so_far();
  out.settings = settings_;
  out.job = settings_.front().second;
  out.extra = extra_;
  if (saving_->value) {
    out.settings.emplace_back(detail::best_setting, options_.best.text());
    out.settings.emplace_back(detail::best_value_setting, detail::best_value_text(*saving_->value));
  }
  if (!is_root()) return out;
  for (auto const& [name, info, kind] : state_->tensors())
    out.tensors.push_back({name, detail::sizes_of(info, info.rows, info.columns),
                           to_string(detail::type_in_files(copies_.element_bytes[kind]))});
  out.ages = state_->ages();
  return out;
}

}  // namespace plait
