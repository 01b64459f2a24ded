// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <plait/draw/drawn_plan_of.hpp>

#include "train_gpt/model.hpp"
#include "train_gpt/registry.hpp"

// The compiled part of a job: one function that trains with one plan, model and backend, all of
// which are template arguments.
namespace train_gpt {

template <class Job>
plait::workload workload_of(request const& wanted, std::size_t sequence) {
  using plan = typename Job::plan_type;
  int const microbatches = wanted.microbatches > 0 ? wanted.microbatches : plan::stages;
  auto const pieces =
      std::size_t(plan::slicing.count(plan::grid.size(plait::axis::data), microbatches));
  return {.rows = wanted.batch / pieces * sequence,
          .microbatches = plan::slices > 0 ? 1 : microbatches,
          .data_ranks = std::max(1, wanted.data_ranks),
          .gradient_norm = wanted.clip > 0};
}

template <class Job>
[[gnu::cold]] std::vector<tensor_shape> parameters_of() {
  using plan = typename Job::plan_type;
  std::vector<tensor_shape> out;
  for (auto const& parameter : plan::blocks_of_model(plan::grid.with_ranks_at_launch(1))) {
    auto const info = plan::entries[parameter.entry].info.unpadded();
    out.push_back({parameter.name, info.rank == 2
                                       ? std::vector<std::size_t>{info.rows, info.columns}
                                       : std::vector<std::size_t>{info.columns}});
  }
  return out;
}

/// Continues a text by one byte or token at a time. Every rank makes the same choices.
template <class Size, class Trainer>
[[gnu::cold]] std::vector<std::int32_t> generate(Trainer& trainer, typename Size::text const& data,
                                                 int count, std::uint64_t seed) {
  std::size_t const sequence = data.sequence_length();
  std::vector<std::int32_t> window(sequence);
  data.inputs(0, window);
  auto const prompt = static_cast<std::ptrdiff_t>(sequence / 2);
  std::vector<std::int32_t> text(window.begin(), window.begin() + prompt);
  auto& device = trainer.rank().device();
  auto const room = device.allocate(sequence * sizeof(std::int32_t));
  plait::device_batch<typename std::remove_reference_t<decltype(device)>::memory> batch;
  batch.samples = 1;
  batch.sequence = sequence;
  batch.inputs = room.data();
  batch.input = {plait::ext::value_kind::tokens, 1};
  for (int made = 0; made < count; ++made) {
    std::size_t const length = std::min(text.size(), sequence);
    for (std::size_t i = 0; i < sequence; ++i)
      // Attention is causal, so the positions after `length` do not change the result.
      window[i] = i < length ? text[text.size() - length + i] : 0;
    device.upload(window.data(), room.data(), sequence * sizeof(std::int32_t));
    auto const logits = trainer.predict(batch);  // (sequence, vocabulary and its padding)
    auto const row = logits.subspan((length - 1) * (logits.size() / sequence), Size::vocabulary);
    double const temperature = 0.8;
    double largest = row[0], sum = 0;
    for (auto const logit : row) largest = std::max<double>(largest, logit);
    for (auto const logit : row) sum += std::exp((logit - largest) / temperature);
    double left = sum * plait::ext::uniform_from_bits(
                            plait::ext::random_word({seed, 0x67656e, 0}, std::uint64_t(made)));
    std::size_t choice = 0;
    for (; choice + 1 < row.size(); ++choice)
      if ((left -= std::exp((row[choice] - largest) / temperature)) <= 0) break;
    text.push_back(static_cast<std::int32_t>(choice));
  }
  text.erase(text.begin(), text.begin() + prompt);
  return text;
}

template <class Size, class Job, class Backend>
outcome run(request const& wanted, Backend const& backend) {
  using plan = typename Job::plan_type;
  using T = typename Job::parameter_element;
  using sum = typename Job::gradient_element;
  outcome out;
  auto const& data = *std::get<typename Size::text const*>(wanted.text);
  plait::launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(
        rank,
        plait::adamw{.learning_rate = wanted.learning_rate, .weight_decay = wanted.weight_decay},
        {.seed = wanted.seed,
         .clip = wanted.clip,
         .replay = wanted.replay,
         .stop = wanted.stop,
         .outer = wanted.outer});
    if (wanted.load) wanted.load(*trainer.state());
    auto batches = plait::batches(
        data, plait::global_batch<>{wanted.batch}, rank,
        {.seed = wanted.seed,
         .how = wanted.in_order ? plait::sample_order::sequential : plait::sample_order::shuffled,
         .epochs = 0,
         .microbatches = wanted.microbatches});
    std::unique_ptr<rank_checkpoints> checkpoints;
    if (wanted.checkpoints)
      checkpoints =
          wanted.checkpoints(trainer.state(), batches.description(), batches.steps_per_epoch());
    std::uint64_t next = checkpoints ? checkpoints->resume() : 0;
    using clock = std::chrono::steady_clock;
    auto const begin = clock::now();
    std::int64_t const first = trainer.step_number();
    auto const say = [&](plait::step_report const& report) {
      double const seconds = std::chrono::duration<double>(clock::now() - begin).count();
      if (rank.is_root() && wanted.on_step)
        wanted.on_step(report, double(report.step + 1 - first) *
                                   double(wanted.batch * Size::sequence) / seconds);
    };
    auto const save = [&] {
      if (wanted.save != nullptr)
        trainer.export_parameters(
            [&](std::string const& name, auto const&, std::span<T const> values) {
              wanted.save->write(name, values);
            });
    };
    trainer.on_stop([&](plait::step_report const& last) {
      trainer.between_steps([&] { say(last); });
      save();
      if (checkpoints) checkpoints->finish();
    });
    while (trainer.step_number() < wanted.steps) {
      auto const report = trainer.step(batches.at(next++));
      if (checkpoints) checkpoints->after_step();
      if constexpr (plan::local_steps == 0) {  // replicas have no gradients of the batch
        if (wanted.gradients != nullptr)
          trainer.export_gradients(
              [&](std::string const& name, auto const&, std::span<sum const> values) {
                wanted.gradients->write(name, values);
              });
      }
      trainer.between_steps([&] { say(report); });
    }
    trainer.after_steps();
    if (checkpoints) checkpoints->finish();
    std::array<std::int64_t, plait::ext::axis_set_count> moved{};
    auto const& sets = rank.groups().sets();
    for (int i = 0; i < sets.size(); ++i)
      moved[std::size_t(i)] = std::int64_t(rank.group(sets[i]).counted().total_bytes());
    plait::ext::sum_over_world(rank, std::span<std::int64_t>(moved));
    save();
    std::vector<std::int32_t> sample;
    if (wanted.generate > 0) sample = generate<Size>(trainer, data, wanted.generate, wanted.seed);
    if (!rank.is_root()) return;
    out.sample = std::move(sample);
    for (int i = 0; i < sets.size(); ++i)
      if (auto const bytes = moved[std::size_t(i)]; bytes > 0)
        out.moved.push_back({plait::ext::to_string(sets[i]), bytes});
  });
  return out;
}

/// Returns the workload for which a plan is explained.
template <class Size, class Job, class Backend>
[[gnu::cold]] plait::workload planned_load(request const& wanted) {
  auto load = workload_of<Job>(wanted, Size::sequence);
  load.ranked_sums = std::string_view(Backend::name) == process_backend;
  return load;
}

/// Adds a job to the list. Backend::make(request) returns the backend to launch it on. A job whose
/// size `explains_alone` has no run.
template <class Size, class Job, class Backend, int Lora = 0>
[[gnu::cold]] registration enter(char const* size, char const* plan_name, char const* precision) {
  using plan = typename Job::plan_type;
  entry job;
  job.size = size;
  job.plan = plan_name;
  job.precision = precision;
  job.backend = Backend::name;
  job.ranks = plan::grid.with_ranks_at_launch(1).world_size();
  job.data_ranks = plan::grid.size(plait::axis::data);
  job.stages = plan::stages;
  job.slices = plan::slices;
  job.parts = plan::slicing.count(job.data_ranks, 1);
  job.local_steps = plan::local_steps;
  if (plan::has_recompute) job.recompute = to_string(plan::recompute_policy.what);
  job.lora = Lora;
  job.sequence = Size::sequence;
  job.vocabulary = Size::vocabulary;
  job.reads_tokens = std::is_same_v<typename Size::text, plait::token_shards>;
  job.parameters = parameters_of<Job>;
  job.config = Size::config;
  job.explain = [](request const& wanted, plait::host_map const& hosts) {
    return plait::explain(Job::plan(), planned_load<Size, Job, Backend>(wanted),
                          {.program = wanted.program, .hosts = hosts, .device = Backend::device()});
  };
  // The main program draws the plan.
  job.draw = [](request const& wanted) {
    return plait::ext::drawn_plan_of(Job::plan(), planned_load<Size, Job, Backend>(wanted));
  };
  if constexpr (std::string_view(Backend::name) == process_backend)
    job.hosts = [](request const& wanted) {
      plait::host_map hosts;
      plait::launch<Job>(Backend::make(wanted), [&](auto& rank) { hosts = rank.hosts(); });
      return hosts;
    };
  if constexpr (!requires { Size::explains_alone; })
    job.run = [](request const& wanted) { return run<Size, Job>(wanted, Backend::make(wanted)); };
  return registration(job);
}

}  // namespace train_gpt
