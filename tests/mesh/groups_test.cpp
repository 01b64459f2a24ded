// SPDX-License-Identifier: Apache-2.0
#include "plait/mesh/groups.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace plait;
using namespace plait::ext;

mesh make(int stages, int data, int tensor) {
  mesh out;
  out.add(axis::stage, stages), out.add(axis::data, data), out.add(axis::tensor, tensor);
  return out;
}

std::vector<axis_set> sets_of(mesh_groups const& groups) {
  return {groups.sets().begin(), groups.sets().end()};
}

TEST(MeshGroups, OfAMeshAloneAreItsAxesAndTheWorld) {
  mesh_groups const groups(make(2, 3, 4));
  EXPECT_EQ(sets_of(groups),
            (std::vector<axis_set>{axis_set{}, axis::data, axis::tensor, axis::stage, world_axes}));
  EXPECT_EQ(groups.world(), 4);
  EXPECT_EQ(groups.index_of(axis::data | axis::tensor), -1);
}

TEST(MeshGroups, AreThoseThatWereAskedForOnceAndInOneOrder) {
  axis_set const both = axis::data | axis::tensor;
  mesh_groups const one(make(1, 2, 2), {both, axis::data, both});
  mesh_groups const other(make(1, 2, 2), {axis::data, both});
  EXPECT_EQ(sets_of(one), (std::vector<axis_set>{axis_set{}, axis::data, both}));
  EXPECT_EQ(sets_of(other), sets_of(one));
  EXPECT_EQ(one.world(), 2) << "a set that has all ranks is the world";
  EXPECT_EQ(one.index_of(axis::tensor), -1);
}

// A sum over an axis that the mesh lacks, or that has one rank, is not an error.
TEST(MeshGroups, ASetOfOneRankIsThisRankAlone) {
  mesh_groups const groups(make(1, 2, 1), {axis::tensor, axis::tensor | axis::stage});
  EXPECT_EQ(groups.index_of(axis::tensor), 0);
  EXPECT_EQ(groups.index_of(axis::expert | axis::stage), 0);
  EXPECT_EQ(groups.index_of(axis::data), -1);
  EXPECT_EQ(groups.sets().size(), 2);

  mesh_groups const alone(mesh{}, {axis::data});
  EXPECT_EQ(sets_of(alone), std::vector<axis_set>{axis_set{}});
  EXPECT_EQ(alone.world(), 0);
  for (axis const which : all_axes) EXPECT_EQ(alone.index_of(which), 0);
}

}  // namespace
