// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_testing.hpp"  // first, as it defines the keywords of kernels

#include "plait/backend/cuda/kernels/embedding.hpp"
#include "plait/backend/host/maths/embedding.hpp"

using namespace kernel_testing;
namespace kernels = plait::cuda_kernels;
namespace maths = plait::host_maths;

namespace {

// A lookup of `n` ids below `ids` in rows [first_row, first_row + local_rows) of a table.
struct lookup {
  std::size_t n, columns, ids, first_row, local_rows;
};
constexpr lookup lookups[] = {{0, 4, 9, 0, 9},           {1, 1, 1, 0, 1},   {33, 7, 5, 0, 5},
                              {50, 24, 40, 10, 20},      {700, 8, 3, 1, 2}, {1100, 3, 700, 0, 700},
                              {600, 5, 70000, 0, 70000}, {40, 260, 6, 2, 4}};

std::vector<std::int32_t> some_ids(lookup const& l) {
  std::vector<std::int32_t> ids(l.n);
  for (std::size_t i = 0; i < l.n; ++i)
    ids[i] = static_cast<std::int32_t>(plait::ext::random_word({.seed = 3}, i) % l.ids);
  return ids;
}

template <class T>
struct Embedding : testing::Test {};
TYPED_TEST_SUITE(Embedding, elements);

}  // namespace

TYPED_TEST(Embedding, GatherRows) {
  using T = TypeParam;
  for (auto const& l : lookups)
    for (std::size_t const shift : shifts) {
      auto const ids = some_ids(l);
      auto const table = values<T>(l.local_rows * l.columns, 1);
      std::vector<T> expected(l.n * l.columns);
      maths::gather_rows(ids.data(), table.data(), l.first_row, l.local_rows, expected.data(), l.n,
                         l.columns);
      memory<T> from(table, shift), out(l.n * l.columns);
      memory<std::int32_t> rows(ids);
      kernels::gather_rows(launcher{}, rows.data(), from.data(), l.first_row, l.local_rows,
                           out.data(), l.n, l.columns);
      EXPECT_EQ(out.wide(), wide(expected));
    }
}

// Additions have the order of the host, so the bits are equal.
TYPED_TEST(Embedding, ScatterAddRowsInOrder) {
  using T = TypeParam;
  using S = accumulate_t<T>;
  for (auto const& l : lookups)
    for (std::size_t const shift : shifts) {
      auto const ids = some_ids(l);
      auto const dy = values<T>(l.n * l.columns, 1);
      auto const start = values<S>(l.local_rows * l.columns, 2);
      std::vector<S> const terms(dy.begin(), dy.end());
      auto expected = start;
      maths::scatter_add_rows(ids.data(), terms.data(), l.first_row, l.local_rows, expected.data(),
                              l.n, l.columns);
      memory<T> from(dy, shift);
      memory<S> sums(start);
      memory<std::int32_t> rows(ids);
      memory<std::uint32_t> workspace(
          kernels::scatter_add_rows_workspace(launcher{}, l.n, l.local_rows));
      kernels::scatter_add_rows(launcher{}, rows.data(), from.data(), l.first_row, l.local_rows,
                                sums.data(), workspace.data(), l.n, l.columns);
      EXPECT_EQ(sums.get(), expected);
    }
}

TYPED_TEST(Embedding, Positions) {
  using T = TypeParam;
  using S = accumulate_t<T>;
  struct shape {
    std::size_t first, positions, batch, columns;
  };
  for (auto const& [first, positions, batch, columns] :
       {shape{0, 0, 3, 4}, shape{2, 1, 1, 1}, shape{0, 5, 3, 8}, shape{3, 17, 9, 21},
        shape{1, 4, 2, 520}})
    for (std::size_t const shift : shifts) {
      std::size_t const rows = positions * batch;
      auto const x = values<T>(rows * columns, 1);
      auto const table = values<T>((first + positions) * columns, 2);
      std::vector<double> expected(rows * columns);
      maths::add_positions(wide(x).data(), wide(table).data(), expected.data(), first, positions,
                           batch, columns);
      memory<T> y(x, shift), from(table);
      kernels::add_positions(launcher{}, y.data(), from.data(), y.data(), first, positions, batch,
                             columns);
      expect_near(y.wide(), expected, 2 * rounding<T>);

      auto const start = values<S>((first + positions) * columns, 3);
      std::vector<S> const terms(x.begin(), x.end());
      auto added = start;
      maths::accumulate_positions(terms.data(), added.data(), first, positions, batch, columns);
      memory<T> dy(x, shift);
      memory<S> sums(start);
      kernels::accumulate_positions(launcher{}, dy.data(), sums.data(), first, positions, batch,
                                    columns);
      EXPECT_EQ(sums.get(), added);
    }
}
