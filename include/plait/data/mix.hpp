// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/hash.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/data/adaptor.hpp"
#include "plait/data/dataset.hpp"
#include "plait/data/loader.hpp"
#include "plait/data/mixing_order.hpp"
#include "plait/data/picture_shape.hpp"

namespace plait::ext {

/// The options of `plait::mix`.
struct mix_options {
  std::uint64_t seed = 0;
  /// The number of samples in an epoch of the mixture. 0 selects the greatest number for which no
  /// sample occurs twice in the first epoch; this epoch then ends when the first source is used up.
  std::size_t samples = 0;
};

}  // namespace plait::ext

namespace plait {

/// A source of a mixture, which is a data set, and its share of the samples: `plait::share(stories,
/// 0.7)`. Shares are relative: 7 and 3 mean the same as 0.7 and 0.3.
///
/// A named data set is referred to and must outlive the mixture; a temporary data set is moved into
/// the mixture.
template <class Held>
struct share {
  Held data;
  double value;

  template <class Data>
  share(Data&& from, double of) : data(std::forward<Data>(from)), value(of) {}
};
template <class Data>
share(Data&&, double) -> share<ext::held_data<Data>>;

}  // namespace plait

namespace plait::ext {

/// A data set whose samples are from several data sets, in given shares: the result of
/// `plait::mix`. Sample n of epoch e is at position e * size() + n of a `mixing_order`.
///
/// Cost:    no memory per sample; about 250 ns to find a sample.
/// Threads: all members are const and may run at the same time.
template <class... Held>
class mixed_data {
  using first_data = std::remove_cvref_t<std::tuple_element_t<0, std::tuple<Held...>>>;

 public:
  using concept_tag = dataset_tag;
  using element = typename first_data::element;
  using target = target_of<first_data>;
  static constexpr bool targets_per_sample = has_targets_per_sample<first_data>;
  static constexpr bool is_random = true;  // the samples differ between epochs
  static constexpr bool has_own_order = true;
  static constexpr int random_adaptors =
      std::max({0, random_adaptors_in<std::remove_cvref_t<Held>>...});

  [[gnu::cold]] mixed_data(mix_options const& options, share<Held>... parts)
      : order_(options.seed, lean_vector<mixed_source>{mixed_source{
                                 parts.value, parts.data.size(),
                                 ext::has_own_order<std::remove_cvref_t<Held>>}...}),
        samples_(detail::samples_of_mixture(order_, options.samples)),
        sources_(std::forward<Held>(parts.data)...) {
    std::apply(
        [](auto const&... data) {
          detail::require_same_shapes(lean_vector<detail::mixed_shape>{shape_of(data)...});
        },
        sources_);
  }

  /// Returns the order of the samples of the mixture; its functions also return how many samples
  /// each source has.
  [[nodiscard]] mixing_order const& order() const { return order_; }
  /// Returns the data set of source I.
  template <std::size_t I>
  [[nodiscard]] auto const& data() const {
    return std::get<I>(sources_);
  }

  [[nodiscard]] std::size_t size() const { return samples_; }
  [[nodiscard]] std::size_t sequence_length() const { return data<0>().sequence_length(); }
  [[nodiscard]] std::size_t width() const
    requires feature_dataset<first_data>
  {
    return data<0>().width();
  }
  [[nodiscard]] std::size_t target_width() const { return target_width_of(data<0>()); }
  [[nodiscard]] std::size_t scratch_elements() const {
    return std::apply(
        [](auto const&... data) {
          return std::max({std::size_t{0}, scratch_elements_of(data)...});
        },
        sources_);
  }

  void inputs(std::size_t sample, std::int64_t epoch, std::span<element> out,
              std::span<element> scratch) const {
    read(sample, epoch, [&](auto const& data, std::size_t number, std::int64_t epoch_there) {
      write_inputs(data, number, epoch_there, out, scratch);
    });
  }
  void targets(std::size_t sample, std::int64_t epoch, std::span<target> out) const {
    read(sample, epoch, [&](auto const& data, std::size_t number, std::int64_t epoch_there) {
      write_targets(data, number, epoch_there, out);
    });
  }
  /// Writes the document numbers of a sample; zeros if its source does not number documents.
  void documents(std::size_t sample, std::int64_t epoch, std::span<std::int32_t> out) const
    requires(may_have_documents<std::remove_cvref_t<Held>> || ...)
  {
    read(sample, epoch, [&](auto const& data, std::size_t number, std::int64_t epoch_there) {
      write_documents(data, number, epoch_there, out);
    });
  }
  [[nodiscard]] bool has_documents() const {
    return std::apply([](auto const&... data) { return (has_documents_of(data) || ...); },
                      sources_);
  }
  /// Returns the weight of a sample in the loss; 1 if its source has no weights.
  [[nodiscard]] double weight(std::size_t sample, std::int64_t epoch) const
    requires(weighted_dataset<std::remove_cvref_t<Held>> || ...)
  {
    double weight = 1;
    read(sample, epoch, [&](auto const& data, std::size_t number, std::int64_t epoch_there) {
      weight = weight_of(data, number, epoch_there);
    });
    return weight;
  }

  [[nodiscard]] auto picture_shape() const
    requires(picture_dataset<std::remove_cvref_t<Held>> && ...)
  {
    return data<0>().picture_shape();
  }
  [[nodiscard]] bool has_missing() const {
    return std::apply([](auto const&... data) { return (has_missing_of(data) || ...); }, sources_);
  }
  [[nodiscard]] decltype(auto) classes() const
    requires requires(first_data const& data) { data.classes(); }
  {
    return data<0>().classes();
  }

  [[nodiscard]] std::string description() const {
    return std::apply(
        [&](auto const&... data) {
          return order_.text(lean_vector<std::string>{description_of(data)...}, samples_);
        },
        sources_);
  }
  /// Returns a hash of the order of the mixture and of the samples of all sources.
  [[nodiscard]] std::uint64_t fingerprint() const {
    detail::hash out;
    out.add(order_.fingerprint()).add(std::uint64_t{samples_});
    std::apply(
        [&](auto const&... data) {
          (out.add(loader<std::remove_cvref_t<Held>>(data).fingerprint()), ...);
        },
        sources_);
    return out.value();
  }

  /// Returns the source from which a sample of the mixture comes in an epoch, and the number of the
  /// sample in this source. For no_epoch, returns the same as for epoch 0.
  ///
  /// Errors: size_mismatch if there is no such sample.
  [[nodiscard]] mixed_sample find(std::size_t sample, std::int64_t epoch = no_epoch) const {
    if (sample >= samples_)
      throw size_mismatch({"mix: sample ", sample, " of a mixture of ", samples_, " samples"});
    return order_.at((epoch < 0 ? 0 : static_cast<std::uint64_t>(epoch)) * samples_ + sample);
  }

 private:
  /// Calls a function with the source of a sample, the number of the sample in this source, and the
  /// epoch of this source.
  template <class Function>
  void read(std::size_t sample, std::int64_t epoch, Function const& function) const {
    auto const found = find(sample, epoch);
    auto const epoch_there = epoch < 0 ? no_epoch : static_cast<std::int64_t>(found.epoch);
    std::size_t number = 0;
    std::apply(
        [&](auto const&... data) {
          ((number++ == found.source ? function(data, found.sample, epoch_there) : void()), ...);
        },
        sources_);
  }

  template <class Data>
  static detail::mixed_shape shape_of(Data const& data) {
    detail::mixed_shape out{.sequence_length = data.sequence_length(),
                            .width = 1,
                            .target_width = target_width_of(data)};
    if constexpr (feature_dataset<Data>) out.width = data.width();
    if constexpr ((picture_dataset<std::remove_cvref_t<Held>> && ...)) {
      auto const shape = data.picture_shape();
      out.channels = shape.channels, out.height = shape.height;
    }
    if constexpr (requires {
                    { data.classes() } -> std::same_as<std::vector<std::string> const&>;
                  })
      out.classes = data.classes();
    return out;
  }

  mixing_order order_;
  std::size_t samples_;
  std::tuple<Held...> sources_;
};

}  // namespace plait::ext

namespace plait::detail {

template <class Part>
inline constexpr bool is_share = false;
template <class Held>
inline constexpr bool is_share<share<Held>> = true;

template <class... Held>
consteval bool can_mix(std::type_identity<share<Held>>...) {
  using first = std::remove_cvref_t<std::tuple_element_t<0, std::tuple<Held...>>>;
  constexpr bool are_data_sets = ((ext::token_dataset<std::remove_cvref_t<Held>> ||
                                   ext::feature_dataset<std::remove_cvref_t<Held>>) &&
                                  ...);
  static_assert(are_data_sets,
                "mix(options, share(data, 0.7), ...): a source is not a data set; write "
                "plait::in_memory<float> data(...) for samples in memory, or give a type of your "
                "own all of concept_tag, element, size, sequence_length, inputs and targets (of "
                "features width, too), as plait/data/dataset.hpp has them");
  if constexpr (are_data_sets) {
    constexpr bool same_elements =
        (std::same_as<typename std::remove_cvref_t<Held>::element, typename first::element> && ...);
    static_assert(same_elements,
                  "mix(options, share(a, 0.7), share(b, 0.3)): the sources have inputs of "
                  "different types, such as tokens and features, or float and double; give all "
                  "data sets the same element");
    constexpr bool same_targets =
        (std::same_as<ext::target_of<std::remove_cvref_t<Held>>, ext::target_of<first>> && ...);
    static_assert(same_targets,
                  "mix(options, share(a, 0.7), share(b, 0.3)): the sources have targets of "
                  "different types, such as classes and real numbers; give all data sets the same "
                  "target");
    constexpr bool same_places = ((ext::has_targets_per_sample<std::remove_cvref_t<Held>> ==
                                   ext::has_targets_per_sample<first>) &&
                                  ...);
    static_assert(same_places,
                  "mix(options, share(a, 0.7), share(b, 0.3)): some sources have a target for each "
                  "sample, and others for each position; give all data sets the same "
                  "targets_per_sample");
    return same_elements && same_targets && same_places;
  } else {
    return false;
  }
}

template <class... Held>
ext::mixed_data<Held...> mixed(mix_options const& options, share<Held>... parts) {
  return ext::mixed_data<Held...>(options, std::move(parts)...);
}

}  // namespace plait::detail

namespace plait {

/// Mixes data sets in given shares: `plait::mix({.seed = 1}, plait::share(stories, 0.7),
/// plait::share(code, 0.3))` is a data set of which 7 of 10 samples are stories.
///
/// The shares hold everywhere, not only on average: among any L successive samples of the mixture,
/// the number of samples of a source differs from L times its share by less than 1 for two sources,
/// 2 for three and 3.5 for any number (`ext::mixing_order`). Shares are divided by their sum. Each
/// source has epochs of its own: when all samples of a source have been used once, the source
/// begins its next epoch, in another order, which depends on the seed. The random adaptors of a
/// source get the epoch of the source, not of the mixture.
///
/// Batches take the samples of a mixture in its order; batch_options::how and batch_options::seed
/// have no influence. The next epoch of the batches continues after the last sample of the previous
/// epoch, so no sample is left out. Sample n of the training therefore depends only on the seed,
/// the shares and the sources, not on the number of ranks. Evaluations use the samples of epoch 0,
/// without random changes.
///
/// Errors: input_error if a share is not finite or not above 0, a source has no samples, or the
///         samples of sources differ in their shapes or in the names of their classes.
///
/// Example (tests/reference/names_in_use_test.cpp mix):
///     auto const mixed =
///         plait::mix({.seed = 1}, plait::share(stories, 0.7), plait::share(code, 0.3));
template <class... Parts>
[[nodiscard]] auto mix(ext::mix_options const& options, Parts&&... parts) {
  constexpr bool are_shares =
      sizeof...(Parts) > 0 && (detail::is_share<std::remove_cvref_t<Parts>> && ...);
  static_assert(are_shares,
                "mix(options, ...): after the options come the sources with their shares; write "
                "plait::mix({.seed = 1}, plait::share(a, 0.7), plait::share(b, 0.3))");
  if constexpr (are_shares) {
    if constexpr (detail::can_mix(std::type_identity<std::remove_cvref_t<Parts>>{}...))
      return detail::mixed(options, std::forward<Parts>(parts)...);
    else return 0;  // prevents further compile errors
  } else {
    return 0;
  }
}
/// \overload
template <class Held, class... Parts>
[[nodiscard]] auto mix(share<Held> first, Parts&&... parts) {
  return mix(ext::mix_options{}, std::move(first), std::forward<Parts>(parts)...);
}

}  // namespace plait
