// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "plait/backend/communicator.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/testing/communicator_probe.hpp"

// Laws of messages that are posted on channels between neighbours. Each function makes the same
// calls on all ranks of a group over the stages.
namespace plait::testing::detail {

// This rank's end of a channel to or from a neighbour.
struct channel_end {
  int other = 0;
  bool sends = false;
  stream on = stream::compute;  // the channel's name on this rank
  stream of_sender = stream::compute;
  bool is_forth = false;  // messages go from the first rank of the pair to the second
};

// Returns two ends for each pair of neighbours to which this rank belongs: one for each direction.
// All ranks have the pairs in the same order. If each rank posts its messages pair by pair, no rank
// waits forever, even with a backend that sends each message at once.
std::vector<channel_end> channel_ends(int me, int size);

// Returns the values that a rank sends or receives over a channel.
template <class T, class Probe>
std::vector<T> channel_values(Probe const& p, channel_end const& end, std::size_t count) {
  return probe_values<T>(end.sends ? p.me() : end.other, count,
                         p.salt + static_cast<unsigned>(channel_number(end.of_sender)));
}

template <class T, class Probe>
struct lent_values {
  channel_end end;
  typename Probe::template buffer<T> lent, seen;

  [[nodiscard]] static std::vector<lent_values> of_all(Probe const& p, std::size_t count) {
    std::vector<lent_values> out;
    for (auto const& end : channel_ends(p.me(), p.size()))
      out.push_back(
          {end,
           end.sends ? p.put(channel_values<T>(p, end, count)) : p.template put_zeros<T>(count),
           p.template put_zeros<T>(count)});
    return out;
  }
  void post(Probe const& p, std::size_t begin, std::size_t count, int tag) const {
    auto const values = lent.span().subspan(begin, count);
    if (end.sends) p.comm().template post_send<T>(values, end.other, tag, end.on);
    else p.comm().template post_receive<T>(values, end.other, tag, end.on);
  }
  // Makes stream `on` wait until all posted messages have been sent or received.
  void wait(Probe const& p, stream on) const {
    auto event = p.rank.device().make_event();
    p.rank.device().record(event, end.on);
    p.rank.device().wait(on, event, {});
  }
  // Reuses the memory of messages: overwrites values that were sent, copies values that were
  // received.
  void use_again(Probe const& p) const {
    auto const queue = p.rank.device().on(stream::compute);
    auto const bytes = lent.span().size_bytes();
    if (end.sends) queue.copy_bytes(seen.span().data(), lent.span().data(), bytes);
    else queue.copy_bytes(lent.span().data(), seen.span().data(), bytes);
  }
  void expect(Probe& p, std::size_t n) {
    if (end.sends) return;
    auto const expected = channel_values<T>(p, end, lent.span().size());
    p.expect(lent, expected,
             {"post_send and post_receive", n, -1,
              "messages arrive complete, in the order in which they were posted"});
    p.expect(seen, expected,
             {"post_send and post_receive", n, -1, "messages have arrived after the wait"});
  }
};

// Sends several messages on each channel at a time, including an empty one, and makes other calls
// meanwhile. `late`: 1 if ranks with an odd number are late, 0 if ranks with an even number are, -1
// if none is. A late rank posts its messages after the other ranks have posted theirs, and so much
// later that a faulty wait of another rank, which returns too early, has already returned. With
// late ranks there are no other calls, because these calls would make all ranks late.
template <class T, class Probe>
void check_posted_messages(Probe& p, std::size_t n, int late) {
  std::array<std::size_t, 4> const counts{n, n, 0, n / 2 + 1};
  std::size_t const all = 2 * n + n / 2 + 1;
  auto channels = lent_values<T, Probe>::of_all(p, all);
  auto sums = p.template put_own<T>(n), sent = p.template put_own<T>(n),
       received = p.template put_zeros<T>(n);
  p.settle();
  if (p.me() % 2 == late) std::this_thread::sleep_for(std::chrono::milliseconds{10});
  for (std::size_t pair = 0; pair < channels.size(); pair += 2) {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < counts.size(); begin += counts[i++])
      for (std::size_t way : {pair, pair + 1})
        channels[way].post(p, begin, counts[i], static_cast<int>(i));
  }
  int const next = (p.me() + 1) % p.size(), previous = (p.me() + p.size() - 1) % p.size();
  if (late < 0) {
    p.comm().all_reduce(sums.span(), reduction::max);
    if (p.me() == 0) p.comm().send(sent.read_only(), next, 3);
    p.comm().receive(received.span(), previous, 3);
    if (p.me() != 0) p.comm().send(sent.read_only(), next, 3);
  }
  for (auto const& channel : channels) {
    channel.wait(p, stream::compute);
    channel.use_again(p);
  }
  for (auto& channel : channels) channel.expect(p, n);
  if (late < 0) {
    p.expect(sums, largest_values<T>(p.size(), n, p.salt),
             {"all_reduce", n, -1, "while messages are posted"});
    p.expect(received, probe_values<T>(previous, n, p.salt),
             {"send and receive", n, -1, "while messages are posted"});
  }
  p.salt += channel_count;
}

// Checks that a wait for one channel does not wait for another channel. Each rank waits for the
// messages in one direction, and then takes part in a collective. The messages in the other
// direction are sent only after this collective, but their receives are posted already.
template <class Probe>
void check_channels_apart(Probe& p) {
  std::size_t const n = 5;
  auto channels = lent_values<double, Probe>::of_all(p, n);
  auto sum = p.template put_own<double>(n);
  p.settle();
  for (auto const& channel : channels)
    if (channel.end.is_forth || !channel.end.sends) channel.post(p, 0, n, 2);
  auto const calls = stream_of(p.over);
  for (auto const& channel : channels)
    if (channel.end.is_forth) channel.wait(p, calls);
  p.comm().all_reduce(sum.span());
  auto event = p.rank.device().make_event();
  p.rank.device().record(event, calls);
  for (auto const& channel : channels)
    if (!channel.end.is_forth && channel.end.sends) {
      p.rank.device().wait(channel.end.on, event, {});
      channel.post(p, 0, n, 2);
    }
  for (auto const& channel : channels) {
    channel.wait(p, stream::compute);
    channel.use_again(p);
  }
  for (auto& channel : channels) channel.expect(p, n);
  p.salt += channel_count;
}

// Checks that a message is refused if its channel does not connect the two ranks, or if the ranks
// are not neighbours.
template <class Probe>
void check_refused_channels(Probe& p) {
  auto values = p.template put_own<double>(1);
  p.settle();
  auto const refuses = [&](int other, bool sends, stream on) {
    try {
      if (sends) p.comm().template post_send<double>(values.span(), other, 7, on);
      else p.comm().template post_receive<double>(values.span(), other, 7, on);
    } catch (input_error const&) {
      return true;
    }
    return false;
  };
  auto const is_right = [ends = channel_ends(p.me(), p.size())](int other, bool sends, stream on) {
    for (auto const& end : ends)
      if (end.other == other && end.sends == sends && end.on == on) return true;
    return false;
  };
  for (int other = 0; other < p.size(); ++other)
    for (bool const sends : {true, false})
      for (stream const on :
           {stream::to_next, stream::from_next, stream::to_previous, stream::from_previous}) {
        if (other == p.me() || is_right(other, sends, on) || refuses(other, sends, on)) continue;
        return p.fail(
            {sends ? "post_send" : "post_receive", 1, -1, "messages on other channels are refused"},
            "float64",
            ext::concat({"a message with member ", other, " on channel ", to_string(on),
                         " did not throw an input_error"}));
      }
}

}  // namespace plait::testing::detail

#if PLAIT_HEADER_ONLY
#include "plait/testing/communicator_channel_laws.ipp"
#endif
