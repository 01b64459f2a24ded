// SPDX-License-Identifier: Apache-2.0
// ctest:
// Trains a model on a table in a file, on two data ranks. The model predicts a class from a word
// and three measures, some of which are missing.
#include <plait/data/table.hpp>
#include <plait/plait.hpp>

#include <cmath>
#include <cstdio>
#include <fstream>

using model = plait::sequential<plait::nn::linear<5, 32>, plait::nn::relu<32>,  //
                                plait::nn::linear<32, 3>>;
using job = plait::parallel<plait::objective<model, plait::nn::cross_entropy<3>>,  //
                            plait::data_parallel<2>>;

// A file as written by a spreadsheet.
void write_table(char const* path) {
  std::ofstream file(path);
  file << "length,width,\"colour, in nm\",soil,kind\r\n";
  for (int i = 0; i < 600; ++i) {
    double const a = std::sin(i), b = std::cos(3 * i), c = std::sin(0.1 * i);
    char const* const kind = a + b > 0.5 ? "rose" : b * c > 0 ? "\"tulip\"" : "daisy";
    file << a << ',' << b << ',';
    if (i % 50 == 7) file << "NA,";
    else file << 550 + 100 * c << ',';
    file << (i % 3 == 0 ? "clay" : "sand") << ',' << kind << "\r\n";
  }
}

int main() {
  write_table("flowers.csv");
  // example-begin main
  plait::table const flowers(
      "flowers.csv",
      {.targets = {"kind"}, .keep_missing = true, .missing_words = {"NA"}, .one_hot = {"soil"}});
  auto const [train, held_out] = plait::split_data(flowers, 0.8, {.seed = 1});
  auto const scale = plait::normalize::from(train);  // means and deviations of train only
  auto const seen = train | scale, unseen = held_out | scale;
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.01});
    auto batches = plait::batches(seen, plait::global_batch<32>{}, rank, {.epochs = 40});
    plait::progress progress(trainer, batches);
    for (auto const& batch : batches) progress.update(trainer.step(batch));
    auto const [accuracy] =
        trainer.evaluate(unseen, plait::global_batch<32>{}, plait::measures::accuracy{});
    if (rank.is_root())
      std::printf("%.0f %% of the %zu held-out rows are told apart as %s, %s or %s\n",
                  100 * accuracy, unseen.size(), flowers.classes()[0].c_str(),
                  flowers.classes()[1].c_str(), flowers.classes()[2].c_str());
  });
  // example-end
}
