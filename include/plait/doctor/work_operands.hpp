// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "plait/backend/arguments.hpp"
#include "plait/backend/attention_shape.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/type_name.hpp"
#include "plait/doctor/machine.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/operation/rows.hpp"
#include "plait/tensor/view.hpp"

namespace plait::detail::doctor {

/// The sizes of the work in which the speeds of ranks are measured and compared. They are so large
/// that the start of an operation takes hardly any of the time.
struct work_sizes {
  std::size_t product;                 ///< the rows, the columns and the inner length of a product
  std::size_t rows;                    ///< the rows of a row-wise layer, which has 1024 columns
  std::size_t sequence, batch, heads;  ///< the sizes of an attention
  std::size_t parameters;              ///< the number of parameters in an optimizer's step
  std::size_t copy_bytes;
};
inline constexpr work_sizes sizes_on_processor{384, 2048, 256, 1, 4, 1 << 20, 1 << 25};
inline constexpr work_sizes sizes_on_gpu{4096, 32768, 2048, 4, 16, 1 << 25, 1 << 28};

/// Work that is repeated to measure its speed. One call() does `units` units of work:
/// floating-point operations, bytes, or starts of operations. keep() gets the mean speed of the
/// ranks, in units per second. `kind`: the kind of work in which ranks are compared, as in a
/// sentence; see measured_job::work. It is empty for the start of an operation, which takes some
/// nanoseconds that differ between ranks without a fault.
struct probe {
  std::string_view kind{};
  double units = 1;
  std::function<void()> call{};
  std::function<void(double)> keep{};
};

/// Operands in a device's memory, and the kinds of work on elements of type T that a training step
/// consists of. The functions put their work into the queue of the device.
template <class Device, class T>
class work_operands {
 public:
  static constexpr bool is_processor = std::is_same_v<typename Device::memory, ext::host_memory>;
  static constexpr work_sizes sizes = is_processor ? sizes_on_processor : sizes_on_gpu;
  static constexpr std::size_t columns = 1024;
  static constexpr std::array<std::size_t, 2> head_widths{64, 128};

  /// `shapes`: the products with which product() will be called. Products of `sizes` need no entry.
  work_operands(Device& device, std::vector<ext::product_shape> const& shapes) : device_(device) {
    std::size_t const least = std::max({sizes.product * sizes.product, sizes.rows * columns,
                                        sizes.batch * sizes.sequence * sizes.heads * 128});
    std::array<std::size_t, 4> counts{least, least, least, least};
    for (auto const& [rows, columns_of, inner, transposed] : shapes) {
      counts[0] = std::max(counts[0], rows * inner);
      counts[1] = std::max(counts[1], inner * columns_of);
      counts[2] = std::max(counts[2], rows * columns_of);
    }
    // The operands begin at different offsets in a page of 4096 bytes: on some processors, a read
    // waits for an earlier write at the same offset of another page (4K aliasing).
    auto const bytes = [](std::size_t count) {
      return (count * sizeof(T) + 4095) / 4096 * 4096 + 1088;
    };
    std::size_t all = 0;
    for (std::size_t const count : counts) all += bytes(count);
    memory_ = device.allocate(all);
    auto* next = memory_.data();
    std::array<T**, 4> const operands{&a_, &b_, &c_, &d_};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      *operands[i] = reinterpret_cast<T*>(next);
      queue().fill(T(0.01f), *operands[i], counts[i]);
      next += bytes(counts[i]);
    }
    std::size_t const kept = std::max(2 * sizes.rows, sizes.batch * sizes.sequence * sizes.heads);
    kept_memory_ = device.allocate(kept * sizeof(kept_type));
    kept_ = reinterpret_cast<kept_type*>(kept_memory_.data());
    make_optimizer();
  }

  void product(ext::product_shape const& of) const {
    using transposed = ext::transposed_operand;
    bool const a = of.transposed == transposed::a, b = of.transposed == transposed::b;
    queue().run(operation::matmul{},
                ext::matrix<T const>{a_, a ? of.inner : of.rows, a ? of.rows : of.inner},
                ext::matrix<T const>{b_, b ? of.columns : of.inner, b ? of.inner : of.columns},
                ext::matrix<T>{c_, of.rows, of.columns}, ext::transposes{a, b}, false);
  }
  /// Each call has other operands than the call before, because the speed also depends on the pages
  /// in which operands happen to be.
  void row_wise() const {
    T* const operands[]{a_, b_, d_, c_};
    T* const from = operands[calls_ % 4];
    T* const to = operands[(calls_ + 3) % 4];
    ++calls_;
    queue().run(operation::layer_norm{}, ext::matrix<T const>{from, sizes.rows, columns},
                ext::matrix<T const>{from, 1, columns}, ext::matrix<T const>{from, 1, columns},
                ext::matrix<T>{to, sizes.rows, columns},
                ext::matrix<kept_type>{kept_, sizes.rows, 2}, 1e-5);
  }
  void attention(std::size_t head_width) const {
    std::size_t const rows = sizes.batch * sizes.sequence, width = sizes.heads * head_width;
    ext::attention_shape const shape{sizes.sequence, sizes.batch, sizes.heads, head_width};
    auto const operand = [&](T const* from) { return ext::matrix<T const>{from, rows, width}; };
    queue().prepare(operation::attention{}, operand(a_), shape);
    queue().run(operation::attention{}, operand(a_), operand(b_), operand(d_),
                ext::matrix<T>{c_, rows, width}, ext::matrix<kept_type>{kept_, rows, sizes.heads},
                shape);
  }
  void optimizer_step() const { queue().adamw(arena_, ext::adamw_constants{}, numbers_); }
  /// Returns the first `count` elements of the result of the last product, layer or attention.
  [[nodiscard]] std::vector<T> result(std::size_t count) const {
    std::vector<T> out(count);
    device_.synchronize();
    device_.download(c_, out.data(), count * sizeof(T));
    device_.synchronize();
    return out;
  }
  void smallest_operation() const { queue().fill(T(0.01f), c_, 1); }

  /// Returns the floating-point operations of a causal attention. It has two products, of queries
  /// with keys and of weights with values. Each needs a multiplication and an addition for each
  /// pair of a query and a key that it sees, and for each element of a head.
  [[nodiscard]] static double flop_of_attention(std::size_t head_width) {
    double const pairs = double(sizes.sequence) * double(sizes.sequence + 1) / 2;
    return 4 * pairs * double(sizes.batch * sizes.heads * head_width);
  }
  /// Returns the bytes of row_wise(), which reads a matrix and writes another one.
  [[nodiscard]] static double bytes_of_rows() {
    return 2.0 * double(sizes.rows * columns * sizeof(T));
  }
  /// Returns the bytes of optimizer_step(). For each parameter, it reads the parameter, its
  /// gradient and two states, and writes the parameter and both states. For bfloat16, whose
  /// parameters are floats, it also writes a copy of the parameter as bfloat16.
  [[nodiscard]] static double bytes_of_step() {
    double const copy = std::is_same_v<T, parameter> ? 0 : sizeof(T);
    return double(sizes.parameters) * (7 * sizeof(parameter) + copy);
  }

 private:
  using kept_type = accumulate_t<T>;
  using parameter = accumulate_t<T>;
  using arena_type = ext::optimizer_arena<parameter, parameter, T>;

  [[nodiscard]] auto queue() const { return device_.on(stream::compute); }

  void make_optimizer() {
    std::size_t const count = sizes.parameters;
    ext::update_range const range{.offset = 0, .count = count};
    ext::adamw_numbers const numbers{.learning_rate = 1e-6};
    double const scale = 1;
    states_ = device_.allocate(4 * count * sizeof(parameter));
    copies_ = device_.allocate(count * sizeof(T));
    fixed_ = device_.allocate(256);
    auto* const first = reinterpret_cast<parameter*>(states_.data());
    queue().fill(parameter(0.01f), first, 4 * count);
    numbers_ = reinterpret_cast<ext::adamw_numbers*>(fixed_.data());
    auto* const range_there = reinterpret_cast<ext::update_range*>(fixed_.data() + 64);
    auto* const scale_there = reinterpret_cast<double*>(fixed_.data() + 128);
    device_.upload(&numbers, numbers_, sizeof numbers);
    device_.upload(&range, range_there, sizeof range);
    device_.upload(&scale, scale_there, sizeof scale);
    device_.synchronize();
    arena_.parameters = first;
    arena_.gradients = first + count;
    arena_.states = first + 2 * count;
    if constexpr (!std::is_same_v<T, parameter>)
      arena_.copies = reinterpret_cast<T*>(copies_.data());
    arena_.count = count;
    arena_.state_stride = count;
    arena_.ranges = range_there;
    arena_.range_count = 1;
    arena_.gradient_scale = scale_there;
  }

  Device& device_;
  typename Device::arena memory_{}, kept_memory_{}, states_{}, copies_{}, fixed_{};
  T *a_ = nullptr, *b_ = nullptr, *c_ = nullptr, *d_ = nullptr;
  mutable std::size_t calls_ = 0;
  kept_type* kept_ = nullptr;
  ext::adamw_numbers* numbers_ = nullptr;
  arena_type arena_{};
};

}  // namespace plait::detail::doctor
