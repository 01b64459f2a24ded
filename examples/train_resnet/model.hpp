// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include <plait/plait.hpp>

// ResNets as types, with the names of torchvision's parameters.
namespace train_resnet {

using plait::fan_out;
using plait::named;
using plait::residual;
using plait::sequential;
namespace nn = plait::nn;

/// The common part of ResNets of one size.
struct shape {
  std::size_t edge = 32;  ///< rows and columns of a picture
  std::size_t classes = 10;
  std::size_t group = 4;  ///< number of samples that are normalised with common statistics
};

// example-begin block
template <std::size_t Group, class Image>
using norm = nn::batch_norm<Image, {.group = Group}>;
template <class Image, std::size_t Outputs, std::size_t Kernel, std::size_t Stride = 1>
using conv = nn::conv2d<Image, Outputs,
                        {.kernel = Kernel, .stride = Stride, .padding = Kernel / 2, .bias = false}>;

/// x + Branch(x), then relu; if the branch changes the shape, x is projected first.
template <std::size_t Group, std::size_t Stride, class In, class Out, class Branch>
struct shortcut {
  using projection = conv<In, Out::channels, 1, Stride>;
  using type =
      sequential<fan_out<Branch, named<"downsample", sequential<named<"0", projection>,
                                                                named<"1", norm<Group, Out>>>>>,
                 nn::sum<Out::size, 2>, nn::relu<Out::size>>;
};
template <std::size_t Group, class Image, class Branch>
struct shortcut<Group, 1, Image, Image, Branch> {
  using type = sequential<residual<Branch>, nn::relu<Image::size>>;
};

/// Two convolutions of 3 x 3, as in ResNet-18.
template <class In, std::size_t Width, std::size_t Stride, std::size_t Group>
struct basic_block {
  using first = conv<In, Width, 3, Stride>;
  using output = typename first::output;
  using branch =
      sequential<named<"conv1", first>, named<"bn1", norm<Group, output>>, nn::relu<output::size>,
                 named<"conv2", conv<output, Width, 3>>, named<"bn2", norm<Group, output>>>;
  using type = typename shortcut<Group, Stride, In, output, branch>::type;
};

/// A convolution of 3 x 3 between two of 1 x 1, as in ResNet-50.
template <class In, std::size_t Width, std::size_t Stride, std::size_t Group>
struct bottleneck {
  using first = conv<In, Width, 1>;
  using second = conv<typename first::output, Width, 3, Stride>;
  using third = conv<typename second::output, 4 * Width, 1>;
  using output = typename third::output;
  using branch =
      sequential<named<"conv1", first>, named<"bn1", norm<Group, typename first::output>>,
                 nn::relu<first::output::size>, named<"conv2", second>,
                 named<"bn2", norm<Group, typename second::output>>, nn::relu<second::output::size>,
                 named<"conv3", third>, named<"bn3", norm<Group, output>>>;
  using type = typename shortcut<Group, Stride, In, output, branch>::type;
};
// example-end

/// A chain of `Count` blocks; the first block has the stride.
template <template <class, std::size_t, std::size_t, std::size_t> class Block, class In,
          std::size_t Width, std::size_t Stride, std::size_t Group, std::size_t Count>
struct stage;
template <template <class, std::size_t, std::size_t, std::size_t> class Block, class In,
          std::size_t Width, std::size_t Stride, std::size_t Group>
struct stage<Block, In, Width, Stride, Group, 2> {
  using zero = Block<In, Width, Stride, Group>;
  using one = Block<typename zero::output, Width, 1, Group>;
  using output = typename one::output;
  using type = sequential<named<"0", typename zero::type>, named<"1", typename one::type>>;
};
template <template <class, std::size_t, std::size_t, std::size_t> class Block, class In,
          std::size_t Width, std::size_t Stride, std::size_t Group>
struct stage<Block, In, Width, Stride, Group, 3> {
  using two = stage<Block, In, Width, Stride, Group, 2>;
  using last = Block<typename two::output, Width, 1, Group>;
  using output = typename last::output;
  using type = sequential<named<"", typename two::type>, named<"2", typename last::type>>;
};
template <template <class, std::size_t, std::size_t, std::size_t> class Block, class In,
          std::size_t Width, std::size_t Stride, std::size_t Group>
struct stage<Block, In, Width, Stride, Group, 4> {
  using three = stage<Block, In, Width, Stride, Group, 3>;
  using last = Block<typename three::output, Width, 1, Group>;
  using output = typename last::output;
  using type = sequential<named<"", typename three::type>, named<"3", typename last::type>>;
};
template <template <class, std::size_t, std::size_t, std::size_t> class Block, class In,
          std::size_t Width, std::size_t Stride, std::size_t Group>
struct stage<Block, In, Width, Stride, Group, 6> {
  using four = stage<Block, In, Width, Stride, Group, 4>;
  using fifth = Block<typename four::output, Width, 1, Group>;
  using output = typename fifth::output;
  using type = sequential<named<"", typename four::type>, named<"4", typename fifth::type>,
                          named<"5", typename fifth::type>>;
};

// example-begin net
/// Four stages of blocks between a convolution of 7 x 7 and a linear layer.
template <shape S, template <class, std::size_t, std::size_t, std::size_t> class Block,
          std::size_t One, std::size_t Two, std::size_t Three, std::size_t Four>
struct resnet {
  using conv1 = conv<nn::image<3, S.edge, S.edge>, 64, 7, 2>;
  using bn1 = norm<S.group, typename conv1::output>;
  using pool = nn::max_pool<typename conv1::output, {.kernel = 3, .stride = 2, .padding = 1}>;
  using layer1 = stage<Block, typename pool::output, 64, 1, S.group, One>;
  using layer2 = stage<Block, typename layer1::output, 128, 2, S.group, Two>;
  using layer3 = stage<Block, typename layer2::output, 256, 2, S.group, Three>;
  using layer4 = stage<Block, typename layer3::output, 512, 2, S.group, Four>;
  using mean = nn::global_average_pool<typename layer4::output>;
  using fc = nn::linear<mean::output::size, S.classes,
                        {.order = nn::weight_order::output_input, .weight = plait::normal(0.01)}>;
  using type =
      sequential<named<"conv1", conv1>, named<"bn1", bn1>, nn::relu<conv1::output::size>, pool,
                 named<"layer1", typename layer1::type>, named<"layer2", typename layer2::type>,
                 named<"layer3", typename layer3::type>, named<"layer4", typename layer4::type>,
                 mean, named<"fc", fc>>;
};

template <shape S>
struct resnet18 : resnet<S, basic_block, 2, 2, 2, 2>::type {};
template <shape S>
struct resnet50 : resnet<S, bottleneck, 3, 4, 6, 3>::type {};
// example-end

}  // namespace train_resnet
