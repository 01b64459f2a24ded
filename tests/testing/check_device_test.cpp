// SPDX-License-Identifier: Apache-2.0
// test: seconds=15
#include "plait/testing/check_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/host/host_device.hpp"
#include "plait/backend/queue_calls.hpp"
#include "plait/core/error.hpp"
#include "plait/plan/schedule/synchronization.hpp"
#include "testing/expect_reports.hpp"

namespace {

namespace operation = plait::operation;
using plait::ext::device;
using plait::ext::host_device;
using plait::ext::host_queue;
using plait::ext::matrix;
using plait::ext::stream;
using plait::testing::check_device;
using plait::testing::check_report;

// Everything that a device may get wrong, one at a time.
enum class flaw {
  none,
  downloads_are_cut,
  downloads_write_more,
  uploads_are_late,
  operations_in_reverse,
  waits_are_nothing,
  events_stand_for_the_first,
  replays_are_nothing,
  replays_run_once,
  graphs_are_one,
  discards_clear_more,
  kind_changes,
  workspace_falls,
  adds_where_it_writes,
  writes_where_it_adds,
  writes_what_it_reads,
  writes_past_the_end,
  writes_before_the_begin,
  rounds_otherwise,
  ignores_weights,
  products_are_constant,
  throws
};

// ---- Kernels, wrong or the host's ---------------------------------------------------------------

template <class Row, class... Arguments>
void run_kernel(flaw, Row row, Arguments const&... arguments) {
  host_queue{}.run(row, arguments...);
}
template <class T>
void run_kernel(flaw wrong, operation::average_pool row, matrix<T const> const& x,
                matrix<T> const& y, plait::ext::window_shape const& of) {
  std::vector<T> const held(y.data, y.data + y.count());
  host_queue{}.run(row, x, y, of);
  for (std::size_t i = 0; wrong == flaw::adds_where_it_writes && i < held.size(); ++i)
    y.data[i] += held[i];
}
template <class T>
void run_kernel(flaw wrong, operation::accumulate_column_sums row, matrix<T const> const& dy,
                matrix<T> const& sums) {
  if (wrong == flaw::writes_where_it_adds) std::fill_n(sums.data, sums.count(), T(0));
  host_queue{}.run(row, dy, sums);
}
template <class T>
void run_kernel(flaw wrong, operation::rms_norm row, matrix<T const> const& x,
                matrix<T const> const& gamma, matrix<T> const& y, matrix<T> const& inverse,
                double epsilon) {
  host_queue{}.run(row, x, gamma, y, inverse, epsilon);
  if (wrong == flaw::writes_what_it_reads) const_cast<T&>(gamma.data[0]) = 0;
}
template <class T>
void run_kernel(flaw wrong, operation::add_row row, matrix<T const> const& added,
                matrix<T> const& y) {
  host_queue{}.run(row, added, y);
  if (wrong == flaw::writes_past_the_end) y.data[y.count()] = 0;
}
template <class T>
void run_kernel(flaw wrong, operation::max_pool row, matrix<T const> const& x, matrix<T> const& y,
                plait::ext::window_shape const& of) {
  host_queue{}.run(row, x, y, of);
  if (wrong == flaw::writes_before_the_begin) y.data[-2] = 0;
}
template <class T>
void run_kernel(flaw wrong, operation::scale_sets row, matrix<T const> const& dy,
                matrix<T const> const& statistics, matrix<T const> const& gamma,
                matrix<T> const& dx, plait::ext::norm_shape const& of) {
  host_queue{}.run(row, dy, statistics, gamma, dx, of);
  if (wrong == flaw::rounds_otherwise) dx.data[0] *= 1 + 30 * std::numeric_limits<T>::epsilon();
}
template <class A, class C>
void run_kernel(flaw wrong, operation::matmul row, matrix<A const> const& a,
                matrix<A const> const& b, matrix<C> const& c, plait::ext::transposes lie,
                bool accumulate) {
  host_queue{}.run(row, a, b, c, lie, accumulate);
  if (wrong == flaw::products_are_constant)
    for (std::size_t r = 0; r < c.rows; ++r) std::fill_n(c.data + r * c.stride, c.columns, C(10));
}
template <class T>
void run_kernel(flaw wrong, operation::row_max row, matrix<T const> const& x,
                matrix<T> const& max) {
  if (wrong == flaw::throws) throw plait::input_error("too few columns");
  host_queue{}.run(row, x, max);
}

// Loss and gradient together, which the host has no kernel for.
template <class T, class Target>
void run_kernel(flaw wrong, operation::cross_entropy_with_gradient, matrix<T const> const& logits,
                matrix<std::int32_t const> const& labels, matrix<double const> const& scale,
                matrix<double const> const& weights, matrix<T> const& terms,
                matrix<T> const& dlogits, matrix<double> const& loss, Target target,
                std::int32_t ignored) {
  host_queue const host;
  std::vector<T> kept(logits.rows);
  matrix<T const> const max{kept.data(), logits.rows, 1},
      made{terms.data, terms.rows, terms.columns};
  host.run(operation::cross_entropy_statistics{}, logits, labels,
           matrix<T>{kept.data(), max.rows, 1}, terms, target);
  host.run(operation::cross_entropy_sum{}, made, labels, scale, weights, loss, target, ignored);
  host.run(operation::cross_entropy_backward{}, logits, labels, max, made, scale,
           wrong == flaw::ignores_weights ? matrix<double const>{} : weights, dlogits, target,
           ignored, std::size_t{0});
}

// ---- A device that does nothing before it must --------------------------------------------------

struct deferred_streams {
  flaw wrong = flaw::none;
  std::array<std::vector<std::function<void()>>, plait::ext::stream_count> given{};
  std::array<std::size_t, plait::ext::stream_count> done{};
  std::function<void()> first_body{};
  int kinds_said = 0, workspaces_said = 0;

  void put(stream on, std::function<void()> work) {
    given[std::size_t(on)].push_back(std::move(work));
  }
  // Runs the operations of a stream up to number `end`.
  void run(stream on, std::size_t end) {
    auto& all = given[std::size_t(on)];
    auto& next = done[std::size_t(on)];
    if (wrong == flaw::operations_in_reverse)
      std::reverse(all.begin() + std::ptrdiff_t(next), all.end());
    while (next < end) all[next++]();
  }
  void run_all() {
    for (int on = plait::ext::stream_count; on-- > 0;)
      run(stream(on), given[std::size_t(on)].size());
  }
};

class deferred_queue : public plait::ext::queue_calls<deferred_queue> {
 public:
  deferred_queue(deferred_streams& streams, stream on) : streams_(&streams), on_(on) {}

  void discard(void* data, std::size_t bytes) const {
    if (streams_->wrong != flaw::discards_clear_more || bytes == 0) return;
    streams_->put(on_, [=] { std::fill_n(static_cast<std::byte*>(data) - 8, 8, std::byte{}); });
  }
  // One of the rows has no kernel.
  template <operation::is_row Row, class... Arguments>
    requires(!std::same_as<Row, operation::exchange_blocks>)
  void run(Row row, Arguments... arguments) const {
    streams_->put(on_, [=, wrong = streams_->wrong] { run_kernel(wrong, row, arguments...); });
  }
  [[nodiscard]] bool loss_with_gradient() const { return true; }
  template <class Row, class T>
  void prepare(Row, matrix<T const>, plait::ext::attention_shape const&) const {}

 private:
  deferred_streams* streams_;
  stream on_;
};

struct deferred_device {
  using concept_tag = plait::ext::device_tag;
  static constexpr plait::ext::device_parts parts{.counts_workspace = true, .joins_loss = true};
  using memory = plait::ext::host_memory;
  using queue = deferred_queue;
  using arena = plait::ext::host_arena;
  struct graph {
    bool has_run = false;
  };
  struct event {
    stream on = stream::compute;
    std::size_t number = 0;
  };

  [[nodiscard]] bool is(flaw wrong) const { return streams->wrong == wrong; }
  [[nodiscard]] arena allocate(std::size_t bytes) const { return arena(bytes); }
  void upload(void const* from, void* to, std::size_t bytes) const {
    auto const* const begin = static_cast<std::byte const*>(from);
    auto* const out = static_cast<std::byte*>(to);
    if (is(flaw::uploads_are_late))
      return streams->put(stream::compute, [=] { std::copy_n(begin, bytes, out); });
    std::vector<std::byte> const kept(begin, begin + bytes);
    streams->put(stream::compute, [=] { std::copy_n(kept.begin(), bytes, out); });
  }
  void download(void const* from, void* to, std::size_t bytes) const {
    if (is(flaw::downloads_are_cut)) bytes = bytes / 8 * 8;
    if (is(flaw::downloads_write_more) && bytes == 63) ++bytes;
    streams->put(stream::compute, [=] {
      std::copy_n(static_cast<std::byte const*>(from), bytes, static_cast<std::byte*>(to));
      if (bytes == 64) static_cast<std::byte*>(to)[63] = std::byte{1};
    });
  }
  void synchronize() const { streams->run_all(); }
  [[nodiscard]] queue on(stream which) const { return {*streams, which}; }
  [[nodiscard]] event make_event() const { return {}; }
  void record(event& now, stream on) const {
    if (is(flaw::events_stand_for_the_first) && now.number != 0) return;
    now = {on, streams->given[std::size_t(on)].size()};
  }
  void wait(stream, event const& awaited, plait::ext::wait_site) const {
    if (!is(flaw::waits_are_nothing)) streams->run(awaited.on, awaited.number);
  }
  template <class Body>
  void replay(graph& which, Body&& body) const {
    if (is(flaw::replays_are_nothing)) return;
    if (std::exchange(which.has_run, true) && is(flaw::replays_run_once)) return;
    if (!streams->first_body) streams->first_body = body;
    if (is(flaw::graphs_are_one)) streams->first_body();
    else body();
  }
  [[nodiscard]] std::string kind() const {
    bool const says_more = streams->kinds_said++ > 0 && is(flaw::kind_changes);
    return says_more ? "deferred, again" : "deferred";
  }
  [[nodiscard]] int mark(char const*) const { return 0; }
  [[nodiscard]] std::size_t workspace_bytes() const {
    return is(flaw::workspace_falls) ? std::size_t(100 - streams->workspaces_said++) : 100;
  }

  std::shared_ptr<deferred_streams> streams;
};
static_assert(device<deferred_device>);

check_report report_of(flaw wrong, double tolerance = 0) {
  auto const streams = std::make_shared<deferred_streams>();
  streams->wrong = wrong;
  return check_device(deferred_device{streams}, {.tolerance = tolerance});
}

TEST(CheckDevice, TheHostKeepsAllLaws) {
  // example-begin check
  auto const report = plait::testing::check_device(plait::ext::host_device{});
  EXPECT_TRUE(report.passed()) << report.text();
  // example-end
  EXPECT_EQ(std::count(report.checked.begin(), report.checked.end(), "matmul of double"), 1);
  EXPECT_NE(report.checked.front().substr(0, 13), "no kernel for");
}

TEST(CheckDevice, ADeviceThatIsLateKeepsAllLaws) {
  auto const report = report_of(flaw::none);
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.front(),
            "no kernel for: exchange_blocks of float, exchange_blocks of double");
}

// A sentence names what is wrong, and nothing else is reported.
TEST(CheckDevice, FindsEachFlawOfStreamsAndMemory) {
  using enum flaw;
  for (auto const& [wrong, sentence] : std::initializer_list<std::pair<flaw, std::string>>{
           {downloads_are_cut, "upload() and download() of 63 bytes: byte 56 must come back as"},
           {downloads_write_more,
            "upload() and download() of 63 bytes: bytes next to them must stay as they are"},
           {uploads_are_late,
            "upload() of 63 bytes, which the host may change when it returns: byte 0 must"},
           {operations_in_reverse,
            "stream data: its operations must run in order: expected 1024, got"},
           {waits_are_nothing,
            "wait(): stream compute must continue only after the operations that were put into "
            "stream data before record(), and the other way round: expected 21, got"},
           {events_stand_for_the_first,
            "wait(): stream data must continue only after the operations that were put into stream "
            "compute before record()"},
           {replays_are_nothing,
            "replay(): call 1 of a graph must have the effect of the recorded body on the values "
            "that are in memory then: expected 1, got 0"},
           {replays_run_once,
            "replay(): call 2 of a graph must have the effect of the recorded body on the values "
            "that are in memory then: expected 3, got 1"},
           {graphs_are_one, "replay(): a second graph must run its own operations: expected 100"},
           {discards_clear_more,
            "discard(): values that are written after the call, and bytes next to the discarded "
            "bytes, must not change: expected 3, got 0 in element 9998"},
           {kind_changes,
            "kind() must return the same text each time: it returned 'deferred', then 'deferred, "
            "again'"},
           {workspace_falls, "workspace_bytes() must never decrease: it was 100, and later 99"}}) {
    SCOPED_TRACE(sentence);
    auto const report = report_of(wrong);
    expect_reported(report, sentence);
    if (wrong != operations_in_reverse)  // in which uploads come after downloads
      expect_only(report, {sentence.substr(0, sentence.find('('))});
  }
}

TEST(CheckDevice, FindsEachFlawOfAKernel) {
  using enum flaw;
  for (auto const& [wrong, sentence] : std::initializer_list<std::pair<flaw, std::string>>{
           {adds_where_it_writes,
            "average_pool of float: y[0, 0]: a kernel must compute the same as the host's kernel, "
            "and must not read the previous values of the operand, which are nan: expected"},
           {writes_where_it_adds,
            "accumulate_column_sums of double: sums[0]: a kernel must compute the same as the "
            "host's kernel, which adds to the previous values of the operand: expected"},
           {writes_what_it_reads,
            "rms_norm of float: gamma[0]: a kernel must not change the operands that it reads: "
            "expected"},
           {writes_past_the_end,
            "add_row of double: y: a kernel must write nothing next to its operands: it wrote "
            "byte 1 after the last element"},
           {writes_before_the_begin,
            "max_pool of float: y: a kernel must write nothing next to its operands: it wrote "
            "byte 8 before the first element"},
           {rounds_otherwise, "scale_sets of float: dx[0, 0]: a kernel must compute the same as"},
           {ignores_weights,
            "cross_entropy_with_gradient of float: dlogits[0, 0]: a kernel must compute"},
           {throws, "row_max of float: threw: too few columns"}}) {
    SCOPED_TRACE(sentence);
    auto const report = report_of(wrong);
    expect_reported(report, sentence);
    expect_only(report, {sentence.substr(0, sentence.find(' '))});
  }
}

TEST(CheckDevice, ToleranceCountsRoundings) {
  EXPECT_TRUE(report_of(flaw::rounds_otherwise, 40).passed());
  EXPECT_FALSE(report_of(flaw::rounds_otherwise, 1).passed());
  EXPECT_FALSE(report_of(flaw::adds_where_it_writes, 40).passed());
  auto const products = [](double tolerance) {
    return report_of(flaw::products_are_constant, tolerance).failures.size();
  };
  EXPECT_EQ(products(40), products(0)) << "gaps between rows do not widen the bound";
  EXPECT_FALSE(report_of(flaw::writes_what_it_reads, 1e9).passed());
  EXPECT_THROW(report_of(flaw::none, -1), plait::input_error);
}

// ---- The concept --------------------------------------------------------------------------------

template <class Missing>
struct queue_without : plait::ext::queue_calls<queue_without<Missing>> {
  void discard(void*, std::size_t) const {}
  template <operation::is_row Row, class... Arguments>
    requires(!std::same_as<Row, Missing>)
  void run(Row, Arguments...) const {}
};
template <class Missing>
struct device_without : host_device {
  using queue = queue_without<Missing>;
  [[nodiscard]] queue on(stream) const { return {}; }
};

template <class... Rows>
constexpr bool are_needed = (!device<device_without<Rows>> && ...);
static_assert(device<device_without<operation::matmul>>);
static_assert(!device<device_without<operation::fill>>);
static_assert(are_needed<operation::copy_bytes, operation::copy_blocks, operation::convert,
                         operation::swap, operation::add, operation::add_and_clear,
                         operation::average, operation::sums_of_squares, operation::divide,
                         operation::clip, operation::check_finite>);

struct queue_without_discard : plait::ext::queue_calls<queue_without_discard> {
  template <operation::is_row Row, class... Arguments>
  void run(Row, Arguments...) const {}
};
struct queue_without_calls {
  void discard(void*, std::size_t) const {}
  template <operation::is_row Row, class... Arguments>
  void run(Row, Arguments...) const {}
};
static_assert(!plait::ext::step_queue<queue_without_discard>);
static_assert(!plait::ext::step_queue<queue_without_calls>);

}  // namespace
