// SPDX-License-Identifier: Apache-2.0
// first: scored_attention<...>: this layer has kernels for processors only, so it does not
#include <cstddef>

#include "plait/nn/scored_attention.hpp"
#include "plait/tensor/view.hpp"

struct same {
  auto operator()(auto score, std::size_t, std::size_t, std::size_t) const { return score; }
};
struct other_queue {};

#ifdef PLAIT_EXPECT_FAIL
using queue = other_queue;
#else
using queue = plait::ext::host_queue;
#endif

void forward(queue const& on, plait::token_view<> at, plait::view<float const> q,
             plait::view<float> y) {
  plait::nn::detail::scored_attention_kernel<same>{}(on, at, q, q, q, y, y, y);
}

int main() {}
