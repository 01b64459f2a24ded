// SPDX-License-Identifier: Apache-2.0
// first: conv2d or pooling: the kernel has Kernel rows or columns, but the image has only
// expect: Kernel = 7; long unsigned int Length = 4; long unsigned int Padding = 1
// first: conv2d<Image, Outputs, {.groups}>: Groups does not divide Channels, the number of
// expect: Channels = 6; long unsigned int Outputs = 8; long unsigned int Groups = 4
// first: conv2d or pooling: the stride is 0, so all windows would be the same; set the stride
// first: max_pool or average_pool: Padding is more than half of Kernel; set the padding to at
// first: group_norm<Image, Groups>: Groups does not divide Channels, the number of channels of
// first: group_norm<Image, Groups, {.epsilon}>: epsilon must be positive
// first: sequential<...>: the layer at Position takes images of InputChannels channels
// first: image<Channels, Height, Width>: one of the three numbers
// first: this layer reads images, but its first template argument is not an image; write
#include "plait/layer/combinators.hpp"
#include "plait/nn/conv2d.hpp"
#include "plait/nn/group_norm.hpp"
#include "plait/nn/pooling.hpp"

using namespace plait::nn;
using small = image<6, 4, 4>;

#ifdef PLAIT_EXPECT_FAIL
using no_image = conv2d<plait::features<96>, 8>;
using kernel = conv2d<small, 8, {.kernel = 7, .padding = 1}>;
using groups = conv2d<small, 8, {.groups = 4}>;
using stride = conv2d<small, 8, {.stride = 0}>;
using padding = max_pool<small, {.kernel = 2, .padding = 2}>;
using norm = group_norm<small, 4>;
using epsilon = group_norm<small, 3, {.epsilon = plait::fraction(0)}>;
using next = max_pool<image<4, 4, 6>>;
using nothing = image<3, 0, 4>;
#else
using no_image = conv2d<small, 8>;
using kernel = conv2d<small, 8, {.kernel = 6, .padding = 1}>;
using groups = conv2d<small, 8, {.groups = 2}>;
using stride = conv2d<small, 8, {.stride = 2}>;
using padding = max_pool<small, {.kernel = 2, .padding = 1}>;
using norm = group_norm<small, 2>;
using epsilon = group_norm<small, 3>;
using next = max_pool<small>;
using nothing = image<3, 1, 4>;
#endif

int main() {
  return int(plait::ext::leaf_of<kernel>.input_count + plait::ext::leaf_of<groups>.input_count +
             plait::ext::leaf_of<stride>.input_count + plait::ext::leaf_of<padding>.input_count +
             plait::ext::leaf_of<norm>.input_count + plait::ext::leaf_of<epsilon>.input_count +
             plait::sequential<max_pool<small, {.kernel = 1}>, next>::output::info.width +
             nothing::info.width + plait::ext::leaf_of<no_image>.input_count) == 0;
}
