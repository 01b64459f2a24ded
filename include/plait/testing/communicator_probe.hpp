// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/ranks_text.hpp"
#include "plait/testing/report.hpp"

namespace plait::testing::detail {

// The failures that the ranks of this process have found. Each process has a separate object.
class communicator_findings {
 public:
  // The most failures of one law that one rank reports in full.
  static constexpr int most_alike = 2;

  // Adds a failure. `law`: a text that is the same for failures of the same kind.
  void add(int world_rank, std::string const& law, std::string const& text);

  void move_to(check_report& report);

 private:
  using failure = std::pair<int, std::string>;

  std::mutex mutex_;
  std::vector<failure> failures_;
  std::map<std::pair<int, std::string>, int> alike_;
};

// Returns the name of an element type, such as "int32".
template <class T>
std::string element_name() {
  char const* const kind = std::is_same_v<T, bfloat16>   ? "bfloat"
                           : std::is_floating_point_v<T> ? "float"
                           : std::is_signed_v<T>         ? "int"
                                                         : "uint";
  return kind + std::to_string(8 * sizeof(T));
}

template <class T>
inline constexpr bool is_float = std::is_floating_point_v<accumulate_t<T>>;

// Returns a number that differs for each rank, position and salt and uses all bytes of T; sums over
// 128 ranks stay in the range of a signed integer.
template <class T>
T probe_value(int rank, std::size_t position, unsigned salt) {
  auto bits = (position + 1) * 0x9E3779B97F4A7C15u ^
              (static_cast<std::uint64_t>(rank) + 1) * 0xBF58476D1CE4E5B9u ^
              (std::uint64_t{salt} + 1) * 0x94D049BB133111EBu;
  bits = (bits ^ bits >> 31) * 0xD6E8FEB86659FD93u;
  bits ^= bits >> 32;
  if constexpr (is_float<T>)  // magnitudes differ, so that sums in different orders have different
                              // bits
    return static_cast<T>(static_cast<double>(static_cast<std::int64_t>(bits) >> 11) * 0x1p-52 *
                          static_cast<double>(1u << (bits & 15u)));
  else if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<T>(bits) / 256);
  else return static_cast<T>(bits);
}

template <class T>
std::vector<T> probe_values(int rank, std::size_t count, unsigned salt, std::size_t first = 0) {
  std::vector<T> out(count);
  std::size_t position = first;
  for (T& value : out) value = probe_value<T>(rank, position++, salt);
  return out;
}

// Returns the values of all ranks, one block for each rank in the order of ranks.
template <class T>
std::vector<T> probe_values_of_all(int ranks, std::size_t count, unsigned salt,
                                   std::size_t first = 0) {
  std::vector<T> out;
  for (int rank = 0; rank < ranks; ++rank) {
    auto const block = probe_values<T>(rank, count, salt, first);
    out.insert(out.end(), block.begin(), block.end());
  }
  return out;
}

// The sum or maximum over the ranks that a call must return, and the largest allowed difference for
// a sum whose additions have a different order.
template <class T>
struct combined_values {
  std::vector<T> values;
  std::vector<double> bounds;  // empty: no difference is allowed
};

template <class T>
combined_values<T> summed_values(int ranks, std::size_t count, unsigned salt, std::size_t first,
                                 bool in_rank_order) {
  using number = accumulate_t<T>;
  std::vector<number> sums(count);
  combined_values<T> out{std::vector<T>(count), {}};
  bool const bounded = is_float<T> && !in_rank_order && ranks > 1;
  if (bounded) out.bounds.resize(count);
  // Each of the p - 1 additions rounds by at most half an epsilon of the sum of magnitudes.
  double const epsilon =
      std::is_same_v<T, bfloat16> ? 0x1p-7 : static_cast<double>(std::numeric_limits<T>::epsilon());
  for (int rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i) {
      auto const value = static_cast<number>(probe_value<T>(rank, first + i, salt));
      sums[i] = rank == 0 ? value : static_cast<number>(sums[i] + value);
      if (bounded) out.bounds[i] += ranks * epsilon * std::abs(static_cast<double>(value));
    }
  for (std::size_t i = 0; i < count; ++i) out.values[i] = static_cast<T>(sums[i]);
  return out;
}

template <class T>
std::vector<T> largest_values(int ranks, std::size_t count, unsigned salt) {
  auto out = probe_values<T>(0, count, salt);
  for (int rank = 1; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i)
      out[i] = std::max(out[i], probe_value<T>(rank, i, salt));
  return out;
}

// Values in the memory of a rank's device, between two margins that must not be written.
template <class T, class Device>
class probe_buffer {
 public:
  probe_buffer(Device& device, std::vector<T> const& values)
      : device_(&device),
        count_(values.size()),
        room_(device.allocate(values.size() * sizeof(T) + 2 * margin)) {
    auto const image = with_margins(values);
    device.upload(image.data(), room_.data(), image.size());
  }

  // Returns the values; data() is null if there are none.
  [[nodiscard]] std::span<T> span() const {
    if (count_ == 0) return {};
    return {reinterpret_cast<T*>(room_.data() + margin), count_};
  }
  [[nodiscard]] std::span<T> block(int index, std::size_t size) const {
    return span().subspan(static_cast<std::size_t>(index) * size, size);
  }
  [[nodiscard]] std::span<T const> read_only() const { return span(); }

  // Returns a copy of the values, after waiting for the device.
  [[nodiscard]] std::vector<T> get() {
    std::vector<std::byte> image(count_ * sizeof(T) + 2 * margin);
    device_->synchronize();  // calls are on the group's stream, copies on another
    device_->download(room_.data(), image.data(), image.size());
    device_->synchronize();
    std::vector<T> values(count_);
    if (count_ != 0) std::memcpy(values.data(), image.data() + margin, count_ * sizeof(T));
    margins_kept_ = image == with_margins(values);
    return values;
  }
  [[nodiscard]] bool margins_kept() const { return margins_kept_; }

 private:
  static constexpr std::size_t margin = 64;

  static std::vector<std::byte> with_margins(std::vector<T> const& values) {
    std::vector<std::byte> image(values.size() * sizeof(T) + 2 * margin, std::byte{0xA5});
    if (!values.empty())
      std::memcpy(image.data() + margin, values.data(), values.size() * sizeof(T));
    return image;
  }

  Device* device_;
  std::size_t count_;
  typename Device::arena room_;
  bool margins_kept_ = true;
};

// The call and the law that are checked, for a sentence about a failure.
struct probed_call {
  char const* operation = "";
  std::size_t n = 0;
  int root = -1;
  char const* law = "";
};

template <class T>
std::string value_text(T value) {
  if constexpr (is_float<T>) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", static_cast<double>(accumulate_t<T>(value)));
    return text;
  } else {
    return std::to_string(value);
  }
}

// One rank as a member of one of its groups, with functions that create values and check results
// for the laws.
template <class Rank>
struct communicator_probe {
  using communicator_type = typename Rank::communicator_type;
  using device_type = typename Rank::device_type;
  template <class T>
  using buffer = probe_buffer<T, device_type>;

  Rank& rank;
  axis_set over;
  communicator_findings& findings;
  bool sums_in_rank_order = true;
  // A number that changes the values from call to call. It is equal on all ranks, because all ranks
  // make the same calls.
  unsigned salt = 0;

  [[nodiscard]] communicator_type& comm() const { return rank.group(over); }
  [[nodiscard]] int me() const { return comm().rank(); }
  [[nodiscard]] int size() const { return comm().size(); }
  [[nodiscard]] std::size_t blocks() const { return static_cast<std::size_t>(comm().size()); }

  // Starts to copy values to the device. The copy is complete after settle().
  template <class T>
  [[nodiscard]] buffer<T> put(std::vector<T> const& values) const {
    return {rank.device(), values};
  }
  template <class T>
  [[nodiscard]] buffer<T> put_own(std::size_t count) const {
    return put(probe_values<T>(me(), count, salt));
  }
  template <class T>
  [[nodiscard]] buffer<T> put_zeros(std::size_t count) const {
    return put(std::vector<T>(count));
  }
  // Waits until the device has completed its operations.
  void settle() const { rank.device().synchronize(); }

  void fail(probed_call const& call, std::string const& element, std::string const& text) const {
    auto const members = rank.grid().group_of(rank.world_rank(), over);
    auto const place =
        ext::concat({"in group ", plait::ext::ranks_in_braces(members), ": ", call.operation});
    findings.add(rank.world_rank(), ext::concat({place, ": ", call.law}),
                 ext::concat({"rank ", rank.world_rank(), " ", place,
                              (element.empty() ? "" : ext::concat({" of ", element})), ", n = ",
                              call.n, (call.root < 0 ? "" : ext::concat({", root ", call.root})),
                              ": ", call.law, ": ", text}));
  }

  // Checks that values have the expected bits or, if there are bounds, that the differences are
  // within them.
  template <class T>
  void expect(buffer<T>& where, std::vector<T> const& expected, probed_call const& call,
              std::vector<double> const& bounds = {}) const {
    auto const got = where.get();
    if (!where.margins_kept())
      fail(call, element_name<T>(), "memory next to the buffer was written");
    if (got.size() == expected.size() &&
        (got.empty() || std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)) == 0))
      return;
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = got.size(); i-- > 0;)
      if (differ(got[i], expected[i], bounds.empty() ? -1 : bounds[i])) first = i, ++wrong;
    if (wrong != 0)
      fail(call, element_name<T>(),
           ext::concat({"element ", first, ": expected ", value_text(expected[first]), ", got ",
                        value_text(got[first]), " (", wrong, " of ", got.size(), " are wrong)"}));
  }

 private:
  template <class T>
  static bool differ(T got, T expected, double bound) {
    if (std::memcmp(&got, &expected, sizeof(T)) == 0) return false;
    if (bound < 0) return true;
    using number = accumulate_t<T>;
    return !(std::abs(static_cast<double>(number(got)) - static_cast<double>(number(expected))) <=
             bound);
  }
};

}  // namespace plait::testing::detail

#if PLAIT_HEADER_ONLY
#include "plait/testing/communicator_probe.ipp"
#endif
