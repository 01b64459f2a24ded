// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/layer/combinators.hpp"
#include "plait/nn/activation.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/product.hpp"

namespace plait::nn {

namespace detail {

/// A matrix without a bias, stored as Hugging Face's files have it, (Out, In).
template <std::size_t In, std::size_t Out>
using projection =
    linear<In, Out, linear_options{.bias = false, .order = weight_order::output_input}>;

}  // namespace detail

/// down_proj(silu(gate_proj(x)) * up_proj(x)), the gated layer of Llama's blocks, in the names of
/// Hugging Face's files.
///
/// Shapes: x, y (rows, Width); gate_proj, up_proj (Hidden, Width), down_proj (Width, Hidden).
/// Moves:  on tensor ranks, Hidden is cut; one all_reduce of the output.
/// Source: Shazeer, "GLU variants improve transformer", arXiv 2002.05202.
template <std::size_t Width, std::size_t Hidden>
using swiglu = sequential<
    fan_out<sequential<named<"gate_proj", detail::projection<Width, Hidden>>, silu<Hidden>>,
            named<"up_proj", detail::projection<Width, Hidden>>>,
    product<Hidden>, named<"down_proj", detail::projection<Hidden, Width>>>;

}  // namespace plait::nn
