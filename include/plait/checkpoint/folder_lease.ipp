// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/folder_lease.hpp"

#include <span>
#include <utility>

#include "plait/checkpoint/checkpoint_list.hpp"
#include "plait/checkpoint/checkpoint_name.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL folder_lease::folder_lease(std::filesystem::path const& folder, folder_owner owner,
                                      disk& on)
    : path_(folder), owner_(std::move(owner)), disk_(on), name_("folder of checkpoints", path_) {
  int const code =
      disk_.lock(path_ / "plait.lock", is_elastic() ? disk::lock_for::many : disk::lock_for::one,
                 disk::lock_of::any_file, lock_);
  if (code == EWOULDBLOCK) refuse_in_use();
  is_locked_ = code == 0;
  if (!is_locked_ && !are_unknown(code)) name_.fail("cannot be locked", code);
  if (!is_elastic() && counted_checkpoints(path_, disk_).greatest_lease() == 0) return;
  for (int tries = 0; !(take() && write_list()); ++tries)
    if (tries == most_tries) name_.refuse("cannot be taken: other processes keep changing it");
}

PLAIT_DECL void folder_lease::require() const {
  if (number_ == 0) return;
  auto const now = counted_checkpoints(path_, disk_).newest(lock_start);
  if (now > number_) refuse_lost(lease_text::read(lock_path(now), disk_));
}

PLAIT_DECL std::filesystem::path folder_lease::lock_path(std::int64_t number) const {
  return path_ / (std::string(lock_start) + std::to_string(number));
}

PLAIT_DECL void folder_lease::refuse_in_use() const {
  name_.refuse(
      "is in use: another job, or another `checkpoints` object of this program, writes there; use "
      "a separate folder for each");
}

PLAIT_DECL void folder_lease::refuse_lost(lease_text const& newest) const {
  if (newest.id != owner_.id)
    name_.refuse(
        "now belongs to another job, which has taken it from this job; use another folder");
  name_.refuse(concat({"belongs to generation ", newest.generation,
                       " of the job now; this process is of generation ", owner_.generation,
                       " and must not write there any more"}));
}

PLAIT_DECL bool folder_lease::take() {
  counted_checkpoints const found(path_, disk_);
  // All lock files are checked, not only the newest: the owner of the newest lock file may have
  // died before it wrote its list.
  auto const newest = found.newest(lock_start);
  for (auto const& name : found.names())
    if (auto const one = number_behind(lock_start, name); one && !may_follow(*one, newest))
      return false;
  auto const number = found.greatest_lease() + 1;
  auto const begun = path_ / (std::string(begun_lock) + disk_.random_digits());
  auto const text = lease_text{owner_.job, owner_.id, owner_.generation, {}}.text();
  int code = disk_.write_file(begun, std::as_bytes(std::span(text)));
  if (code == 0) {
    // The file is locked before it gets the name under which other processes look for it.
    code = disk_.lock(begun, disk::lock_for::one, disk::lock_of::old_file, mine_);
    if (are_unknown(code)) code = 0;
  }
  if (code == 0) code = disk_.link(begun, lock_path(number));
  (void)disk_.remove_file(begun);
  // ENOENT means that clean() of another process has removed the file `begun`.
  if (code == EEXIST || code == ENOENT) return false;
  if (code == 0) code = disk_.sync_folder(path_);
  if (code != 0) name_.fail("cannot be taken", code);
  number_ = number;
  return true;
}

PLAIT_DECL bool folder_lease::may_follow(std::int64_t number, std::int64_t newest) const {
  file_descriptor probe;
  int const code =
      disk_.lock(lock_path(number), disk::lock_for::many, disk::lock_of::old_file, probe);
  if (code == ENOENT) return false;
  if (code != 0 && code != EWOULDBLOCK && !are_unknown(code)) name_.fail("cannot be locked", code);
  bool const is_held = code == EWOULDBLOCK;
  lease_text owner;
  try {
    owner = lease_text::read(lock_path(number), disk_);
  } catch (input_error const&) {
    if (counted_checkpoints(path_, disk_).newest(lock_start) != newest) return false;
    if (is_held && number == newest) throw;
    return true;
  }
  bool const is_same = is_elastic() && owner.id == owner_.id;
  if (number < newest && (is_same || !is_held)) return true;
  if (is_same && owner.generation > owner_.generation) refuse_lost(owner);
  if (is_held && !(is_same && owner.generation < owner_.generation)) refuse_in_use();
  return true;
}

PLAIT_DECL bool folder_lease::write_list() {
  lease_text now{owner_.job, owner_.id, owner_.generation, {}};
  for (int tries = 0;; ++tries) {
    counted_checkpoints const before(path_, disk_);
    if (before.newest(lock_start) != number_) return false;
    now.names.clear();
    for (bool const are_best : {false, true})
      for (auto const& one : list_checkpoints(path_, are_best, disk_))
        if (auto name = one.path.filename().string(); checkpoint_name::from(name)->lease > 0)
          now.names.push_back(std::move(name));
    // The list is correct only if no file has changed while the list was made: the previous owner
    // may still finish a change that it had begun.
    if (before.own_names() == counted_checkpoints(path_, disk_).own_names()) break;
    if (tries == most_tries) return false;
  }
  auto const text = now.text();
  auto const begun = path_ / (std::string(begun_list) + disk_.random_digits());
  auto const list = path_ / (std::string(list_start) + std::to_string(number_));
  // Each name in the list must be on the disk before the list, because a checkpoint may have been
  // renamed since the previous list.
  int code = disk_.sync_folder(path_);
  if (code == 0) code = disk_.write_file(begun, std::as_bytes(std::span(text)));
  if (code == 0) code = disk_.rename(begun, list);
  if (code == ENOENT) return write_list();  // clean() of another owner has removed the file
  if (code == 0) code = disk_.sync_folder(path_);
  if (code != 0) {
    (void)disk_.remove_file(begun);
    name_.fail("cannot be taken", code);
  }
  remove_older();
  return true;
}

PLAIT_DECL void folder_lease::remove_older() {
  counted_checkpoints const found(path_, disk_);
  for (auto const& name : found.names())
    for (auto const start : {lock_start, list_start})
      if (number_behind(start, name).value_or(number_) < number_)
        (void)disk_.remove_file(path_ / name);
}

}  // namespace plait::detail
