// SPDX-License-Identifier: Apache-2.0
// Arrays that cannot be views.
// alone: it includes headers of tests and examples
// expect: as_view(array): the array neither has the members of std::mdspan nor is it an Eigen::Map
// expect: as_view(array): the array has another rank than 1, 2 or 3
// expect: as_view(array): a view is row-major without gaps, and the layout of the array is not
// expect: as_view(array): the accessor of the array does not access an array of element_type by a
#include "plait/tensor/mdspan.hpp"

#include <cstddef>
#include <type_traits>

#include "../../examples/small_mdspan.hpp"
#include "../tensor/small_map.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr bool is_right = false;
#else
constexpr bool is_right = true;
#endif
template <class Mistake, class RightWay>
using one_of = std::conditional_t<is_right, RightWay, Mistake>;

template <std::size_t... Sizes>
using sizes = small::extents<std::size_t, Sizes...>;
using eigen = small::matrix<float, -1, -1>;
using by_columns = small::matrix<float, -1, -1, false>;

void each(
    one_of<eigen, small::Map<eigen>> matrix,
    small::mdspan<float, one_of<sizes<1, 1, 1, 1>, sizes<1, 1, 1>>> array,
    small::mdspan<float, sizes<2, 3>, one_of<small::layout_left, small::layout_right>> by_rows,
    small::Map<one_of<by_columns, eigen>> map,
    small::mdspan<float, sizes<2, 3>, small::layout_right,
                  one_of<small::computing_accessor<float>, small::default_accessor<float>>>
        elements) {
  plait::ext::as_view(matrix);
  plait::ext::as_view(array);
  plait::ext::as_view(by_rows);
  plait::ext::as_view(map);
  plait::ext::as_view(elements);
}

int main() {}
