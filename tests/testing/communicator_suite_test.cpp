// SPDX-License-Identifier: Apache-2.0
// test: seconds=20
#include "plait/testing/communicator_suite.hpp"
#include "plait/backend/host/run_ranks.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <deque>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/host/rank_order.hpp"
#include "plait/backend/host/threads.hpp"
#include "testing/expect_reports.hpp"
#include "testing/file_communicator.hpp"

namespace {

using plait::ext::reduction;
using plait::testing::check_communicators;
using plait::testing::communicator_suite_options;
using plait::testing::element_list;

// Everything that a communicator may get wrong, one at a time.
enum class flaw {
  none,
  sums_in_reverse,
  sums_differ_between_ranks,
  sums_round_each_step,
  sums_go_wrong_after_a_while,
  maximum_is_the_sum,
  maximum_loses_nan,
  gather_without_own_block,
  gather_beside_the_buffer,
  gather_clears_receive,
  long_integers_cut,
  large_buffers_cut,
  scatter_shifted,
  exchange_in_place,
  broadcast_from_zero,
  messages_without_tag,
  messages_in_pairs_swapped,
  barrier_is_nothing,
  posted_messages_swapped,
  posted_messages_of_another_channel,
  posted_messages_cut,
  posts_wait,
  posted_messages_come_late,
  waits_for_all_channels,
  channels_not_refused,
  counts_wrong,
  logs_nothing,
  trainers_ignored,
  roots_are_clipped,
  error_of_another_type,
  place_reversed
};

// Messages that have arrived on channels, but are not in their place before all streams have been
// waited for.
struct late_messages {
  std::deque<std::vector<std::byte>> values;
  std::vector<std::function<void()>> copies;

  template <class T>
  std::span<T> room_for(std::span<T> x) {
    return {reinterpret_cast<T*>(values.emplace_back(x.size_bytes()).data()), x.size()};
  }
  template <class T>
  void add(std::span<T const> room, std::span<T> x) {
    copies.push_back([=] { plait::detail::copy_bytes(x.data(), room.data(), room.size_bytes()); });
  }
  void come() {
    for (auto const& copy : copies) copy();
    copies.clear();
  }
};

struct flawed_device : plait::ext::host_device {
  flawed_device(int rank, std::shared_ptr<plait::detail::posted_messages> messages,
                late_messages& late, flaw which)
      : host_device(rank, std::move(messages)), late_(&late), flaw_(which) {}

  void synchronize() const {
    host_device::synchronize();
    late_->come();
  }
  void wait(plait::ext::stream on, event const& awaited, plait::ext::wait_site site) const {
    if (flaw_ == flaw::waits_for_all_channels) return synchronize();
    host_device::wait(on, awaited, site);
  }

 private:
  late_messages* late_;
  flaw flaw_;
};

// A communicator over threads with one flaw. `spare_` makes the additional calls, so that they are
// not counted.
class flawed_communicator : public plait::ext::thread_communicator {
  using base = plait::ext::thread_communicator;

 public:
  flawed_communicator(plait::ext::thread_world& world, int group, std::vector<int> const& members,
                      int world_rank, plait::ext::axis_set over, flaw which,
                      plait::detail::thread_messages* messages, late_messages& late)
      : base(world, group, members, world_rank, over, messages),
        spare_(world, group, members, world_rank, over),
        messages_(messages),
        late_(&late),
        flaw_(which) {}

  [[nodiscard]] int rank() const noexcept {
    return flaw_ == flaw::place_reversed ? size() - 1 - base::rank() : base::rank();
  }

  template <class T>
  void all_reduce(std::span<T> x, reduction operation = reduction::sum) {
    bool const sum = operation == reduction::sum;
    std::vector<T> const before(x.begin(), x.end());
    base::all_reduce(x, flaw_ == flaw::maximum_is_the_sum ? reduction::sum : operation);
    if (sum && flaw_ == flaw::sums_in_reverse) add_up(before, x, true, false);
    if (sum && flaw_ == flaw::sums_round_each_step) add_up(before, x, false, true);
    if (x.empty()) return;
    if constexpr (std::is_floating_point_v<T>) {
      if (sum && flaw_ == flaw::sums_differ_between_ranks && rank() == 1)
        x[0] = std::nextafter(x[0], std::numeric_limits<T>::max());
      if (!sum && flaw_ == flaw::maximum_loses_nan)
        for (T& value : x) value = std::isnan(value) ? T{} : value;
    }
    if (flaw_ == flaw::sums_go_wrong_after_a_while && ++calls_ == 600) x[0] = T{};
  }

  template <class T>
  void all_gather(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    auto const own = std::span(receive).subspan(
        std::min(receive.size(), static_cast<std::size_t>(rank()) * send.size()));
    auto const old = own.first(std::min(own.size(), send.size()));
    std::vector<T> const before(old.begin(), old.end());
    if (flaw_ == flaw::gather_clears_receive) std::ranges::fill(receive, T{});
    base::all_gather(send, receive);
    if (flaw_ == flaw::gather_without_own_block) std::ranges::copy(before, own.begin());
    if (flaw_ == flaw::gather_beside_the_buffer && !receive.empty())
      receive.data()[receive.size()] = T{};
  }

  template <class T>
  void reduce_scatter(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    if (flaw_ != flaw::scatter_shifted) return base::reduce_scatter(send, receive);
    std::vector<T> shifted(send.begin(), send.end());
    auto const by = static_cast<std::ptrdiff_t>(std::min(shifted.size(), receive.size()));
    std::ranges::rotate(shifted, shifted.begin() + by);
    base::reduce_scatter(shifted, receive);
  }

  template <class T>
  void all_to_all(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    base::all_to_all(send, receive);
    if (flaw_ == flaw::exchange_in_place) std::ranges::copy(send, receive.begin());
  }

  template <class T>
  void broadcast(std::span<T> x, int root) {
    if (flaw_ == flaw::error_of_another_type && root >= size()) throw plait::error("rank: no");
    std::vector<T> const before(x.begin(), x.end());
    base::broadcast(x, flaw_ == flaw::broadcast_from_zero ? 0
                       : flaw_ == flaw::roots_are_clipped ? std::min(root, size() - 1)
                                                          : root);
    if constexpr (std::is_same_v<T, std::int64_t>)
      if (flaw_ == flaw::long_integers_cut)
        for (T& value : x) value = static_cast<std::int32_t>(value);
    if (flaw_ == flaw::large_buffers_cut && x.size() > 65536)
      std::copy(before.begin() + 65536, before.end(), x.begin() + 65536);
  }

  template <class T>
  void send(std::span<T> x, int to, int tag) {
    base::send(x, to, flaw_ == flaw::messages_without_tag ? 0 : tag);
  }
  template <class T>
  void receive(std::span<T> x, int from, int tag) {
    base::receive(x, from, flaw_ == flaw::messages_without_tag ? 0 : tag);
    if (flaw_ != flaw::messages_in_pairs_swapped || tag != 0) return;
    std::ranges::reverse(x);
  }

  template <class T>
  void post_send(std::span<T> x, int to, int tag, plait::ext::stream on) {
    if (flaw_ == flaw::posted_messages_swapped && tag < 2) {  // the first two are as long
      if (tag == 0) return keep(x, on);
      base::post_send(x, to, 0, on);
      x = kept<T>(on);
    }
    if (flaw_ == flaw::posted_messages_of_another_channel && tag == 0) x = of_another_channel(x);
    base::post_send(as_long_as_moved(x), to, tag, channel_for(to, true, on));
    wait_if_flawed(on);
  }
  template <class T>
  void post_receive(std::span<T> x, int from, int tag, plait::ext::stream on) {
    if (flaw_ == flaw::posted_messages_come_late) {
      auto const room = late_->room_for(x);
      base::post_receive(room, from, tag, on);
      return late_->add<T>(room, x);
    }
    base::post_receive(as_long_as_moved(x), from, tag, channel_for(from, false, on));
    wait_if_flawed(on);
  }

  void barrier() {
    if (flaw_ == flaw::barrier_is_nothing) count(plait::ext::collective::barrier, 0);
    else base::barrier();
  }

  [[nodiscard]] plait::ext::traffic const& counted() {
    counted_ = base::counted();
    if (flaw_ == flaw::counts_wrong && counted_.calls(plait::ext::collective::reduce_scatter) > 0)
      counted_.record(plait::ext::collective::reduce_scatter, 1, 2);
    return counted_;
  }
  void log_calls(std::vector<plait::detail::logged_call>* log, int group) noexcept {
    base::log_calls(flaw_ == flaw::logs_nothing ? nullptr : log, group);
  }
  void call_for(std::uint64_t number) noexcept {
    base::call_for(flaw_ == flaw::trainers_ignored ? 0 : number);
  }

 private:
  template <class T>
  void add_up(std::vector<T> const& mine, std::span<T> out, bool reverse, bool round) {
    auto const ranks = static_cast<std::size_t>(size()), n = mine.size();
    std::vector<T> all(ranks * n);
    spare_.all_gather(mine, std::span{all});
    for (std::size_t i = 0; i < n; ++i) {
      plait::accumulate_t<T> sum = all[(reverse ? ranks - 1 : 0) * n + i];
      for (std::size_t k = 1; k < ranks; ++k) {
        sum = static_cast<plait::accumulate_t<T>>(sum + all[(reverse ? ranks - 1 - k : k) * n + i]);
        if (round) sum = static_cast<T>(sum);
      }
      out[i] = static_cast<T>(sum);
    }
  }

  template <class T>
  void keep(std::span<T> x, plait::ext::stream on) {
    kept_[static_cast<std::size_t>(on)] = {x.data(), x.size()};
  }
  template <class T>
  std::span<T> kept(plait::ext::stream on) const {
    auto const [data, count] = kept_[static_cast<std::size_t>(on)];
    return {static_cast<T*>(data), count};
  }
  // Every second time the values of the time before, which were another channel's.
  template <class T>
  std::span<T> of_another_channel(std::span<T> x) {
    auto const bytes = std::as_bytes(x);
    if (std::exchange(is_second_, !is_second_) && before_.size() == bytes.size())
      return {reinterpret_cast<T*>(before_.data()), x.size()};
    before_.assign(bytes.begin(), bytes.end());
    return x;
  }
  template <class T>
  std::span<T> as_long_as_moved(std::span<T> x) const {
    return flaw_ == flaw::posted_messages_cut && x.size() > 1 ? x.first(x.size() - 1) : x;
  }
  plait::ext::stream channel_for(int other, bool sends, plait::ext::stream on) const {
    return flaw_ == flaw::channels_not_refused
               ? plait::ext::channel_of(base::rank(), other, size(), sends)
               : on;
  }
  void wait_if_flawed(plait::ext::stream on) {
    if (flaw_ == flaw::posts_wait) messages_->wait_for(on, messages_->posted(on));
  }

  plait::ext::thread_communicator spare_;
  plait::detail::thread_messages* messages_;
  late_messages* late_;
  std::array<std::pair<void*, std::size_t>, plait::ext::stream_count> kept_{};
  std::vector<std::byte> before_;
  bool is_second_ = false;
  flaw flaw_;
  int calls_ = 0;
  plait::ext::traffic counted_;
};

struct flawed_threads {
  flaw which = flaw::none;
  using rank_type = plait::ext::rank_handle<flawed_device, flawed_communicator>;

  void run(plait::ext::mesh_groups const& groups,
           std::function<void(rank_type&)> const& program) const {
    auto const& grid = groups.grid();
    plait::ext::thread_world world(grid.world_size());
    auto const ids = plait::ext::declare_groups(groups, [&](std::vector<int> members, auto) {
      return world.add_group(std::move(members));
    });
    plait::ext::run_ranks(world, [&](int rank) {
      late_messages late;  // outlives the messages
      auto const messages = world.messages_of(rank);
      plait::detail::leaves_messages const guard{messages.get()};
      std::vector<flawed_communicator> members;
      for (int i = 0; i < groups.sets().size(); ++i)
        members.emplace_back(world, ids[std::size_t(rank)][std::size_t(i)],
                             grid.group_of(rank, groups.sets()[i]), rank, groups.sets()[i], which,
                             messages.get(), late);
      rank_type handle(groups, rank, flawed_device(rank, messages, late, which),
                       std::move(members));
      program(handle);
      messages->wait_for_all();
    });
  }
};

using few_elements = element_list<float, plait::bfloat16, std::int64_t>;
communicator_suite_options const few{.ranks = 3, .sizes = {0, 1, 3, 64}, .rounds = 200};

struct planted {
  char const* name;
  flaw which;
  std::vector<std::string> reported;
  communicator_suite_options options = few;
  friend std::ostream& operator<<(std::ostream& out, planted const& p) { return out << p.name; }
};

planted const all_planted[]{
    {"SumsInReverse", flaw::sums_in_reverse, {"all_reduce of float32, n = 64: the sum: element "}},
    {"SumsDifferBetweenRanks",
     flaw::sums_differ_between_ranks,
     {"all_reduce of float32, n = 64: the same bits on every rank"},
     {.ranks = 3, .sizes = {64}, .sums_in_rank_order = false}},
    {"SumsRoundEachStep", flaw::sums_round_each_step, {"all_reduce of bfloat16, n = 64: the sum"}},
    {"SumsGoWrongAfterAWhile",
     flaw::sums_go_wrong_after_a_while,
     {"groups in turn, many times"},
     {.ranks = 2, .sizes = {1}, .rounds = 1000}},
    {"MaximumIsTheSum", flaw::maximum_is_the_sum, {"all_reduce of bfloat16, n = 1: the maximum"}},
    {"MaximumLosesNan",
     flaw::maximum_loses_nan,
     {"the maximum is NaN if any rank has NaN: element 0: expected nan, got 0"}},
    {"GatherWithoutOwnBlock",
     flaw::gather_without_own_block,
     {"rank 1 in group {1}: all_gather of float32, n = 1: all blocks in rank order: element 0: "
      "expected"}},
    {"GatherBesideTheBuffer",
     flaw::gather_beside_the_buffer,
     {"all_gather of float32, n = 1: all blocks in rank order: memory next to the buffer was "
      "written"}},
    {"GatherClearsReceive",
     flaw::gather_clears_receive,
     {"in group {0,1,2}: all_gather of float32, n = 1: send may be this rank's block of receive: "
      "element "}},
    {"LongIntegersCut",
     flaw::long_integers_cut,
     {"broadcast of int64, n = 1, root 0: the root's values: element 0"}},
    {"LargeBuffersCut",
     flaw::large_buffers_cut,
     {"broadcast of bfloat16, n = 100003, root ", "element 65536: expected "},
     {.ranks = 2, .sizes = {65536, 100003}, .rounds = 1, .errors = false}},
    {"ScatterShifted",
     flaw::scatter_shifted,
     {"reduce_scatter of float32, n = 1: this rank's block of the sum: element 0",
      "all_gather and reduce_scatter of float64, n = 7: are adjoint: <A x, y> is "}},
    {"ExchangeInPlace",
     flaw::exchange_in_place,
     {"all_to_all of float32, n = 1: block j of rank i is block i of rank j"}},
    {"BroadcastFromZero",
     flaw::broadcast_from_zero,
     {"broadcast of float32, n = 1, root 1: the root's values: element 0",
      "rank 1: error: a root out of range: the rank continued without an error"}},
    {"MessagesWithoutTag",
     flaw::messages_without_tag,
     {"error: a message with another tag: the rank continued without an error",
      "error: a message with another tag: the run ended without an error"}},
    {"MessagesSwapped",
     flaw::messages_in_pairs_swapped,
     {"send and receive of float32, n = 3: between pairs, in the order sent"}},
    {"BarrierIsNothing",
     flaw::barrier_is_nothing,
     {"barrier, n = 0: returns only when the last rank has called it: it took less than the 10 "
      "ms"}},
    {"PostedMessagesSwapped",
     flaw::posted_messages_swapped,
     {"post_send and post_receive of float64, n = 64: messages arrive complete, in the order in "
      "which they were posted: "
      "element 0: expected "}},
    {"PostedMessagesOfAnotherChannel",
     flaw::posted_messages_of_another_channel,
     {"post_send and post_receive of float64, n = 64: messages arrive complete, in the order in "
      "which they were posted: "
      "element 0: expected "}},
    {"PostedMessagesCut",
     flaw::posted_messages_cut,
     {"post_send and post_receive of float64, n = 64: messages arrive complete, in the order in "
      "which they were posted: "
      "element 63: expected "}},
    {"PostsWait", flaw::posts_wait, {"stage 3: the run threw: "}},
    {"PostedMessagesComeLate",
     flaw::posted_messages_come_late,
     {"post_send and post_receive of float64, n = 64: messages have arrived after the wait: "
      "element 0: expected "}},
    {"WaitsForAllChannels", flaw::waits_for_all_channels, {"stage 3: the run threw: deadlock"}},
    {"ChannelsNotRefused",
     flaw::channels_not_refused,
     {"post_send of float64, n = 1: messages on other channels are refused: a message with member "
      "1 on channel from_next did not throw an input_error"}},
    {"CountsWrong",
     flaw::counts_wrong,
     {"reduce_scatter of float64, n = 5: counted traffic: expected 80 bytes in 1 calls, got 81 in "
      "2"}},
    {"LogsNothing",
     flaw::logs_nothing,
     {"log_calls of float64, n = 5: calls are logged: expected 6 calls, got 0"}},
    {"TrainersIgnored",
     flaw::trainers_ignored,
     {"error: another trainer: the run ended without an error",
      "error: a message for another trainer: the run ended without an error"}},
    {"RootsAreClipped",
     flaw::roots_are_clipped,
     {"error: a root out of range: the rank continued without an error"}},
    {"ErrorOfAnotherType",
     flaw::error_of_another_type,
     {"error: a root out of range: expected input_error, got another type with the text 'rank: "
      "no'"}},
    {"PlaceReversed",
     flaw::place_reversed,
     {"rank() and size(), n = 0: equal to the rank and size in the mesh: expected 0 of 3, got 2 of "
      "3"}},
};

struct PlantedInACommunicator : testing::TestWithParam<planted> {};
INSTANTIATE_TEST_SUITE_P(CommunicatorSuite, PlantedInACommunicator, testing::ValuesIn(all_planted),
                         [](auto const& one) { return std::string(one.param.name); });

TEST_P(PlantedInACommunicator, IsReported) {
  flawed_threads const backend{GetParam().which};
  auto const report = check_communicators<few_elements>(backend, GetParam().options);
  EXPECT_FALSE(report.passed());
  for (auto const& text : GetParam().reported) expect_reported(report, text);
}

TEST(CommunicatorSuite, FindsNothingWhereNothingIsPlanted) {
  auto const report = check_communicators<few_elements>(flawed_threads{}, few);
  EXPECT_TRUE(report.passed()) << report.text();
}

// An unpromised law is not a failure.
TEST(CommunicatorSuite, SumsInAnotherOrderPassIfNoOrderIsPromised) {
  flawed_threads const backend{flaw::sums_in_reverse};
  auto options = few;
  options.sums_in_rank_order = false;
  auto const report = check_communicators<few_elements>(backend, options);
  EXPECT_TRUE(report.passed()) << report.text();
}

TEST(CommunicatorSuite, ALostNanPassesIfNoneIsPromised) {
  auto options = few;
  options.maximum_keeps_nan = false;
  auto const report =
      check_communicators<few_elements>(flawed_threads{flaw::maximum_loses_nan}, options);
  EXPECT_TRUE(report.passed()) << report.text();
}

TEST(CommunicatorSuite, MistakesAreLeftOutOnRequest) {
  auto const errors = [](communicator_suite_options options) {
    options.sizes = {1};
    options.rounds = 1;
    auto const report =
        check_communicators<few_elements>(flawed_threads{flaw::trainers_ignored}, options);
    EXPECT_EQ(report.passed(), !(options.errors && options.compares_calls)) << report.text();
    return std::ranges::count_if(report.checked,
                                 [](auto& text) { return text.starts_with("error"); });
  };
  EXPECT_EQ(errors({.ranks = 2}), plait::testing::communicator_error_count);
  EXPECT_EQ(errors({.ranks = 2, .compares_calls = false}), 5);
  EXPECT_EQ(errors({.ranks = 2, .errors = false}), 0);
  EXPECT_EQ(errors({.ranks = 4, .errors = false}), 0);
}

TEST(CommunicatorSuite, OneMistakeAtATime) {
  using namespace plait::testing;
  std::vector<std::string> names;
  for (int which = 0; which < communicator_error_count; ++which) {
    auto const report = check_communicator_error(plait::threads{}, which, 2);
    ASSERT_EQ(report.checked.size(), 1u);
    names.push_back(report.checked.front());
    EXPECT_TRUE(report.passed()) << names.back() << "\n" << report.text();
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_THROW((void)check_communicator_error(plait::threads{}, communicator_error_count, 2),
               plait::input_error);
  EXPECT_THROW((void)check_communicator_error(plait::threads{}, -1, 2), plait::input_error);
  EXPECT_THROW((void)check_communicator_error(plait::threads{}, 0, 1), plait::input_error);
}

TEST(CommunicatorSuite, AFailedRunIsAFailure) {
  struct broken {
    using rank_type = plait::threads::rank_type;
    void run(plait::ext::mesh_groups const&, std::function<void(rank_type&)> const&) const {
      throw plait::input_error("no network");
    }
  };
  auto const report = check_communicators<few_elements>(broken{}, few);
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures[0], "data 3: the run threw: no network");
}

TEST(CommunicatorSuite, WithoutRanksOrSizesThereIsNothingToCheck) {
  auto none = few;
  none.ranks = 0;
  EXPECT_THROW((void)check_communicators<few_elements>(flawed_threads{flaw::none}, none),
               plait::input_error);
  none = few;
  none.sizes.clear();
  EXPECT_THROW((void)check_communicators<few_elements>(flawed_threads{flaw::none}, none),
               plait::input_error);
}

TEST(CommunicatorSuite, FailuresThatAreAlikeAreCounted) {
  auto options = few;
  options.errors = false;
  auto const report =
      check_communicators<few_elements>(flawed_threads{flaw::exchange_in_place}, options);
  expect_reported(
      report,
      "rank 2 in group {0,1,2}: all_to_all: block j of rank i is block i of rank j: 7 more");
  EXPECT_LE(report.failures.size(), 3u * 3);
}

TEST(CommunicatorSuite, MeshesHaveGroupsThatOverlap) {
  auto const texts = [](int ranks) {
    std::string all;
    for (auto const& grid : plait::testing::detail::meshes_of(ranks)) all += to_string(grid) + "; ";
    return all;
  };
  EXPECT_EQ(texts(1), "data 1; ");
  EXPECT_EQ(texts(3), "data 3; ");
  EXPECT_EQ(texts(4), "data 4; data 2 x tensor 2; ");
  EXPECT_EQ(texts(6), "data 6; data 2 x tensor 3; ");
  EXPECT_EQ(texts(8), "data 8; data 2 x stage 2 x tensor 2; ");
}

TEST(CommunicatorSuite, MeshesHavePipelines) {
  auto const texts = [](int ranks) {
    std::string all;
    for (auto const& grid : plait::testing::detail::stage_meshes_of(ranks))
      all += to_string(grid) + "; ";
    return all;
  };
  EXPECT_EQ(texts(1), "");
  EXPECT_EQ(texts(2), "stage 2; ");
  EXPECT_EQ(texts(3), "stage 3; ");
  EXPECT_EQ(texts(4), "stage 4; stage 2 x data 2; ");
}

TEST(CommunicatorSuite, SaysHowMessagesWerePosted) {
  auto options = few;
  options.errors = false;
  auto const last_checked = [&](auto const& backend) {
    auto const report = check_communicators<few_elements>(backend, options);
    EXPECT_TRUE(report.passed()) << report.text();
    return report.checked.back();
  };
  EXPECT_EQ(last_checked(flawed_threads{}), "posted messages on stage 3");
  options.has_channels = false;
  EXPECT_EQ(last_checked(flawed_threads{flaw::posts_wait}),
            "posted messages, each sent at once, on stage 3");
  options.rounds = 0;
  EXPECT_EQ(
      plait::testing::detail::left_out(options),
      (std::vector<std::string>{
          "not checked, as options.has_channels says: a post does not wait for the other rank",
          "not checked, as options.errors says: mistakes end the launch with their error",
          "not checked, as options.rounds says: groups in turn"}));
}

TEST(CommunicatorSuite, WithoutPostSendThereAreNoPostedMessages) {
  struct backend {
    struct rank_type {
      struct communicator_type : plait::ext::thread_communicator {
        void post_send() = delete;
      };
    };
  };
  plait::testing::check_report report;
  EXPECT_TRUE(plait::testing::detail::check_all_channels<few_elements>(backend{}, few, report));
  EXPECT_TRUE(report.passed());
  ASSERT_EQ(report.checked.size(), 1u);
  EXPECT_EQ(report.checked[0], "no posted messages, because the communicator has no post_send");
}

TEST(CommunicatorSuite, ACommunicatorOfOnesOwn) {
  // example-begin check
  for (int const ranks : {2, 3}) {
    auto const report =
        plait::testing::check_communicators(files{}, {.ranks = ranks,
                                                      .sizes = {0, 1, 3, 64},
                                                      .rounds = 50,
                                                      .compares_equal_groups = false,
                                                      .has_channels = false});
    EXPECT_TRUE(report.passed()) << report.text();
  }
  // example-end
}

// Each rank is a process, so that no report can have what another rank saw.
TEST(CommunicatorSuite, RanksThatAreProcesses) {
  temporary_folder const folder;
  int const ranks = 3;
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    pid_t const child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int launches = 0;
      auto const report = check_communicators<few_elements>(
          file_process{folder.path(), rank, &launches}, {.ranks = ranks,
                                                         .sizes = {0, 1, 3},
                                                         .rounds = 20,
                                                         .compares_equal_groups = false,
                                                         .has_channels = false});
      std::ofstream(folder.path() / ("report." + std::to_string(rank))) << report.text();
      // One mistake is left out, and there are two launches without any.
      bool const all = launches == plait::testing::communicator_error_count + 1;
      _exit(report.passed() && all ? 0 : 1);
    }
    processes.push_back(child);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 1;
    waitpid(processes[static_cast<std::size_t>(rank)], &status, 0);
    std::ifstream text(folder.path() / ("report." + std::to_string(rank)));
    EXPECT_EQ(status, 0) << std::string(std::istreambuf_iterator<char>(text), {});
  }
}

// The concepts: one model with no more than is asked for, and broken ones.
struct minimal {
  using concept_tag = plait::ext::communicator_tag;
  static constexpr plait::ext::communicator_parts parts{};
  int rank() const noexcept;
  int size() const noexcept;
  void barrier();
};
struct no_tag {
  static constexpr plait::ext::communicator_parts parts{};
  int rank() const noexcept;
  int size() const noexcept;
  void barrier();
};
struct rank_may_throw : minimal {
  int rank() const;
};
struct long_size : minimal {
  long size() const noexcept;
};
struct barrier_with_answer : minimal {
  int barrier();
};
struct no_parts {
  using concept_tag = plait::ext::communicator_tag;
  int rank() const noexcept;
  int size() const noexcept;
  void barrier();
};
struct room_of_unknown_size : minimal {
  static constexpr plait::ext::communicator_parts parts{.sums_in_room = true};
};
// A device says what it has more than others, and has it.
struct device_without_joint_loss : plait::ext::host_device {
  static constexpr plait::ext::device_parts parts{.joins_loss = true};
};
static_assert(plait::ext::device<plait::ext::host_device>);
static_assert(!plait::ext::device<device_without_joint_loss>);
static_assert(plait::ext::communicator<minimal>);
static_assert(!plait::ext::communicator<no_parts>);
static_assert(!plait::ext::communicator<room_of_unknown_size>);
static_assert(!plait::ext::communicator<no_tag>);
static_assert(!plait::ext::communicator<rank_may_throw>);
static_assert(!plait::ext::communicator<long_size>);
static_assert(!plait::ext::communicator<barrier_with_answer>);
static_assert(!plait::ext::can_all_reduce<minimal, float>);
static_assert(!plait::ext::can_all_gather<minimal, float>);
static_assert(!plait::ext::can_reduce_scatter<minimal, float>);
static_assert(!plait::ext::can_all_to_all<minimal, float>);
static_assert(!plait::ext::can_broadcast<minimal, float>);
static_assert(!plait::ext::can_send_receive<minimal, float>);

struct sum_only : minimal {
  template <class T>
  void all_reduce(std::span<T>);
};
// All calls, of which one is wrong: Answer of broadcast, and the type that receive() takes.
template <class Answer, class Received>
struct all_calls : sum_only {
  void all_reduce(std::span<float>, reduction = reduction::sum);
  void all_gather(std::span<float const>, std::span<float>);
  void reduce_scatter(std::span<float const>, std::span<float>);
  void all_to_all(std::span<float const>, std::span<float>);
  Answer broadcast(std::span<float>, int);
  void send(std::span<float const>, int, int);
  void receive(std::span<Received>, int, int);
};
static_assert(!plait::ext::can_all_reduce<sum_only, float>);
static_assert(plait::ext::can_all<all_calls<void, float>, float>);
static_assert(!plait::ext::can_all<all_calls<void, float>, double>);
static_assert(!plait::ext::can_broadcast<all_calls<bool, float>, float>);
static_assert(!plait::ext::can_all<all_calls<bool, float>, float>);
static_assert(plait::ext::can_all_reduce<all_calls<bool, float>, float>);
static_assert(!plait::ext::can_send_receive<all_calls<void, int>, float>);

template <class Number, class Counted>
struct with_records : minimal {
  Counted counted() const;
  void reset_counted();
  void log_calls(std::vector<plait::detail::logged_call>*, int);
  void call_for(Number*);
  void call_for(Number);
};
using plait::testing::keeps_records;
static_assert(keeps_records<with_records<std::uint64_t, plait::ext::traffic>>);
static_assert(!keeps_records<with_records<std::uint64_t, int>>);
static_assert(!keeps_records<with_records<std::string, plait::ext::traffic>>);
static_assert(!keeps_records<minimal>);
static_assert(keeps_records<file_communicator>);
using plait::testing::posts_messages;
static_assert(posts_messages<file_communicator, float>);
static_assert(!posts_messages<minimal, float>);

}  // namespace
