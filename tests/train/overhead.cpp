// SPDX-License-Identifier: Apache-2.0
// Runs a training step twice: by a plan on one rank, and by hand from the same layers with views on
// arenas and without a policy. overhead.sh counts the instructions of both.
//   overhead planned | by_hand
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/plait.hpp"

namespace {

namespace nn = plait::nn;

constexpr std::size_t width = 8, samples = 64;

using linear = nn::linear<width, width>;
using norm = nn::layer_norm<width>;
using gelu = nn::gelu<width>;
using loss = nn::cross_entropy<width>;
using model = plait::objective<plait::sequential<linear, norm, gelu, linear>, loss>;
using policy =
    plait::hybrid<plait::data_parallel<1>, plait::tensor_parallel<1>, plait::pipeline<1>>;
struct job : plait::parallel<model, policy> {};

using rank_type = plait::threads::rank_type;
using operations = plait::ext::operations<rank_type>;
using batch_type = plait::device_batch<plait::ext::host_memory>;
using matrix = plait::view<float>;
using read_matrix = plait::view<float const>;

/// Parameters begin at cache lines, by hand and under a plan.
constexpr std::size_t aligned(std::size_t count) { return (count + 63) / 64 * 64; }

/// The parameters that a layer's body asks for by key, as a program without plans would pass them.
struct linear_parameters {
  float* data;
  static constexpr std::size_t count = aligned(width * width) + aligned(width);
  matrix operator[](linear::weight) const { return {data, width, width}; }
  matrix operator[](linear::bias) const { return {data + aligned(width * width), 1, width}; }
};
struct norm_parameters {
  float* data;
  static constexpr std::size_t count = 2 * aligned(width);
  matrix operator[](norm::weight) const { return {data, 1, width}; }
  matrix operator[](norm::bias) const { return {data + aligned(width), 1, width}; }
};
struct saved_input {
  read_matrix x;
  read_matrix operator[](plait::input_slot) const { return x; }
};
template <class View>  // forward writes it, backward reads it
struct saved_norm : saved_input {
  View statistics;
  using saved_input::operator[];
  View operator[](norm::statistics) const { return statistics; }
};
template <class View>
struct saved_loss {
  std::pair<read_matrix, plait::token_view<>> x;
  View largest, sums;
  std::pair<read_matrix, plait::token_view<>> operator[](plait::input_slot) const { return x; }
  View operator[](loss::max) const { return largest; }
  View operator[](loss::terms) const { return sums; }
};

/// Read-only views, which forward and backward_input take.
template <class Parameters>
struct read_only {
  Parameters of;
  auto operator[](auto key) const { return read_matrix(of[key]); }
};

class training_by_hand {
 public:
  training_by_hand(rank_type& rank, plait::adamw const& optimizer, std::vector<float> const& start)
      : rank_(rank), optimizer_(optimizer) {
    std::copy(start.begin(), start.end(), elements(parameters_));
    std::fill_n(elements(states_), 2 * count, 0.0f);
  }

  double step(batch_type const& batch) {
    auto const queue = rank_.device().on(plait::ext::stream::compute);
    std::size_t const rows = batch.rows();
    float* const values = elements(parameters_);
    float* const sums = elements(gradients_);
    queue.fill(0.0f, sums, count);
    auto const labels = loss::count({batch.labels(), rows});
    plait::ext::layer_context context;
    context.batch = rows;
    double const loss_scale = 1.0 / static_cast<double>(labels);
    context.step = &step_;
    operations ops{rank_, context, 0};

    float* const p2 = values + linear_parameters::count;
    float* const p4 = p2 + norm_parameters::count;
    float* const g2 = sums + linear_parameters::count;
    float* const g4 = g2 + norm_parameters::count;
    read_only<linear_parameters> const first{{values}}, last{{p4}};
    read_only<norm_parameters> const middle{{p2}};

    matrix const x{reinterpret_cast<float*>(batch.inputs), rows, width};
    matrix const h1 = activation(0, rows), h2 = activation(1, rows), h3 = activation(2, rows),
                 logits = activation(3, rows);
    float* const rest = elements(activations_) + 4 * rows * width;
    saved_input const saved1{x}, saved3{h2}, saved4{h3};
    saved_norm<matrix> const saved2{{h1}, {rest, rows, 2}};
    saved_norm<read_matrix> const kept2{{h1}, saved2.statistics};
    plait::token_view<> const targets{reinterpret_cast<std::int32_t const*>(batch.targets), rows};
    saved_loss<matrix> const saved5{
        {logits, targets}, {rest + 2 * rows, rows, 1}, {rest + 3 * rows, rows, 2}};
    saved_loss<read_matrix> const kept5{saved5.x, saved5.largest, saved5.sums};

    double out = 0;
    auto const forward = [&](auto const& p, auto const& of, auto const& y, auto const& saved) {
      return plait::execution::forward_body{p, of, y, saved, nothing, context};
    };
    linear::forward(ops, forward(first, read_matrix(x), h1, saved1));
    norm::forward(ops, forward(middle, read_matrix(h1), h2, saved2));
    gelu::forward(ops, forward(nothing, read_matrix(h2), h3, saved3));
    linear::forward(ops, forward(last, read_matrix(h3), logits, saved4));
    loss::forward(ops, forward(nothing, saved5.x, plait::loss_sum{&out, &loss_scale}, saved5));

    matrix const d = {elements(deltas_), rows, width};
    matrix const e = {elements(deltas_) + rows * width, rows, width};
    auto const input = [&](auto const& p, auto const& saved, auto const& dy, auto const& dx) {
      return plait::execution::backward_input_body{p, dy, dx, saved, nothing, context};
    };
    auto const weights = [&](auto const& p, auto const& saved, auto const& dy, auto const& dp) {
      return plait::execution::backward_parameters_body{p, dy, dp, saved, nothing, context};
    };
    loss::backward_input(ops, input(nothing, kept5, plait::loss_seed{&loss_scale}, d));
    linear::backward_parameters(ops, weights(last, saved4, read_matrix(d), linear_parameters{g4}));
    linear::backward_input(ops, input(last, saved4, read_matrix(d), e));
    gelu::backward_input(ops, input(nothing, saved3, read_matrix(e), d));
    norm::backward_parameters(ops, weights(middle, kept2, read_matrix(d), norm_parameters{g2}));
    norm::backward_input(ops, input(middle, kept2, read_matrix(d), e));
    linear::backward_parameters(ops,
                                weights(first, saved1, read_matrix(e), linear_parameters{sums}));

    auto const now = optimizer_.numbers_of(step_, 1.0);
    plait::ext::update_range const all{0, count};
    double const gradient_scale = 1;
    optimizer_.update(queue,
                      plait::ext::optimizer_arena<float>{.parameters = values,
                                                         .gradients = sums,
                                                         .states = elements(states_),
                                                         .count = count,
                                                         .state_stride = count,
                                                         .ranges = &all,
                                                         .range_count = 1,
                                                         .gradient_scale = &gradient_scale},
                      &now);
    ++step_;
    return out;
  }

 private:
  static constexpr std::size_t count = 2 * linear_parameters::count + norm_parameters::count;
  static constexpr struct {
  } nothing{};

  static float* elements(plait::ext::host_device::arena const& of) {
    return reinterpret_cast<float*>(of.data());
  }
  [[nodiscard]] matrix activation(std::size_t index, std::size_t rows) const {
    return {elements(activations_) + index * rows * width, rows, width};
  }

  rank_type& rank_;
  plait::adamw optimizer_;
  std::uint32_t step_ = 0;
  plait::ext::host_device::arena parameters_{count * sizeof(float)},
      gradients_{count * sizeof(float)}, states_{2 * count * sizeof(float)},
      activations_{(4 * width + 5) * samples * sizeof(float)},
      deltas_{2 * samples * width * sizeof(float)};
};

}  // namespace

/// The part that is counted. callgrind starts and stops at its name.
extern "C" [[gnu::noinline]] void plait_measured_steps(double (*step)(void*), void* of, int count,
                                                       double* losses) {
  for (int i = 0; i < count; ++i) losses[i] = step(of);
}

namespace {

template <class Step>
void measure(Step step) {
  std::vector<double> losses(12);
  auto const call = [](void* of) { return (*static_cast<Step*>(of))(); };
  // The first steps allocate the workspace.
  for (int i = 0; i < 2; ++i) losses[std::size_t(i)] = step();
  // The volatile pointer prevents a copy of the function under another name.
  auto* volatile const measured = plait_measured_steps;
  measured(call, &step, 10, losses.data() + 2);
  for (double const value : losses) std::printf("%.17g\n", value);
}

}  // namespace

int main(int count, char** words) {
  std::string const how = count > 1 ? words[1] : "";
  if (how != "planned" && how != "by_hand")
    return std::puts("usage: overhead planned | by_hand"), 2;
  auto const data = plait::in_memory<float>::random_classes(samples, width, width);
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    plait::adamw const optimizer{.learning_rate = 0.01};
    auto batches = plait::batches(data, plait::global_batch<samples>{}, rank, {.epochs = 0});
    auto const& batch = batches.at(0);
    auto trainer = plait::trainer<job>(rank, optimizer);
    std::vector<float> start;
    trainer.export_parameters([&](auto const&, auto const&, std::span<float const> values) {
      start.insert(start.end(), values.begin(), values.end());
      start.resize(aligned(start.size()));
    });
    if (how == "planned") return measure([&] { return trainer.step(batch).loss; });
    training_by_hand by_hand(rank, optimizer, start);
    measure([&] { return by_hand.step(batch); });
  });
}
