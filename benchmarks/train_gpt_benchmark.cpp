// SPDX-License-Identifier: Apache-2.0
// One training step of train_gpt's models under each compiled plan, the serial run first. The time
// is the average of a step, without launch, first step and output.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "train_gpt/registry.hpp"

namespace {

constexpr std::size_t batch = 16;

plait::byte_text text_for(std::size_t sequence) {
  std::string bytes;
  for (unsigned i = 0; i < 60000; ++i) bytes.push_back(static_cast<char>(' ' + i * i % 89));
  return plait::byte_text::from_text(bytes, sequence);
}

void train(benchmark::State& state, train_gpt::entry const& job) {
  using clock = std::chrono::steady_clock;
  auto const text = text_for(job.sequence);
  std::int64_t const timed_steps = job.size == "tiny" ? 20 : 3;
  std::int64_t moved = 0;
  train_gpt::request wanted;
  wanted.text = &text;
  wanted.steps = 1 + timed_steps;
  wanted.batch = batch;
  clock::time_point begin, end;
  wanted.on_step = [&](plait::step_report const& report, double) {
    (report.step == 0 ? begin : end) = clock::now();
  };
  for (auto _ : state) {
    moved = 0;
    for (auto const& group : job.run(wanted).moved) moved += group.bytes;
    state.SetIterationTime(std::chrono::duration<double>(end - begin).count() /
                           double(timed_steps));
  }
  state.counters["ranks"] = job.ranks;
  state.counters["tokens/s"] = benchmark::Counter(
      double(state.iterations()) * double(batch * job.sequence), benchmark::Counter::kIsRate);
  state.counters["bytes_sent"] = double(moved) / double(wanted.steps);
}

}  // namespace

int main(int count, char** words) {
  for (bool const serial : {true, false})
    for (auto const& job : train_gpt::entries())
      if ((job.plan == "serial") == serial && !job.reads_tokens && job.backend == "host")
        benchmark::RegisterBenchmark((job.size + "/" + job.precision + "/" + job.plan).c_str(),
                                     [&job](benchmark::State& state) { train(state, job); })
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&count, words);
  if (benchmark::ReportUnrecognizedArguments(count, words)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
