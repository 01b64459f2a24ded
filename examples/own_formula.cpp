// SPDX-License-Identifier: Apache-2.0
// ctest:
// Layers written as formulas: a gated block, and attention with normalised queries and keys. The
// compiler derives their backwards and the ways in which tensor ranks can cut them. The program
// prints these, and trains under four plans to the same losses.
#include <plait/formula.hpp>
#include <plait/plait.hpp>

#include <cmath>
#include <cstdio>
#include <string>

using namespace plait::literals;

// example-begin gated
template <std::size_t In, std::size_t Hidden>
struct gated_block {
  static constexpr plait::parameter<"gate", plait::extents<In, Hidden>, plait::normal(0.2)> gate{};
  static constexpr plait::parameter<"up", plait::extents<In, Hidden>, plait::normal(0.2)> up{};
  static constexpr plait::parameter<"down", plait::extents<Hidden, In>, plait::normal(0.2)> down{};
  using input = plait::features<In>;
  static constexpr auto formula(auto x) {
    return matmul(silu(matmul(x, gate)) * matmul(x, up), down);
  }
};
// example-end

// example-begin attention
template <std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct normed_attention {
  using square = plait::extents<Width, Width>;
  using row = plait::extents<Width / Heads>;
  static constexpr plait::parameter<"qkv", plait::extents<Width, 3 * Width>, plait::normal(0.2)>
      qkv{};
  static constexpr plait::parameter<"q_norm", row, plait::constant(1.0)> q_norm{};
  static constexpr plait::parameter<"k_norm", row, plait::constant(1.0)> k_norm{};
  static constexpr plait::parameter<"out", square, plait::normal(0.2)> out{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    auto const all = matmul(x, qkv);
    auto const q = rms_norm(heads<Heads>(part<0, 3>(all)), q_norm);
    auto const k = rms_norm(heads<Heads>(part<1, 3>(all)), k_norm);
    auto const v = heads<Heads>(part<2, 3>(all));
    auto const weights = causal_softmax(einsum<"thd,shd->hts">(q, k) * 0.5_c);
    return matmul(side_by_side(einsum<"hts,shd->thd">(weights, v)), out);
  }
};
// example-end

// example-begin function
struct soft_clip {  // plait derives its derivative
  PLAIT_HOST_DEVICE auto operator()(auto x, auto limit) const {
    using std::sqrt;
    return x / sqrt(1 + x * x / (limit * limit));
  }
};
template <std::size_t Width>
struct clipped {
  static constexpr plait::parameter<"limit", plait::extents<Width>, plait::constant(2.0)> limit{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return map(soft_clip{}, x, 1_c + limit * limit); }
};
// example-end

// example-begin place
struct distance_penalty {  // the further back a position is, the less it counts
  PLAIT_HOST_DEVICE double operator()(plait::formula::index_place const& at) const {
    double const slope = 1.0 / double(2 << at[0]);  // at[0]: the head, at[1]: the other position
    return slope * (double(at[1]) - double(at.position));
  }
};
template <std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct attention_with_distances {
  static constexpr plait::parameter<"qkv", plait::extents<Width, 3 * Width>, plait::normal(0.2)>
      qkv{};
  using input = plait::features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr auto formula(auto x) {
    auto const all = matmul(x, qkv);
    auto const q = heads<Heads>(part<0, 3>(all));
    auto const k = heads<Heads>(part<1, 3>(all));
    auto const v = heads<Heads>(part<2, 3>(all));
    auto const scores = einsum<"thd,shd->hts">(q, k) + plait::formula::at(distance_penalty{});
    return side_by_side(einsum<"hts,shd->thd">(causal_softmax(scores), v));
  }
};
// example-end

template <std::size_t Tokens, std::size_t Width>
struct lookup {
  static constexpr plait::parameter<"table", plait::extents<Tokens, Width>, plait::normal(0.5)>
      table{};
  using input = plait::tokens;
  static constexpr auto formula(auto ids) { return gather(table, ids); }
};

using model = plait::sequential<
    lookup<256, 24>, plait::residual<normed_attention<24, 4, 6>>,
    plait::residual<plait::sequential<plait::nn::rms_norm<24>, gated_block<24, 48>>>, clipped<24>,
    attention_with_distances<24, 4, 6>, plait::nn::linear<24, 256>>;

template <class Policy>
double loss_under() {
  using job =
      plait::parallel<plait::objective<model, plait::nn::cross_entropy<256>>, Policy, double>;
  std::string text;
  for (int i = 0; i < 600; ++i) text += "plait "[i * i % 6];
  auto const data = plait::byte_text::from_text(text, 6);
  double loss = 0;
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.01});
    for (auto const& batch : plait::batches(data, plait::global_batch<24>{}, rank, {.epochs = 2})) {
      auto const step = trainer.step(batch);
      if (rank.is_root()) loss = step.loss;
    }
  });
  return loss;
}

int main() {
  struct job : plait::parallel<plait::objective<model, plait::nn::cross_entropy<256>>,
                               plait::tensor_parallel<2>> {};
  std::fputs(plait::explain(job::plan(), {.rows = 24}).c_str(), stdout);
  double const serial = loss_under<plait::serial>();
  double const others[]{loss_under<plait::data_parallel<2>>(),
                        loss_under<plait::tensor_parallel<2>>(), loss_under<plait::pipeline<2>>()};
  std::printf("loss %.12f\n", serial);
  for (double const loss : others)
    if (!(std::abs(loss - serial) < 1e-12)) return std::printf("another loss: %.15f\n", loss), 1;
}
