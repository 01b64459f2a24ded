// SPDX-License-Identifier: Apache-2.0
// Tests which waits and records a device gets, in which order and under which names.
#include "plait/run/synchronizer.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace {

using plait::execution::synchronizer;
using plait::ext::stream;
using plait::ext::stream_operation;
using plait::planning::operation_kind;
using plait::planning::program_operation;
using lines = std::vector<std::string>;

/// A device that records its calls.
struct recording_device {
  struct event {
    int number = -1;
  };
  lines* said;
  int events = 0;

  event make_event() { return {events++}; }
  void record(event const& what, stream on) {
    said->push_back("record " + std::to_string(what.number) + " on " + std::string(to_string(on)));
  }
  void wait(stream on, event const& what, plait::ext::wait_site site) {
    said->push_back(std::string(to_string(on)) + " waits for " + std::to_string(what.number) +
                    " at " + to_string(site));
  }
};

constexpr stream compute = stream::compute, data = stream::data, stage = stream::stage;

program_operation computes(operation_kind what, int unit = -1) {
  return {.what = what, .units = {unit, unit + 1}};
}
program_operation row(int number) { return {.row = number}; }

struct outcome {
  lines said;
  int events = 0;
};

/// Returns the calls during a run of the operations one after the other; each operation records its
/// number.
outcome run(plait::ext::lean_vector<stream_operation> const& touched,
            plait::ext::lean_vector<program_operation> const& operations, int turns = 1) {
  outcome out;
  recording_device device{&out.said};
  synchronizer<recording_device> waits(device, touched, operations);
  EXPECT_TRUE(out.said.empty());  // preparation makes no calls
  for (int turn = 0; turn < turns; ++turn)
    for (std::size_t i = 0; i < touched.size(); ++i) {
      waits.begin(i);
      out.said.push_back("run " + std::to_string(i));
      waits.end(i);
    }
  out.events = device.events;
  return out;
}

TEST(Synchronizer, WaitsBeforeAndRecordsAfterAnOperation) {
  auto const got = run({{compute, {}, {0}}, {data, {0}, {0}}, {compute, {0}, {}}},
                       {computes(operation_kind::send), row(14), computes(operation_kind::read)});
  EXPECT_EQ(got.said,
            (lines{"run 0", "record 0 on compute",
                   "data waits for 0 at step: row 14 waits for send", "run 1", "record 1 on data",
                   "compute waits for 1 at step: read waits for row 14", "run 2"}));
  EXPECT_EQ(got.events, 2);
}

TEST(Synchronizer, AsksForNothingWithinAStream) {
  auto const got = run({{compute, {}, {0}}, {compute, {0}, {1}}, {compute, {1}, {0}}},
                       {computes(operation_kind::send), computes(operation_kind::scale),
                        computes(operation_kind::read)});
  EXPECT_EQ(got.said, (lines{"run 0", "run 1", "run 2"}));
  EXPECT_EQ(got.events, 0);
}

TEST(Synchronizer, HasOneEventForAllWhoWaitForAnOperation) {
  auto const got = run({{compute, {}, {0}}, {data, {0}, {}}, {stage, {0}, {}}},
                       {computes(operation_kind::forward, 2), row(0), row(1)});
  EXPECT_EQ(got.said,
            (lines{"run 0", "record 0 on compute",
                   "data waits for 0 at step: row 0 waits for forward from unit 2 on", "run 1",
                   "stage waits for 0 at step: row 1 waits for forward from unit 2 on", "run 2"}));
  EXPECT_EQ(got.events, 1);
}

// Waits begin with the latest record, which is event 0.
TEST(Synchronizer, WaitsForSeveralStreams) {
  auto const got = run({{data, {}, {0}}, {stage, {}, {1}}, {compute, {0, 1}, {}}},
                       {row(3), row(4), computes(operation_kind::add)});
  EXPECT_EQ(got.said, (lines{"run 0", "record 1 on data", "run 1", "record 0 on stage",
                             "compute waits for 0 at step: add waits for row 4",
                             "compute waits for 1 at step: add waits for row 3", "run 2"}));
}

TEST(Synchronizer, CountsOnTheHostThatHasWaited) {
  plait::ext::lean_vector<program_operation> const operations{
      row(0), computes(operation_kind::measure), computes(operation_kind::add), row(1)};
  plait::ext::lean_vector<stream_operation> touched{
      {data, {}, {0}}, {compute, {}, {1}}, {compute, {0}, {}}, {data, {}, {1}}};
  EXPECT_EQ(run(touched, operations).said,
            (lines{"run 0", "record 0 on data", "run 1", "record 1 on compute",
                   "compute waits for 0 at step: add waits for row 0", "run 2",
                   "data waits for 1 at step: row 1 waits for measure", "run 3"}));
  touched[1].host_waits = true;
  EXPECT_EQ(run(touched, operations).said, (lines{"run 0", "run 1", "run 2", "run 3"}));
}

TEST(Synchronizer, SaysTheSameInEachTurn) {
  plait::ext::lean_vector<stream_operation> const touched{{compute, {}, {0}}, {data, {0}, {}}};
  plait::ext::lean_vector<program_operation> const operations{computes(operation_kind::send),
                                                              row(2)};
  auto const once = run(touched, operations), thrice = run(touched, operations, 3);
  lines expected;
  for (int turn = 0; turn < 3; ++turn)
    expected.insert(expected.end(), once.said.begin(), once.said.end());
  EXPECT_EQ(thrice.said, expected);
  EXPECT_EQ(thrice.events, 1);
}

}  // namespace
