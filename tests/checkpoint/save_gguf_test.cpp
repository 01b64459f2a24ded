// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint
#include "plait/checkpoint/save_gguf.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/gguf_reader.hpp"
#include "checkpoint/llama_weights.hpp"
#include "plait/checkpoint/load_weights.hpp"
#include "plait/checkpoint/save_weights.hpp"
#include "plait/checkpoint/weights_folder.hpp"
#include "plait/nn/lora.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;
using llama_weights::fixture;
using llama_weights::refusal;
namespace files = std::filesystem;
using words = std::vector<std::string>;

files::path scratch(std::string const& name) {
  return llama_weights::scratch("gguf_" + name, ::testing::TempDir());
}
files::path oracle() { return fixture().parent_path().parent_path().parent_path() / "oracle"; }

// ---- Elements
// -------------------------------------------------------------------------------------

/// The bytes that the package gguf of PyPI has made, see tests/oracle/gguf_reference.py.
std::map<std::string, std::vector<std::uint8_t>> stored_blocks() {
  std::ifstream in(fixture().parent_path() / "gguf" / "blocks.txt");
  std::map<std::string, std::vector<std::uint8_t>> out;
  for (std::string type, of, digits; in >> type >> of >> digits;) {
    auto& bytes = out[type + " " + of];
    for (std::size_t i = 0; i < digits.size(); i += 2)
      bytes.push_back(std::uint8_t(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return out;
}

std::vector<std::uint16_t> as_words(std::vector<std::uint8_t> const& bytes) {
  std::vector<std::uint16_t> out;
  for (std::size_t i = 0; i < bytes.size(); i += 2)
    out.push_back(std::uint16_t(bytes[i] | bytes[i + 1] << 8));
  return out;
}

/// Numbers with bits of all kinds, as words() of the reference.
std::vector<float> bits_of_all_kinds() {
  std::vector<float> out;
  for (std::uint64_t i = 0; i < 512; ++i) {
    auto const value = std::bit_cast<float>(std::uint32_t(i * 2654435761u + 12345u));
    out.push_back(std::isfinite(value) ? value : 1.0f);
  }
  return out;
}

TEST(GgufElements, AreTheBytesOfTheReference) {
  auto const stored = stored_blocks();
  ASSERT_EQ(stored.size(), 4u);
  std::vector<std::uint16_t> halves, of_bfloat16;
  for (float const value : bits_of_all_kinds()) {
    halves.push_back(plait::detail::f16_from_float(value));
    of_bfloat16.push_back(plait::bfloat16(value).bits);
  }
  EXPECT_EQ(halves, as_words(stored.at("F16 words")));
  EXPECT_EQ(of_bfloat16, as_words(stored.at("BF16 words")));

  std::vector<float> low, middle, near;
  for (int bits = 0; bits < 0x7c00; bits += 97) {
    low.push_back(gguf_test::from_f16(std::uint16_t(bits)));
    middle.push_back((low.back() + gguf_test::from_f16(std::uint16_t(bits + 1))) / 2);
  }
  near = low;
  near.insert(near.end(), middle.begin(), middle.end());
  for (float const value : middle) near.push_back(std::nextafter(value, 0.0f));
  for (float const value : middle) near.push_back(std::nextafter(value, 1e9f));
  for (float const value : middle) near.push_back(-value);
  std::vector<std::uint16_t> found;
  for (float const value : near) found.push_back(plait::detail::f16_from_float(value));
  EXPECT_EQ(found, as_words(stored.at("F16 halves")));

  std::vector<float> values(32, 0.0f);
  values.push_back(127);
  for (int i = 0; i < 31; ++i) values.push_back(float(i) - 15.5f);
  for (int i = 0; i < 320; ++i)
    values.push_back(std::ldexp(float((i * 7919 + 13) % 2003 - 1001), i / 32 * 4 - 24));
  std::vector<std::uint8_t> blocks;
  for (std::size_t i = 0; i < values.size(); i += 32) {
    std::array<std::byte, 34> block;
    EXPECT_TRUE(plait::detail::write_q8_0(std::span(values).subspan(i).first<32>(), block));
    for (auto const byte : block) blocks.push_back(std::to_integer<std::uint8_t>(byte));
  }
  EXPECT_EQ(blocks, stored.at("Q8_0 blocks"));
}

TEST(GgufElements, EveryHalfStays) {
  for (int bits = 0; bits <= 0xffff; ++bits) {
    float const value = gguf_test::from_f16(std::uint16_t(bits));
    auto const back = plait::detail::f16_from_float(value);
    if (std::isnan(value)) EXPECT_TRUE(std::isnan(gguf_test::from_f16(back)));
    else EXPECT_EQ(back, bits);
  }
}

// ---- A Llama
// --------------------------------------------------------------------------------------

using job = llama_weights::job<hybrid<pipeline<2>, tensor_parallel<2>>, float>;

/// Returns llama.cpp's name, by a rule of its own.
std::string theirs(std::string name) {
  std::pair<char const*, char const*> const all[]{{"model.embed_tokens", "token_embd"},
                                                  {"model.norm", "output_norm"},
                                                  {"lm_head", "output"},
                                                  {"model.layers", "blk"},
                                                  {"input_layernorm", "attn_norm"},
                                                  {"post_attention_layernorm", "ffn_norm"},
                                                  {"self_attn.o_proj", "attn_output"},
                                                  {"self_attn.", "attn_"},
                                                  {"mlp.", "ffn_"},
                                                  {"_proj", ""}};
  for (auto const& [from, to] : all)
    if (auto const at = name.find(from); at != name.npos)
      name.replace(at, std::string(from).size(), to);
  return name;
}

/// Returns the rows of a matrix as the permute() of llama.cpp's converter has them: each head's
/// rows as a matrix (2, width / 2), transposed.
std::vector<float> permuted(std::vector<float> const& values, std::size_t heads,
                            std::size_t columns) {
  std::size_t const half = values.size() / columns / heads / 2;
  std::vector<float> out;
  for (std::size_t head = 0; head < heads; ++head)
    for (std::size_t pair = 0; pair < half; ++pair)
      for (std::size_t part = 0; part < 2; ++part) {
        std::size_t const row = (head * 2 + part) * half + pair;
        out.insert(out.end(), values.begin() + std::ptrdiff_t(row * columns),
                   values.begin() + std::ptrdiff_t((row + 1) * columns));
      }
  return out;
}

/// Compares a file with the weights of the fixture, to within `most` of a number and `least`.
void expect_fixture(gguf_test::file const& found, std::uint32_t type, double most = 0,
                    double least = 0) {
  weights_folder from(fixture());
  EXPECT_EQ(found.tensors.size(), from.tensors().size());
  for (auto const& of : from.tensors()) {
    auto const& name = of.name;
    auto const& shape = of.shape;
    std::vector<float> expected(shape.size() == 1 ? shape[0] : shape[0] * shape[1]);
    from.read(name, std::span(expected));
    if (name.find("q_proj") != name.npos) expected = permuted(expected, 4, shape[1]);
    if (name.find("k_proj") != name.npos) expected = permuted(expected, 2, shape[1]);
    ASSERT_TRUE(found.tensors.contains(theirs(name))) << name;
    auto const& one = found.tensors.at(theirs(name));
    EXPECT_EQ(one.type, shape.size() == 1 ? 0 : type) << name;
    EXPECT_EQ(one.lengths, std::vector<std::uint64_t>(shape.rbegin(), shape.rend())) << name;
    ASSERT_EQ(one.values.size(), expected.size()) << name;
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_LE(std::abs(one.values[i] - expected[i]), most * std::abs(expected[i]) + least)
          << name;
  }
}

TEST(SaveGguf, OfATrainerUnderAPlanAndOfAFolder) {
  auto const above = scratch("llama");
  auto const base = fixture();
  // example-begin gguf_model
  auto const model = plait::gguf_model::read(base);
  // example-end
  EXPECT_TRUE(model.tokenizer.empty());
  launch<job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, sgd{}, {.seed = 1});
    load_weights(trainer, weights_folder(base));
    auto const file = above / "f32.gguf";
    // example-begin save_gguf
    plait::save_gguf(trainer, file, model, {.type = plait::gguf_type::f32});
    // example-end
    save_gguf(trainer, above / "f16.gguf", model);
    save_gguf(trainer, above / "q8_0.gguf", model, {.type = gguf_type::q8_0});
  });
  auto const whole = gguf_test::read(above / "f32.gguf");
  expect_fixture(whole, 0);
  expect_fixture(gguf_test::read(above / "f16.gguf"), 1, 0x1p-11, 0x1p-25);

  // A folder gives the same tensors without a trainer; its numbers are bfloat16.
  weights_folder from(base);
  for (auto const& [name, type] :
       {std::pair("f32.gguf", gguf_type::f32), std::pair("f16.gguf", gguf_type::f16),
        std::pair("q8_0.gguf", gguf_type::q8_0)}) {
    auto const second = above / (std::string("folder_") + name);
    save_gguf(from, second, model, {.type = type});
    EXPECT_TRUE(gguf_test::read(second).tensors == gguf_test::read(above / name).tensors) << name;
  }
  {
    auto const file = above / "temporary.gguf";
    // example-begin save_gguf_folder
    plait::save_gguf(plait::weights_folder(base), file, plait::gguf_model::read(base));
    // example-end
    EXPECT_TRUE(gguf_test::read(file).tensors == gguf_test::read(above / "f16.gguf").tensors);
  }
  save_gguf(from, above / "bf16.gguf", model, {.type = gguf_type::bf16});
  expect_fixture(gguf_test::read(above / "bf16.gguf"), 30);

  // Q8_0: within half of the scale of each block, which is a 127th of its largest number, and of
  // which rounding to half precision takes another 127 * 2^-11 of a scale at most.
  auto const small = gguf_test::read(above / "q8_0.gguf");
  for (auto const& [name, one] : whole.tensors) {
    auto const& rounded = small.tensors.at(name);
    EXPECT_EQ(rounded.type, one.lengths.size() == 1 ? 0u : 8u) << name;
    for (std::size_t i = 0; i < one.values.size(); i += 32) {
      float greatest = 0;
      for (std::size_t j = i; j < i + 32; ++j)
        greatest = std::max(greatest, std::abs(one.values[j]));
      for (std::size_t j = i; j < i + 32; ++j)
        ASSERT_LE(std::abs(one.values[j] - rounded.values[j]), greatest * 0.563f / 127) << name;
    }
  }

  EXPECT_EQ(whole.version, 3u);
  EXPECT_EQ(whole.texts, (std::map<std::string, std::string>{{"general.architecture", "llama"},
                                                             {"general.type", "model"},
                                                             {"general.name", "llama"},
                                                             {"tokenizer.ggml.model", "none"}}));
  EXPECT_EQ(whole.numbers,
            (std::map<std::string, double>{{"general.file_type", 0},
                                           {"general.quantization_version", 2},
                                           {"llama.vocab_size", 256},
                                           {"llama.context_length", 64},
                                           {"llama.embedding_length", 64},
                                           {"llama.block_count", 2},
                                           {"llama.feed_forward_length", 128},
                                           {"llama.attention.head_count", 4},
                                           {"llama.attention.head_count_kv", 2},
                                           {"llama.attention.key_length", 16},
                                           {"llama.attention.value_length", 16},
                                           {"llama.rope.dimension_count", 16},
                                           {"llama.attention.layer_norm_rms_epsilon", 1e-6f},
                                           {"llama.rope.freq_base", 10000}}));
  EXPECT_EQ(small.numbers.at("general.file_type"), 7);
  files::remove_all(above);
}

// llama.cpp turns neighbouring features of a Llama, transformers the two halves of a head. The
// products of queries and keys, which attention uses, must be equal.
TEST(SaveGguf, RowsOfQueriesAndKeysFitRotationsOfNeighbours) {
  std::size_t const width = 16;
  plait::detail::gguf_tensor const one{
      .name = {}, .rows = width, .columns = 1, .interleaved_heads = 1};
  std::vector<double> q, k;
  for (std::size_t i = 0; i < width; ++i) {
    q.push_back(std::sin(double(3 * i + 1)));
    k.push_back(std::cos(double(5 * i + 2)));
  }
  auto const product = [&](bool is_neighbours, double position) {
    auto const turned = [&](std::vector<double> const& of, double at) {
      std::vector<double> x = of, out(width);
      if (is_neighbours)
        for (std::size_t i = 0; i < width; ++i) x[i] = of[one.source_row(i)];
      for (std::size_t pair = 0; pair < width / 2; ++pair) {
        std::size_t const a = is_neighbours ? 2 * pair : pair, b = is_neighbours ? a + 1 : pair + 8;
        double const angle = at * std::pow(10000, -double(pair) / 8);
        out[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
        out[b] = x[b] * std::cos(angle) + x[a] * std::sin(angle);
      }
      return out;
    };
    auto const a = turned(q, position), b = turned(k, 2);
    double sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += a[i] * b[i];
    return sum;
  };
  for (double const position : {0.0, 1.0, 7.0, 40.0})
    EXPECT_NEAR(product(true, position), product(false, position), 1e-12) << position;
  EXPECT_GT(std::abs(product(true, 7) - product(true, 1)), 0.01);
}

TEST(SaveGguf, ThePackageOfPyPIReadsIt) {
  auto const above = scratch("package");
  auto model = gguf_model::read(fixture());
  model.rope_scaling = gguf_model::llama3_scaling{};
  weights_folder from(fixture());
  for (auto const type : {gguf_type::f32, gguf_type::f16, gguf_type::bf16, gguf_type::q8_0}) {
    auto const file = above / "model.gguf", out = above / "out";
    save_gguf(from, file, model, {.type = type, .overwrite = true});
    char const* const python = std::getenv("PYTHON");
    auto const command = std::string(python == nullptr ? "python3" : python) + " '" +
                         (oracle() / "gguf_reference.py").string() + "' '" + file.string() +
                         "' > '" + out.string() + "'";
    int const status = std::system(command.c_str());
    if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) {
      files::remove_all(above);
      GTEST_SKIP() << "Python has no package gguf";
    }
    ASSERT_EQ(status, 0);
    auto const ours = gguf_test::read(file);
    std::size_t tensors = 0, keys = 0;
    std::ifstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      if (line.find(" = ") != line.npos) {
        ++keys;
        continue;
      }
      ++tensors;
      auto const& one = ours.tensors.at(line.substr(0, line.find(' ')));
      std::string expected = one.type == 0 ? "F32" : to_string(type);
      expected += " [" + std::to_string(one.lengths[0]) +
                  (one.lengths.size() == 2 ? ", " + std::to_string(one.lengths[1]) : "") + "] ";
      for (float const value : one.values) {
        auto const word = std::bit_cast<std::uint32_t>(value);
        char digits[9];
        std::snprintf(digits, sizeof digits, "%02x%02x%02x%02x", word & 255, word >> 8 & 255,
                      word >> 16 & 255, word >> 24);
        expected += digits;
      }
      EXPECT_TRUE(line.substr(line.find(' ') + 1) == expected) << line.substr(0, 60);
    }
    EXPECT_EQ(tensors, ours.tensors.size());
    EXPECT_EQ(keys, ours.texts.size() + ours.numbers.size());
  }
  files::remove_all(above);
}

// A square matrix does not show in its shape that it is stored as (In, Out).
TEST(SaveGguf, RefusesMatricesOfTheOtherOrder) {
  using net = sequential<named<"a", llama_weights::linear<8, 8>>, named<"b", nn::linear<8, 8>>>;
  struct turned : parallel<objective<net, nn::cross_entropy<8>>, serial> {};
  auto const found = plait::detail::turned_weights<turned::plan_type>();
  EXPECT_EQ(found, words{"b.weight"});
  std::vector<safetensors_entry> const all{{"a.weight", stored_type::f32, {8, 8}},
                                           {"b.weight", stored_type::f32, {8, 8}}};
  EXPECT_EQ(
      refusal([&] { plait::detail::refuse_turned(found, all); }),
      "save_gguf: the layer of 'b.weight' stores its weight as (In, Out), and llama.cpp reads "
      "(Out, In); write .order = plait::nn::weight_order::output_input");
}

// ---- Adapters
// -------------------------------------------------------------------------------------

template <class L>
using adapted = nn::lora<L, 2, 4>;
using lora_attention =
    sequential<fan_out<named<"q_proj", adapted<llama_weights::linear<64, 64>>>,
                       named<"k_proj", frozen<llama_weights::linear<64, 32>>>,
                       named<"v_proj", adapted<llama_weights::linear<64, 32>>>>,
               llama_weights::first_of_three, named<"o_proj", llama_weights::linear<64, 64>>>;
using lora_block =
    sequential<residual<sequential<named<"input_layernorm", llama_weights::gain>,
                                   named<"self_attn", lora_attention>>>,
               residual<sequential<named<"post_attention_layernorm", llama_weights::gain>,
                                   named<"mlp", llama_weights::mlp>>>>;
using lora_body =
    sequential<named<"table", nn::embedding<256, 64>>, named<"layers", repeat<2, lora_block>>,
               named<"norm", llama_weights::gain>>;
struct lora_job : parallel<objective<sequential<named<"body", lora_body>,
                                                named<"lm_head", llama_weights::linear<64, 256>>>,
                                     nn::cross_entropy<256>>,
                           serial> {};

TEST(SaveGguf, AddsAdaptersAndMapsNames) {
  auto const above = scratch("lora");
  auto const model = gguf_model::read(fixture());
  std::vector<std::pair<std::string, std::string>> const names{
      {"body.table.*", "model.embed_tokens.*"}, {"body.*", "model.*"}};
  std::string without;
  launch<lora_job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<lora_job>(rank, sgd{}, {.seed = 1});
    trainer.import_parameters([](std::string const& name, auto const&, auto values) {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = float(std::sin(double(i * name.size() + 1)));
      return true;
    });
    save_weights(trainer, above / "merged", {.names = names, .merge_lora = true});
    save_gguf(trainer, above / "merged.gguf", model,
              {.type = gguf_type::f32, .names = names, .merge_lora = true});
    without = refusal([&] { save_gguf(trainer, above / "none.gguf", model, {.names = names}); });
  });
  weights_folder merged(above / "merged");
  save_gguf(merged, above / "folder.gguf", model, {.type = gguf_type::f32});
  EXPECT_TRUE(gguf_test::read(above / "merged.gguf").tensors ==
              gguf_test::read(above / "folder.gguf").tensors);
  EXPECT_EQ(without,
            "save_gguf: the model has adapters, such as "
            "'body.layers.0.self_attn.q_proj.lora_A.weight'; set save_gguf_options::merge_lora to "
            "add them to their weights");
  EXPECT_FALSE(files::exists(above / "none.gguf"));
  files::remove_all(above);
}

}  // namespace
