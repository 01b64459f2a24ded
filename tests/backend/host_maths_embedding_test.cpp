// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/host/maths/embedding.hpp"

#include "backend/host_maths_testing.hpp"

using namespace host_maths_testing;
namespace maths = plait::host_maths;

namespace {

std::vector<std::int32_t> const ids = {4, 0, 6, 4, 2, 5, 4};
constexpr std::size_t vocabulary = 7, cols = 5;

}  // namespace

TEST(Embedding, GatherOfShardsAddsUpToTheRows) {
  auto const table = values<double>(vocabulary * cols, 1);
  for (std::size_t split : {0u, 1u, 4u, 5u, 7u}) {
    std::vector<double> low(ids.size() * cols, 9), high(ids.size() * cols, 9);
    maths::gather_rows(ids.data(), table.data(), 0, split, low.data(), ids.size(), cols);
    maths::gather_rows(ids.data(), table.data() + split * cols, split, vocabulary - split,
                       high.data(), ids.size(), cols);
    for (std::size_t i = 0; i < low.size(); ++i) {
      auto const id = static_cast<std::size_t>(ids[i / cols]);
      EXPECT_EQ(low[i], id < split ? table[id * cols + i % cols] : 0);
      EXPECT_EQ(high[i], id < split ? 0 : table[id * cols + i % cols]);
    }
  }
}

TEST(Embedding, IdsOutsideTheTableGiveZerosAndNoGradient) {
  std::vector<std::int32_t> const outside = {-1, 7, -2147483647 - 1, 2147483647};
  auto const table = values<float>(vocabulary * cols, 1);
  std::vector<float> out(outside.size() * cols, 9), dtable(vocabulary * cols, 0);
  maths::gather_rows(outside.data(), table.data(), 0, vocabulary, out.data(), outside.size(), cols);
  EXPECT_EQ(out, std::vector<float>(out.size(), 0));
  maths::scatter_add_rows(outside.data(), table.data(), 0, vocabulary, dtable.data(),
                          outside.size(), cols);
  EXPECT_EQ(dtable, std::vector<float>(dtable.size(), 0));
}

TEST(Embedding, ScatterIsTheGradientOnEveryShard) {
  auto table = values<double>(vocabulary * cols, 1);
  auto const dy = values<double>(ids.size() * cols, 2);
  for (std::size_t split : {0u, 3u, 4u, 7u}) {
    std::vector<double> dtable(vocabulary * cols, 0), out(ids.size() * cols);
    maths::scatter_add_rows(ids.data(), dy.data(), 0, split, dtable.data(), ids.size(), cols);
    maths::scatter_add_rows(ids.data(), dy.data(), split, vocabulary - split,
                            dtable.data() + split * cols, ids.size(), cols);
    expect_gradient(
        [&] {
          maths::gather_rows(ids.data(), table.data(), 0, vocabulary, out.data(), ids.size(), cols);
          return dot(out, dy);
        },
        table, dtable);
  }
}

TEST(Embedding, PositionsForwardInPlaceAndBackward) {
  std::size_t const first = 2, positions = 3, batch = 2;
  auto table = values<double>(6 * cols, 1);
  auto const x = values<double>(positions * batch * cols, 2);
  auto const dy = values<double>(positions * batch * cols, 3);
  std::vector<double> y(x.size()), dtable(table.size(), 0);
  auto const loss = [&] {
    maths::add_positions(x.data(), table.data(), y.data(), first, positions, batch, cols);
    return dot(y, dy);
  };
  loss();
  for (std::size_t s = 0; s < positions; ++s)
    for (std::size_t b = 0; b < batch; ++b)
      for (std::size_t c = 0; c < cols; ++c) {
        std::size_t const i = (s * batch + b) * cols + c;
        EXPECT_EQ(y[i], x[i] + table[(first + s) * cols + c]);
      }
  auto in_place = x;
  maths::add_positions(in_place.data(), table.data(), in_place.data(), first, positions, batch,
                       cols);
  EXPECT_EQ(in_place, y);
  maths::accumulate_positions(dy.data(), dtable.data(), first, positions, batch, cols);
  expect_gradient(loss, table, dtable);
}
