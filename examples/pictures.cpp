// SPDX-License-Identifier: Apache-2.0
// ctest:
// Pictures as your own data set, changed at random and read ahead: which way do stripes run?
#include <plait/plait.hpp>

#include <cstdint>
#include <cstdio>

// example-begin data
// Grey pictures of 20 x 20, drawn on demand, as other data sets decode files.
struct stripes {
  using concept_tag = plait::dataset_tag;
  using element = float;

  std::size_t size() const { return 600; }
  std::size_t sequence_length() const { return 1; }
  std::size_t width() const { return picture_shape().elements(); }
  plait::picture_shape picture_shape() const { return {1, 20, 20}; }  // channels, height, width
  std::string description() const { return "stripes"; }

  void inputs(std::size_t sample, std::span<float> out) const {
    auto const phase = sample / 4 % 5, step = 4 + sample / 20 % 3;
    for (std::size_t y = 0; y < 20; ++y)
      for (std::size_t x = 0; x < 20; ++x) {
        std::size_t const along[]{x, y, x + y, x + 19 - y};
        out[y * 20 + x] = (along[sample % 4] + phase) % step < 2 ? 255.0F : 0.0F;
      }
  }
  void targets(std::size_t sample, std::span<std::int32_t> out) const {
    out[0] = sample % 4 == 0 ? 0 : sample % 4 == 1 ? 1 : 2;  // across, down, aslant
  }
};
// example-end

using model = plait::sequential<plait::nn::linear<256, 48>, plait::nn::gelu<48>,  //
                                plait::nn::linear<48, 3>>;
using job = plait::parallel<plait::objective<model, plait::nn::cross_entropy<3>>,  //
                            plait::data_parallel<2>>;

int main() {
  // example-begin training
  auto const [train, held_out] = plait::split_data(stripes{}, 0.8, {.seed = 1});
  auto const changed =
      train | plait::random_crop<16, 16>(1) | plait::random_flip() | plait::normalize(128, 128);
  auto const same = held_out | plait::crop<16, 16> | plait::normalize(128, 128);
  double accuracy = 0;
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.003});
    auto batches = plait::batches(changed, plait::global_batch<48>{}, rank,
                                  {.seed = 2, .epochs = 30, .ahead = 2});
    plait::progress progress(trainer, batches);
    for (auto const& batch : batches) progress.update(trainer.step(batch));
    auto const [found] =
        trainer.evaluate(same, plait::global_batch<48>{}, plait::measures::accuracy{});
    if (rank.is_root()) accuracy = found;
  });
  // example-end
  std::printf("%s\naccuracy on %zu others: %.3f\n", changed.description().c_str(), held_out.size(),
              accuracy);
  return accuracy > 0.9 ? 0 : 1;
}
