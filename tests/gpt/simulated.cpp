// SPDX-License-Identifier: Apache-2.0
// train_gpt under the simulated device, plan by plan: many orders of events give the bits of the
// run in order and of host threads, without a race; and each wait of the plan, left out, is found.
//   gpt_simulated TEXT SCHEDULES [PLAN...]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/data/byte_text.hpp"
#include "train_gpt/backend_simulated.hpp"
#include "train_gpt/registry.hpp"

namespace {

using train_gpt::entry;

/// Keeps all weights of the end, as bits.
struct kept_weights : train_gpt::tensor_sink {
  std::vector<float> values;
  void write(std::string const&, std::span<float const> some) override {
    values.insert(values.end(), some.begin(), some.end());
  }
  void write(std::string const&, std::span<double const>) override { std::abort(); }
};

/// Losses and final weights of two steps.
std::vector<float> train(entry const& job, plait::byte_text const& text,
                         plait::simulated const& backend) {
  train_gpt::simulation const how{backend};
  kept_weights weights;
  train_gpt::request wanted;
  wanted.text = &text;
  wanted.steps = 2;
  wanted.batch = 4;
  wanted.in_order = true;
  wanted.save = &weights;
  wanted.simulated = &how;
  std::vector<float> out;
  wanted.on_step = [&](plait::step_report const& report, double) {
    out.push_back(static_cast<float>(report.loss));
  };
  job.run(wanted);
  out.insert(out.end(), weights.values.begin(), weights.values.end());
  return out;
}

entry const* on_host(entry const& like) {
  for (auto const& job : train_gpt::entries())
    if (job.backend == "host" && job.plan == like.plan && job.size == like.size &&
        job.precision == like.precision && job.lora == like.lora)
      return &job;
  return nullptr;
}

/// The number of faults found in one plan.
int examine(entry const& job, plait::byte_text const& text, int schedules) {
  int faults = 0;
  plait::ext::simulated_statistics statistics;
  auto const expected =
      train(job, text, {.order = plait::ext::simulated_order::in_order, .statistics = &statistics});
  auto const* const host = on_host(job);
  if (host == nullptr || train(*host, text, {}) != expected) {
    std::printf("%s: host threads give other bits\n", job.plan.c_str());
    ++faults;
  }
  for (int seed = 0; seed < schedules; ++seed) {
    if (train(job, text, {.seed = static_cast<std::uint64_t>(seed)}) == expected) continue;
    std::printf("%s: schedule %d gives other bits\n", job.plan.c_str(), seed);
    ++faults;
  }
  for (auto const& site : statistics.sites) {
    try {
      train(job, text, {.without = site});
      std::printf("%s: without the wait '%s' nothing is found\n", job.plan.c_str(),
                  to_string(site).c_str());
      ++faults;
    } catch (plait::ext::race_error const&) {
    }
  }
  std::printf("%-12s %3zu wait sites, %6llu operations, %d schedules, %d faults\n",
              job.plan.c_str(), statistics.sites.size(),
              static_cast<unsigned long long>(statistics.operations), schedules, faults);
  return faults;
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return std::puts("usage: gpt_simulated TEXT SCHEDULES [PLAN...]"), 2;
  try {
    int const schedules = std::atoi(words[2]);
    std::vector<std::string> const wanted(words + 3, words + count);
    int faults = 0, plans = 0;
    for (auto const& job : train_gpt::entries()) {
      bool is_wanted = wanted.empty();
      for (auto const& plan : wanted) is_wanted = is_wanted || plan == job.plan;
      if (job.backend != "simulated" || !is_wanted) continue;
      auto const text = plait::byte_text::from_file(words[1], job.sequence);
      ++plans;
      faults += examine(job, text, schedules);
    }
    if (plans == 0) return std::puts("no such plan on backend simulated"), 1;
    return faults == 0 ? 0 : 1;
  } catch (std::exception const& problem) {
    return std::printf("%s\n", problem.what()), 1;
  }
}
