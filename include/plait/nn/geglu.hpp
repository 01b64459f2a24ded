// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/nn/swiglu.hpp"

namespace plait::nn {

/// down_proj(gelu(gate_proj(x)) * up_proj(x)): the gated feed-forward layer of Gemma, with the
/// parameter names of Hugging Face's files. The gelu is in its tanh form.
///
/// Shapes: x, y (rows, Width); gate_proj, up_proj (Hidden, Width), down_proj (Width, Hidden).
/// Moves:  as swiglu.
/// Source: Shazeer, "GLU variants improve transformer", arXiv 2002.05202.
///
/// Example (tests/reference/names_in_use_test.cpp geglu):
///     using feed_forward = plait::nn::geglu<64, 256>;
template <std::size_t Width, std::size_t Hidden>
struct geglu : swiglu<Width, Hidden> {
  static constexpr auto formula(auto x) {
    using plait::formula::gelu, plait::formula::transposed;
    using weights = swiglu<Width, Hidden>;
    auto const gate = matmul(x, transposed(weights::gate_proj));
    auto const up = matmul(x, transposed(weights::up_proj));
    return matmul(gelu(gate) * up, transposed(weights::down_proj));
  }
};

}  // namespace plait::nn
