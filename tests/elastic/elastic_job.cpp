// SPDX-License-Identifier: Apache-2.0
// libs: gloo elastic checkpoint
//
// elastic_job PLAN STEPS FOLDER [NAME=VALUE]...: a small elastic job for elastic_jobs.py. The root
// rank writes losses.csv and, at the end, "hash: ..." of weights and optimizer state. Every rank
// writes the samples that it has trained on.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "plait/backend/gloo/gloo.hpp"
#include "plait/backend/host/threads.hpp"
#include "plait/checkpoint/checkpoints.hpp"
#include "plait/elastic/elastic.hpp"
#include "plait/observe/csv_log.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

constexpr std::size_t fields = 6, width = 32;
constexpr int slices = 12;
// Each step updates its buffers once.
using statistics = nn::batch_norm<nn::image<width, 1, 1>, {.group = 2}>;
using net = objective<
    sequential<named<"in", nn::linear<fields, width>>, named<"statistics", statistics>,
               nn::gelu<width>, nn::dropout<width, 100>, named<"mid", nn::linear<width, width>>,
               nn::gelu<width>, named<"out", nn::linear<width, 1>>>,
    nn::mse<1>>;
using any_ranks = data_parallel<at_launch>;
template <class... Policies>
struct job : parallel<net, hybrid<Policies..., reproducible<slices>>> {};

struct samples {
  using concept_tag = dataset_tag;
  using element = float;
  using target = float;
  std::size_t count = 100;
  std::size_t first = 0;  // another number selects other samples
  std::ptrdiff_t fails_at = -1;

  [[nodiscard]] std::size_t size() const { return count; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return fields; }
  void inputs(std::size_t sample, std::span<float> out) const {
    if (std::ptrdiff_t(sample) == fails_at)
      throw std::runtime_error("sample " + std::to_string(sample) + " cannot be read");
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>((7 * (sample + first) + 3 * i) % 23) / 11.0F - 1.0F;
  }
  void targets(std::size_t sample, std::span<float> out) const {
    out[0] = static_cast<float>(sample % 9) / 7.0F;
  }
};

struct settings {
  std::int64_t steps = 0;
  std::filesystem::path folder;
  std::map<std::string, std::string> named;

  [[nodiscard]] std::int64_t number(char const* name, std::int64_t otherwise) const {
    auto const found = named.find(name);
    return found == named.end() ? otherwise : std::atoll(found->second.c_str());
  }
};

void append(std::filesystem::path const& path, std::string const& line) {
  int const file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0 || ::write(file, line.data(), line.size()) != ssize_t(line.size()))
    throw std::runtime_error("cannot write " + path.string());
  ::close(file);
}

std::uint64_t add(std::uint64_t hash, void const* data, std::size_t bytes) {
  auto const* const at = static_cast<unsigned char const*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100000001b3u;
  return hash;
}

/// The program of a rank. In an elastic job it may be called again.
template <class Job, class Rank>
void train(Rank& rank, settings const& of, stop_on_signals const* stop, int generation) {
  auto const batch_size = static_cast<std::size_t>(of.number("batch", 24));
  samples const whole{
      .count = std::max<std::size_t>(100, 4 * batch_size),
      .first = static_cast<std::size_t>(of.number("data", 0)),
      .fails_at = rank.is_root() ? std::ptrdiff_t(of.number("unreadable", -1)) : -1};
  auto const data = whole | plait::random([noise = float(of.number("noise", 0))](
                                              std::span<float> all, sample_random& numbers) {
                      for (auto& value : all) value += noise * float(numbers.uniform(-0.1, 0.1));
                    });
  auto trainer = plait::trainer<Job>(
      rank, adamw{.learning_rate = 0.01F * float(of.number("rate", 1))},
      {.seed = std::uint64_t(of.number("seed", 1)), .clip = 0.5, .average = 0.9, .stop = stop});
  auto all = batches(data, global_batch<>{batch_size}, rank,
                     {.seed = 2,
                      .last = last_batch::keep,
                      .epochs = 0,
                      .ahead = int(of.number("ahead", 0)),
                      .readers = int(of.number("readers", 1))});
  std::unique_ptr<checkpoints> saves;
  std::uint64_t next = static_cast<std::uint64_t>(trainer.step_number());
  if (of.number("every", 0) > 0) {
    saves = std::make_unique<checkpoints>(trainer, all,
                                          checkpoint_options{.folder = of.folder / "saves",
                                                             .every = of.number("every", 0),
                                                             .keep = int(of.number("keep", 3))});
    next = saves->resume();
    trainer.on_stop([&](step_report const&) {
      saves->save();
      saves->finish();
    });
  }
  csv_log losses(
      rank, of.folder / "losses.csv",
      {.append = true, .from_step = trainer.step_number() - (trainer.last_report() ? 1 : 0)});
  if (auto const last = trainer.last_report()) losses.write(*last);
  append(of.folder / "events",
         "begin " + std::to_string(generation) + " " + std::to_string(rank.world_rank()) + " of " +
             std::to_string(rank.world_size()) + " step " + std::to_string(trainer.step_number()) +
             " pid " + std::to_string(::getpid()) + " ms " +
             std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count()) +
             "\n");
  char const* const mine = std::getenv("PLAIT_MEMBER");
  auto const trained = of.folder / ("samples-" + std::string(mine == nullptr ? "0" : mine));
  bool const is_measured = of.number("measured", 0) > 0;  // measures only steps
  auto begin = std::chrono::steady_clock::now();
  for (auto const& batch : all.from(next)) {
    if (trainer.step_number() >= of.steps) break;
    if (is_measured) {
      if (trainer.step_number() == of.steps / 10) begin = std::chrono::steady_clock::now();
      trainer.step(batch);
      continue;
    }
    std::string line = std::to_string(generation) + " " + std::to_string(trainer.step_number()) +
                       " " + std::to_string(rank.world_rank()) + " " +
                       std::to_string(rank.world_size());
    if (rank.world_size() / rank.grid().size(batch_axes) == 1)
      for (int m = 0; m < batch.microbatches; ++m) {
        auto const slice = batch.slice_of(m);
        for (std::size_t i = 0; i < slice.count; ++i)
          line += " " + std::to_string(batch.sample_numbers[std::size_t(m) * batch.samples + i]);
      }
    append(trained, line + "\n");
    if (of.number("loops", -1) == trainer.step_number() &&
        rank.world_rank() == of.number("loops_on", 0) && generation <= of.number("loops_until", 1))
      for (;;) std::this_thread::sleep_for(std::chrono::milliseconds{10});
    if (of.number("throws", -1) == trainer.step_number() && rank.world_rank() == 0)
      throw std::runtime_error("the program is wrong");
    if (auto const pause = of.number("pause", 0); pause > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds{pause});
    auto report = trainer.step(batch);
    report.waited = 0;  // a time differs between runs
    trainer.between_steps([&] {
      if (of.number("full", -1) == report.step && rank.is_root())
        throw input_error("the log has no room");
      losses.write(report);
    });
    if (saves) saves->after_step();
  }
  if (!is_measured) trainer.after_steps();
  std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
  if (is_measured && rank.is_root()) std::printf("seconds: %.6f\n", seconds.count());
  std::uint64_t hash = 0xcbf29ce484222325u;
  auto const mix = [&] {
    trainer.export_parameters(
        [&]<class T>(std::string const& name, auto const&, std::span<T const> values) {
          hash = add(add(hash, name.data(), name.size()), values.data(), values.size_bytes());
        });
  };
  mix();
  trainer.with_ema(mix);
  if (rank.is_root()) {
    std::printf("hash: %016llx\n", static_cast<unsigned long long>(hash));
    std::fflush(stdout);
  }
}

template <class Job>
int run(settings const& of) {
  if (of.number("threads", 0) > 0) {
    launch<Job>(threads{.data_ranks = int(of.number("threads", 1))},
                [&](auto& rank) { train<Job>(rank, of, nullptr, 0); });
    return 0;
  }
  stop_on_signals const stop;
  using std::chrono::milliseconds;
  if (of.number("fixed", 0) > 0) {
    launch<Job>(processes{.engine = plait::gloo(), .flight_record = "off"},
                [&](auto& rank) { train<Job>(rank, of, &stop, 0); });
    return 0;
  }
  try {
    elastic const backend{.engine = plait::gloo(),
                          .gather = milliseconds{of.number("gather", 1500)},
                          .timeout = milliseconds{of.number("timeout", 5000)},
                          .wait_for_members = milliseconds{of.number("wait", 20000)},
                          .wait_for_state = milliseconds{of.number("wait_for_state", 3000)},
                          .store_wait = milliseconds{of.number("store_wait", 600'000)},
                          .token = of.named.contains("token") ? of.named.at("token") : ""};
    launch<Job>(backend,
                [&](auto& rank) { train<Job>(rank, of, &stop, rank.generation()->number()); });
  } catch (stopped_by_signal const& end) {
    std::fprintf(stderr, "%s\n", end.what());
    return end.exit_code();
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) return 2;
  settings of{std::atoll(words[2]), words[3], {}};
  for (int i = 4; i < count; ++i) {
    std::string const word = words[i];
    of.named[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  std::filesystem::create_directories(of.folder);
  std::string const plan = words[1];
  try {
    if (plan == "dp") return run<job<any_ranks>>(of);
    if (plan == "dp.tp2") return run<job<any_ranks, tensor_parallel<2>>>(of);
    if (plan == "dp.pp2") return run<job<any_ranks, pipeline<2, interleaved<2>>>>(of);
  } catch (refused_rank const& problem) {
    std::fprintf(stderr, "elastic_job: %s\n", problem.what());
    return problem.exit_code();
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "elastic_job: %s\n", problem.what());
    return 1;
  }
  return 2;
}
