// SPDX-License-Identifier: Apache-2.0
// expect: residual<residual<...>>: this model nests more residuals directly in one another than a
// expect: the loss of this model has more than eight terms
#include "plait/nn/elementwise_loss.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

template <class L>
using twice = plait::residual<plait::residual<L>>;
using layer = plait::nn::linear<4, 4>;
using term = plait::nn::mse<4>;
#ifdef PLAIT_EXPECT_FAIL
using deep = twice<twice<twice<twice<layer>>>>;
using loss = plait::sum_of<term, term, term, term, term, term, term, term, term>;
#else
using deep = twice<layer>;
using loss = plait::sum_of<term, term, term, term, term, term, term, term>;
#endif

template <class Model, class Loss>
using job = plait::parallel<plait::objective<Model, Loss>, plait::serial>;

int main() { return job<deep, term>::plan().stages == 0 || job<layer, loss>::plan().stages == 0; }
