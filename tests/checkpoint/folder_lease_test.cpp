// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint seconds=4 optimise
//
// Roots of several generations use one folder of checkpoints. Each may be stopped, killed and
// resumed before any of its calls.
#include "plait/checkpoint/folder_lease.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/simulated_disk.hpp"
#include "plait/checkpoint/checkpoint_folder.hpp"
#include "plait/checkpoint/manifest_text.hpp"

namespace {

namespace fs = std::filesystem;
using plait::detail::checkpoint_name;
using plait::ext::checkpoint_folder;
using plait::ext::checkpoint_manifest;
using plait::ext::folder_owner;
using plait::ext::list_checkpoints;

// A manifest of two ranks' files; `what` represents their content.
checkpoint_manifest manifest_with(std::int64_t step, std::string const& what) {
  return {
      .step = step,
      .samples = static_cast<std::uint64_t>(step) * 8,
      .settings = {{"what", what}},
      .job = "job",
      .tensors = {{"w", {2, 2}, "F32"}},
      .blocks = {{"rank-0", "w", {0, 0}, {1, 2}, 1}, {"optimizer/rank-1", "w", {1, 0}, {1, 2}, 2}}};
}

// ---- Names ----

TEST(CheckpointName, IsWhatItSays) {
  for (std::string const name :
       {"step-00000200", "best-00000200", "step-1234567890", "step-00000200.lease-7-3",
        "best-00000200.lease-12-1", "step-00000200.partial-0123456789abcdef",
        "step-00000200.lease-7-3.partial-0123456789abcdef",
        "step-00000200.replaced-0123456789abcdef", "step-00000200.removing-0123456789abcdef"}) {
    auto const parts = checkpoint_name::from(name);
    ASSERT_TRUE(parts) << name;
    EXPECT_EQ(parts->text(), name);
  }
  auto const parts = checkpoint_name::from("best-00000200.lease-7-3.partial-0123456789abcdef");
  EXPECT_TRUE(parts->is_best);
  EXPECT_EQ(parts->step, 200);
  EXPECT_EQ(parts->lease, 7);
  EXPECT_EQ(parts->save, 3);
  EXPECT_EQ(parts->what, checkpoint_name::partial);
  EXPECT_EQ(parts->as(checkpoint_name::complete).text(), "best-00000200.lease-7-3");
  for (std::string const name :
       {"", "step-", "step-200", "step--0000200", "step-00000200.", "step-00000200.lease-",
        "step-00000200.lease-7", "step-00000200.lease-07-3", "step-00000200.lease-0-3",
        "step-00000200.lease-7-3x", "step-00000200.lease-7-3.partial-0123",
        "step-00000200.partial-0123456789abcdef.lease-7-3", "step-00000200.lease--7-3",
        "step-00000200.lease-99999999999999999999-1", "other-00000200"})
    EXPECT_FALSE(checkpoint_name::from(name)) << name;
}

// ---- On the system's disk ----

class LeasedFolder : public testing::Test {
 protected:
  LeasedFolder()
      : path_(fs::temp_directory_path() / ("plait_lease_" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
  }
  ~LeasedFolder() override { fs::remove_all(path_); }

  static void save(checkpoint_folder& folder, std::int64_t step, std::string const& what = "") {
    auto const begun = folder.begin(step);
    std::ofstream(begun.path / "rank-0") << "zero" << what;
    std::ofstream(begun.path / "optimizer" / "rank-1") << "one" << what;
    folder.commit(begun, manifest_with(step, what));
  }
  [[nodiscard]] std::string names() const {
    std::set<std::string> sorted;
    for (auto const& one : fs::directory_iterator(path_)) sorted.insert(one.path().filename());
    std::string out;
    for (auto const& one : sorted) out += (out.empty() ? "" : " ") + one;
    return out;
  }
  [[nodiscard]] std::string listed() const {
    std::string out;
    for (auto const& one : list_checkpoints(path_))
      out += (out.empty() ? "" : " ") + one.path.filename().string() + (one.complete() ? "" : "!");
    return out;
  }
  [[nodiscard]] std::string refusal(std::function<void()> const& call) const {
    try {
      call();
    } catch (plait::input_error const& problem) {
      std::string text = problem.what();
      for (auto at = text.find(path_.string()); at != std::string::npos;
           at = text.find(path_.string()))
        text.replace(at, path_.string().size(), "PATH");
      return text;
    }
    return "no input_error";
  }

  fs::path path_;
};

std::string const in_use =
    "folder of checkpoints 'PATH' is in use: another job, or another `checkpoints` object of this "
    "program, writes there; use a separate folder for each";

// The process of the older generation still runs, and may make any call.
TEST_F(LeasedFolder, ANewerGenerationTakesItFromAnOlderOne) {
  checkpoint_folder old(path_, folder_owner{"job", "a", 1});
  save(old, 100, "first");
  auto const begun = old.begin(200);
  std::ofstream(begun.path / "rank-0") << "zero";
  std::ofstream(begun.path / "optimizer" / "rank-1") << "one";
  checkpoint_folder now(path_, folder_owner{"job", "a", 3});
  EXPECT_EQ(listed(), "step-00000100.lease-1-1");
  std::string const lost =
      "folder of checkpoints 'PATH' belongs to generation 3 of the job now; this process is of "
      "generation 1 and must not write there any more";
  // A folder that is renamed after the take-over does not count, even after an earlier check.
  fs::copy(begun.path, path_ / "step-00000300.lease-1-9", fs::copy_options::recursive);
  std::ofstream(path_ / "step-00000300.lease-1-9" / "plait.json")
      << plait::ext::to_text(manifest_with(300, ""));
  EXPECT_EQ(listed(), "step-00000100.lease-1-1");
  EXPECT_EQ(refusal([&] { old.commit(begun, manifest_with(200, "")); }), lost);
  EXPECT_EQ(refusal([&] { (void)old.begin(300); }), lost);
  EXPECT_EQ(refusal([&] { (void)old.remove_older(100, 1); }), lost);
  EXPECT_EQ(refusal([&] { (void)old.remove_other_best(100); }), lost);
  EXPECT_EQ(refusal([&] { checkpoint_folder(path_, folder_owner{"job", "a", 2}); }),
            "folder of checkpoints 'PATH' belongs to generation 3 of the job now; this process is "
            "of generation 2 and must not write there any more");
  save(now, 200, "second");
  EXPECT_EQ(listed(), "step-00000200.lease-2-1 step-00000100.lease-1-1");
  EXPECT_EQ(names(),
            "plait.list-2 plait.lock plait.lock-2 step-00000100.lease-1-1 step-00000200.lease-2-1");
  EXPECT_TRUE(now.remove_older(200, 1).empty());
  EXPECT_EQ(names(), "plait.list-2 plait.lock plait.lock-2 step-00000200.lease-2-1");
}

TEST_F(LeasedFolder, TwoJobsAreRefusedWhileTheOwnerLives) {
  std::optional<checkpoint_folder> one(std::in_place, path_, folder_owner{"job", "a", 1});
  EXPECT_EQ(refusal([&] { checkpoint_folder(path_, folder_owner{"job", "b", 7}); }), in_use);
  EXPECT_EQ(refusal([&] { checkpoint_folder(path_, folder_owner{"job", "a", 1}); }), in_use);
  EXPECT_EQ(refusal([&] { checkpoint_folder(path_, "job"); }), in_use);
  std::optional<checkpoint_folder> two(std::in_place, path_, folder_owner{"job", "a", 2});
  one.reset();
  EXPECT_EQ(refusal([&] { checkpoint_folder(path_, folder_owner{"job", "b", 7}); }), in_use);
  EXPECT_EQ(refusal([&] { checkpoint_folder(path_, "job"); }), in_use);
  two.reset();
  {
    checkpoint_folder const other(path_, folder_owner{"job", "b", 1});
    EXPECT_EQ(refusal([&] { checkpoint_folder(path_, folder_owner{"job", "a", 3}); }), in_use);
  }
  {
    checkpoint_folder const fixed(path_, "job");
    EXPECT_EQ(refusal([&] { checkpoint_folder(path_, folder_owner{"job", "a", 3}); }), in_use);
  }
  checkpoint_folder const again(path_, folder_owner{"job", "a", 3});
}

// Each kind of job continues from the other's checkpoints, and replaces them.
TEST_F(LeasedFolder, JobsOfBothKindsTakeTurns) {
  {
    checkpoint_folder fixed(path_, "job");
    save(fixed, 100, "fixed");
    save(fixed, 200, "fixed");
    EXPECT_EQ(names(), "plait.lock step-00000100 step-00000200");
  }
  {
    checkpoint_folder elastic(path_, folder_owner{"job", "a", 1});
    EXPECT_EQ(listed(), "step-00000200 step-00000100");
    save(elastic, 200, "elastic");
    save(elastic, 300, "elastic");
    save(elastic, 300, "again");
    EXPECT_EQ(listed(), "step-00000300.lease-1-3 step-00000200.lease-1-1 step-00000100");
    EXPECT_FALSE(fs::exists(path_ / "step-00000300.lease-1-2"));
    EXPECT_FALSE(fs::exists(path_ / "step-00000200"));
  }
  {
    checkpoint_folder fixed(path_, "job");
    EXPECT_EQ(listed(), "step-00000300.lease-1-3 step-00000200.lease-1-1 step-00000100");
    save(fixed, 300, "fixed");
    EXPECT_EQ(listed(), "step-00000300 step-00000200.lease-1-1 step-00000100");
    EXPECT_TRUE(fixed.remove_older(300, 2).empty());
    EXPECT_EQ(names(),
              "plait.list-2 plait.lock plait.lock-2 step-00000200.lease-1-1 step-00000300");
  }
  // A copy without the files that name the owner: all counts, and numbers continue.
  fs::remove(path_ / "plait.list-2");
  fs::remove(path_ / "plait.lock-2");
  EXPECT_EQ(listed(), "step-00000300 step-00000200.lease-1-1");
  checkpoint_folder elastic(path_, folder_owner{"job", "b", 1});
  save(elastic, 400);
  EXPECT_EQ(listed(), "step-00000400.lease-2-1 step-00000300 step-00000200.lease-1-1");
}

TEST_F(LeasedFolder, DamagedListsAreRefused) {
  {
    checkpoint_folder const folder(path_, folder_owner{"job", "a", 1});
  }
  std::string text;
  std::getline(std::ifstream(path_ / "plait.list-1"), text);
  EXPECT_EQ(listed(), "");
  for (std::size_t at = 0; at < text.size(); at += 3) {
    auto other = text;
    other[at] = static_cast<char>(other[at] ^ 1);
    std::ofstream(path_ / "plait.list-1") << other;
    EXPECT_EQ(refusal([&] { (void)listed(); }),
              "lease of a folder of checkpoints 'PATH/plait.list-1' is damaged; if no process uses "
              "the folder, remove this file; then all checkpoints in the folder can be used")
        << other;
  }
}

// ---- On a simulated disk, in any order ----

using content = std::map<std::string, std::string>;

/// A token that one thread gives and another takes. std::binary_semaphore yields its processor a
/// few times before it sleeps, which takes far longer than a turn on a busy machine.
class turn {
 public:
  void release() {
    std::scoped_lock const lock{mutex_};
    is_given_ = true;
    given_.notify_one();
  }
  void acquire() {
    std::unique_lock lock{mutex_};
    given_.wait(lock, [this] { return is_given_; });
    is_given_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable given_;
  bool is_given_ = false;
};

/// Simulates roots that use one folder. Each root is a thread; one thread at a time makes one call
/// of the disk.
class orders {
 public:
  explicit orders(std::uint64_t seed) : random_(seed) {
    disk_.before = [this] {
      if (running_ != nullptr && !is_quiet_) running_->yield();
    };
    disk_.changed = [this] { has_changed_ = true; };
  }

  /// Returns the first problem, or "".
  std::string run() {
    if (pick(3) == 0) before_all({"job"}, 100);
    if (pick(3) == 0) before_all({"job", "z", 5}, 100 + 100 * pick(2));
    int generation = 0;
    int const most = 2 + pick(3);
    while (problem_.empty()) {
      std::erase_if(roots_, [](auto const& one) { return one->has_ended; });
      if (generation < most && (roots_.empty() || pick(30) == 0)) {
        bool const is_other = pick(8) == 0;
        ++generation;
        roots_.push_back(std::make_unique<root>(
            *this, folder_owner{"job", is_other ? "b" : "a", generation}, generation));
      }
      if (roots_.empty()) break;
      auto& one = *roots_[std::size_t(pick(int(roots_.size())))];
      if (pick(40) == 0) one.stopped_for = pick(120);
      if (one.stopped_for > 0 && roots_.size() > 1) --one.stopped_for;
      else go_on(one);
    }
    while (!roots_.empty()) {  // the loop ends the threads also after a problem
      go_on(*roots_.back());
      if (roots_.back()->has_ended) roots_.pop_back();
    }
    if (problem_.empty()) end_clean(disk_, "at the end");
    return problem_;
  }
  [[nodiscard]] int taken() const { return taken_; }
  [[nodiscard]] int refused() const { return refused_; }

 private:
  struct root {
    root(orders& all, folder_owner owner, int number)
        : of(all), owner_(std::move(owner)), process(number) {
      if (of.pick(3) == 0) calls_left = of.pick(150);
      thread = std::jthread([this] {
        go.acquire();
        try {
          of.work(*this);
        } catch (simulated::killed const&) {
        } catch (plait::input_error const& problem) {
          ++of.refused_;
          if (std::string(problem.what()).find("keep changing it") != std::string::npos)
            of.note(problem.what());
        }
        of.disk_.end_of(process);
        has_ended = true;
        of.back_.release();
      });
    }
    /// Called in its thread: lets others continue.
    void yield() {
      of.back_.release();
      go.acquire();
      if (calls_left == 0) throw simulated::killed{};
      if (calls_left > 0) --calls_left;
    }

    orders& of;
    folder_owner owner_;
    int process;
    int calls_left = -1, stopped_for = 0;
    bool has_ended = false;
    turn go;
    std::jthread thread;
  };
  friend root;

  int pick(int below) { return int(random_() % std::uint64_t(below)); }
  void note(std::string const& what) {
    if (problem_.empty()) problem_ = what;
  }

  void go_on(root& one) {
    running_ = &one;
    disk_.process = one.process;
    one.go.release();
    back_.acquire();
    running_ = nullptr;
    if (std::exchange(has_changed_, false)) look(disk_);
    if (pick(100) != 0) return;
    auto left = disk_.after_power_failure([&] { return pick(2) == 0; });
    look(left);
    end_clean(left, "after a power failure");
  }

  /// The actions of a root, once it has the folder: it saves what the job has trained.
  void work(root& me) {
    checkpoint_folder folder("run", me.owner_, disk_);
    took(me);
    for (int saves = 1 + pick(3); saves > 0; --saves) {
      auto const step = sure_step_ + 100 * pick(2) + (sure_step_ == 0 ? 100 : 0);
      save(folder, step, me.owner_);
      (void)folder.remove_older(step, std::size_t(1 + pick(2)));
    }
  }
  void save(checkpoint_folder& folder, std::int64_t step, folder_owner const& owner) {
    auto const what = owner.id + std::to_string(owner.generation) + " " + std::to_string(++saves_);
    auto const manifest = manifest_with(step, what);
    auto const begun = folder.begin(step);
    auto const name = checkpoint_name::from(begun.name)->as(checkpoint_name::complete).text();
    content expected{{"plait.json", plait::ext::to_text(manifest)}};
    for (std::string const rank : {"rank-0", "optimizer/rank-1"}) {
      expected[rank] = rank + " of " + what;
      if (int const code =
              disk_.write_file(begun.path / rank, std::as_bytes(std::span(expected[rank])));
          code != 0) {
        folder.abandon(begun);
        return;
      }
    }
    if (written_.contains(name)) note("two saves are named " + name);
    written_[name] = expected;
    folder.commit(begun, manifest);
    if (step >= sure_step_) sure_ = name;
    sure_step_ = std::max(sure_step_, step);
  }
  /// Simulates an earlier job that used the folder.
  void before_all(folder_owner const& owner, std::int64_t step) {
    disk_.process = 99;
    {
      checkpoint_folder folder("run", owner, disk_);
      save(folder, step, owner);
    }
    disk_.end_of(99);
  }

  void took(root& me) {
    ++taken_;
    is_quiet_ = true;  // no other thread runs between these calls
    using namespace plait::detail;
    auto const number = counted_checkpoints("run", disk_).newest(lock_start);
    auto const now = lease_text::read(
        fs::path("run") / (std::string(lock_start) + std::to_string(number)), disk_);
    // Otherwise its time is over.
    if (now.id == me.owner_.id && now.generation == me.owner_.generation) {
      for (auto const& one : roots_)
        if (one.get() != &me && !one->has_ended && one->process == owner_process_ &&
            (one->owner_.id != now.id || one->owner_.generation > now.generation))
          note("generation " + std::to_string(now.generation) + " of job " + now.id +
               " takes the folder from generation " + std::to_string(one->owner_.generation) +
               " of job " + one->owner_.id);
      owner_number_ = number;
      owner_process_ = me.process;
      base_ = listed(disk_);
    }
    is_quiet_ = false;
  }

  static std::set<std::string> listed(plait::detail::disk& on) {
    std::set<std::string> out;
    for (auto const& one : list_checkpoints("run", on)) out.insert(one.path.filename().string());
    return out;
  }

  /// Checks that a reader at any time finds saved states and no others.
  void look(simulated::disk& on) {
    if (!problem_.empty()) return;
    std::int64_t newest = 0;
    for (auto const& one : list_checkpoints("run", on)) {
      auto const name = one.path.filename().string();
      if (!one.complete()) return note("a damaged checkpoint: " + one.damage);
      newest = std::max(newest, one.step);
      if (!written_.contains(name) || on.files(one.path) != written_[name])
        return note(name + " is not what was saved");
      if (owner_number_ > 0 && !base_.contains(name) &&
          checkpoint_name::from(name)->lease < owner_number_)
        return note(name + " counts, which came after the lease was taken");
      if (one.step == sure_step_ && checkpoint_name::from(name)->lease == of_sure().lease &&
          checkpoint_name::from(name)->save < of_sure().save)
        return note(name + " is back, older than " + sure_);
    }
    if (newest < sure_step_)
      note("the checkpoint of step " + std::to_string(sure_step_) + ", " + sure_ +
           ", is lost; the newest is of step " + std::to_string(newest));
  }
  [[nodiscard]] checkpoint_name of_sure() const { return *checkpoint_name::from(sure_); }

  /// Checks that a later job loads the state and leaves no remains.
  void end_clean(simulated::disk& on, std::string const& when) {
    on.process = 98;
    for (auto const& one : roots_) on.end_of(one->process);
    try {
      checkpoint_folder folder("run", folder_owner{"job", "last", 1}, on);
      auto const begun = folder.begin(9000);
      on.write_file(begun.path / "rank-0", {});
      on.write_file(begun.path / "optimizer/rank-1", {});
      folder.commit(begun, manifest_with(9000, ""));
      (void)folder.remove_older(9000, 1);
      std::vector<std::string> names;
      on.names("run", plait::detail::disk::links::followed, names);
      std::string all;
      for (auto const& name : names) all += " " + name;
      if (names.size() != 3) note(when + " something is left:" + all);
    } catch (plait::input_error const& problem) {
      note(when + ": " + problem.what());
    }
    on.end_of(98);
  }

  std::mt19937_64 random_;
  simulated::disk disk_;
  std::vector<std::unique_ptr<root>> roots_;
  root* running_ = nullptr;
  bool is_quiet_ = false, has_changed_ = false;
  turn back_;
  std::map<std::string, content> written_;  // the key is the name
  std::int64_t sure_step_ = 0;              // commit() has returned
  std::string sure_;
  std::int64_t owner_number_ = 0;
  int owner_process_ = -1;
  std::set<std::string> base_;  // the checkpoints that were listed when the owner took the folder
  int saves_ = 0, taken_ = 0, refused_ = 0;
  std::string problem_;
};

// An old owner may have checked that it has the folder still, and clean it after it was taken.
TEST(FolderLeases, AnOldOwnerRemovesNothingOfANewerOnes) {
  int times = 0;
  for (;; ++times) {
    simulated::disk disk;
    disk.process = 1;
    checkpoint_folder old("run", folder_owner{"job", "a", 1}, disk);
    std::optional<checkpoint_folder> now;
    std::optional<plait::ext::checkpoint_save> begun;
    std::string probe;
    int calls = 0;
    disk.before = [&] {
      if (calls++ != times) return;
      disk.process = 2;
      now.emplace("run", folder_owner{"job", "a", 2}, disk);
      begun = now->begin(200);
      probe = now->make_probe({});
      disk.write_file(begun->path / "rank-0", {});
      disk.write_file(begun->path / "optimizer/rank-1", {});
      disk.process = 1;
    };
    try {
      (void)old.begin(200);
    } catch (plait::input_error const&) {  // it is another's: found out in time
    }
    disk.before = [] {};
    if (!begun) break;
    disk.process = 2;
    std::vector<std::string> names;
    disk.names("run", plait::detail::disk::links::followed, names);
    EXPECT_EQ(std::ranges::count(names, probe), 1) << "before call " << times;
    EXPECT_NO_THROW(now->commit(*begun, manifest_with(200, ""))) << "before call " << times;
  }
  EXPECT_GE(times, 4);
}

// Set PLAIT_ORDERS=100000 to run a hundred thousand orders.
TEST(FolderLeases, HoldInAnyOrder) {
  char const* const wanted = std::getenv("PLAIT_ORDERS");
  char const* const only = std::getenv("PLAIT_SEED");
  int const count = wanted == nullptr ? 400 : std::atoi(wanted);
  int taken = 0, refused = 0, problems = 0;
  std::string first;
  for (int seed = only == nullptr ? 0 : std::atoi(only); seed < count; ++seed) {
    orders one(std::uint64_t(seed) + 1);
    auto const problem = one.run();
    taken += one.taken();
    refused += one.refused();
    if (!problem.empty() && problems++ == 0)
      first = "seed " + std::to_string(seed) + ": " + problem;
    if (only != nullptr) break;
  }
  EXPECT_EQ(problems, 0) << first;
  std::printf("%d orders, %d times the folder was taken, %d times refused\n", count, taken,
              refused);
  if (only != nullptr) return;
  EXPECT_GT(taken, count);
  EXPECT_GT(refused, count / 20);
}

}  // namespace
