// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

// An array type with the members of std::mdspan that plait::ext::as needs, and no more, for
// examples and tests on machines without a library that has mdspan.
namespace small {

inline constexpr std::size_t dynamic_extent = std::size_t(-1);

template <class Index, std::size_t... Extents>
struct extents {
  using index_type = Index;
  static constexpr std::size_t rank = sizeof...(Extents);
  static constexpr std::array<std::size_t, rank> in_type{Extents...};

  constexpr explicit extents(std::conditional_t<Extents == 0, Index, Index>... numbers)
      : number{numbers...} {}

  std::array<Index, rank> number;
};

// The part of a mapping that all layouts share: extents, strides, and the place of an element.
template <class Extents>
struct strided_mapping {
  using index_type = typename Extents::index_type;
  constexpr explicit strided_mapping(Extents const& of) : shape(of) {}
  static constexpr bool is_always_strided() { return true; }
  constexpr index_type stride(std::size_t i) const { return step[i]; }
  constexpr index_type operator()(auto... at) const {
    std::array<index_type, Extents::rank> const place{static_cast<index_type>(at)...};
    index_type sum = 0;
    for (std::size_t i = 0; i < place.size(); ++i)
      sum = static_cast<index_type>(sum + place[i] * step[i]);
    return sum;
  }

  Extents shape;
  std::array<index_type, Extents::rank> step{};
};

// Rows begin at multiples of Multiple elements.
template <std::size_t Multiple>
struct padded_rows {
  template <class Extents>
  struct mapping : strided_mapping<Extents> {
    constexpr explicit mapping(Extents const& of) : strided_mapping<Extents>(of) {
      std::size_t next = 1;
      for (std::size_t i = Extents::rank; i-- > 0;) {
        this->step[i] = static_cast<typename Extents::index_type>(next);
        next *= static_cast<std::size_t>(of.number[i]);
        if (i + 1 == Extents::rank) next = (next + Multiple - 1) / Multiple * Multiple;
      }
    }
  };
};
using layout_right = padded_rows<1>;

struct layout_left {
  template <class Extents>
  struct mapping : strided_mapping<Extents> {
    constexpr explicit mapping(Extents const& of) : strided_mapping<Extents>(of) {
      std::size_t next = 1;
      for (std::size_t i = 0; i < Extents::rank; ++i) {
        this->step[i] = static_cast<typename Extents::index_type>(next);
        next *= static_cast<std::size_t>(of.number[i]);
      }
    }
  };
};

struct layout_stride {
  template <class Extents>
  struct mapping : strided_mapping<Extents> {
    using numbers = std::array<typename Extents::index_type, Extents::rank>;
    constexpr mapping(Extents const& of, numbers const& steps) : strided_mapping<Extents>(of) {
      this->step = steps;
    }
    constexpr numbers strides() const { return this->step; }
  };
};

template <class T>
struct default_accessor {
  using data_handle_type = T*;
  using reference = T&;
};
template <class T, std::size_t Bytes>
struct aligned_accessor : default_accessor<T> {
  static constexpr std::size_t byte_alignment = Bytes;
};
// Elements are values that are computed, so they have no address.
template <class T>
struct computing_accessor {
  using data_handle_type = T*;
  using reference = T;
};

template <class T, class Extents, class Layout = layout_right, class Accessor = default_accessor<T>>
class mdspan {
 public:
  using element_type = T;
  using index_type = typename Extents::index_type;
  using extents_type = Extents;
  using mapping_type = typename Layout::template mapping<Extents>;
  using accessor_type = Accessor;
  using data_handle_type = typename Accessor::data_handle_type;

  constexpr mdspan(data_handle_type data, mapping_type const& by) : data_(data), mapping_(by) {}
  static constexpr std::size_t rank() { return Extents::rank; }
  static constexpr std::size_t static_extent(std::size_t i) { return Extents::in_type[i]; }
  constexpr data_handle_type data_handle() const { return data_; }
  constexpr index_type extent(std::size_t i) const { return mapping_.shape.number[i]; }
  constexpr index_type stride(std::size_t i) const { return mapping_.stride(i); }
  constexpr T& operator()(auto... at) const { return data_[mapping_(at...)]; }

 private:
  data_handle_type data_;
  mapping_type mapping_;
};

}  // namespace small
