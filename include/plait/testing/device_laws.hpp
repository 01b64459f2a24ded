// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/device.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/schedule/synchronization.hpp"
#include "plait/testing/report.hpp"

// The laws of a device's memory, streams, events and graphs.
namespace plait::testing::detail {

// Returns `count` bytes, each of which differs from its neighbours. Another `salt` gives other
// bytes.
std::vector<std::byte> pattern_of(std::size_t count, unsigned salt);

// Adds a failure if bytes that were copied to a device and back are not equal, or if bytes next to
// them have changed. `got` is the memory around the copied bytes; the copied bytes begin `before`
// bytes after the beginning of `got`.
void compare_copied(check_report& report, std::string const& law,
                    std::vector<std::byte> const& copied, std::vector<std::byte> const& got,
                    std::size_t before, std::byte next_to_them);

/// Checks a device, one law after another, and reports failures.
template <class Device>
class device_laws {
 public:
  device_laws(Device& device, check_report& report) : device_(device), report_(report) {}

  /// Checks all laws. Returns false if memory or the order of a stream is wrong; the other laws are
  /// then not checked, because their checks rely on these two.
  [[nodiscard]] bool check() {
    std::size_t const before = report_.failures.size();
    std::string const kind = device_.kind();
    law("allocate", [&] { check_memory(); });
    law("upload and download", [&] { check_copies(); });
    law("the order of a stream", [&] { check_order(); });
    if (report_.failures.size() != before) return false;
    law("record and wait", [&] { check_waits(); });
    bool const waits = report_.failures.size() == before;
    // The check of replay() uses streams that wait for each other, so it is made only if waits
    // work.
    if (waits) law("replay", [&] { check_replay(); });
    law("discard", [&] { check_discard(); });
    law("mark", [&] { check_marks(); });
    law("kind", [&] { check_kind(kind); });
    return true;
  }

  /// Adds a failure if workspace_bytes() is less than at the last call of this function.
  void check_workspace() {
    if constexpr (Device::parts.counts_workspace) {
      std::size_t const now = device_.workspace_bytes();
      if (now < workspace_ && !workspace_fell_)
        report_.failures.push_back(ext::concat(
            {"workspace_bytes() must never decrease: it was ", workspace_, ", and later ", now}));
      workspace_fell_ = workspace_fell_ || now < workspace_;
      workspace_ = now;
    }
  }

 private:
  using stream = ext::stream;
  static constexpr std::size_t count = 20000;  // large enough that operations take a while
  static constexpr ext::wait_site there{ext::wait_site::part::step, 0, 1};
  static constexpr ext::wait_site back{ext::wait_site::part::step, 1, 0};

  template <class Law>
  void law(char const* name, Law run) {
    try {
      run();
      device_.synchronize();
      check_workspace();
    } catch (std::exception const& failure) {
      report_.failures.push_back(ext::concat({name, ": threw: ", failure.what()}));
    }
    report_.checked.push_back(name);
  }
  void fail(std::string failure) { report_.failures.push_back(std::move(failure)); }

  /// Numbers in the device's memory.
  struct floats {
    typename Device::arena room;
    [[nodiscard]] float* data() const { return reinterpret_cast<float*>(room.data()); }
  };
  [[nodiscard]] floats numbers(float value) {
    floats out{device_.allocate(count * sizeof(float))};
    device_.on(stream::compute).fill(value, out.data(), count);
    device_.synchronize();
    return out;
  }
  /// Waits for all streams, and adds a failure unless all numbers are `expected`.
  void expect(floats const& of, float expected, std::string const& sentence) {
    device_.synchronize();
    std::vector<float> got(count);
    device_.download(of.data(), got.data(), count * sizeof(float));
    device_.synchronize();
    for (std::size_t i = 0; i < count; ++i)
      if (!(got[i] == expected))
        return fail(ext::concat({sentence, ": expected ", number_text(double(expected)), ", got ",
                                 number_text(double(got[i])), " in element ", i}));
  }

  void check_memory() {
    std::vector<typename Device::arena> held;
    for (std::size_t const bytes : {std::size_t{0}, std::size_t{1}, std::size_t{100}, count}) {
      auto const& one = held.emplace_back(device_.allocate(bytes));
      if (one.size() != bytes)
        fail(ext::concat({"allocate(", bytes, "): size() of the arena is ", one.size()}));
      if (reinterpret_cast<std::uintptr_t>(one.data()) % 64 != 0)
        fail(ext::concat({"allocate(", bytes, "): the memory is not aligned to 64 bytes"}));
    }
  }

  void check_copies() {
    constexpr std::size_t before = 64;
    constexpr std::byte next{0x5A}, later{0x33};
    for (std::size_t const bytes : {std::size_t{0}, std::size_t{1}, std::size_t{63}, 4 * count}) {
      auto const sent = pattern_of(bytes, 3);
      std::vector<std::byte> const clear(bytes + 2 * before, next);
      auto const room = device_.allocate(clear.size());
      // Copies to and from the middle of a larger block.
      auto got = clear, whole = clear;
      device_.upload(clear.data(), room.data(), clear.size());
      device_.upload(sent.data(), room.data() + before, bytes);
      device_.download(room.data() + before, got.data() + before, bytes);
      device_.download(room.data(), whole.data(), whole.size());
      device_.synchronize();
      auto const what = ext::concat({"upload() and download() of ", bytes, " bytes"});
      compare_copied(report_, what, sent, got, before, next);
      compare_copied(report_, what, sent, whole, before, next);
      // The host changes the bytes directly after upload(), which must not change the uploaded
      // bytes.
      auto changed = pattern_of(bytes, 7);
      auto const second = changed;
      device_.upload(changed.data(), room.data() + before, bytes);
      changed.assign(bytes, later);
      got = clear;
      device_.download(room.data() + before, got.data() + before, bytes);
      device_.synchronize();
      compare_copied(
          report_,
          ext::concat({"upload() of ", bytes, " bytes, which the host may change when it returns"}),
          second, got, before, next);
    }
  }

  void check_order() {
    for (stream const on : {stream::compute, stream::data, stream::tensor, stream::stage}) {
      auto const x = numbers(0), y = numbers(0);
      auto const queue = device_.on(on);
      queue.fill(1.0f, x.data(), count);
      for (int i = 0; i < 10; ++i) queue.add(x.data(), x.data(), x.data(), count);
      if constexpr (Device::parts.goes_on) device_.go_on();
      queue.copy_bytes(x.data(), y.data(), count * sizeof(float));
      queue.fill(-1.0f, x.data(), count);
      expect(y, 1024,
             ext::concat({"stream ", to_string(on), ": its operations must run in order"}));
      expect(x, -1, ext::concat({"stream ", to_string(on), ": its operations must run in order"}));
    }
  }

  void check_waits() {
    for (auto const& [first, second] :
         {std::pair{stream::compute, stream::data}, std::pair{stream::data, stream::compute},
          std::pair{stream::tensor, stream::stage}}) {
      auto const x = numbers(0), sum = numbers(0);
      auto given = device_.make_event(), taken = device_.make_event();
      for (int round = 1; round <= 6; ++round) {  // an event can be recorded again
        device_.on(first).fill(float(round), x.data(), count);
        device_.record(given, first);
        device_.wait(second, given, there);
        device_.on(second).add(sum.data(), x.data(), sum.data(), count);
        device_.record(taken, second);
        device_.wait(first, taken, back);
      }
      expect(sum, 21,
             ext::concat({"wait(): stream ", to_string(second),
                          " must continue only after the operations that were put into stream ",
                          to_string(first), " before record(), and the other way round"}));
    }
  }

  void check_replay() {
    auto const step = numbers(0), x = numbers(0), sum = numbers(0);
    auto done = device_.make_event(), added = device_.make_event();
    auto const body = [&] {
      device_.on(stream::compute).add(x.data(), step.data(), x.data(), count);
      device_.record(done, stream::compute);
      device_.wait(stream::data, done, there);
      device_.on(stream::data).add(sum.data(), x.data(), sum.data(), count);
      device_.record(added, stream::data);
      device_.wait(stream::compute, added, back);
    };
    auto const other_body = [&] { device_.on(stream::compute).fill(100.0f, x.data(), count); };
    typename Device::graph graph{}, other{};
    float at = 0, total = 0;
    auto const next = [&](int call) {
      std::vector<float> const by(count, float(call));
      device_.upload(by.data(), step.data(), count * sizeof(float));
      device_.replay(graph, body);
      auto const what = ext::concat({"replay(): call ", call,
                                     " of a graph must have the effect of the recorded body on the "
                                     "values that are in memory then"});
      expect(x, at += float(call), what);
      expect(sum, total += at, what);
    };
    std::size_t const before = report_.failures.size();
    for (int call = 1; call <= 4; ++call)
      if (next(call); report_.failures.size() != before) return;
    for (int call = 1; call <= 3; ++call) device_.replay(other, other_body);
    expect(x, at = 100, "replay(): a second graph must run its own operations");
    next(5);
  }

  void check_discard() {
    auto const x = numbers(3);
    auto const queue = device_.on(stream::compute);
    std::size_t const half = count / 2;
    queue.discard(x.data() + half, half * sizeof(float));
    queue.discard(x.data(), 0);
    queue.fill(3.0f, x.data() + half, half);
    expect(x, 3,
           "discard(): values that are written after the call, and bytes next to the discarded "
           "bytes, must not change");
  }

  void check_marks() {
    auto const x = numbers(1);
    [[maybe_unused]] auto const outer = device_.mark("outer");
    {
      [[maybe_unused]] auto const inner = device_.mark("inner");
      device_.on(stream::compute).add(x.data(), x.data(), x.data(), count);
    }
    device_.on(stream::compute).add(x.data(), x.data(), x.data(), count);
    expect(x, 4, "mark(): operations must run within marks and between them");
  }

  void check_kind(std::string const& first) {
    for (int i = 0; i < 2; ++i)
      if (auto const now = device_.kind(); now != first)
        return fail(ext::concat({"kind() must return the same text each time: it returned '", first,
                                 "', then '", now, "'"}));
  }

  Device& device_;
  check_report& report_;
  std::size_t workspace_ = 0;
  bool workspace_fell_ = false;
};

}  // namespace plait::testing::detail

#if PLAIT_HEADER_ONLY
#include "plait/testing/device_laws.ipp"
#endif
