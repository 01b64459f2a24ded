// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/data/adaptor.hpp"
#include "plait/data/dataset.hpp"
#include "plait/data/sample_random.hpp"

namespace plait::ext {

/// A data set whose inputs are changed by a random function: the result of `data | random(f)`.
template <class Held, class Function>
class randomized_data : public adapted_data<Held> {
  using base = adapted_data<Held>;
  static constexpr int place = base::random_adaptors;

 public:
  using typename base::element;
  static constexpr bool is_random = true;
  static constexpr int random_adaptors = place + 1;

  static_assert(
      std::is_invocable_v<Function const&, std::span<element>, sample_random&>,
      "data | random(f): f must take (std::span<element> inputs of a sample, plait::sample_random& "
      "numbers), and, because several threads call it, its operator() must be const");

  template <class Data>
  [[gnu::cold]] randomized_data(Data&& data, Function function, std::uint64_t seed,
                                std::string name)
      : base(std::in_place, std::forward<Data>(data)),
        function_(std::move(function)),
        seed_(seed),
        name_(std::move(name)) {}

  [[nodiscard]] std::string description() const {
    return this->followed_by(concat({"random(", name_, ", seed ", seed_, ")"}));
  }
  void inputs(std::size_t sample, std::int64_t epoch, std::span<element> out,
              std::span<element> scratch) const {
    write_inputs(this->data(), sample, epoch, out, scratch);
    if (epoch == no_epoch) return;
    sample_random numbers(seed_, place, epoch, sample);
    function_(out, numbers);
  }

 private:
  Function function_;
  std::uint64_t seed_;
  std::string name_;
};

}  // namespace plait::ext

namespace plait {

/// Changes inputs at random. The function receives the inputs of a sample, which it changes in
/// place, and a source of random numbers for this sample: `data | plait::random([](std::span<float>
/// sample, plait::sample_random& numbers) { ... })`. Evaluations do not call the function.
///
/// The function must not use another source of random numbers, which would differ between ranks.
/// The name represents the function when ranks compare data sets, and in checkpoints.
/// Threads: several threads call the function at the same time.
template <class Function>
class random {
 public:
  using concept_tag = ext::adaptor_tag;

  explicit random(Function function, std::uint64_t seed = 0, std::string name = "f")
      : function_(std::move(function)), seed_(seed), name_(std::move(name)) {}

  template <class Data>
  [[nodiscard]] auto on(Data&& data) const {
    return ext::randomized_data<ext::held_data<Data>, Function>(std::forward<Data>(data), function_,
                                                                seed_, name_);
  }

 private:
  Function function_;
  std::uint64_t seed_;
  std::string name_;
};

}  // namespace plait
