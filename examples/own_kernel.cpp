// SPDX-License-Identifier: Apache-2.0
// ctest:
// A layer with kernels of its own, in float and in bfloat16, which scale rows to length 1.
#include <plait/plait.hpp>
#include <plait/testing/check_layer.hpp>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <type_traits>

// example-begin kernels
// y = x / |x| for each row, and 1 / |x|, which is kept. Sums are made in the type of `inverse`.
struct to_length_one {
  void operator()(auto const&, auto x, auto y, auto inverse) const {
    using sum_type = typename decltype(inverse)::element;  // float if x is bfloat16
    for (std::size_t r = 0; r < x.rows; ++r) {
      auto const *from = x.data + r * x.columns, *const end = from + x.columns;
      auto* to = y.data + r * y.columns;
      sum_type squares = 0;
      for (auto const* at = from; at != end; ++at) squares += sum_type(*at) * sum_type(*at);
      inverse.data[r] = 1 / std::sqrt(squares);
      for (; from != end; ++from, ++to)
        *to = std::remove_cvref_t<decltype(*to)>(sum_type(*from) * inverse.data[r]);
    }
  }
};
// dx = (dy - y (y . dy)) / |x|
struct without_radial_part {
  void operator()(auto const&, auto y, auto inverse, auto dy, auto dx) const {
    using sum_type = std::remove_const_t<typename decltype(inverse)::element>;
    for (std::size_t r = 0; r < y.rows; ++r) {
      std::size_t const first = r * y.columns, end = first + y.columns;
      sum_type along = 0;
      for (std::size_t i = first; i < end; ++i) along += sum_type(y.data[i]) * sum_type(dy.data[i]);
      for (std::size_t i = first; i < end; ++i)
        dx.data[i] = std::remove_cvref_t<decltype(dx.data[i])>(
            (sum_type(dy.data[i]) - sum_type(y.data[i]) * along) * inverse.data[r]);
    }
  }
};
// example-end

// example-begin layer
template <std::size_t Width>
struct unit_rows {
  using concept_tag = plait::layer_tag;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using inverse = plait::slot<"inverse", 1, plait::slot_element::accumulate>;
  using saved = plait::saved<plait::output_slot, inverse>;
  using forms = plait::forms<plait::whole, plait::by_sequence<>>;  // a row is whole on its rank

  static void forward(auto& ops, auto l) { ops.run(to_length_one{}, l.x, l.y, l.saved[inverse{}]); }
  static void backward_input(auto& ops, auto l) {
    ops.run(without_radial_part{}, l.saved[plait::output_slot{}], l.saved[inverse{}], l.dy, l.dx);
  }
};
// example-end

int main() {
  // example-begin check
  using mixed = plait::precision<plait::bfloat16, float>;
  auto const report = plait::testing::check_layer<unit_rows<12>, mixed>();
  if (!report.passed()) return std::printf("%s\n", report.text().c_str());
  std::printf("the layer keeps the laws: %zu forms and numbers of ranks\n", report.checked.size());
  // example-end
  // example-begin job
  using model =
      plait::sequential<plait::nn::linear<10, 12>, unit_rows<12>, plait::nn::linear<12, 2>>;
  using job = plait::parallel<plait::objective<model, plait::nn::cross_entropy<2>>,
                              plait::data_parallel<2>, mixed>;
  auto const data = plait::in_memory<float>::random_classes(256, 10, 2);
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.01});
    auto batches =
        plait::batches<plait::bfloat16>(data, plait::global_batch<32>{}, rank, {.epochs = 20});
    for (auto const& batch : batches)
      if (auto const done = trainer.step(batch); rank.is_root() && done.step % 50 == 0)
        std::printf("step %3ld  loss %.3f\n", long(done.step), done.loss);
  });
  // example-end
}
