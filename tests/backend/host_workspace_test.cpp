// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plait/backend/attention_shape.hpp"
#include "plait/backend/host/host_device.hpp"
#include "plait/backend/host/host_queue.hpp"
#include "plait/backend/host/host_workspace.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/operation/rows.hpp"

namespace {

namespace operation = plait::operation;
using plait::ext::equal_heads;
using plait::ext::host_device;
using plait::ext::host_workspace;
using plait::ext::matrix;
using plait::ext::stream;

TEST(HostWorkspace, GrowsToTheMostThatIsAskedForAndStaysThere) {
  host_workspace room(64);
  EXPECT_EQ(room.bytes(), 0u);
  auto* const first = room.room_for<double>(100);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
  EXPECT_EQ(room.bytes(), 800u);
  first[99] = 1;
  EXPECT_EQ(static_cast<void*>(room.room_for<float>(200)), first) << "there is as much";
  EXPECT_EQ(room.bytes(), 800u);
  room.room_for<float>(201)[200] = 1;
  EXPECT_EQ(room.bytes(), 804u);
}

// Copies of a device belong to one rank and share its workspace.
TEST(HostWorkspace, IsTheDevicesAndIsThereBeforeTheFirstPass) {
  host_device const device(1), other(2);
  equal_heads const shape{100, 3, 2, 8};
  device.on(stream::compute).prepare(operation::attention{}, matrix<float const>{}, shape);
  constexpr std::size_t bytes = 2 * 64 * 100 * sizeof(float);
  EXPECT_EQ(device.workspace_bytes(), bytes);
  EXPECT_EQ(other.workspace_bytes(), 0u);
  host_device const copy = device;  // NOLINT: the test is about copies
  EXPECT_EQ(copy.workspace_bytes(), bytes);

  std::vector<float> const qkv(100 * 3 * 48, 1), dout(100 * 3 * 16, 1);
  std::vector<float> out(100 * 3 * 16), sums(100 * 3 * 2), dqkv(qkv.size());
  auto const queue = device.on(stream::data);
  matrix const in{qkv.data(), 300, 48};
  queue.run(operation::attention_side_by_side{}, in, matrix{out.data(), 300, 16},
            matrix{sums.data(), 300, 2}, shape);
  queue.run(operation::attention_side_by_side_backward{}, in,
            matrix{std::as_const(out).data(), 300, 16}, matrix{std::as_const(sums).data(), 300, 2},
            matrix{dout.data(), 300, 16}, matrix{dqkv.data(), 300, 48}, shape);
  EXPECT_EQ(device.workspace_bytes(), bytes) << "all of it was there";
  EXPECT_EQ(out[0], 1);
}

TEST(HostWorkspace, OfAQueueOfNoDeviceIsThatOfACall) {
  std::vector<double> const qkv(3 * 3, 2);
  std::vector<double> out(3), sums(3);
  plait::ext::host_queue{}.run(operation::attention_side_by_side{}, matrix{qkv.data(), 3, 3},
                               matrix{out.data(), 3, 1}, matrix{sums.data(), 3, 1},
                               equal_heads{3, 1, 1, 1});
  EXPECT_EQ(out, (std::vector<double>{2, 2, 2}));
}

}  // namespace
