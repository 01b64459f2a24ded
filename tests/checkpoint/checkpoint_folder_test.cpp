// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint seconds=4
#include "plait/checkpoint/checkpoint_folder.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "checkpoint/simulated_disk.hpp"
#include "plait/checkpoint/manifest_text.hpp"
#include "plait/io/safetensors.hpp"

namespace {

namespace fs = std::filesystem;
using plait::ext::checkpoint_folder;
using plait::ext::checkpoint_manifest;
using plait::ext::checkpoint_save;
using plait::ext::list_checkpoints;

// Returns a manifest of two ranks' files; `what` represents their content.
checkpoint_manifest manifest_of(std::int64_t step, std::string const& what = "",
                                std::string const& job = "job") {
  return {
      .step = step,
      .samples = static_cast<std::uint64_t>(step) * 8,
      .settings = {{"what", what}},
      .job = job,
      .tensors = {{"w", {2, 2}, "F32"}},
      .blocks = {{"rank-0", "w", {0, 0}, {1, 2}, 1}, {"optimizer/rank-1", "w", {1, 0}, {1, 2}, 2}}};
}

// Returns the steps as "200 100", with a '!' after a damaged one.
std::string text_of(std::vector<plait::ext::found_checkpoint> const& list) {
  std::string out;
  for (auto const& one : list)
    out += (out.empty() ? "" : " ") + std::to_string(one.step) + (one.complete() ? "" : "!");
  return out;
}

// ---- On the system's disk
// ------------------------------------------------------------------------

class CheckpointFolder : public testing::Test {
 protected:
  CheckpointFolder()
      : above_(fs::temp_directory_path() / ("plait_checkpoint_" + std::to_string(::getpid()))),
        path_(above_ / "run") {
    fs::create_directories(above_);
  }
  ~CheckpointFolder() override { fs::remove_all(above_); }

  static void write_ranks(checkpoint_save const& save, std::string const& what = "") {
    std::ofstream(save.path / "rank-0") << "zero" << what;
    std::ofstream(save.path / "optimizer" / "rank-1") << "one" << what;
  }
  static void save(checkpoint_folder& folder, std::int64_t step, std::string const& what = "",
                   std::string const& job = "job") {
    auto const begun = folder.begin(step);
    write_ranks(begun, what);
    folder.commit(begun, manifest_of(step, what, job));
  }
  [[nodiscard]] std::string names() const {
    std::set<std::string> sorted;
    for (auto const& one : fs::directory_iterator(path_)) sorted.insert(one.path().filename());
    std::string out;
    for (auto const& one : sorted) out += (out.empty() ? "" : " ") + one;
    return out;
  }
  [[nodiscard]] std::string content(std::string const& file) const {
    std::ifstream in(path_ / file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Returns the message of the input_error that ends `call`, with PATH in place of the folder's
  // path.
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

  fs::path above_, path_;
};

TEST_F(CheckpointFolder, ASaveAppearsWhenItIsComplete) {
  EXPECT_EQ(text_of(list_checkpoints(path_)), "");
  checkpoint_folder folder(path_ / "", "job");
  auto const save = folder.begin(200);
  EXPECT_EQ(save.path, path_ / save.name);
  EXPECT_EQ(save.name.substr(0, 22), "step-00000200.partial-");
  EXPECT_EQ(save.name.size(), 38u);
  write_ranks(save);
  EXPECT_EQ(text_of(list_checkpoints(path_)), "");
  folder.commit(save, manifest_of(200));
  EXPECT_EQ(names(), "plait.lock step-00000200");
  auto const list = list_checkpoints(path_);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].step, 200);
  EXPECT_EQ(list[0].path, path_ / "step-00000200");
  EXPECT_EQ(list[0].job, "job");
  EXPECT_TRUE(list[0].complete());
  EXPECT_EQ(plait::ext::read_manifest(list[0].path), manifest_of(200));
  CheckpointFolder::save(folder, 1'234'567'890);
  EXPECT_EQ(text_of(list_checkpoints(path_)), "1234567890 200");
}

// Two ranks write rectangles of one tensor with the writer of ranks; a read covers both.
TEST_F(CheckpointFolder, RectanglesInTwoFilesAreOneTensor) {
  checkpoint_folder folder(path_, "job");
  auto const save = folder.begin(7);
  checkpoint_manifest manifest{
      .step = 7, .job = "job", .tensors = {{"w", {2, 4}, "F32"}}, .blocks = {}};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    float const first = rank == 0 ? 0 : 2;  // the rank has columns 0 and 1, or 2 and 3
    std::array const part{first, first + 1, first + 4, first + 5};
    std::string const file = rank == 0 ? "rank-0.safetensors" : "rank-1.safetensors";
    plait::safetensors_writer writer(save.path / file, std::vector<plait::safetensors_entry>{
                                                           {"w", plait::stored_type::f32, {2, 2}}});
    writer.write("w", std::span(part));
    writer.commit();
    manifest.blocks.push_back({file,
                               "w",
                               {0, 2 * rank},
                               {2, 2},
                               plait::ext::checkpoint_crc(std::as_bytes(std::span(part)))});
  }
  folder.commit(save, manifest);
  auto const found = list_checkpoints(path_).at(0);
  std::vector<float> row;
  for (auto const& block : plait::ext::read_manifest(found.path).blocks) {
    plait::safetensors_reader const reader(found.path / block.file);
    EXPECT_EQ(plait::ext::checkpoint_crc(reader, "w"), block.crc);
    std::array<float, 2> part{};
    reader.read_block("w", std::array<std::size_t, 2>{1, 0}, std::array<std::size_t, 2>{1, 2},
                      std::span<float>(part));
    row.insert(row.end(), part.begin(), part.end());
  }
  EXPECT_EQ(row, (std::vector<float>{4, 5, 6, 7}));
}

TEST_F(CheckpointFolder, OneJobAtATime) {
  std::optional<checkpoint_folder> first(std::in_place, path_, "job");
  std::string const sentence =
      "folder of checkpoints 'PATH' is in use: another job, or another `checkpoints` object of "
      "this program, writes there; use a separate folder for each";
  EXPECT_EQ(refusal([&] { checkpoint_folder(path_, "job"); }), sentence);
  ::pid_t const child = ::fork();
  if (child == 0) ::_exit(refusal([&] { checkpoint_folder(path_, "other"); }) == sentence ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  save(*first, 1);
  first.reset();
  EXPECT_EQ(refusal([&] { checkpoint_folder(path_, "job"); }), "no input_error");
}

TEST_F(CheckpointFolder, AnotherJobsCheckpointsStay) {
  {
    checkpoint_folder other(path_, "other");
    save(other, 100, "", "other");
    save(other, 200, "", "other");
    fs::create_directory(path_ / "step-00000050.removing-0123456789abcdef");
    fs::copy(path_ / "step-00000100" / "plait.json",
             path_ / "step-00000050.removing-0123456789abcdef");
  }
  checkpoint_folder folder(path_, "job");
  save(folder, 300);
  EXPECT_TRUE(folder.remove_older(300, 1).empty());
  EXPECT_EQ(text_of(list_checkpoints(path_)), "300 200 100");
  EXPECT_EQ(
      refusal([&] { save(folder, 200); }),
      "checkpoint 'PATH/step-00000200' already exists and belongs to job 'other', not to 'job'");
  EXPECT_EQ(names(),
            "plait.lock step-00000050.removing-0123456789abcdef step-00000100 step-00000200 "
            "step-00000300");
  EXPECT_EQ(refusal([&] { (void)folder.remove_older(200, 1); }),
            "folder of checkpoints 'PATH' has no complete checkpoint of step 200 of job 'job', so "
            "no older checkpoint is removed");
}

TEST_F(CheckpointFolder, TheNewestStay) {
  checkpoint_folder folder(path_, "job");
  for (std::int64_t const step : {100, 200, 300, 400, 500}) save(folder, step);
  // Step 500 may belong to a run that continued from here.
  EXPECT_TRUE(folder.remove_older(400, 2).empty());
  EXPECT_EQ(names(), "plait.lock step-00000300 step-00000400 step-00000500");
  EXPECT_TRUE(folder.remove_older(500, 5).empty());
  EXPECT_EQ(text_of(list_checkpoints(path_)), "500 400 300");
  EXPECT_TRUE(folder.remove_older(500, 0).empty());  // this checkpoint stays at least
  EXPECT_EQ(text_of(list_checkpoints(path_)), "500");
}

TEST_F(CheckpointFolder, AFailedRemovalIsReported) {
  checkpoint_folder folder(path_, "job");
  save(folder, 100);
  fs::create_directory(path_ / "step-00000100" / "of the user");
  fs::rename(path_ / "step-00000100", above_ / "elsewhere");
  fs::create_directory_symlink(above_ / "elsewhere", path_ / "step-00000100");
  save(folder, 200);
  EXPECT_EQ(text_of(list_checkpoints(path_)), "200 100");
  auto problems = folder.remove_older(200, 1);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0], "checkpoint '" + (path_ / "step-00000100").string() +
                             "' cannot be removed: Not a directory");
  EXPECT_TRUE(fs::exists(above_ / "elsewhere" / "plait.json"));
  fs::remove(path_ / "step-00000100");
  fs::rename(above_ / "elsewhere", path_ / "step-00000100");
  problems = folder.remove_older(200, 1);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find(".removing-"), std::string::npos);
  EXPECT_EQ(text_of(list_checkpoints(path_)), "200");
}

TEST_F(CheckpointFolder, AnotherOfTheSameStepIsReplaced) {
  checkpoint_folder folder(path_, "job");
  save(folder, 100, "first");
  // A checkpoint with an equal manifest is replaced, too, as its files may be damaged.
  std::ofstream(path_ / "step-00000100" / "optimizer" / "rank-1") << "damaged";
  save(folder, 100, "first");
  EXPECT_EQ(content("step-00000100/optimizer/rank-1"), "onefirst");
  EXPECT_EQ(names(), "plait.lock step-00000100");
  save(folder, 100, "second");
  EXPECT_EQ(content("step-00000100/optimizer/rank-1"), "onesecond");
  EXPECT_EQ(names(), "plait.lock step-00000100");
  // A folder without a manifest may belong to another program, so it is moved aside.
  fs::remove(path_ / "step-00000100" / "plait.json");
  save(folder, 100, "third");
  EXPECT_EQ(text_of(list_checkpoints(path_)), "100");
  EXPECT_EQ(names().substr(0, 48), "plait.lock step-00000100 step-00000100.replaced-");
}

TEST_F(CheckpointFolder, DamagedOnesAreListedWithTheReason) {
  checkpoint_folder folder(path_, "job");
  for (std::int64_t const step : {1, 2, 3, 4, 5}) save(folder, step);
  fs::remove(path_ / "step-00000005" / "optimizer" / "rank-1");
  fs::resize_file(path_ / "step-00000004" / "plait.json", 100);
  fs::remove(path_ / "step-00000003" / "plait.json");
  fs::rename(path_ / "step-00000002", path_ / "step-00000009");
  fs::create_directory(path_ / "step-1");  // not a name that plait uses
  std::ofstream(path_ / "step-00000008") << "a file";
  auto const list = list_checkpoints(path_);
  EXPECT_EQ(text_of(list), "9! 8! 5! 4! 3! 1");
  auto const reason = [&](std::size_t i) {
    return refusal([&] { throw plait::input_error(list[i].damage); });
  };
  EXPECT_EQ(reason(0), "checkpoint 'PATH/step-00000009' has a manifest of step 2");
  EXPECT_EQ(reason(1),
            "checkpoint manifest 'PATH/step-00000008/plait.json' cannot be read: Not a directory");
  EXPECT_EQ(
      reason(2),
      "checkpoint 'PATH/step-00000005' lacks the file 'optimizer/rank-1' that its manifest names");
  EXPECT_NE(reason(3).find("' is damaged: "), std::string::npos);
  EXPECT_EQ(reason(4),
            "checkpoint manifest 'PATH/step-00000003/plait.json' cannot be read: No such file or "
            "directory");
  fs::create_directories(path_ / "file");
  EXPECT_NE(refusal([&] { (void)list_checkpoints(path_ / "plait.lock"); }), "no input_error");
}

TEST_F(CheckpointFolder, RemainsAreCleaned) {
  fs::create_directories(path_ / "step-00000100.partial-0123456789abcdef");
  std::ofstream(path_ / "step-00000100.partial-0123456789abcdef" / "rank-0") << "half";
  fs::create_directories(path_ / "step-00000090.removing-0123456789abcdef");
  std::ofstream(path_ / "plait.probe-0123456789abcdef") << "probe";
  std::string const others =
      "notes.partial-0123456789abcdef step-00000100.partial-0123 step-00000100.partial-notes";
  for (auto const* const name : {"notes.partial-0123456789abcdef", "step-00000100.partial-0123",
                                 "step-00000100.partial-notes"})
    fs::create_directories(path_ / name);
  checkpoint_folder folder(path_, "job");
  save(folder, 200, "old");
  // A save was killed between its two renames.
  fs::rename(path_ / "step-00000200", path_ / "step-00000200.replaced-0123456789abcdef");
  EXPECT_EQ(text_of(list_checkpoints(path_)), "200");
  EXPECT_EQ(list_checkpoints(path_)[0].path, path_ / "step-00000200.replaced-0123456789abcdef");
  folder.abandon(folder.begin(300));
  EXPECT_EQ(names(), others.substr(0, 31) + "plait.lock step-00000100.partial-0123 " +
                         "step-00000100.partial-notes step-00000200");
  // A save was killed after its two renames.
  fs::copy(path_ / "step-00000200", path_ / "step-00000200.replaced-0123456789abcdef");
  folder.abandon(folder.begin(300));
  EXPECT_EQ(names(), others.substr(0, 31) + "plait.lock step-00000100.partial-0123 " +
                         "step-00000100.partial-notes step-00000200");
}

TEST_F(CheckpointFolder, WrongCommitsAreRefused) {
  checkpoint_folder folder(path_, "job");
  auto const refused = [&](checkpoint_manifest const& manifest, bool both = true) {
    auto const save = folder.begin(100);
    std::ofstream(save.path / "rank-0") << "zero";
    if (both) std::ofstream(save.path / "optimizer" / "rank-1") << "one";
    auto const text = refusal([&] { folder.commit(save, manifest); });
    EXPECT_EQ(names(), "plait.lock");
    return text;
  };
  EXPECT_EQ(refused(manifest_of(101)),
            "checkpoint 'PATH/step-00000100' is of step 100, but its manifest is of step 101");
  EXPECT_EQ(refused(manifest_of(100, "", "other")),
            "checkpoint 'PATH/step-00000100' is of job 'job', but its manifest is of job 'other'");
  EXPECT_EQ(
      refused(manifest_of(100), false),
      "checkpoint 'PATH/step-00000100' cannot be completed: its file 'optimizer/rank-1' was not "
      "written");
  auto hole = manifest_of(100);
  hole.blocks.pop_back();
  EXPECT_EQ(refused(hole),
            "checkpoint manifest 'PATH/step-00000100/plait.json': tensor 'w' has the shape (2, 2) "
            "and rectangles with 2 of its 4 elements");
  EXPECT_EQ(refusal([&] { folder.commit({100, "step-00000100", path_}, manifest_of(100)); }),
            "checkpoint 'PATH/step-00000100' is not the save that begin() returned");
  EXPECT_EQ(refusal([&] { (void)folder.begin(-1); }),
            "folder of checkpoints 'PATH' cannot have a checkpoint of step -1, which is negative");
  folder.abandon({100, "../run", path_});
  EXPECT_EQ(names(), "plait.lock");
  EXPECT_EQ(refusal([&] { checkpoint_folder("", "job"); }),
            "folder of checkpoints '' cannot be used: its name is empty or contains a null byte");
  EXPECT_EQ(refusal([&] { checkpoint_folder(above_ / "x", ""); }),
            "folder of checkpoints '" + (above_ / "x").string() +
                "' cannot be used: the name of the job is empty");
  EXPECT_EQ(
      refusal([&] { checkpoint_folder(path_ / "a" / "b", "job"); }),
      "folder of checkpoints 'PATH/a/b' cannot be made: folder 'PATH/a' does not exist; make it "
      "first");
}

// A save that fills the disk leaves no files.
TEST_F(CheckpointFolder, AFullDiskIsAnError) {
  checkpoint_folder folder(path_, "job");
  save(folder, 100);
  auto const begun = folder.begin(200);
  write_ranks(begun);
  auto* const old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ::rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  ::rlimit limit = old;
  limit.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  auto const text = refusal([&] { folder.commit(begun, manifest_of(200)); });
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(text, "checkpoint 'PATH/step-00000200' cannot be written: File too large");
  EXPECT_EQ(names(), "plait.lock step-00000100");
}

TEST_F(CheckpointFolder, NoPermissionIsAnError) {
  // Even root cannot write here.
  EXPECT_NE(refusal([&] { checkpoint_folder("/proc/plait", "job"); }).find("cannot be made: "),
            std::string::npos);
  EXPECT_NE(refusal([&] { checkpoint_folder("/proc/self", "job"); }).find("cannot be locked: "),
            std::string::npos);
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  checkpoint_folder folder(path_, "job");
  ASSERT_EQ(::chmod(path_.c_str(), 0500), 0);
  EXPECT_EQ(refusal([&] { (void)folder.begin(100); }),
            "folder of checkpoints 'PATH' cannot receive a new checkpoint: Permission denied");
  ASSERT_EQ(::chmod(path_.c_str(), 0700), 0);
}

TEST_F(CheckpointFolder, OtherHostsSeeTheProbe) {
  checkpoint_folder folder(path_, "job");
  std::array const bytes{std::byte{1}, std::byte{0}, std::byte{3}};
  std::array const others{std::byte{1}, std::byte{0}, std::byte{4}};
  auto const name = folder.make_probe(bytes);
  EXPECT_TRUE(plait::ext::sees_probe(path_, name, bytes));
  EXPECT_FALSE(plait::ext::sees_probe(path_, name, others));
  EXPECT_FALSE(plait::ext::sees_probe(path_, name, std::span(bytes).first(2)));
  EXPECT_FALSE(plait::ext::sees_probe(above_, name, bytes));
  folder.remove_probe("plait.lock");
  folder.remove_probe(name);
  EXPECT_FALSE(plait::ext::sees_probe(path_, name, bytes));
  {  // a caller that waits sees a later checkpoint
    std::jthread const later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(120));
      std::ofstream(path_ / name, std::ios::binary).write("\1\0\3", 3);
    });
    EXPECT_TRUE(plait::ext::sees_probe(path_, name, bytes, std::chrono::seconds(10)));
  }
  folder.remove_probe(name);
  EXPECT_EQ(names(), "plait.lock");
}

// ---- On a disk whose power may fail ----------------------------

// Without a lock, another process may be writing files that look like remains.
TEST(SimulatedDisk, WithoutLocksNothingIsCleaned) {
  simulated::disk disk;
  for (int const code : {ENOLCK, EOPNOTSUPP}) {
    disk.lock_code = code;
    checkpoint_folder folder("run", "job", disk);
    auto const first = folder.begin(1), second = folder.begin(2);
    std::vector<std::string> names;
    disk.names("run", plait::detail::disk::links::followed, names);
    EXPECT_EQ(names.size(), 2u);
    folder.abandon(first);
    folder.abandon(second);
  }
  disk.lock_code = EIO;
  EXPECT_THROW(checkpoint_folder("run", "job", disk), plait::input_error);
}

using content = std::map<std::string, std::string>;

/// Saves on a simulated disk. After each change of the disk it checks the states that a power
/// failure could leave.
class power_test {
 public:
  simulated::disk disk;
  std::uint64_t samples = 8;
  bool goes_on = true;    ///< true if another job runs after each failure
  int states = 0;         ///< the number of states that were checked
  std::string problem{};  ///< the first problem

  power_test() {
    disk.changed = [this] { look(); };
  }

  /// Saves as a job does: its ranks write, then it commits and keeps one checkpoint.
  void save(checkpoint_folder& folder, std::int64_t step, std::string const& what) {
    auto const manifest = manifest_of(step, what);
    auto const begun = folder.begin(step);
    auto& expected = saved_[step].emplace_back();
    expected["plait.json"] = plait::ext::to_text(manifest);
    for (std::string const rank : {"rank-0", "optimizer/rank-1"}) {
      expected[rank] = "the values of " + rank + " in " + what;
      auto const bytes = std::as_bytes(std::span(expected[rank]));
      if (disk.write_file(begun.path / rank, bytes) != 0) {
        folder.abandon(begun);
        return;
      }
    }
    folder.commit(begun, manifest);
    sure_ = expected;
    sure_step_ = step;
    seen_.clear();
    look();
    EXPECT_TRUE(folder.remove_older(step, 1).empty());
  }

  /// Checks all choices if they are few, else some.
  void look() {
    if (!problem.empty()) return;
    std::size_t const choices = disk.open_choices();
    bool const all = choices <= 4;
    for (std::uint64_t i = 0; i < (all ? std::uint64_t{1} << choices : samples); ++i) {
      std::uint64_t bits = all ? i : random_();
      if (!all && i < 2) bits = i == 0 ? 0 : ~std::uint64_t{0};
      auto const left = disk.after_power_failure([&] {
        bool const there = (bits & 1) != 0;
        bits >>= 1;
        return there;
      });
      look_at(left);
    }
  }

 private:
  void look_at(simulated::disk left) {
    if (!seen_.insert(left.all_of("run")).second) return;
    ++states;
    std::optional<std::int64_t> newest;
    content newest_files;
    for (auto const& one : list_checkpoints("run", left)) {
      if (!one.complete()) return note("a damaged checkpoint: " + one.damage);
      auto files = left.files(one.path);
      auto const& expected = saved_[one.step];
      if (std::ranges::find(expected, files) == expected.end())
        return note("a complete checkpoint is not what was saved: " + one.path.string());
      if (!newest) {
        newest = one.step;
        newest_files = std::move(files);
      }
    }
    if (goes_on) go_on(left);
    if (!sure_step_) return;
    if (!newest) return note("no checkpoint is left");
    if (*newest < *sure_step_) return note("a checkpoint that was complete is lost");
    auto const& of_step = saved_[*sure_step_];
    // A checkpoint of this step must be the committed checkpoint, or a checkpoint that was saved
    // later.
    auto const at = std::ranges::find(of_step, sure_);
    if (*newest == *sure_step_ && std::find(at, of_step.end(), newest_files) == of_step.end())
      note("an older checkpoint of the step is back");
  }
  // A later job leaves only its own checkpoint.
  void go_on(simulated::disk& left) {
    checkpoint_folder folder("run", "job", left);
    auto const begun = folder.begin(900);
    left.write_file(begun.path / "rank-0", {});
    left.write_file(begun.path / "optimizer/rank-1", {});
    folder.commit(begun, manifest_of(900));
    (void)folder.remove_older(900, 1);
    std::vector<std::string> names;
    left.names("run", plait::detail::disk::links::followed, names);
    if (names.size() != 1) note("something is left: " + names[0] + ", " + names.back());
  }
  void note(std::string const& what) {
    if (problem.empty()) problem = what;
  }

  std::map<std::int64_t, std::vector<content>> saved_;
  std::optional<std::int64_t> sure_step_;  // commit() has returned
  content sure_;
  std::set<std::string> seen_;
  std::mt19937_64 random_{7};
};

/// Runs one job: two saves, then the second again with other content, and a third.
void whole_job(power_test& test) {
  checkpoint_folder folder("run", "job", test.disk);
  test.save(folder, 100, "first");
  test.save(folder, 200, "second");
  test.save(folder, 200, "another");
  test.save(folder, 300, "third");
}

/// Runs `job` and kills it before call `call`; returns false if it ended earlier.
template <class Job>
bool kill_before(power_test& test, int call, Job job) {
  test.disk.changed = [] {};  // this part of the job is as without a kill
  test.disk.calls_left = call;
  bool killed = false;
  try {
    job();
  } catch (simulated::killed const&) {
    killed = true;
  }
  test.disk.calls_left = -1;
  test.disk.changed = [&test] { test.look(); };
  test.look();
  return killed;
}

TEST(PowerFailure, LeavesTheOldCheckpointOrTheNew) {
  power_test test;
  test.samples = 150;
  whole_job(test);
  EXPECT_EQ(test.problem, "");
  EXPECT_EQ(text_of(list_checkpoints("run", test.disk)), "300");
  EXPECT_GT(test.states, 300);
}

// The later job saves the same steps, the first of them with equal content.
TEST(PowerFailure, AfterAJobThatWasKilledAnywhere) {
  int calls = 0, states = 0;
  for (bool killed = true; killed; ++calls) {
    power_test test;
    test.goes_on = false;
    {
      checkpoint_folder folder("run", "job", test.disk);
      test.save(folder, 100, "first");
    }
    auto const go_on = [&] {
      checkpoint_folder folder("run", "job", test.disk);
      test.save(folder, 100, "another");
      test.save(folder, 200, "second");
    };
    killed = kill_before(test, calls, go_on);
    go_on();
    states += test.states;
    EXPECT_EQ(test.problem, "") << "killed before call " << calls;
    EXPECT_EQ(text_of(list_checkpoints("run", test.disk)), "200");
    std::vector<std::string> names;
    test.disk.names("run", plait::detail::disk::links::followed, names);
    EXPECT_EQ(names.size(), 1u) << "killed before call " << calls << ", something is left";
  }
  EXPECT_GT(calls, 30);
  EXPECT_GT(states, 2000);
}

// Each fsync in turn does nothing; the test must detect it.
TEST(PowerFailure, NoFsyncCanBeLeftOut) {
  for (int left_out = 0;; ++left_out) {
    power_test test;
    test.samples = 30;
    int syncs = 0;
    test.disk.does = [&](simulated::disk::sync) { return syncs++ != left_out; };
    whole_job(test);
    if (syncs <= left_out) {
      EXPECT_GT(left_out, 20);
      break;
    }
    EXPECT_NE(test.problem, "") << "without fsync " << left_out;
  }
}

// Calls of fsync that matter only after a job that was killed: in begin(), before it removes
// remains, and in a commit() whose checkpoint exists already.
TEST(PowerFailure, NamesThatAKilledJobLeftAreMadeSure) {
  for (bool const same_again : {false, true}) {
    bool found = false, killed = true;
    for (int call = 0; killed && !found; ++call) {
      power_test test;
      {
        checkpoint_folder folder("run", "job", test.disk);
        test.save(folder, 100, "first");
      }
      auto const go_on = [&] {
        checkpoint_folder folder("run", "job", test.disk);
        test.save(folder, same_again ? 200 : 100, "another");
      };
      killed = kill_before(test, call, go_on);
      int parents = 0;  // the first is the fsync of the folder above
      test.disk.does = [&](simulated::disk::sync kind) {
        return kind != simulated::disk::sync::parent || parents++ != 1;
      };
      if (same_again) {
        if (text_of(list_checkpoints("run", test.disk)) == "200 100") go_on();
      } else {
        checkpoint_folder folder("run", "job", test.disk);
        folder.abandon(folder.begin(200));
      }
      found = !test.problem.empty();
    }
    EXPECT_TRUE(found) << (same_again ? "commit" : "begin");
  }
}

// An fsync of the ranks' files, of the manifest or of the save's folder runs after the rename; the
// test must detect it.
TEST(PowerFailure, OtherOrdersAreSeen) {
  for (auto const kind :
       {simulated::disk::sync::file, simulated::disk::sync::manifest,
        simulated::disk::sync::optimizer_folder, simulated::disk::sync::partial_folder}) {
    power_test test;
    test.disk.late = {kind};
    whole_job(test);
    EXPECT_NE(test.problem, "");
  }
}

// A failed fsync is not repeated: the save is abandoned, and the previous checkpoint stays.
TEST(PowerFailure, AnFsyncThatFailsEndsTheSave) {
  using sync = simulated::disk::sync;
  for (auto const kind :
       {sync::file, sync::manifest, sync::optimizer_folder, sync::partial_folder, sync::parent}) {
    power_test test;
    checkpoint_folder folder("run", "job", test.disk);
    test.save(folder, 100, "first");
    int asked = 0;
    test.disk.fails = [&](sync one) { return one == kind && asked++ == 0 ? EIO : 0; };
    std::string message;
    try {
      test.save(folder, 200, "second");
    } catch (plait::input_error const& problem) {
      message = problem.what();
    }
    EXPECT_EQ(asked, 1) << "it was tried again";
    test.disk.fails = [](sync) { return 0; };
    EXPECT_EQ(test.problem, "");
    auto const list = text_of(list_checkpoints("run", test.disk));
    if (kind == sync::parent) {
      EXPECT_EQ(message,
                "checkpoint 'run/step-00000200' is written, but its name cannot be synchronised to "
                "the disk: Input/output error");
      EXPECT_EQ(list, "200 100");
    } else {
      EXPECT_EQ(message, kind == sync::file ? ""
                                            : "checkpoint 'run/step-00000200' cannot be written: "
                                              "Input/output error");
      EXPECT_EQ(list, "100");
    }
    test.save(folder, 300, "third");
    EXPECT_EQ(test.problem, "");
    EXPECT_EQ(text_of(list_checkpoints("run", test.disk)), "300");
  }
}

}  // namespace
