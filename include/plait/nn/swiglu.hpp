// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/formula/layer.hpp"
#include "plait/layer/layer.hpp"

namespace plait::nn {

/// down_proj(silu(gate_proj(x)) * up_proj(x)): the gated feed-forward layer of Llama, with the
/// parameter names of Hugging Face's files.
///
/// Shapes: x, y (rows, Width); gate_proj, up_proj (Hidden, Width), down_proj (Width, Hidden).
/// Moves:  tensor ranks cut Hidden, and one all_reduce adds up the output.
/// Source: Shazeer, "GLU variants improve transformer", arXiv 2002.05202.
template <std::size_t Width, std::size_t Hidden>
struct swiglu {
  template <ext::name Label, std::size_t In, std::size_t Out>
  using matrix = parameter<Label, extents<Out, In>, normal(0.02)>;
  static constexpr matrix<"gate_proj.weight", Width, Hidden> gate_proj{};
  static constexpr matrix<"up_proj.weight", Width, Hidden> up_proj{};
  static constexpr matrix<"down_proj.weight", Hidden, Width> down_proj{};
  using input = features<Width>;
  using output = features<Width>;

  static constexpr auto formula(auto x) {
    using plait::formula::silu, plait::formula::transposed;
    auto const gate = matmul(x, transposed(gate_proj));
    auto const up = matmul(x, transposed(up_proj));
    return matmul(silu(gate) * up, transposed(down_proj));
  }
};

}  // namespace plait::nn
