// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint
#include "plait/checkpoint/gguf_model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/gguf_reader.hpp"
#include "checkpoint/llama_weights.hpp"
#include "plait/checkpoint/save_gguf.hpp"
#include "plait/checkpoint/save_weights.hpp"
#include "plait/checkpoint/weights_folder.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;
using llama_weights::refusal;
namespace files = std::filesystem;
using entries = std::vector<safetensors_entry>;

files::path scratch(std::string const& name) {
  return llama_weights::scratch("gguf_model_" + name, ::testing::TempDir());
}

/// A model of one layer, width 8, with 4 heads of 2 features, 2 key-value heads, and 12 hidden
/// features.
entries one_layer(bool has_head = true) {
  auto const f32 = stored_type::f32;
  std::string const block = "model.layers.0.";
  entries out{{"model.embed_tokens.weight", f32, {10, 8}},
              {"model.norm.weight", f32, {8}},
              {block + "input_layernorm.weight", f32, {8}},
              {block + "post_attention_layernorm.weight", f32, {8}},
              {block + "self_attn.q_proj.weight", f32, {8, 8}},
              {block + "self_attn.k_proj.weight", f32, {4, 8}},
              {block + "self_attn.v_proj.weight", f32, {4, 8}},
              {block + "self_attn.o_proj.weight", f32, {8, 8}},
              {block + "mlp.gate_proj.weight", f32, {12, 8}},
              {block + "mlp.up_proj.weight", f32, {12, 8}},
              {block + "mlp.down_proj.weight", f32, {8, 12}}};
  if (has_head) out.push_back({"lm_head.weight", f32, {10, 8}});
  return out;
}
gguf_model const numbers{.context_length = 16, .heads = 4, .key_value_heads = 2};

plait::detail::gguf_layout layout(entries const& of, gguf_model const& model = numbers,
                                  gguf_type type = gguf_type::f16) {
  std::vector<std::string> names;
  for (auto const& one : of) names.push_back(one.name);
  return {model, of, names, type};
}

TEST(GgufModel, TakesItsSizesFromTheWeights) {
  auto const found = layout(one_layer());
  EXPECT_EQ(found.layers, 1u);
  EXPECT_EQ(found.width, 8u);
  EXPECT_EQ(found.hidden, 12u);
  EXPECT_EQ(found.vocabulary, 10u);
  EXPECT_EQ(found.head_width, 2u);
  EXPECT_EQ(layout(one_layer(false)).parameters.size(), 11u);  // the head is the table
}

// As the converter of llama.cpp, which falls back to F16.
TEST(GgufModel, MatricesWithoutWholeBlocksAreHalves) {
  auto all = one_layer();
  for (auto const& each : layout(all, numbers, gguf_type::q8_0).parameters)
    EXPECT_EQ(each.tensor.type, each.tensor.rank == 1 ? gguf_type::f32 : gguf_type::f16);
  for (auto& one : all)
    for (auto& length : one.shape)
      if (length == 8) length = 32;
  for (auto& one : all)
    if (one.name.find("k_proj") != one.name.npos || one.name.find("v_proj") != one.name.npos)
      one.shape[0] = 16;
  for (auto const& each : layout(all, numbers, gguf_type::q8_0).parameters) {
    bool const is_down = each.tensor.name == "blk.0.ffn_down.weight";  // rows of 12
    EXPECT_EQ(each.tensor.type, each.tensor.rank == 1 ? gguf_type::f32
                                : is_down             ? gguf_type::f16
                                                      : gguf_type::q8_0)
        << each.tensor.name;
  }
}

TEST(GgufModel, OtherArchitecturesHaveBiasesOrNorms) {
  auto const f32 = stored_type::f32;
  std::string const attention = "model.layers.0.self_attn.";
  auto biased = one_layer(), normed = biased;
  for (auto const& [name, length] : {std::pair("q", 8u), {"k", 4u}, {"v", 4u}})
    biased.push_back({attention + name + "_proj.bias", f32, {length}});
  for (char const* const name : {"q", "k"})
    normed.push_back({attention + name + "_norm.weight", f32, {2}});
  auto qwen2 = numbers, qwen3 = numbers;
  qwen2.architecture = "qwen2";
  qwen3.architecture = "qwen3";
  auto const heads_of = [](plait::detail::gguf_layout const& of, std::string const& name) {
    for (auto const& each : of.parameters)
      if (each.tensor.name == name) return each.tensor.interleaved_heads;
    ADD_FAILURE() << name;
    return std::size_t{99};
  };
  // Only a Llama's rows are reordered, of biases, too.
  EXPECT_EQ(heads_of(layout(biased), "blk.0.attn_q.bias"), 4u);
  EXPECT_EQ(heads_of(layout(biased), "blk.0.attn_k.bias"), 2u);
  EXPECT_EQ(heads_of(layout(biased), "blk.0.attn_v.bias"), 0u);
  EXPECT_EQ(heads_of(layout(biased, qwen2), "blk.0.attn_q.bias"), 0u);
  EXPECT_EQ(heads_of(layout(normed, qwen3), "blk.0.attn_q.weight"), 0u);
  EXPECT_EQ(heads_of(layout(normed, qwen3), "blk.0.attn_q_norm.weight"), 0u);
  EXPECT_EQ(refusal([&] { layout(one_layer(), qwen2); }),
            "save_gguf: the weights lack 3 tensors, 'model.layers.0.self_attn.q_proj.bias', "
            "'model.layers.0.self_attn.k_proj.bias', 'model.layers.0.self_attn.v_proj.bias', which "
            "llama.cpp's qwen2 needs");
  EXPECT_EQ(refusal([&] { layout(normed); }),
            "save_gguf: llama.cpp's llama has no tensor for "
            "'model.layers.0.self_attn.q_norm.weight'; names must be Hugging Face's, such as "
            "'model.layers.0.self_attn.q_proj.weight'; write pairs for others in "
            "save_gguf_options::names");
}

TEST(GgufModel, RefusesWeightsThatDoNotFit) {
  auto const with = [](auto change) {
    auto all = one_layer();
    change(all);
    return refusal([&] { layout(all); });
  };
  EXPECT_EQ(with([](entries& all) { all.erase(all.begin() + 4); }),
            "save_gguf: the weights lack 1 tensor, 'model.layers.0.self_attn.q_proj.weight', which "
            "llama.cpp's llama needs");
  EXPECT_EQ(with([](entries& all) { all[4].shape = {6, 8}; }),
            "save_gguf: 'model.layers.0.self_attn.q_proj.weight' has the shape (6, 8), but the "
            "model's numbers give (8, 8); heads 4 x head width 2 = 8; correct gguf_model::heads or "
            "head_width");
  EXPECT_EQ(with([](entries& all) { all[6].shape = {6, 8}; }),
            "save_gguf: 'model.layers.0.self_attn.v_proj.weight' has the shape (6, 8), but the "
            "model's numbers give (4, 8); key_value_heads 2 x head width 2 = 4; correct "
            "gguf_model::key_value_heads or head_width");
  EXPECT_EQ(with([](entries& all) { all[7].shape = {8, 6}; }),
            "save_gguf: 'model.layers.0.self_attn.o_proj.weight' has the shape (8, 6), but the "
            "model's numbers give (8, 8); heads 4 x head width 2 = 8; correct gguf_model::heads or "
            "head_width");
  EXPECT_EQ(with([](entries& all) { all[5].shape = {8, 4}; }),
            "save_gguf: 'model.layers.0.self_attn.k_proj.weight' has the shape (8, 4), but the "
            "model's numbers give (4, 8); store it with weight_order::output_input");
  EXPECT_EQ(
      with([](entries& all) { all[1].shape = {8, 1}; }),
      "save_gguf: 'model.norm.weight' has the shape (8, 1), but the model's numbers give (8)");
  EXPECT_EQ(with([](entries& all) { all[0].shape = {80}; }),
            "save_gguf: 'model.embed_tokens.weight' has the shape (80), but a matrix is needed");
  EXPECT_EQ(with([](entries& all) {
              all.push_back({"model.layers.00.input_layernorm.weight", stored_type::f32, {8}});
            }).substr(0, 40),
            "save_gguf: llama.cpp's llama has no tens");
  EXPECT_EQ(with([](entries& all) {
              all.push_back({"model.layers.999999.input_layernorm.weight", stored_type::f32, {8}});
            }),
            "save_gguf: 'model.layers.999999.input_layernorm.weight' is in layer 999999, but only "
            "13 tensors are given, which cannot be that many layers");
  EXPECT_EQ(with([](entries& all) { all.push_back(all[3]); }),
            "save_gguf: 'model.layers.0.post_attention_layernorm.weight' and "
            "'model.layers.0.post_attention_layernorm.weight' would both be "
            "'blk.0.ffn_norm.weight'; change the pairs in save_gguf_options::names");
  EXPECT_NE(refusal([] { layout({}); }).find("save_gguf: the weights lack 11 tensors"),
            std::string::npos);
}

TEST(GgufModel, RefusesNumbersThatDoNotFit) {
  auto const with = [](auto change) {
    auto model = numbers;
    change(model);
    return refusal([&] { layout(one_layer(false), model); });
  };
  EXPECT_EQ(with([](gguf_model& m) { m.architecture = "gemma"; }),
            "save_gguf: gguf_model::architecture is 'gemma'; save_gguf writes llama (also for "
            "Mistral), qwen2 and qwen3");
  EXPECT_EQ(with([](gguf_model& m) { m.context_length = 0; }),
            "save_gguf: gguf_model::context_length is 0; it needs a number from 1 to 2147483647");
  EXPECT_EQ(with([](gguf_model& m) { m.layers = 2; }),
            "save_gguf: gguf_model::layers is 2, but the weights have 1");
  EXPECT_EQ(with([](gguf_model& m) { m.vocabulary = 11; }),
            "save_gguf: gguf_model::vocabulary is 11, but the weights have 10");
  EXPECT_EQ(with([](gguf_model& m) { m.heads = 3; }),
            "save_gguf: gguf_model::heads is 3, which does not divide the width of the weights, 8; "
            "set head_width");
  EXPECT_EQ(with([](gguf_model& m) { m.head_width = 3; }),
            "save_gguf: a head has 3 features, but rotary positions need an even number");
  EXPECT_EQ(with([](gguf_model& m) { m.key_value_heads = 3; }),
            "save_gguf: gguf_model::heads is 4, which is not a multiple of key_value_heads, 3");
  EXPECT_EQ(refusal([] {
              auto model = numbers;
              model.ties_head = true;
              layout(one_layer(), model);
            }),
            "save_gguf: the weights have 'lm_head.weight', but gguf_model::ties_head is true, so "
            "that the head is the table of the embedding; set ties_head to false to write this "
            "head, or leave it out of the weights");
  EXPECT_EQ(with([](gguf_model& m) { m.ties_head = true; }), "no error");
  EXPECT_EQ(with([](gguf_model& m) { m.norm_epsilon = std::nan(""); }),
            "save_gguf: gguf_model::norm_epsilon is nan; it needs a finite number above 0");
  EXPECT_EQ(with([](gguf_model& m) { m.rope_base = 1e300; }),
            "save_gguf: gguf_model::rope_base is 1e+300; it needs a finite number above 0");
  EXPECT_EQ(
      with([](gguf_model& m) { m.ties_head = false; }),
      "save_gguf: the weights lack 1 tensor, 'lm_head.weight', which llama.cpp's llama needs");
  EXPECT_EQ(with([](gguf_model& m) {
              m.rope_scaling = gguf_model::llama3_scaling{.high_frequency_factor = 1};
            }),
            "save_gguf: gguf_model::rope_scaling.high_frequency_factor is 1; it must be above "
            "low_frequency_factor, 1");
  EXPECT_EQ(with([](gguf_model&) {}), "no error");
}

// llama.cpp's converter computes the factors from wavelengths.
TEST(GgufModel, FactorsOfLlama3) {
  gguf_model model{.rope_base = 500000, .rope_scaling = gguf_model::llama3_scaling{.factor = 32}};
  auto const found = plait::detail::rope_factors(model, 64);
  ASSERT_EQ(found.size(), 32u);
  for (int i = 0; i < 32; ++i) {
    double const wavelength = 2 * 3.14159265358979323846 * std::pow(500000.0, i / 32.0);
    double expected = 1;
    if (wavelength > 8192) {
      expected = 32;
    } else if (wavelength >= 2048) {
      double const smooth = (8192 / wavelength - 1) / 3;
      expected = 1 / ((1 - smooth) / 32 + smooth);
    }
    EXPECT_NEAR(found[std::size_t(i)], expected, 1e-5 * expected) << i;
  }
  EXPECT_EQ(found.front(), 1.0f);
  EXPECT_EQ(found.back(), 32.0f);
}

// ---- config.json
// ----------------------------------------------------------------------------------

gguf_model read(files::path const& folder, std::string const& config) {
  llama_weights::write(folder / "config.json", config);
  return gguf_model::read(folder);
}

TEST(GgufModel, ReadsConfigs) {
  auto const folder = scratch("config");
  std::string const sizes =
      R"("hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 256,
         "num_attention_heads": 4, "max_position_embeddings": 131072)";
  auto const llama = read(folder, R"({"model_type": "llama", "rms_norm_eps": 1e-5, "head_dim": 32,
      "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 32.0,
      "low_freq_factor": 1.5, "high_freq_factor": 4.5, "original_max_position_embeddings": 4096},
      "tie_word_embeddings": true, "num_key_value_heads": 2, )" +
                                      sizes + "}");
  EXPECT_EQ(llama.architecture, "llama");
  EXPECT_EQ(llama.name, folder.filename().string());
  EXPECT_EQ(llama.context_length, 131072u);
  EXPECT_EQ(llama.layers, 2u);
  EXPECT_EQ(llama.width, 64u);
  EXPECT_EQ(llama.hidden, 128u);
  EXPECT_EQ(llama.vocabulary, 256u);
  EXPECT_EQ(llama.heads, 4u);
  EXPECT_EQ(llama.key_value_heads, 2u);
  EXPECT_EQ(llama.head_width, 32u);
  EXPECT_EQ(llama.norm_epsilon, 1e-5);
  EXPECT_EQ(llama.rope_base, 500000);
  EXPECT_EQ(llama.ties_head, true);
  ASSERT_TRUE(llama.rope_scaling.has_value());
  EXPECT_EQ(llama.rope_scaling->factor, 32);
  EXPECT_EQ(llama.rope_scaling->low_frequency_factor, 1.5);
  EXPECT_EQ(llama.rope_scaling->high_frequency_factor, 4.5);
  EXPECT_EQ(llama.rope_scaling->original_positions, 4096u);
  EXPECT_TRUE(llama.tokenizer.empty());

  llama_weights::write(folder / "tokenizer.json", "{}");
  auto const mistral =
      read(folder, R"({"model_type": "mistral", "sliding_window": 4096, "head_dim": null,
                       "use_sliding_window": false, "num_key_value_heads": null,
                       "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, )" +
                       sizes + "}");
  EXPECT_EQ(mistral.architecture, "llama");
  EXPECT_EQ(mistral.context_length, 4096u);  // the window
  EXPECT_EQ(mistral.key_value_heads, 4u);
  EXPECT_EQ(mistral.head_width, 0u);
  EXPECT_EQ(mistral.rope_base, 1000000);
  EXPECT_EQ(mistral.norm_epsilon, 1e-6);
  EXPECT_EQ(mistral.ties_head, std::nullopt);
  EXPECT_EQ(mistral.tokenizer, folder);
  auto const qwen2 = read(folder, R"({"model_type": "qwen2", "use_sliding_window": false,
                                      "num_key_value_heads": 2,
                                      "sliding_window": 4096, )" +
                                      sizes + "}");
  EXPECT_EQ(qwen2.architecture, "qwen2");
  EXPECT_EQ(qwen2.context_length, 131072u);
  // Missing fields have the defaults of transformers, and a Llama has no window.
  EXPECT_EQ(read(folder, R"({"model_type": "mistral", "num_key_value_heads": 2, )" + sizes + "}")
                .context_length,
            4096u);
  auto const qwen3 =
      read(folder, R"({"model_type": "qwen3", "num_key_value_heads": 2, )" + sizes + "}");
  EXPECT_EQ(qwen3.head_width, 128u);
  auto const plain =
      read(folder, R"({"model_type": "llama", "sliding_window": 32, )" + sizes + "}");
  EXPECT_EQ(plain.context_length, 131072u);
  EXPECT_EQ(plain.key_value_heads, 4u);

  auto const name = "config '" + (folder / "config.json").string() + "' ";
  auto const refused = [&](std::string const& config, std::string const& says) {
    EXPECT_EQ(refusal([&] { (void)read(folder, config); }), name + says) << config;
  };
  refused("{", "is not JSON (at its byte 2)");
  refused("[]", "is not an object");
  refused("{}", "has the model_type ''; save_gguf writes llama, mistral, qwen2 and qwen3");
  refused(R"({"model_type": "gemma"})",
          "has the model_type 'gemma'; save_gguf writes llama, mistral, qwen2 and qwen3");
  auto const changed = [&](std::string const& fields, std::string const& says) {
    refused(R"({"model_type": "llama", )" + fields + ", " + sizes + "}", says);
  };
  std::string const cannot = "cannot become a GGUF file: ",
                    correct =
                        "; llama.cpp computes no other model; correct config.json if it is wrong";
  changed(R"("hidden_act": "gelu")",
          cannot + "hidden_act is 'gelu' in the file and 'silu' in the GGUF file" + correct);
  changed(R"("logit_scale": 0.0625)",
          cannot +
              "plait does not know the field 'logit_scale' (0.0625), which may change the "
              "model; remove it from config.json if the model does not use it");
  changed(
      R"("rope_theta": 1e6, "rope_parameters": {"rope_theta": 1e4})",
      cannot + "rope_theta is 1000000.0 in the file and 10000.0 in its rope_parameters" + correct);
  changed(R"("rope_scaling": {"rope_type": "llama3"})",
          cannot +
              "the file gives no rope_scaling.factor, and the GGUF file has 8.0; the file gives "
              "no rope_scaling.low_freq_factor, and the GGUF file has 1.0; the file gives no "
              "rope_scaling.high_freq_factor, and the GGUF file has 4.0; the file gives no "
              "rope_scaling.original_max_position_embeddings, so that transformers takes "
              "131072, and the GGUF file has 8192" +
              correct);
  changed(R"("num_key_value_heads": 3)",
          "has num_attention_heads 4, which is not a multiple of its num_key_value_heads 3");
  changed(R"("architectures": ["LlamaForSequenceClassification"])",
          cannot + R"(architectures is ["LlamaForSequenceClassification"] in the file and )" +
              R"(["LlamaForCausalLM"] in the GGUF file)" + correct);
  refused(
      R"({"model_type": "qwen3", "attention_bias": true, "num_key_value_heads": 2, )" + sizes + "}",
      cannot + "attention_bias is true in the file and false in the GGUF file" + correct);
  refused(R"({"model_type": "llama"})", "lacks max_position_embeddings");
  refused(R"({"model_type": "llama", "max_position_embeddings": -3})",
          "needs an integer from 1 to 2147483647 as max_position_embeddings, and has -3");
  refused(R"({"model_type": "llama", "model_type": "llama"})", "has 'model_type' twice");
  refused(R"({"model_type": "llama", "rope_theta": "many", )" + sizes + "}",
          "needs a number above 0 as rope_theta, and has \"many\"");
  refused(R"({"model_type": "llama", "rope_scaling": {"type": "yarn"}, )" + sizes + "}",
          "has the rope_type 'yarn'; save_gguf writes default and llama3");
  files::remove(folder / "config.json");
  EXPECT_EQ(refusal([&] { (void)gguf_model::read(folder); }),
            name + "cannot be read: No such file or directory");
  files::remove_all(folder);
}

// ---- Files
// ----------------------------------------------------------------------------------------

/// Writes weights of one layer, with one number for all elements.
void write_weights(files::path const& path, float value) {
  auto const all = one_layer();
  ext::weights_writer to(path, all);
  for (auto const& one : all) {
    std::vector<float> const values(one.elements(), value);
    to.write(one.name, std::span(values));
  }
  to.commit();
}

TEST(GgufModel, AFileIsThereWholeOrNotAtAll) {
  auto const above = scratch("files");
  write_weights(above / "weights", 1);
  write_weights(above / "large", 1e5f);
  write_weights(above / "huge", 3e38f);
  write_weights(above / "infinite", std::numeric_limits<float>::infinity());
  weights_folder weights(above / "weights"), large(above / "large"), huge(above / "huge"),
      infinite(above / "infinite");
  auto const file = above / "model.gguf";
  auto const name = "GGUF file '" + file.string() + "'";
  save_gguf(weights, file, numbers);
  auto const before = llama_weights::text_of(file);
  auto const found = gguf_test::read(file);
  EXPECT_EQ(found.texts.at("general.name"), "model");
  EXPECT_EQ(found.tensors.at("output.weight").values, std::vector<float>(80, 1.0f));

  EXPECT_EQ(refusal([&] { save_gguf(weights, file, numbers); }),
            name + " exists; set .overwrite to replace it, or name another file");
  EXPECT_EQ(refusal([&] { save_gguf(large, file, numbers, {.overwrite = true}); }),
            name + ": tensor 'output.weight' holds a number that is too large for F16");
  EXPECT_EQ(llama_weights::text_of(file), before);
  EXPECT_EQ(refusal([&] {
              save_gguf(huge, file, numbers, {.type = gguf_type::bf16, .overwrite = true});
            }),
            "no error");
  EXPECT_EQ(refusal([&] {
              save_gguf(infinite, file, numbers, {.type = gguf_type::f16, .overwrite = true});
            }),
            "no error");  // as it is
  EXPECT_TRUE(std::isinf(gguf_test::read(file).tensors.at("output.weight").values[3]));
  EXPECT_EQ(refusal([&] { save_gguf(weights, above / "none" / "a.gguf", numbers); }),
            "GGUF file '" + (above / "none" / "a.gguf").string() + "' cannot be written: folder '" +
                (above / "none").string() + "' does not exist; make it first");
  EXPECT_EQ(refusal([&] { save_gguf(weights, file, numbers, {.merge_lora = true}); }),
            "save_gguf: save_gguf_options::merge_lora needs a trainer, whose layers say which "
            "adapters belong to a weight; leave it out, and write the folder by save_weights with "
            "merge_lora");

  std::vector<plait::detail::gguf_tensor> const two{
      {.name = "a", .type = gguf_type::q8_0, .rows = 1, .columns = 32},
      {.name = "b", .rank = 1, .rows = 3}};
  auto const second = (above / "second.gguf").string();
  auto const second_name = "GGUF file '" + second + "': ";
  auto const with = [&](auto work) {
    return refusal([&] {
      ext::gguf_writer to(second, {}, two, false);
      work(to);
    });
  };
  std::vector<float> values(32, 0.0f);
  auto const all = std::span<float const>(values);
  EXPECT_EQ(with([&](auto& to) { to.commit(); }), second_name + "tensor 'a' was not written");
  EXPECT_EQ(with([&](auto& to) { to.write("c", all); }),
            second_name + "tensor 'c' is not among the tensors of the file");
  EXPECT_EQ(with([&](auto& to) { to.write("b", all); }),
            second_name + "tensor 'b' needs 3 elements, but 32 are given");
  EXPECT_EQ(with([&](auto& to) { to.write("a", all), to.write("a", all); }),
            second_name + "tensor 'a' is written twice");
  for (float const bad : {std::nanf(""), 1e9f}) {
    values[5] = bad;
    EXPECT_EQ(with([&](auto& to) { to.write("a", all); }),
              second_name + "tensor 'a' holds a number that is not finite or too large for Q8_0");
  }
  values[5] = 1e-42f;  // its scale rounds to 0
  EXPECT_EQ(with([&](auto& to) { to.write("a", all); }), "no error");
  // A file that appears while another is written is not replaced.
  EXPECT_EQ(with([&](auto& to) {
              to.write("a", all), to.write("b", all.first(3));
              llama_weights::write(second, "mine");
              to.commit();
            }),
            "GGUF file '" + second +
                "' appeared while it was written; set .overwrite to replace it, or name another "
                "file");
  EXPECT_EQ(llama_weights::text_of(second), "mine");
  auto const left = llama_weights::names_in(above);
  for (auto const& each : left) EXPECT_FALSE(each.ends_with(".partial")) << each;
  files::remove_all(above);
}

}  // namespace
