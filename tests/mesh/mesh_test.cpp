// SPDX-License-Identifier: Apache-2.0
#include "plait/mesh/mesh.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "plait/core/error.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

constexpr mesh make(std::vector<mesh::extent> const& extents) {
  mesh grid;
  for (auto const& each : extents) grid.add(each.which, each.size);
  return grid;
}

std::vector<mesh> meshes() {
  using enum axis;
  return {make({}),
          make({{data, 3}}),
          make({{tensor, 4}}),
          make({{stage, 2}, {data, 3}}),
          make({{data, 2}, {tensor, 2}}),
          make({{data, 1}, {tensor, 5}, {stage, 1}}),
          make({{stage, 2}, {data, 3}, {tensor, 4}}),
          make({{tensor, 4}, {stage, 3}, {data, 2}})};
}

std::vector<axis_set> all_axis_sets() {
  std::vector<axis_set> sets(8);
  for (unsigned bits = 0; bits < 8; ++bits) sets[bits].bits = bits;
  return sets;
}

TEST(AxisSet, IsASet) {
  constexpr auto both = axis::data | axis::tensor;
  static_assert(both.contains(axis::data) && both.contains(axis::tensor));
  static_assert(!both.contains(axis::stage));
  static_assert((axis_set(axis::data) | axis::data) == axis_set(axis::data));
  static_assert(both == (axis_set(axis::tensor) | axis_set(axis::data)));
  static_assert(!axis_set{}.contains(axis::data));
  EXPECT_EQ(to_string(both), "data x tensor");
  EXPECT_EQ(to_string(axis_set{}), "");
  EXPECT_EQ(to_string(both | axis::stage), "data x tensor x stage");
}

TEST(Mesh, NumbersItsRanksWithoutGaps) {
  for (auto const& grid : meshes()) {
    std::set<int> seen;
    for (int s = 0; s < grid.size(axis::stage); ++s)
      for (int d = 0; d < grid.size(axis::data); ++d)
        for (int t = 0; t < grid.size(axis::tensor); ++t) {
          coordinates const at{d, t, s};
          int const rank = grid.rank_of(at);
          EXPECT_GE(rank, 0);
          EXPECT_LT(rank, grid.world_size());
          EXPECT_EQ(grid.coordinates_of(rank), at);
          seen.insert(rank);
        }
    EXPECT_EQ(static_cast<int>(seen.size()), grid.world_size());
  }
}

TEST(Mesh, TheFirstAxisVariesSlowest) {
  constexpr auto grid = [] {
    mesh out;
    out.add(axis::stage, 2), out.add(axis::data, 3), out.add(axis::tensor, 4);
    return out;
  }();
  static_assert(grid.world_size() == 24);
  constexpr auto one_along = [](axis which) {
    coordinates at;
    at.along(which) = 1;
    return at;
  };
  static_assert(grid.rank_of(one_along(axis::tensor)) == 1);
  static_assert(grid.rank_of(one_along(axis::data)) == 4);
  static_assert(grid.rank_of(one_along(axis::stage)) == 12);
  static_assert(grid.has(axis::stage));
  EXPECT_EQ(grid.size(axis::data | axis::tensor), 12);
}

TEST(Mesh, AnAxisThatIsNotThereHasSizeOne) {
  for (auto const& grid : meshes())
    for (axis which : all_axes) {
      if (grid.has(which)) continue;
      EXPECT_EQ(grid.size(which), 1);
      for (int rank = 0; rank < grid.world_size(); ++rank)
        EXPECT_EQ(grid.coordinates_of(rank).along(which), 0);
    }
}

TEST(Mesh, GroupsOverEverySetOfAxesPartitionTheWorld) {
  for (auto const& grid : meshes())
    for (axis_set const over : all_axis_sets()) {
      std::set<std::vector<int>> groups;
      for (int rank = 0; rank < grid.world_size(); ++rank) {
        auto const members = grid.group_of(rank, over);
        EXPECT_EQ(static_cast<int>(members.size()), grid.size(over));
        bool mine = false;
        for (std::size_t i = 0; i < members.size(); ++i) {
          mine = mine || members[i] == rank;
          // In the order of rank numbers, and all members see the same group.
          EXPECT_TRUE(i == 0 || members[i - 1] < members[i]);
          EXPECT_EQ(grid.group_of(members[i], over), members);
          for (axis which : all_axes)
            EXPECT_TRUE(over.contains(which) || grid.coordinates_of(members[i]).along(which) ==
                                                    grid.coordinates_of(rank).along(which));
        }
        EXPECT_TRUE(mine);
        groups.insert(members);
      }
      EXPECT_EQ(static_cast<int>(groups.size()) * grid.size(over), grid.world_size());
    }
}

TEST(Mesh, ADataAxisMayBeSizedAtLaunch) {
  mesh grid = make({{axis::stage, 2}, {axis::data, 0}, {axis::tensor, 2}});
  EXPECT_EQ(grid.size(axis::data), 0);
  EXPECT_FALSE(grid.is_complete());
  auto const filled = grid.with_ranks_at_launch(3);
  EXPECT_TRUE(filled.is_complete());
  EXPECT_EQ(filled.size(axis::data), 3);
  EXPECT_EQ(filled.world_size(), 12);
  EXPECT_EQ(grid.ranks_at_launch(filled), 3);
  EXPECT_EQ(filled.ranks_at_launch(filled), 1) << "nothing is left to the launch";
  EXPECT_EQ(filled.with_ranks_at_launch(4).world_size(), 12);
  EXPECT_THROW((void)grid.with_ranks_at_launch(-1), input_error);
  try {
    (void)grid.with_ranks_at_launch(0);
    FAIL() << "no error";
  } catch (input_error const& problem) {
    EXPECT_NE(std::string(problem.what()).find("the data axis"), std::string::npos);
    EXPECT_NE(std::string(problem.what()).find('0'), std::string::npos);
  }
}

TEST(Mesh, OfALaunchHasRoomForItsRanks) {
  mesh const grid = make({{axis::stage, 2}, {axis::data, 0}, {axis::tensor, 2}});
  auto const data = [&](int asked, int processors) {
    return mesh_at_launch(grid, asked, processors).size(axis::data);
  };
  EXPECT_EQ(data(0, 64), 1);
  EXPECT_EQ(data(3, 1), 3);
  EXPECT_EQ(data(all_processors, 11), 2);
  EXPECT_EQ(data(all_processors, 2), 1);
}

TEST(Mesh, OfProcessesThatWereStartedHasThemAll) {
  mesh const grid = make({{axis::stage, 2}, {axis::data, 0}, {axis::tensor, 2}});
  for (int const asked : {0, all_processors}) {
    EXPECT_EQ(mesh_at_launch(grid, asked, 4, true).size(axis::data), 1);
    EXPECT_EQ(mesh_at_launch(grid, asked, 12, true).size(axis::data), 3);
    auto const refusal = [&](int processes) -> std::string {
      try {
        (void)mesh_at_launch(grid, asked, processes, true);
        return "no error";
      } catch (input_error const& problem) {
        return problem.what();
      }
    };
    EXPECT_EQ(refusal(6),
              "launch: 6 processes are not a multiple of the 4 ranks of stage 2 x tensor 2; start "
              "4 or 8");
    EXPECT_EQ(refusal(1),
              "launch: 1 process is not a multiple of the 4 ranks of stage 2 x tensor 2; start 4");
  }
  EXPECT_EQ(mesh_at_launch(grid, 2, 4, true).size(axis::data), 2) << "what was asked for";
  mesh const alone = make({{axis::data, 0}});
  EXPECT_EQ(mesh_at_launch(alone, 0, 5, true).world_size(), 5);
  mesh const sized = make({{axis::data, 2}});
  EXPECT_EQ(mesh_at_launch(sized, 0, 5, true).world_size(), 2) << "the policy's number";
}

TEST(Mesh, APlaceInAGroupIsThatAmongItsMembers) {
  for (auto const& grid : meshes())
    for (axis_set const over : all_axis_sets())
      for (int rank = 0; rank < grid.world_size(); ++rank) {
        auto const members = grid.group_of(rank, over);
        auto const place = grid.place_in_group(grid.coordinates_of(rank), over);
        EXPECT_EQ(members[static_cast<std::size_t>(place)], rank);
      }
}

// Blocks are numbered as scatters leave them, along data and then along replicas, for any order of
// ranks.
TEST(Mesh, BlocksAreNumberedInTheOrderOfScatters) {
  plait::ext::mesh data_first, data_last;
  data_first.add(axis::data, 2), data_first.add(axis::stage, 2), data_first.add(axis::replica, 3);
  data_last.add(axis::replica, 3), data_last.add(axis::stage, 2), data_last.add(axis::data, 2);
  auto const cut = axis::replica | axis::data;
  for (auto const& grid : {data_first, data_last})
    for (int rank = 0; rank < grid.world_size(); ++rank) {
      auto const at = grid.coordinates_of(rank);
      EXPECT_EQ(grid.block_of(at, cut), 3 * at.along(axis::data) + at.along(axis::replica));
      EXPECT_EQ(grid.block_of(at, axis::replica), at.along(axis::replica));
      EXPECT_EQ(grid.block_of(at, {}), 0);
    }
}

TEST(Mesh, FitsWhereSizesAreTheSameOrLeftToTheLaunch) {
  plait::ext::mesh planned, same, other_order, other_size, at_launch;
  planned.add(axis::stage, 2), planned.add(axis::data, 3);
  same = planned;
  other_order.add(axis::data, 3), other_order.add(axis::stage, 2);
  other_size.add(axis::stage, 2), other_size.add(axis::data, 4);
  at_launch.add(axis::stage, 2), at_launch.add(axis::data, 0);
  EXPECT_TRUE(planned.fits(same));
  EXPECT_FALSE(planned.fits(other_order));
  EXPECT_FALSE(planned.fits(other_size));
  EXPECT_FALSE(planned.fits({}));
  EXPECT_TRUE(plait::ext::mesh{}.fits({}));
  EXPECT_TRUE(at_launch.fits(other_size));
  EXPECT_EQ(to_string(planned), "stage 2 x data 3");
  EXPECT_EQ(to_string(at_launch), "stage 2 x data at launch");
  EXPECT_EQ(to_string(plait::ext::mesh{}), "one rank");
}

}  // namespace
