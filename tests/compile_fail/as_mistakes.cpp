// SPDX-License-Identifier: Apache-2.0
// Views that are given as arrays which cannot show their elements.
// alone: it includes headers of tests and examples
// expect: as<Array>(view): the argument is neither a view nor a token_view; for
// expect: as<Array>(view): Array neither has the members of std::mdspan nor is it an Eigen::Map
// expect: as<Array>(view): the elements of Array are of another type than the view's
// expect: as<Array>(view): the view is read-only, and Array could write to it
// expect: as<Array>(view): Array has another rank than 1, 2 or 3
// expect: as<Array>(view, heads): Array has no dimension for heads; leave out the number
// expect: as<Array>(view): an Array of rank 3 has the heads of each row, and their number is not
// expect: as<Array>(view): a view is row-major without gaps, and the layout of Array is not
// expect: as<Array>(view): the accessor of Array does not access an array of element_type by a
// expect: as<Array>(view): a view has no gaps; leave out the StrideType of Eigen::Map
#include "plait/tensor/mdspan.hpp"

#include <cstddef>
#include <type_traits>

#include "../../examples/small_mdspan.hpp"
#include "../tensor/small_map.hpp"

using plait::view;
constexpr std::size_t any = small::dynamic_extent;
template <std::size_t... Sizes>
using sizes = small::extents<std::size_t, Sizes...>;
template <class T>
using matrix = small::mdspan<T, sizes<any, any>>;

#ifdef PLAIT_EXPECT_FAIL
constexpr bool is_right = false;
#else
constexpr bool is_right = true;
#endif
template <class Mistake, class RightWay>
using one_of = std::conditional_t<is_right, RightWay, Mistake>;

template <class Layout>
using with_layout = small::mdspan<float, sizes<any, any>, Layout>;
template <template <class> class Accessor>
using with_accessor = small::mdspan<float, sizes<any, any>, small::layout_right, Accessor<float>>;
using eigen = small::matrix<float, -1, -1>;
using by_columns = small::matrix<float, -1, -1, false>;

void each(view<float> v, view<float const> read, view<double> doubles) {
#ifdef PLAIT_EXPECT_FAIL
  plait::ext::as<matrix<float>>(plait::transposed(v));
  plait::ext::as<small::mdspan<float, sizes<any, any>>>(v, 2);
  plait::ext::as<small::mdspan<float, sizes<any, any, any>>>(v);
#else
  plait::ext::as<matrix<float>>(plait::transposed(v).of);
  plait::ext::as<small::mdspan<float, sizes<any, any>>>(v);
  plait::ext::as<small::mdspan<float, sizes<any, any, any>>>(v, 2);
#endif
  plait::ext::as<one_of<eigen, small::Map<eigen>>>(v);
  plait::ext::as<one_of<matrix<float>, matrix<double>>>(doubles);
  plait::ext::as<one_of<matrix<float>, matrix<float const>>>(read);
  plait::ext::as<one_of<small::Map<eigen>, small::Map<eigen const>>>(read);
  plait::ext::as<small::mdspan<float, one_of<sizes<any, any, 1, 1>, sizes<any, 1, any>>>>(v);
  plait::ext::as<with_layout<one_of<small::layout_left, small::layout_right>>>(v);
  plait::ext::as<with_layout<one_of<small::padded_rows<4>, small::layout_stride>>>(v);
  plait::ext::as<small::Map<one_of<by_columns, eigen>>>(v);
  plait::ext::as<
      one_of<with_accessor<small::computing_accessor>, with_accessor<small::default_accessor>>>(v);
  plait::ext::as<small::Map<eigen, 0, one_of<small::stride<-1, 0>, small::stride<0, 0>>>>(v);
}

int main() {
  float numbers[6] = {};
  double doubles[6] = {};
  each({numbers, 3, 2}, {numbers, 3, 2}, {doubles, 3, 2});
}
