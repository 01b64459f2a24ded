// SPDX-License-Identifier: Apache-2.0
// ctest:
// From rows of a spreadsheet to predictions for new ones, by one rank and by several.
//   house_prices                           trains under three plans and predicts
//   house_prices --draw WHAT FILE [dark]   draws the second plan: mesh, plan or memory
// example-begin headers
#include <plait/data/table.hpp>  // plait::table
#include <plait/draw/draw.hpp>   // plait::ext::draw
#include <plait/plait.hpp>       // all else
// example-end

#include <cstdio>
#include <fstream>
#include <string_view>
#include <vector>

// example-begin model
using model = plait::sequential<plait::nn::linear<3, 32>, plait::nn::gelu<32>,  //
                                plait::nn::linear<32, 1>>;
using task = plait::objective<model, plait::nn::mse<1>>;
// example-end

// A file as written by a spreadsheet: 400 fictitious houses. A price is in units of 100 000.
void write_table(char const* path) {
  std::ofstream file(path);
  file << "square metres,rooms,age,price\n";
  for (int i = 0; i < 400; ++i) {
    int const area = 40 + (i * 37) % 160, rooms = 1 + area / 40 + i % 2, age = (i * 13) % 80;
    file << area << ',' << rooms << ',' << age << ','
         << 0.02 * area + 0.15 * rooms - 0.005 * age + 0.00003 * area * (80 - age) << '\n';
  }
}

// example-begin train
template <class Job>
void train_and_predict(char const* plan) {
  plait::table<float, float> const houses("houses.csv", {.targets = {"price"}});
  auto const scaled = houses | plait::normalize({120, 4, 40}, {46, 1.3, 23});  // mean, deviation
  auto const [train, held_out] = plait::split_data(scaled, 0.8, {.seed = 1});

  // Two houses with unknown prices: their features one after the other.
  std::vector<float> const features{100, 3, 10, 60, 2, 50}, no_prices(2);
  plait::in_memory<float, float> const two_houses(features, no_prices, 3, 1);
  auto const questions = two_houses | plait::normalize({120, 4, 40}, {46, 1.3, 23});

  plait::launch<Job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, plait::adamw{.learning_rate = 0.01});
    for (auto const& batch : plait::batches(train, plait::global_batch<32>{}, rank, {.epochs = 40}))
      trainer.step(batch);

    auto const [error] = trainer.evaluate(held_out, plait::global_batch<32>{},
                                          plait::measures::mean_absolute_error{});
    auto asked = plait::batches(questions, plait::global_batch<2>{}, rank,
                                {.how = plait::sample_order::sequential, .for_evaluation = true});
    auto const prices = trainer.predict(asked.at(0), plait::predicted::of_all);
    if (rank.is_root())
      std::printf("%-20s off by %.2f on the average; the two houses cost %.2f and %.2f\n", plan,
                  error, double(prices[0]), double(prices[1]));
  });
}
// example-end

// example-begin alone
using alone = plait::parallel<task, plait::serial>;
// example-end
// example-begin together
using four = plait::hybrid<plait::data_parallel<2>, plait::tensor_parallel<2>>;
using together = plait::parallel<task, four>;
// example-end
// example-begin limit
using namespace plait::literals;
static_assert(together::plan().bytes_per_rank({.rows = 16}) < 16_KiB);
// example-end
// example-begin sharded
using sharded = plait::parallel<task, plait::data_parallel<2, plait::zero<3>>>;
// example-end

// Draws the plan of four ranks.
void draw(std::string_view what, char const* path, bool dark) {
  using plait::ext::picture;
  // example-begin draw
  plait::ext::draw_options const options{.what = what == "mesh"     ? picture::mesh
                                                 : what == "memory" ? picture::memory
                                                                    : picture::plan,
                                         .dark = dark};
  std::ofstream(path) << plait::ext::draw(together::plan(), {.rows = 16}, options);
  // example-end
}

int main(int count, char** words) {
  if (count >= 4) return draw(words[2], words[3], count > 4), 0;
  write_table("houses.csv");
  train_and_predict<alone>("one rank");
  train_and_predict<together>("data 2 x tensor 2");
  train_and_predict<sharded>("data 2, sharded");
  // example-begin explain
  std::fputs(plait::explain(together::plan(), {.rows = 16}).c_str(), stdout);
  // example-end
}
