// SPDX-License-Identifier: Apache-2.0
// test: seconds=3
#include "plait/observe/step_trace.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "plait/plait.hpp"

namespace {

namespace fs = std::filesystem;
namespace nn = plait::nn;
using plait::hybrid, plait::named, plait::residual, plait::sequential;

constexpr std::size_t width = 8, length = 4, vocabulary = 256;

/// A derivative of gelu that is too large by a thousandth.
struct steep_derivative {
  template <class T>
  T operator()(T x, T dy) const {
    return T(1.001) * plait::functions::gelu_tanh_derivative{}(x, dy);
  }
};
using steep_gelu =
    nn::elementwise<2 * width, plait::functions::gelu_tanh, steep_derivative, plait::input_slot>;

template <class Activation>
using mlp = sequential<named<"fc", nn::linear<width, 2 * width>>, Activation,
                       named<"proj", nn::linear<2 * width, width>>>;
template <class Activation>
using block =
    residual<sequential<named<"ln", nn::layer_norm<width>>, named<"mlp", mlp<Activation>>>>;
template <class Activation>
using body =
    sequential<named<"wte", nn::embedding<vocabulary, width>>,
               named<"wpe", nn::positions<length, width>>,
               named<"h", plait::repeat<2, block<Activation>>>, named<"relu", nn::relu<width>>,
               named<"head", nn::linear<width, vocabulary>>>;
template <class Activation = nn::gelu<2 * width>>
using model = plait::objective<body<Activation>, nn::cross_entropy<vocabulary>>;
template <class... Policies>
struct job : plait::parallel<model<>, hybrid<Policies..., plait::reproducible<4>>, double> {};
template <class... Policies>
struct free_job : plait::parallel<model<>, hybrid<Policies...>, double> {};
using serial_job = free_job<plait::data_parallel<1>>;
struct steep_job : plait::parallel<model<steep_gelu>, plait::data_parallel<1>, double> {};
using sequence_parallel = plait::tensor_parallel<2, plait::sequence::sharded>;
struct job_on_three_axes
    : free_job<plait::pipeline<2>, plait::data_parallel<2, plait::zero<3>>, sequence_parallel> {};

plait::byte_text text_of_bytes() {
  std::string bytes;
  for (unsigned i = 0; i < 300; ++i) bytes.push_back(static_cast<char>('a' + i * i % 23));
  return plait::byte_text::from_text(bytes, length);
}

/// The work of a rank between making the trainer and the first step.
struct no_change {
  void operator()(auto&) const {}
};
/// Sets one parameter to given numbers, of which one is changed by `change`.
struct set_parameter {
  char const* name;
  double change = 0;
  void operator()(auto& trainer) const {
    trainer.import_parameters([&](std::string const& of, auto const&, std::span<double> values) {
      if (of != name) return false;
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.1 * std::sin(double(i));
      values[3] += change;
      return true;
    });
  }
};

class StepTrace : public testing::Test {
 protected:
  StepTrace() { fs::create_directory(folder_); }
  ~StepTrace() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(std::string const& name) const {
    return (folder_ / name).string();
  }

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
  std::string train(std::string const& name, int microbatches = 0) const {
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
    auto const script =
        fs::absolute(fs::path(tests == nullptr ? "tests" : tests) / "../scripts/compare_traces");
    std::string const command =
        "cd '" + folder_.string() + "' && python3 '" + script.string() + "' " + arguments + " 2>&1";
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
  fs::path folder_ =
      fs::path(testing::TempDir()) / ("plait_step_trace_" + std::to_string(::getpid()));
};

/// The numbers of one line, computed here from the elements of a tensor in the order of the tensor.
struct reference {
  std::uint64_t hash = 0;
  double sum = 0, squares = 0, weighted = 0;

  static std::uint64_t mixed(std::uint64_t x) {  // the last steps of SplitMix64
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    x ^= x >> 31;
    return x;
  }
  explicit reference(std::span<double const> elements) {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      auto const of_index = mixed(i + 0x9e3779b97f4a7c15ull);
      hash += mixed(of_index ^ std::bit_cast<std::uint64_t>(elements[i]));
      weighted += elements[i] * std::ldexp(double(std::int64_t(of_index)), -63);
      sum += elements[i];
      squares += elements[i] * elements[i];
    }
  }
};

/// The fields of the line of one tensor; empty if there is no such line.
std::vector<std::string> line_of(std::string const& trace, std::string const& step,
                                 std::string const& pass, std::string const& name) {
  std::istringstream lines(trace);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> out{std::istream_iterator<std::string>(words), {}};
    if (out.size() == 8 && out[0] == step && out[1] == pass && out[7] == name) return out;
  }
  return {};
}
void expect_line(std::string const& trace, std::string const& pass, std::string const& name,
                 std::span<double const> elements) {
  auto const line = line_of(trace, "0", pass, name);
  ASSERT_EQ(line.size(), 8u) << pass << " " << name;
  reference const expected(elements);
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(expected.hash));
  EXPECT_EQ(line[2], std::to_string(elements.size())) << name;
  EXPECT_NEAR(std::stod(line[3]), expected.sum, 1e-12) << name;
  EXPECT_NEAR(std::stod(line[4]), std::sqrt(expected.squares), 1e-12) << name;
  EXPECT_NEAR(std::stod(line[5]), expected.weighted, 1e-12) << name;
  EXPECT_EQ(line[6], hash) << pass << " " << name;
}

TEST_F(StepTrace, IsTheSameFileUnderAllPlansWithTheSameBits) {
  auto const serial = train<job<plait::data_parallel<1>>>("serial");
  std::string const elements = std::to_string(16 * length * width);
  for (std::string const name :
       {"wte", "wpe", "h.0.ln", "h.1.mlp.fc", "h.1.mlp.1", "h.1.mlp.proj", "relu", "head"}) {
    auto const line = line_of(serial, "2", "forward", name);
    ASSERT_EQ(line.size(), 8u) << name;
    bool const is_wide = name == "h.1.mlp.fc" || name == "h.1.mlp.1";
    EXPECT_EQ(line[2], name == "head" ? std::to_string(16 * length * vocabulary)
                       : is_wide      ? std::to_string(16 * length * 2 * width)
                                      : elements);
  }
  for (char const* const name :
       {"loss", "head", "relu", "h.1.mlp.1", "h.1.mlp.fc", "h.0.ln", "wpe"})
    EXPECT_EQ(line_of(serial, "2", "backward", name).size(), 8u) << name;
  EXPECT_EQ(serial, (train<job<plait::data_parallel<2, plait::zero<1>>>>("zero")));
  EXPECT_EQ(serial, (train<job<plait::pipeline<2>, plait::data_parallel<2>>>("pipeline")));
  auto const equal = compare("serial zero");
  EXPECT_EQ(equal.code, 0);
  EXPECT_EQ(equal.text.find("equal: "), 0u) << equal.text;
}

TEST_F(StepTrace, IsEqualToRoundingUnderOtherPlans) {
  train<serial_job>("serial");
  train<serial_job>("microbatches", 4);
  train<free_job<sequence_parallel>>("tensor");
  train<job_on_three_axes>("all", 2);
  for (std::string const other : {"microbatches", "tensor", "all"}) {
    auto const equal = compare("--tolerance 1e-12 serial " + other);
    EXPECT_EQ(equal.code, 0) << equal.text;
    EXPECT_EQ(equal.text.find("only"), std::string::npos) << other << ": " << equal.text;
  }
  // Rounding differs, so the check by hashes fails.
  EXPECT_EQ(compare("serial tensor").code, 1);
}

TEST_F(StepTrace, HasTheNumbersOfTheTensors) {
  auto const text = text_of_bytes();
  std::vector<double> logits;
  std::map<std::string, std::vector<double>> weights, gradients;
  plait::launch<serial_job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<serial_job>(rank, plait::adamw{.learning_rate = 1e-2});
    auto batches = plait::batches(text, plait::global_batch<16>{}, rank, {.microbatches = 2});
    auto const made = trainer.predict(batches.at(0));
    logits.assign(made.begin(), made.end());
    {
      plait::ext::step_trace trace(trainer, path("trace"));
      trainer.step(batches.at(0));
    }
    auto const into = [](auto& to) {
      return [&to](std::string const& name, auto const&, std::span<double const> values) {
        to[name].assign(values.begin(), values.end());
      };
    };
    trainer.export_parameters(into(weights));
    trainer.export_gradients(into(gradients));
    trainer.step(batches.at(1));  // not traced
  });
  auto const trace = read("trace");
  expect_line(trace, "forward", "head", logits);
  EXPECT_EQ(weights.size(), 16u);
  for (auto const& [name, values] : weights) expect_line(trace, "parameter", name, values);
  for (auto const& [name, values] : gradients) expect_line(trace, "gradient", name, values);
  EXPECT_EQ(trace.find("\n1 "), std::string::npos);
}

TEST_F(StepTrace, NamesAChangedWeight) {
  char const* const changed = "h.1.mlp.proj.weight";
  train<serial_job>("right", 0, set_parameter{changed});
  train<free_job<sequence_parallel>>("wrong", 0, set_parameter{changed, 1e-3});
  auto const found = compare("--tolerance 1e-9 right wrong");
  EXPECT_EQ(found.code, 1);
  EXPECT_EQ(found.text.find("first difference: step 0 forward h.1.mlp.proj\n"), 0u) << found.text;
  EXPECT_NE(found.text.find("\n  right: count 512, sum "), std::string::npos) << found.text;
  EXPECT_NE(found.text.find("\n  wrong: count 512, sum "), std::string::npos) << found.text;
}

// Swapped columns change neither the sum nor the norm of the weight and of the layer's output.
TEST_F(StepTrace, NamesALayerWithSwappedColumns) {
  char const* const changed = "h.1.mlp.fc.weight";
  plait::launch<serial_job>(plait::threads{}, [&](auto& rank) {
    for (std::string const name : {"right", "swapped"}) {
      auto trainer = plait::trainer<serial_job>(rank, plait::adamw{.learning_rate = 1e-2});
      std::vector<double> weight(width * 2 * width);
      for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = 0.1 * std::sin(double(i));
      for (std::size_t row = 0; name == "swapped" && row < width; ++row)
        std::swap(weight[row * 2 * width + 3], weight[row * 2 * width + 10]);
      trainer.import_parameters([&](std::string const& of, auto const&, std::span<double> values) {
        if (of == changed) std::copy(weight.begin(), weight.end(), values.begin());
        return of == changed;
      });
      plait::ext::step_trace trace(trainer, path(name));
      auto batches = plait::batches(text_of_bytes(), plait::global_batch<16>{}, rank);
      trainer.step(batches.at(0));
    }
  });
  auto const right = line_of(read("right"), "0", "forward", "h.1.mlp.fc");
  auto const swapped = line_of(read("swapped"), "0", "forward", "h.1.mlp.fc");
  ASSERT_EQ(right.size(), 8u);
  ASSERT_EQ(swapped.size(), 8u);
  for (std::size_t i : {3u, 4u}) EXPECT_NEAR(std::stod(right[i]), std::stod(swapped[i]), 1e-12);
  auto const found = compare("--tolerance 1e-5 right swapped");
  EXPECT_EQ(found.code, 1);
  EXPECT_EQ(found.text.find("first difference: step 0 forward h.1.mlp.fc\n"), 0u) << found.text;
}

TEST_F(StepTrace, NamesALayerWithAWrongBackward) {
  train<serial_job>("right");
  train<steep_job>("wrong");
  auto const found = compare("right wrong");
  EXPECT_EQ(found.code, 1);
  EXPECT_EQ(found.text.find("first difference: step 0 backward h.1.mlp.1\n"), 0u) << found.text;
}

TEST_F(StepTrace, RefusesFilesThatItCannotMake) {
  std::vector<std::string> said(2);
  auto const message = [&](std::string const& name) {
    plait::launch<free_job<sequence_parallel>>(plait::threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<free_job<sequence_parallel>>(rank, plait::sgd{});
      try {
        plait::ext::step_trace trace(trainer, path(name));
        if (name != "twice") return;
        plait::ext::step_trace other(trainer, path("other"));
      } catch (plait::input_error const& problem) {
        said[std::size_t(rank.world_rank())] = problem.what();
      }
    });
    EXPECT_EQ(said[0], said[1]);
    return said[0];
  };
  std::ofstream(path("there")) << "mine";
  EXPECT_NE(message("there").find("exists already; choose another name, or remove the file first"),
            std::string::npos)
      << said[0];
  EXPECT_EQ(read("there"), "mine");
  EXPECT_NE(message("no/folder").find("does not exist; make it first"), std::string::npos)
      << said[0];
  EXPECT_NE(message("twice").find("another step_trace traces this trainer; destroy it first"),
            std::string::npos)
      << said[0];
}

}  // namespace
