// SPDX-License-Identifier: Apache-2.0
// ctest:
// A plan for a machine that you need not have: GPT-3 with 175 billion parameters on 131 072 ranks.
// The compiler knows and checks what a rank holds and sends before anything starts. To cut this
// many layers into stages clang needs a higher limit for constants: -fconstexpr-steps=10000000.
#include <cstdint>
#include <cstdio>

#include <plait/plait.hpp>

namespace {

using plait::named;
using plait::residual;
using plait::sequential;
namespace nn = plait::nn;

constexpr std::size_t width = 12288, heads = 96, length = 2048, vocabulary = 50257;
constexpr std::size_t padded = 50304;  // a multiple of 8 ranks

// example-begin
using block = sequential<
    residual<sequential<named<"ln_1", nn::layer_norm<width>>,
                        named<"attn", nn::causal_self_attention<width, heads, length>>>>,
    residual<sequential<
        named<"ln_2", nn::layer_norm<width>>,
        named<"mlp", sequential<named<"c_fc", nn::linear<width, 4 * width>>, nn::gelu<4 * width>,
                                named<"c_proj", nn::linear<4 * width, width>>>>>>>;
using head =
    nn::linear<width, vocabulary,
               {.bias = false, .order = nn::weight_order::output_input, .padded_to = padded}>;
using model = plait::objective<
    sequential<named<"wte", nn::embedding<vocabulary, width, plait::normal(0.02), padded>>,
               named<"wpe", nn::positions<length, width>>, named<"h", plait::repeat<96, block>>,
               named<"ln_f", nn::layer_norm<width>>, named<"lm_head", head>>,
    nn::cross_entropy<vocabulary, {.padded_to = padded}>>;
template <class Sharding>
using policy = plait::hybrid<plait::pipeline<16>, plait::data_parallel<1024, Sharding>,
                             plait::tensor_parallel<8, plait::sequence::sharded>>;
template <class Sharding>
using job_with = plait::parallel<model, policy<Sharding>, plait::precision<plait::bfloat16, float>>;
using job = job_with<plait::unsharded>;

// One sequence at a time, 32 of them in a step on each data rank.
constexpr plait::workload load{.rows = length, .microbatches = 32, .gradient_norm = true};
using namespace plait::literals;
static_assert(job::plan().grid.world_size() == 131'072);
static_assert(job::plan().parameter_count() > 175'000'000'000);
static_assert(job::plan().bytes_per_rank(load) < 42_GiB);
// Bytes sent in a step over the axes with the fastest links, and with the slowest.
constexpr auto GiB = std::int64_t{1} << 30;
static_assert(job::plan().bytes_sent(plait::axis::tensor, load).total() < 66 * GiB);
static_assert(job::plan().bytes_sent(plait::axis::stage, load).total() < 1 * GiB);
static_assert(job::plan().bytes_sent(plait::axis::data, load).total() < 11 * GiB);

// ZeRO-1: each data rank holds one block of the optimizer's state and of the weights in float.
using zero_job = job_with<plait::zero<1>>;
static_assert(zero_job::plan().bytes_per_rank<plait::adamw>(load) < 27_GiB);
static_assert(zero_job::plan().memory(0, load).optimizer < 11_MiB);
static_assert(zero_job::plan().bytes_sent(plait::axis::data, load).total() < 9 * GiB);

// ZeRO-3 among eight neighbours of the 1024 data ranks: each also holds one of eight blocks of the
// gradients and the parameters, and the passes gather the parameters.
using within_job = plait::parallel<
    model,
    plait::hybrid<plait::pipeline<16>, plait::data_parallel<1024, plait::within<8>, plait::zero<3>>,
                  plait::tensor_parallel<8, plait::sequence::sharded>>,
    plait::precision<plait::bfloat16, float>>;
static_assert(within_job::plan().bytes_per_rank<plait::adamw>(load) < 22_GiB);
static_assert(within_job::plan().bytes_sent(plait::axis::data, 0, load).total() < 290 * GiB);
static_assert(within_job::plan().bytes_sent(plait::axis::replica, 0, load).total() < 1 * GiB);
// example-end

}  // namespace

int main() {
  std::fputs(plait::explain(job::plan(), load).c_str(), stdout);
  auto const GB = [](std::size_t bytes) { return static_cast<double>(bytes) * 1e-9; };
  std::printf("\nwith zero<1>: %.1f GB per rank instead of %.1f\n",
              GB(zero_job::plan().bytes_per_rank(load)), GB(job::plan().bytes_per_rank(load)));
}
