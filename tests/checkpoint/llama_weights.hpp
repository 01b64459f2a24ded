// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plait/io/safetensors.hpp"
#include "plait/plait.hpp"

// Weights that transformers has written (tests/oracle/llama_weights.py), and a model whose
// parameters have their names and shapes. The model computes nothing meaningful; tests only load
// and save its weights.
namespace llama_weights {

namespace files = std::filesystem;
using plait::features;
using plait::named;
using plait::nn::linear_options;

inline files::path fixture() {
  char const* const tests = std::getenv("PLAIT_TESTS");
  auto const here =
      tests != nullptr ? files::path(tests) / "checkpoint" : files::path(__FILE__).parent_path();
  return here / "fixtures" / "llama";
}

struct gain {
  using concept_tag = plait::layer_tag;
  using weight = plait::parameter<"weight", plait::extents<64>, plait::constant(1)>;
  using parameters = plait::parameter_list<weight>;
  using input = features<64>;
  using output = features<64>;
  using forms = plait::forms<plait::whole>;
  static void forward(auto& ops, auto const& l) { ops.copy(l.x, l.y); }
  static void backward_input(auto& ops, auto const& l) { ops.copy(l.dy, l.dx); }
  static void backward_parameters(auto&, auto const&) {}
};

struct first_of_three {
  using concept_tag = plait::layer_tag;
  using input = plait::inputs<features<64>, features<32>, features<32>>;
  using output = features<64>;
  using forms = plait::forms<plait::whole, plait::by_features>;
  static void forward(auto& ops, auto const& l) { ops.copy(std::get<0>(l.x), l.y); }
  static void backward_input(auto& ops, auto const& l) { ops.copy(l.dy, std::get<0>(l.dx)); }
};

template <std::size_t In, std::size_t Out>
using linear = plait::nn::linear<
    In, Out, linear_options{.bias = false, .order = plait::nn::weight_order::output_input}>;
using attention = plait::sequential<
    plait::fan_out<named<"q_proj", linear<64, 64>>, named<"k_proj", linear<64, 32>>,
                   named<"v_proj", linear<64, 32>>>,
    first_of_three, named<"o_proj", linear<64, 64>>>;
using mlp = plait::sequential<
    plait::fan_out<named<"gate_proj", linear<64, 128>>, named<"up_proj", linear<64, 128>>>,
    plait::nn::product<128>, named<"down_proj", linear<128, 64>>>;
using block = plait::sequential<
    plait::residual<
        plait::sequential<named<"input_layernorm", gain>, named<"self_attn", attention>>>,
    plait::residual<plait::sequential<named<"post_attention_layernorm", gain>, named<"mlp", mlp>>>>;
using body = plait::sequential<named<"embed_tokens", plait::nn::embedding<256, 64>>,
                               named<"layers", plait::repeat<2, block>>, named<"norm", gain>>;
using model = plait::sequential<named<"model", body>, named<"lm_head", linear<64, 256>>>;

template <class Policy, class Precision>
struct job
    : plait::parallel<plait::objective<model, plait::nn::cross_entropy<256>>, Policy, Precision> {};

/// Returns the bytes of each tensor of a folder's files.
inline std::map<std::string, std::vector<std::byte>> bytes_in(files::path const& folder) {
  std::map<std::string, std::vector<std::byte>> out;
  for (auto const& one : files::directory_iterator(folder)) {
    if (one.path().extension() != ".safetensors") continue;
    plait::safetensors_reader const file(one.path());
    for (auto const& name : file.names()) {
      auto& bytes = out[name];
      bytes.resize(file.info(name).bytes());
      file.read_bytes(name, 0, bytes);
    }
  }
  return out;
}

inline std::string text_of(files::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write(files::path const& path, std::string_view text) {
  files::remove(path);
  std::ofstream(path, std::ios::binary).write(text.data(), std::ssize(text));
}

/// Returns an empty folder of this name.
inline files::path scratch(std::string const& name, files::path const& above) {
  auto out = above / ("plait_" + name);
  files::remove_all(out);
  files::create_directories(out);
  return out;
}

inline std::vector<std::string> names_in(files::path const& folder) {
  std::vector<std::string> out;
  for (auto const& one : files::directory_iterator(folder))
    out.push_back(one.path().filename().string());
  std::ranges::sort(out);
  return out;
}

inline std::string refusal(auto work) {
  try {
    work();
  } catch (plait::input_error const& problem) {
    return problem.what();
  }
  return "no error";
}

}  // namespace llama_weights
