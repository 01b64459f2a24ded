// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/checkpoint/disk.hpp"
#include "plait/core/error.hpp"

namespace simulated {

/// Thrown at the call before which the process is killed.
struct killed {};

/// A disk in memory that models the states after a power failure. The data of a file is safe after
/// its fsync; a name that was created, moved or removed is safe after the fsync of its folder.
/// Until then each change is present or not, independently of the others, except for a name that is
/// moved twice. The disk calls `changed` after every change.
class disk final : public plait::detail::disk {
 public:
  enum class sync { file, manifest, optimizer_folder, partial_folder, parent };

  disk() : nodes_(1) { nodes_[0].is_folder = true; }

  // ---- What a test sets ----

  std::function<void()> changed = [] {};
  /// Called before each call; it may end the calling process, or wait while others run.
  std::function<void()> before = [] {};
  /// Called before each fsync; if it returns false, the fsync has no effect but reports success.
  std::function<bool(sync)> does = [](sync) { return true; };
  /// Fails the next calls of these kinds with a code.
  std::function<int(sync)> fails = [](sync) { return 0; };
  int lock_code = 0;
  int process = 0;  ///< the process that makes the calls
  /// Releases the locks of a process that has ended.
  void end_of(int one) {
    for (auto& [name, holders] : locks_) holders.erase(one);
  }
  /// Kinds of fsync that take effect only after the next rename.
  std::set<sync> late{};
  int calls_left = -1;  ///< the calls left until the process ends; -1: no limit

  // ---- What a power failure leaves ----

  /// Returns the number of choices: a bit for each name, two for each file.
  [[nodiscard]] std::size_t open_choices() const {
    std::size_t count = pending_.size();
    for (auto const& one : nodes_)
      if (!one.is_folder && one.data != one.kept_data) count += 2;
    return count;
  }
  /// Returns the disk after a power failure; `choose` decides each choice.
  [[nodiscard]] disk after_power_failure(std::function<bool()> const& choose) const {
    disk out;
    out.nodes_ = nodes_;
    out.digits_ = digits_ + 1000;
    for (auto& one : out.nodes_) {
      if (!one.is_folder && one.data != one.kept_data) {
        bool const any = choose(), all = choose();
        auto const there =
            std::max(one.kept_data.size(), all ? one.data.size() : one.data.size() / 2);
        if (any) one.kept_data = one.data.substr(0, there);
        // The file has its length, and zeros as data.
        else if (all) one.kept_data = std::string(one.data.size(), '\0');
      }
      one.data = one.kept_data;
      one.names = one.kept_names;
    }
    for (auto const& one : pending_) {
      auto& names = out.nodes_[one.folder].names;
      auto const& from = one.changes.front().first;
      bool const is_rename = one.changes.size() == 2;
      if (!choose()) continue;
      // A moved folder must still be at its old name: no folder ever has two names.
      auto const found = names.find(from);
      if (is_rename && (found == names.end() || found->second != one.changes.back().second))
        continue;
      apply(one.changes, names);
    }
    for (auto& one : out.nodes_) one.kept_names = one.names;
    return out;
  }

  /// Returns the names and data of a folder and its contents.
  [[nodiscard]] std::string all_of(path const& folder) const {
    return find(folder) == none ? "" : all_of(find(folder));
  }

  /// Returns the files of a folder and of its folders by name; empty if there are none.
  [[nodiscard]] std::map<std::string, std::string> files(path const& folder) const {
    std::map<std::string, std::string> out;
    if (auto const at = find(folder); at != none)
      for (auto const& [name, node] : nodes_[at].names) {
        if (!nodes_[node].is_folder) out[name] = nodes_[node].data;
        else
          for (auto const& [inner, data] : files(folder / name)) out[name + "/" + inner] = data;
      }
    return out;
  }

  // ---- The calls ----

  int make_folder(path const& name) override { return make(name, true); }
  int write_file(path const& name, std::span<std::byte const> in) override {
    if (int const code = make(name, false); code != 0) return code;
    auto const file = find(name);  // the file stays open if another process removes its name now
    count();
    nodes_[file].data.assign(reinterpret_cast<char const*>(in.data()), in.size());
    changed();
    auto const kind = name.filename() == "plait.json" ? sync::manifest : sync::file;
    if (int const code = fails(kind); code != 0) return code;
    count();
    bring(kind, file);
    return 0;
  }
  std::string read_file(path const& name, std::size_t, char const* kind) override {
    before();
    auto const at = find(name);
    if (at == none || nodes_[at].is_folder)
      throw plait::input_error(std::string(kind) + " " + name.string() + " cannot be read");
    return nodes_[at].data;
  }
  int rename(path const& from, path const& to) override {
    count();
    auto const node = find(from);
    if (node == none) return ENOENT;
    if (find(to) != none) return EEXIST;
    change(from.parent_path(), {{from.filename(), none}, {to.filename(), node}});
    for (auto const one : std::exchange(delayed_, {})) bring_now(one);
    return 0;
  }
  int remove_file(path const& name) override {
    count();
    auto const node = find(name);
    if (node == none) return ENOENT;
    if (nodes_[node].is_folder) return EISDIR;
    change(name.parent_path(), {{name.filename(), none}});
    return 0;
  }
  int remove_folder(path const& name) override {
    count();
    auto const node = find(name);
    if (node == none) return ENOENT;
    if (!nodes_[node].names.empty()) return ENOTEMPTY;
    change(name.parent_path(), {{name.filename(), none}});
    return 0;
  }
  int sync_folder(path const& name) override {
    count();
    auto const kind = name.filename() == "optimizer" ? sync::optimizer_folder
                      : name.has_parent_path()       ? sync::partial_folder
                                                     : sync::parent;
    if (int const code = fails(kind); code != 0) return code;
    auto const node = find(name);
    if (node == none) return ENOENT;
    bring(kind, node);
    return 0;
  }
  int names(path const& folder, links, std::vector<std::string>& out) override {
    before();
    auto const node = find(folder);
    if (node == none) return ENOENT;
    if (!nodes_[node].is_folder) return ENOTDIR;
    for (auto const& one : nodes_[node].names) out.push_back(one.first);
    return 0;
  }
  int link(path const& from, path const& to) override {
    count();
    auto const node = find(from);
    if (node == none) return ENOENT;
    if (find(to) != none) return EEXIST;
    change(to.parent_path(), {{to.filename(), node}});
    return 0;
  }
  /// Locks a file, which need not exist. A lock lasts until end_of its process.
  int lock(path const& name, lock_for whom, lock_of what,
           plait::detail::file_descriptor&) override {
    before();
    if (lock_code != 0) return lock_code;
    auto const node = find(name);
    if (node == none && what == lock_of::old_file) return ENOENT;
    auto& holders = locks_[node == none ? name.string() : std::to_string(node)];
    for (auto const& [holder, how] : holders)
      if (holder != process && (how == lock_for::one || whom == lock_for::one)) return EWOULDBLOCK;
    auto& held = holders.try_emplace(process, whom).first->second;
    if (whom == lock_for::one) held = whom;  // a second opening does not change the lock
    return 0;
  }
  std::string random_digits() override {
    char text[17];
    std::snprintf(text, sizeof text, "%016x", digits_++);
    return text;
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  using names_of_nodes = std::map<std::string, std::size_t>;
  struct inode {
    bool is_folder = false;
    std::string data{}, kept_data{};
    names_of_nodes names{}, kept_names{};
  };
  struct change_of_names {
    std::size_t folder;
    std::vector<std::pair<std::string, std::size_t>> changes;  // none: the name is removed
  };

  static void apply(std::vector<std::pair<std::string, std::size_t>> const& changes,
                    names_of_nodes& names) {
    for (auto const& [name, node] : changes) {
      if (node == none) names.erase(name);
      else names[name] = node;
    }
  }
  [[nodiscard]] std::string all_of(std::size_t node) const {
    std::string out = nodes_[node].data + "\n";
    for (auto const& [name, inner] : nodes_[node].names) out += name + "\n" + all_of(inner);
    return out + "/";
  }
  void bring(sync kind, std::size_t node) {
    if (!does(kind)) return;
    if (late.contains(kind)) delayed_.push_back(node);
    else bring_now(node);
  }
  void bring_now(std::size_t node) {
    nodes_[node].kept_data = nodes_[node].data;
    nodes_[node].kept_names = nodes_[node].names;
    std::erase_if(pending_, [&](auto const& one) { return one.folder == node; });
    changed();
  }
  void count() {
    before();
    if (calls_left == 0) throw killed{};
    if (calls_left > 0) --calls_left;
  }
  [[nodiscard]] std::size_t find(path const& name) const {
    std::size_t at = 0;
    for (auto const& part : name) {
      if (part == ".") continue;
      auto const& names = nodes_[at].names;
      auto const found = names.find(part.string());
      if (found == names.end()) return none;
      at = found->second;
    }
    return at;
  }
  void change(path const& folder, std::vector<std::pair<std::string, std::size_t>> const& changes) {
    auto const at = find(folder);
    apply(changes, nodes_[at].names);
    pending_.push_back({at, changes});
    changed();
  }
  int make(path const& name, bool is_folder) {
    count();
    if (find(name) != none) return EEXIST;
    if (find(name.parent_path()) == none) return ENOENT;
    nodes_.push_back({.is_folder = is_folder});
    change(name.parent_path(), {{name.filename(), nodes_.size() - 1}});
    return 0;
  }

  std::vector<inode> nodes_;
  std::vector<change_of_names> pending_;
  std::vector<std::size_t> delayed_;
  std::map<std::string, std::map<int, lock_for>> locks_;
  unsigned digits_ = 0;
};

}  // namespace simulated
