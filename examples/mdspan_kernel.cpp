// SPDX-License-Identifier: Apache-2.0
// ctest:
// A layer whose kernels see views as arrays (rows, heads, columns of a head), as std::mdspan has
// them. Ranks divide the heads, and the kernels see the heads of their rank.
#include <plait/plait.hpp>
#include <plait/tensor/mdspan.hpp>
#include <plait/testing/check_layer.hpp>

#include <cmath>
#include <cstddef>
#include <cstdio>

// Kokkos' mdspan if it is installed, otherwise a small one. In C++23 std has mdspan; its elements
// are x[r, h, c].
#if __has_include(<mdspan/mdspan.hpp>)
#include <mdspan/mdspan.hpp>
namespace md = Kokkos;
#else
#include "small_mdspan.hpp"
namespace md = small;
#endif

// example-begin kernels
// The array (rows, heads of this rank, Width) of a view; read-only if the view is.
template <class View, std::size_t Width>
using heads_of =
    md::mdspan<typename View::element,
               md::extents<std::size_t, md::dynamic_extent, md::dynamic_extent, Width>>;

// y = x / |x| for each head of each row.
template <std::size_t Width>
struct heads_to_length_one {
  void operator()(auto const&, auto x_view, auto y_view) const {
    auto const x = plait::ext::as<heads_of<decltype(x_view), Width>>(x_view);
    auto const y = plait::ext::as<heads_of<decltype(y_view), Width>>(y_view);
    for (std::size_t r = 0; r < x.extent(0); ++r)
      for (std::size_t h = 0; h < x.extent(1); ++h) {
        auto squares = 0 * x(r, h, 0);
        for (std::size_t c = 0; c < Width; ++c) squares += x(r, h, c) * x(r, h, c);
        for (std::size_t c = 0; c < Width; ++c) y(r, h, c) = x(r, h, c) / std::sqrt(squares);
      }
  }
};
// example-end
// dx = (dy - y (y . dy)) / |x|
template <std::size_t Width>
struct without_radial_part {
  void operator()(auto const&, auto x_view, auto dy_view, auto dx_view) const {
    auto const x = plait::ext::as<heads_of<decltype(x_view), Width>>(x_view);
    auto const dy = plait::ext::as<heads_of<decltype(dy_view), Width>>(dy_view);
    auto const dx = plait::ext::as<heads_of<decltype(dx_view), Width>>(dx_view);
    for (std::size_t r = 0; r < x.extent(0); ++r)
      for (std::size_t h = 0; h < x.extent(1); ++h) {
        auto squares = 0 * x(r, h, 0), along = squares;
        for (std::size_t c = 0; c < Width; ++c) {
          squares += x(r, h, c) * x(r, h, c);
          along += x(r, h, c) * dy(r, h, c);
        }
        for (std::size_t c = 0; c < Width; ++c)
          dx(r, h, c) = (dy(r, h, c) - x(r, h, c) * along / squares) / std::sqrt(squares);
      }
  }
};

// example-begin layer
template <std::size_t Heads, std::size_t Width>
struct unit_heads {
  using concept_tag = plait::layer_tag;
  using input = plait::features<Heads * Width>;
  using output = plait::features<Heads * Width>;
  using saved = plait::saved<plait::input_slot>;
  using forms = plait::forms<plait::whole, plait::by_features, plait::by_sequence<>>;
  static constexpr std::size_t units = Heads;  // ranks get whole heads

  static void forward(auto& ops, auto l) { ops.run(heads_to_length_one<Width>{}, l.x, l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.run(without_radial_part<Width>{}, l.saved[plait::input_slot{}], l.dy, l.dx);
  }
};
// example-end

int main() {
  auto const report = plait::testing::check_layer<unit_heads<12, 4>>();
  if (!report.passed()) return std::printf("%s\n", report.text().c_str());
  std::printf("the layer keeps the laws: %zu forms and numbers of ranks\n", report.checked.size());
}
