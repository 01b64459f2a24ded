// SPDX-License-Identifier: Apache-2.0
// test: seconds=3
#include "plait/observe/step_trace.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plait/plait.hpp"

namespace {

namespace fs = std::filesystem;
namespace nn = plait::nn;
using plait::hybrid, plait::named, plait::residual, plait::sequential;

constexpr std::size_t width = 8, length = 4, vocabulary = 256;
constexpr int slices = 4;

using mlp = sequential<named<"fc", nn::linear<width, 2 * width>>, nn::gelu<2 * width>,
                       named<"proj", nn::linear<2 * width, width>>>;
using block = sequential<residual<sequential<named<"ln", nn::layer_norm<width>>, named<"mlp", mlp>>>>;
using body = sequential<named<"wte", nn::embedding<vocabulary, width>>,
                        named<"wpe", nn::positions<length, width>>,
                        named<"h", plait::repeat<2, block>>, named<"relu", nn::relu<width>>,
                        named<"head", nn::linear<width, vocabulary>>>;
using model = plait::objective<body, nn::cross_entropy<vocabulary>>;
template <class... Policies>
struct job : plait::parallel<model, hybrid<Policies..., plait::reproducible<slices>>, double> {};
template <class... Policies>
struct free_job : plait::parallel<model, hybrid<Policies...>, double> {};

plait::byte_text text_of_bytes() {
  std::string bytes;
  for (unsigned i = 0; i < 300; ++i) bytes.push_back(static_cast<char>('a' + i * i % 23));
  return plait::byte_text::from_text(bytes, length);
}

/// The work of a rank between making the trainer and the first step.
struct no_change {
  void operator()(auto&) const {}
};
/// Adds 1e-3 to one weight of a parameter.
struct changed_weight {
  char const* name;
  void operator()(auto& trainer) const {
    std::map<std::string, std::vector<double>> all;
    trainer.export_parameters([&](std::string const& of, auto const&, std::span<double const> values) {
      all[of].assign(values.begin(), values.end());
    });
    trainer.import_parameters([&](std::string const& of, auto const&, std::span<double> values) {
      if (of != name) return false;
      std::copy(all.at(of).begin(), all.at(of).end(), values.begin());
      values[3] += 1e-3;
      return true;
    });
  }
};

class StepTrace : public testing::Test {
 protected:
  StepTrace() { fs::create_directory(folder_); }
  ~StepTrace() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(std::string const& name) const { return (folder_ / name).string(); }

  /// Trains three steps under a plan and returns the text of the trace.
  template <class Job>
  std::string train(std::string const& name, int microbatches, auto const& change) const {
    auto const text = text_of_bytes();
    plait::launch<Job>(plait::threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<Job>(rank, plait::adamw{.learning_rate = 1e-2}, {.seed = 7});
      change(trainer);
      plait::ext::step_trace trace(trainer, path(name));
      auto batches = plait::batches(text, plait::global_batch<16>{}, rank,
                                    {.epochs = 0, .microbatches = microbatches});
      for (std::uint64_t step = 0; step < 3; ++step) trainer.step(batches.at(step));
    });
    return read(name);
  }
  template <class Job>
  std::string train(std::string const& name, int microbatches = 1) const {
    return train<Job>(name, microbatches, no_change{});
  }

  [[nodiscard]] std::string read(std::string const& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  struct outcome {
    int code = 0;
    std::string text;
  };
  [[nodiscard]] outcome compare(std::string const& arguments) const {
    char const* const tests = std::getenv("PLAIT_TESTS");
    std::string const script = std::string(tests == nullptr ? "tests" : tests) + "/../scripts/compare_traces";
    std::string const command = "cd '" + folder_.string() + "' && python3 '" + fs::absolute(script).string() + "' " + arguments + " 2>&1";
    outcome out;
    FILE* const said = ::popen(command.c_str(), "r");
    std::array<char, 4096> piece{};
    while (std::size_t const got = std::fread(piece.data(), 1, piece.size(), said))
      out.text.append(piece.data(), got);
    int const status = ::pclose(said);
    out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return out;
  }

 private:
  fs::path folder_ = fs::path(testing::TempDir()) / ("plait_step_trace_" + std::to_string(::getpid()));
};

TEST_F(StepTrace, IsTheSameFileUnderAllPlansWithTheSameBits) {
  auto const serial = train<job<plait::data_parallel<1>>>("serial");
  std::printf("%s\n", serial.substr(0, 6000).c_str());
  EXPECT_EQ(serial, (train<job<plait::data_parallel<2>>>("data")));
  EXPECT_EQ(serial, (train<job<plait::data_parallel<2, plait::zero<1>>>>("zero1")));
  EXPECT_EQ(serial, (train<job<plait::pipeline<2>>>("pipeline")));
}

TEST_F(StepTrace, IsEqualToRoundingUnderOtherPlans) {
  auto const serial = train<free_job<plait::data_parallel<1>>>("serial");
  train<free_job<plait::tensor_parallel<2>>>("tensor");
  train<free_job<plait::tensor_parallel<2, plait::sequence::sharded>>>("sequence");
  train<free_job<plait::data_parallel<2, plait::zero<2>>>>("zero2", 2);
  train<free_job<plait::pipeline<2>, plait::data_parallel<2>, plait::tensor_parallel<2>>>("all", 2);
  for (std::string const other : {"tensor", "sequence", "zero2", "all"}) {
    auto const equal = compare("--tolerance 1e-12 serial " + other);
    EXPECT_EQ(equal.code, 0) << equal.text;
    EXPECT_EQ(equal.text.find("only"), std::string::npos) << other << equal.text;
    std::printf("%s %s\n", other.c_str(), equal.text.c_str());
  }
}

}  // namespace
