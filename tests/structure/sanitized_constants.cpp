// SPDX-License-Identifier: Apache-2.0
// Compiled with -fsanitize=undefined, where g++ takes fewer constants for what they are: it does
// not compare the address of one with null.
#include <plait/nn/qk_norm_attention.hpp>
#include <plait/plait.hpp>

using namespace plait;

using block = residual<sequential<nn::layer_norm<32>, nn::linear<32, 64>, nn::gelu<64>,
                                  nn::linear<64, 32>, nn::dropout<32, 100>>>;
using model = objective<
    sequential<nn::linear<16, 32>, repeat<4, block>, fan_out<nn::linear<32, 32>, nn::relu<32>>,
               nn::product<32>, frozen<nn::linear<32, 32>>, nn::linear<32, 8>>,
    nn::cross_entropy<8>>;
using in_all_ways =
    parallel<model, hybrid<pipeline<2>, data_parallel<2, zero<3>>, tensor_parallel<2>,
                           recompute<granularity::all, units::first<1>, granularity::cheap>>>;
// Layers that are formulas.
using formulas =
    objective<sequential<nn::embedding<16, 32>, residual<nn::qk_norm_attention<32, 4, 2, 8, 8>>,
                         residual<nn::swiglu<32, 64>>, nn::linear<32, 8>>,
              nn::cross_entropy<8>>;
using formulas_in_two = parallel<formulas, hybrid<data_parallel<2>, tensor_parallel<2>>>;
using in_slices = parallel<model, hybrid<reproducible<4>, data_parallel<>, tensor_parallel<2>>>;
using in_chunks = parallel<model, hybrid<pipeline<2, interleaved<2>>, data_parallel<2>>>;

static_assert(in_all_ways::plan().bytes_per_rank({.rows = 8, .microbatches = 2}) > 0);
static_assert(formulas_in_two::plan().bytes_per_rank({.rows = 16}) > 0);
static_assert(in_chunks::plan().bytes_per_rank({.rows = 8, .microbatches = 2}) > 0);

template <class Job>
void train() {
  auto const data = in_memory<float>::random_classes(32, 16, 8);
  launch<Job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{});
    for (auto const& batch : batches(data, global_batch<16>{}, rank, {.microbatches = 2}))
      trainer.step(batch);
    trainer.evaluate(data, global_batch<16>{});
  });
}

void train_all() {
  train<in_all_ways>();
  train<in_slices>();
  train<in_chunks>();
}
