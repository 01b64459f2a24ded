// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plait/backend/simulated/shadow_memory.hpp"
#include "plait/core/header_only.hpp"

namespace plait::ext {

/// The rule by which the simulation chooses the next operation among the operations that could
/// begin.
enum class simulated_order {
  in_order,  ///< the lowest rank first; the operations of one rank in the order in which the rank
             ///< has enqueued them
  /// Chosen at random from the seed: some streams and ranks run much later than others.
  adversarial
};

}  // namespace plait::ext

namespace plait::detail {

// Orders the streams of all ranks by urgency: the most urgent stream that can continue executes the
// next operation. In adversarial order, urgencies are random, in one of three variants: each stream
// has an urgency of its own, all streams of a rank have similar urgencies, or streams of the same
// kind have similar urgencies on all ranks. Urgencies are redrawn after each operation, or after 8,
// 64 or 1024 operations on average. The seed decides once which variant and which frequency a run
// uses.
//
// Source: Burckhardt, Kothari, Musuvathi, Nagarakatte, "A randomized scheduler with probabilistic
//         guarantees of finding bugs", ASPLOS 2010 (random priorities with few changes).
class operation_order {
 public:
  static constexpr auto streams = shadow_memory::streams;

  operation_order(std::size_t ranks, simulated_order order, std::uint64_t seed);

  [[nodiscard]] bool is_adversarial() const { return is_adversarial_; }
  // True if a rank's thread continues as soon as its wait is over; false if it continues only when
  // no operation can be executed any more.
  [[nodiscard]] bool wakes_early() const { return wakes_early_; }

  // The streams in the order of urgency, as numbers: stream s of rank r has number r * `streams` +
  // s.
  [[nodiscard]] std::vector<std::size_t> const& by_urgency() const { return by_urgency_; }

  // Notes that an operation has been executed; redraws the urgencies if it is time to.
  void advance() {
    if (is_adversarial_ && below(stretch_) == 0) draw();
  }

 private:
  enum class grouping { none, rank, kind };

  // Returns a random number, by splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom
  // number generators", 2014.
  std::uint64_t random();
  std::uint64_t below(std::uint64_t bound) { return random() % bound; }

  void shuffle(std::vector<std::size_t>& what) {
    for (std::size_t i = what.size(); i > 1; --i) std::swap(what[i - 1], what[below(i)]);
  }

  void draw();

  std::uint64_t state_;
  bool is_adversarial_;
  bool wakes_early_ = false;
  std::uint64_t stretch_ = 1;
  grouping how_ = grouping::none;
  std::vector<std::size_t> by_urgency_, groups_, shuffled_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/simulated/operation_order.ipp"
#endif
