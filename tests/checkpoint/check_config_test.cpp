// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint
//
// Configurations of transformers, each of which differs in one field from the program's model.
// tests/oracle/config_defaults.py compares the defaults with transformers.
#include "plait/checkpoint/check_config.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "plait/checkpoint/config_fields.hpp"
#include "plait/core/error.hpp"

namespace {

namespace files = std::filesystem;
using json = nlohmann::ordered_json;

files::path fixture() {
  char const* const tests = std::getenv("PLAIT_TESTS");
  auto const here =
      tests != nullptr ? files::path(tests) / "checkpoint" : files::path(__FILE__).parent_path();
  return here / "fixtures" / "llama";
}

plait::model_config fixture_model() {
  // example-begin model
  plait::model_config const model{.vocab_size = 256,
                                  .hidden_size = 64,
                                  .intermediate_size = 128,
                                  .num_hidden_layers = 2,
                                  .num_attention_heads = 4,
                                  .num_key_value_heads = 2,
                                  .rms_norm_eps = 1e-6,
                                  .rope_theta = 10000,
                                  .sequence = 64};
  // example-end
  return model;
}

json fixture_json() {
  std::ifstream file(fixture() / "config.json");
  return json::parse(file);
}

/// A folder with a config.json, which the destructor removes.
class config_folder {
 public:
  explicit config_folder(std::string const& text)
      : path_(files::path(::testing::TempDir()) /
              ("plait_check_config_" + std::to_string(::getpid()))) {
    files::create_directories(path_);
    std::ofstream(path_ / "config.json", std::ios::binary) << text;
  }
  ~config_folder() { files::remove_all(path_); }
  config_folder(config_folder const&) = delete;
  config_folder& operator=(config_folder const&) = delete;
  [[nodiscard]] files::path const& path() const { return path_; }

 private:
  files::path path_;
};

plait::ext::config_report check(json const& config, plait::model_config const& model) {
  config_folder const folder(config.dump());
  return plait::check_config(folder.path(), model);
}

std::string refusal_of_text(std::string const& text,
                            plait::model_config const& model = fixture_model()) {
  config_folder const folder(text);
  try {
    plait::check_config(folder.path(), model);
  } catch (plait::input_error const& problem) {
    return problem.what();
  }
  return "no error";
}
std::string refusal(json const& config, plait::model_config const& model = fixture_model()) {
  return refusal_of_text(config.dump(), model);
}
bool says(std::string const& text, std::string const& words) {
  return text.find(words) != std::string::npos;
}
std::size_t count_of(std::string const& text, std::string const& words) {
  std::size_t out = 0;
  for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++out;
  return out;
}

TEST(CheckConfig, AcceptsTheModelOfTheFileAndListsHarmlessFields) {
  auto const folder = fixture();
  auto const model = fixture_model();
  // example-begin check_config
  auto const report = plait::check_config(folder, model);
  for (auto const& note : report.notes) std::printf("%s\n", note.c_str());
  // example-end
  EXPECT_TRUE(report.notes.empty());
  EXPECT_FALSE(report.tie_word_embeddings);
  EXPECT_EQ(report.harmless,
            (std::vector<std::string>{"attention_dropout", "bos_token_id", "dtype", "eos_token_id",
                                      "initializer_range", "pad_token_id", "pretraining_tp",
                                      "transformers_version", "use_cache"}));
}

struct change {
  char const* field;
  char const* value;  // as JSON
  char const* expected;
};

json changed(json config, std::string const& field, std::string const& value) {
  auto const dot = field.find('.');
  if (dot == std::string::npos) config[field] = json::parse(value);
  else config[field.substr(0, dot)][field.substr(dot + 1)] = json::parse(value);
  return config;
}

TEST(CheckConfig, NamesTheFieldThatDiffersWithBothValues) {
  for (auto const& [field, value, expected] : {
           change{"model_type", "\"gemma\"",
                  "model_type is 'gemma' in the file and 'llama' in the program"},
           {"architectures", "[\"LlamaForSequenceClassification\"]",
            "architectures is [\"LlamaForSequenceClassification\"] in the file and "
            "[\"LlamaForCausalLM\"] in the program"},
           {"vocab_size", "32000", "vocab_size is 32000 in the file and 256 in the program"},
           {"vocab_size", "\"256\"", "vocab_size is '256' in the file and 256 in the program"},
           {"hidden_size", "128", "hidden_size is 128 in the file and 64 in the program"},
           {"intermediate_size", "160",
            "intermediate_size is 160 in the file and 128 in the program"},
           {"num_hidden_layers", "3", "num_hidden_layers is 3 in the file and 2 in the program"},
           {"num_attention_heads", "8",
            "num_attention_heads is 8 in the file and 4 in the program"},
           {"num_key_value_heads", "4",
            "num_key_value_heads is 4 in the file and 2 in the program"},
           {"num_key_value_heads", "null",
            "the file gives no num_key_value_heads, so that transformers takes 4, and the program "
            "has 2"},
           {"head_dim", "32", "head_dim is 32 in the file and 16 in the program"},
           {"hidden_act", "\"gelu\"", "hidden_act is 'gelu' in the file and 'silu' in the program"},
           {"rms_norm_eps", "1e-5", "rms_norm_eps is 1e-05 in the file and 1e-06 in the program"},
           {"rms_norm_eps", "null", "rms_norm_eps is null in the file and 1e-06 in the program"},
           {"rope_parameters.rope_theta", "500000.0",
            "rope_parameters.rope_theta is 500000.0 in the file and 10000.0 in the program"},
           {"rope_theta", "1e6",
            "rope_theta is 1000000.0 in the file and 10000.0 in its rope_parameters"},
           {"rope_parameters.rope_type", "\"linear\"",
            "rope_parameters.rope_type is 'linear' in the file and 'default' in the program; the "
            "file gives no rope_parameters.factor, and the program has 1.0"},
           {"rope_parameters.type", "\"yarn\"",
            "rope_parameters has the type 'yarn' and the rope_type 'default' in the file"},
           {"rope_parameters", "5",
            "rope_parameters is 5 in the file and an object in the program"},
           {"tie_word_embeddings", "true",
            "tie_word_embeddings is true in the file and false in the program"},
           {"attention_bias", "true",
            "attention_bias is true in the file and false in the program"},
           {"mlp_bias", "true", "mlp_bias is true in the file and false in the program"},
           {"max_position_embeddings", "32",
            "max_position_embeddings is 32 in the file and a sequence of 64 positions in the "
            "program"},
           {"layer_types", "[\"full_attention\", \"chunked_attention\"]",
            "layer_types is [\"full_attention\",\"chunked_attention\"] in the file and "
            "full_attention or sliding_attention for each of 2 layers in the program"},
           {"layer_types", "\"full_attention\"",
            "layer_types is 'full_attention' in the file and full_attention or sliding_attention "
            "for each of 2 layers in the program"},
           {"is_encoder_decoder", "true",
            "is_encoder_decoder is true in the file and false in the program"},
           {"partial_rotary_factor", "0.5",
            "partial_rotary_factor is 0.5 in the file and 1 in the program"},
       }) {
    auto const text = refusal(changed(fixture_json(), field, value));
    EXPECT_TRUE(says(text, std::string(": ") + expected +
                               "; correct the program's model and its model_config, or read other "
                               "weights"))
        << field << ": " << text;
  }
}

TEST(CheckConfig, AcceptsOtherWritingsOfTheSame) {
  for (auto const& [field, value, expected] : {
           change{"num_attention_heads", "4.0", ""},
           {"head_dim", "null", ""},
           {"hidden_act", "\"swish\"", ""},
           {"rope_parameters", "null", ""},
           {"rope_parameters", "{}", ""},
           {"rope_scaling", "null", ""},
           {"rope_theta", "10000", ""},
           {"rope_parameters", R"({"type": "default"})", ""},
           {"architectures", "null", ""},
           {"use_sliding_window", "false", ""},
           {"layer_types", R"(["full_attention", "full_attention"])", ""},
           {"partial_rotary_factor", "1.0", ""},
           {"quantization_config", "null", ""},
           // Notes:
           {"sliding_window", "32",
            "sliding_window is 32, which transformers ignores for the model_type 'llama'"},
           {"sliding_window", "64",
            "sliding_window is 64, which transformers ignores for the model_type 'llama'"},
           {"max_position_embeddings", "128",
            "max_position_embeddings is 128, and the program has a sequence of 64 positions"},
           {"attention_dropout", "0.1",
            "attention_dropout is 0.1, which has an effect only in training"},
       }) {
    auto const config = changed(fixture_json(), field, value);
    EXPECT_EQ(refusal(config), "no error") << field << " " << value;
    auto const report = check(config, fixture_model());
    EXPECT_EQ(report.notes.size(), *expected == '\0' ? 0u : 1u) << field << " " << value;
    for (auto const& note : report.notes) EXPECT_EQ(note, expected);
  }
}

// The sentence in docs/fine_tuning.md.
TEST(CheckConfig, SaysWhatDiffersAndWhatToDo) {
  auto model = fixture_model();
  model.rope_theta = 500000;
  model.rms_norm_eps = 1e-5;
  config_folder const folder(fixture_json().dump());
  EXPECT_EQ(
      refusal(fixture_json(), model),
      "configuration '" + (folder.path() / "config.json").string() +
          "' does not fit the program's model: rms_norm_eps is 1e-06 in the file and 1e-05 in "
          "the program; rope_parameters.rope_theta is 10000.0 in the file and 500000.0 in the "
          "program; correct the program's model and its model_config, or read other weights");
}

TEST(CheckConfig, NamesAllDifferencesAtOnce) {
  auto config = fixture_json();
  config["rms_norm_eps"] = 1e-5;
  config["rope_parameters"]["rope_theta"] = 5e5;
  config["vocab_size"] = 1000;
  config["router_jitter"] = 0.5;
  auto const text = refusal(config);
  EXPECT_TRUE(says(text,
                   "config.json' does not fit the program's model: vocab_size is 1000 in the file "
                   "and 256 in the program; rms_norm_eps is 1e-05 in the file and 1e-06 in the "
                   "program; rope_parameters.rope_theta is 500000.0 in the file and 10000.0 in the "
                   "program; correct the program's model and its model_config, or read other "
                   "weights; plait does not know the field 'router_jitter' (0.5), which may change "
                   "the model; if the program's model heeds it, write the value into "
                   "model_config::others"))
      << text;
}

TEST(CheckConfig, TakesTheDefaultsOfTheModelType) {
  // Each default that the file gets is a difference from a model in which everything differs.
  plait::model_config none{
      .model_type = {"llama", "mistral", "qwen2", "qwen3", "gemma3_text", "gpt2"},
      .vocab_size = 7,
      .hidden_size = 6,
      .intermediate_size = 7,
      .num_hidden_layers = 7,
      .num_attention_heads = 6,
      .num_key_value_heads = 3,
      .head_dim = 7,
      .hidden_act = "relu",
      .rms_norm_eps = 0.5,
      .rope_theta = 7,
      .rope_local_base_freq = 7,
      .sequence = 1 << 20};
  auto const all = json::parse(plait::detail::config_fields()).at("defaults");
  for (auto const& [type, defaults] : all.items()) {
    auto const text = refusal({{"model_type", type}}, none);
    for (auto const& [field, value] : defaults.items()) {
      // Derived from other fields, or the same as in this model.
      if (value.is_null() || value.is_boolean() || says(field, "window")) continue;
      auto const shown = value.is_string() ? "'" + value.get<std::string>() + "'" : value.dump();
      EXPECT_TRUE(says(text, "the file gives no " + field + ", so that transformers takes " +
                                 shown + ", and the program has "))
          << type << " " << field << ": " << text;
    }
    EXPECT_TRUE(says(text, "so that transformers takes " +
                               std::string(type == "qwen2"         ? "128"
                                           : type == "gemma3_text" ? "256"
                                           : type == "gpt2"        ? "3072"
                                                                   : "128") +
                               ", and the program has 7"))
        << text;
  }
  // A file may give what the defaults of Mistral are, or not.
  plait::model_config mistral{.model_type = {"mistral"},
                              .vocab_size = 32000,
                              .hidden_size = 4096,
                              .intermediate_size = 14336,
                              .num_hidden_layers = 32,
                              .num_attention_heads = 32,
                              .num_key_value_heads = 8,
                              .sliding_window = 4096,
                              .sequence = 8192};
  EXPECT_EQ(refusal({{"model_type", "mistral"}}, mistral), "no error");
  mistral.sliding_window = 0;
  EXPECT_TRUE(says(refusal({{"model_type", "mistral"}}, mistral),
                   "the file gives no sliding_window, so that transformers takes 4096, and the "
                   "program has null"));
  EXPECT_EQ(refusal({{"model_type", "mistral"}, {"sliding_window", nullptr}}, mistral), "no error");
}

TEST(CheckConfig, RequiresTheFieldsOfAnUnknownModelType) {
  auto model = fixture_model();
  model.model_type = {"own"};
  auto config = fixture_json();
  config["model_type"] = "own";
  config["architectures"] = json::array({"Any"});
  EXPECT_EQ(refusal(config, model), "no error");
  for (auto const* const field : {"vocab_size", "hidden_act", "rms_norm_eps", "num_hidden_layers",
                                  "tie_word_embeddings", "max_position_embeddings"}) {
    auto other = config;
    other.erase(field);
    EXPECT_TRUE(says(refusal(other, model),
                     std::string("the file gives no ") + field + ", and the program has "))
        << refusal(other, model);
  }
  for (auto const* const field : {"head_dim", "attention_bias", "mlp_bias", "architectures"}) {
    auto other = config;
    other.erase(field);
    EXPECT_EQ(refusal(other, model), "no error");
  }
}

TEST(CheckConfig, ComparesRopeScaling) {
  auto model = fixture_model();
  auto config = fixture_json();
  config.erase("rope_parameters");
  config["rope_theta"] = 500000.0;
  model.rope_theta = 500000;
  EXPECT_EQ(refusal(config, model), "no error");
  config["rope_scaling"] = nullptr;
  EXPECT_EQ(refusal(config, model), "no error");
  // As Llama-3.2-1B has it.
  config["rope_scaling"] = {{"factor", 32.0},
                            {"high_freq_factor", 4.0},
                            {"low_freq_factor", 1.0},
                            {"original_max_position_embeddings", 8192},
                            {"rope_type", "llama3"}};
  EXPECT_TRUE(says(refusal(config, model),
                   ": rope_scaling.rope_type is 'llama3' in the file and 'default' in the program; "
                   "rope_scaling.factor is 32.0 in the file and 1.0 in the program; correct"))
      << refusal(config, model);
  model.rope_scaling = {.rope_type = "llama3", .factor = 32};
  EXPECT_EQ(refusal(config, model), "no error");
  for (auto const& [field, value, expected] : {
           change{"factor", "8", "rope_scaling.factor is 8 in the file and 32.0 in the program"},
           {"low_freq_factor", "2",
            "rope_scaling.low_freq_factor is 2 in the file and 1.0 in the program"},
           {"high_freq_factor", "2",
            "rope_scaling.high_freq_factor is 2 in the file and 4.0 in the program"},
           {"original_max_position_embeddings", "4096",
            "rope_scaling.original_max_position_embeddings is 4096 in the file and 8192 in the "
            "program"},
           {"beta_fast", "32.0", "the field 'rope_scaling.beta_fast' (32.0), which may"},
       })
    EXPECT_TRUE(says(refusal(changed(config, std::string("rope_scaling.") + field, value), model),
                     expected))
        << refusal(changed(config, std::string("rope_scaling.") + field, value), model);
  auto shorter = config;
  shorter["rope_scaling"].erase("original_max_position_embeddings");
  EXPECT_TRUE(says(refusal(shorter, model),
                   "the file gives no rope_scaling.original_max_position_embeddings, so that "
                   "transformers takes 64, and the program has 8192"));
  config.erase("rope_scaling");
  EXPECT_TRUE(
      says(refusal(config, model),
           "the file gives no rope_scaling.rope_type, so that transformers takes 'default', "
           "and the program has 'llama3'"));
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  model.rope_scaling = {.rope_type = "linear", .factor = 2};
  EXPECT_EQ(refusal(config, model), "no error");
  config["rope_parameters"] = {{"rope_theta", 1.0}};
  EXPECT_TRUE(says(refusal(config, model),
                   "config.json' has rope_scaling and rope_parameters; remove one of them"));
}

TEST(CheckConfig, RefusesFieldsThatItDoesNotKnow) {
  auto config = fixture_json();
  config["logit_scale"] = 0.0625;
  EXPECT_TRUE(
      says(refusal(config), ": plait does not know the field 'logit_scale' (0.0625), which"));
  config["quantization_config"] = {{"bits", 4}};
  config["experts"] = {1, 2};
  EXPECT_TRUE(says(refusal(config),
                   ": quantization_config is {\"bits\":4} in the file and null in the program; "
                   "correct the program's model and its model_config, or read other weights; plait "
                   "does not know the fields 'logit_scale' (0.0625), 'experts' ([1,2]), which may"))
      << refusal(config);
  config.erase("quantization_config");
  auto model = fixture_model();
  model.others = {{"logit_scale", "0.0625"}, {"experts", "[1, 2]"}};
  EXPECT_EQ(refusal(config, model), "no error");
  model.others[0].second = "1";
  EXPECT_TRUE(
      says(refusal(config, model), "logit_scale is 0.0625 in the file and 1 in the program"));
  config.erase("logit_scale");
  EXPECT_TRUE(
      says(refusal(config, model),
           "the file gives no logit_scale, so that transformers takes null, and the program "
           "has 1"));
  model.others[0].second = "null";
  EXPECT_EQ(refusal(config, model), "no error");
}

TEST(CheckConfig, ComparesTheWindowThatTheModelTypeReads) {
  auto model = fixture_model();
  model.sliding_window = 32;
  json config = fixture_json();
  config["sliding_window"] = 32;
  EXPECT_TRUE(says(refusal(config, model),
                   ": sliding_window is 32, which transformers ignores for the model_type 'llama', "
                   "and the program has a window of 32; correct the program's model"))
      << refusal(config, model);

  model.model_type = {"mistral"};
  config["model_type"] = "mistral";
  config["architectures"] = {"MistralForCausalLM"};
  EXPECT_EQ(refusal(config, model), "no error");
  config["use_sliding_window"] = false;
  auto const report = check(config, model);
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_EQ(report.notes[0],
            "use_sliding_window is false, which transformers ignores for the model_type 'mistral'");
  model.sliding_window = 0;
  EXPECT_TRUE(
      says(refusal(config, model), "sliding_window is 32 in the file and null in the program"));
  config["sliding_window"] = 0;
  EXPECT_TRUE(
      says(refusal(config, model), "sliding_window is 0 in the file and null in the program"));
  config["sliding_window"] = 64;
  ASSERT_EQ(check(config, model).notes.size(), 2u);
  EXPECT_EQ(check(config, model).notes[1],
            "sliding_window is 64, which has no effect on a sequence of 64 positions");
  config["sliding_window"] = 32;
  config["layer_types"] = {"full_attention", "full_attention"};
  EXPECT_EQ(refusal(config, model), "no error");
}

TEST(CheckConfig, ComparesWindowsLayerByLayer) {
  auto model = fixture_model();
  model.model_type = {"qwen2"};
  model.rms_norm_eps = 1e-6;
  json config = fixture_json();
  config["model_type"] = "qwen2";
  config["architectures"] = {"Qwen2ForCausalLM"};
  config.erase("attention_bias");
  config["sliding_window"] = 16;
  // Without use_sliding_window Qwen2 has no window.
  EXPECT_EQ(refusal(config, model), "no error");
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 2;
  EXPECT_EQ(refusal(config, model), "no error");
  config["max_window_layers"] = 0;
  EXPECT_TRUE(
      says(refusal(config, model), "sliding_window is 16 in the file and null in the program"));
  model.sliding_window = 16;
  EXPECT_EQ(refusal(config, model), "no error");
  config["max_window_layers"] = 1;
  EXPECT_TRUE(says(refusal(config, model),
                   ": the file gives no layer_types[0], so that transformers takes "
                   "'full_attention', and the program has 'sliding_attention'; correct"))
      << refusal(config, model);
  model.layer_types = {"full_attention", "sliding_attention"};
  EXPECT_EQ(refusal(config, model), "no error");
  config["layer_types"] = {"sliding_attention", "full_attention"};
  EXPECT_TRUE(says(refusal(config, model),
                   "layer_types[0] is 'sliding_attention' in the file and 'full_attention' in the "
                   "program"));
  config["layer_types"] = {"sliding_attention"};
  EXPECT_TRUE(says(refusal(config, model),
                   "layer_types is [\"sliding_attention\"] in the file and full_attention or "
                   "sliding_attention for each of 2 layers in the program"))
      << refusal(config, model);
}

TEST(CheckConfig, KnowsTheNamesOfOtherModelTypes) {
  json const gpt{
      {"model_type", "gpt2"}, {"n_embd", 64},       {"n_head", 4},
      {"n_layer", 2},         {"n_ctx", 64},        {"n_positions", 64},
      {"vocab_size", 256},    {"resid_pdrop", 0.1}, {"architectures", {"GPT2LMHeadModel"}}};
  plait::model_config model{.model_type = {"gpt2"},
                            .vocab_size = 256,
                            .hidden_size = 64,
                            .intermediate_size = 256,
                            .num_hidden_layers = 2,
                            .num_attention_heads = 4,
                            .hidden_act = "gelu_pytorch_tanh",
                            .rms_norm_eps = 1e-5,
                            .attention_bias = true,
                            .mlp_bias = true,
                            .tie_word_embeddings = true,
                            .sequence = 64};
  EXPECT_EQ(refusal(gpt, model), "no error");
  EXPECT_TRUE(check(gpt, model).tie_word_embeddings);
  auto other = gpt;
  other["n_head"] = 2;
  other["scale_attn_weights"] = false;
  other["rope_theta"] = 10000;
  other["layer_norm_epsilon"] = 1e-6;
  auto const text = refusal(other, model);
  for (auto const* const words :
       {"n_head is 2 in the file and 4", "layer_norm_epsilon is 1e-06 in the file and 1e-05",
        "scale_attn_weights is false in the file and true",
        "plait does not know the field 'rope_theta' (10000), "})
    EXPECT_TRUE(says(text, words)) << text;

  // Gemma 3 with two types of layers, as transformers 4 and 5 write it.
  json gemma{
      {"model_type", "gemma3_text"}, {"vocab_size", 256},
      {"hidden_size", 64},           {"intermediate_size", 128},
      {"num_hidden_layers", 2},      {"num_attention_heads", 4},
      {"num_key_value_heads", 2},    {"head_dim", 16},
      {"query_pre_attn_scalar", 16}, {"sliding_window", 32},
      {"sliding_window_pattern", 2}, {"rope_theta", 1e6},
      {"rope_local_base_freq", 1e4}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}};
  model = fixture_model();
  model.model_type = {"gemma3_text"};
  model.hidden_act = "gelu_pytorch_tanh";
  model.rope_theta = 1e6;
  model.rope_scaling = {.rope_type = "linear", .factor = 8};
  model.sliding_window = 32;
  model.layer_types = {"sliding_attention", "full_attention"};
  model.tie_word_embeddings = {};
  EXPECT_EQ(refusal(gemma, model), "no error");
  auto five = gemma;
  for (auto const* const field :
       {"sliding_window_pattern", "rope_theta", "rope_local_base_freq", "rope_scaling"})
    five.erase(field);
  five["layer_types"] = model.layer_types;
  five["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}};
  EXPECT_EQ(refusal(five, model), "no error");
  five["rope_parameters"]["sliding_attention"]["rope_theta"] = 1e6;
  EXPECT_TRUE(says(refusal(five, model),
                   ": rope_parameters.sliding_attention.rope_theta is 1000000.0 in the file and "
                   "10000.0 in the program; correct"))
      << refusal(five, model);
  gemma["query_pre_attn_scalar"] = 24;
  gemma["final_logit_softcapping"] = 30.0;
  EXPECT_TRUE(says(refusal(gemma, model),
                   ": query_pre_attn_scalar is 24 in the file and 16 in the program; "
                   "final_logit_softcapping is 30.0 in the file and null in the program; correct"))
      << refusal(gemma, model);
  model.others = {{"query_pre_attn_scalar", "24"}, {"final_logit_softcapping", "30"}};
  EXPECT_EQ(refusal(gemma, model), "no error");
}

TEST(CheckConfig, RefusesFilesThatAreNoConfiguration) {
  auto const good = fixture_json().dump();
  EXPECT_TRUE(
      says(refusal_of_text(good.substr(0, 40)), "config.json' is not JSON (at its byte 41)"));
  EXPECT_TRUE(says(refusal_of_text(""), "config.json' is not JSON"));
  EXPECT_TRUE(says(refusal_of_text("[1, 2]"), "config.json' is not an object"));
  EXPECT_TRUE(says(refusal_of_text("{\"vocab_size\": NaN}"), "is not JSON"));
  EXPECT_TRUE(says(refusal_of_text("{\"vocab_size\": 1, \"vocab_size\": 2}"),
                   "config.json' has the field 'vocab_size' twice"));
  EXPECT_TRUE(says(refusal_of_text(R"({"rope_scaling": {"factor": 1, "factor": 2}})"),
                   "config.json' has the field 'rope_scaling.factor' twice"));
  EXPECT_TRUE(says(refusal_of_text(std::string(1 << 20, ' ') + "{}"),
                   "config.json' has 1048578 bytes; at most 1048576 are allowed"));
  EXPECT_TRUE(says(refusal_of_text(R"({"a": ")" + std::string(500, '[') + R"(\"["})"),
                   "plait does not know the field 'a' ('[[[["));
  for (auto const& open : {std::string("["), std::string("{\"a\":")}) {
    std::string deep = "{\"a\": ";
    for (int i = 0; i < 100'000; ++i) deep += open;
    EXPECT_TRUE(says(refusal_of_text(deep),
                     "config.json' has more than 100 lists and objects within each other"));
  }
  auto many = fixture_json();
  for (int i = 0; i < 60; ++i) many["field_" + std::to_string(i)] = 1;
  EXPECT_TRUE(says(refusal(many), "'field_49' (1), and 10 more, which may change the model"));
  many = fixture_json();
  many["line\nfeed\x1b"] = std::string(1000, 'x') + "\n";
  auto const text = refusal(many);
  EXPECT_TRUE(says(text, "'line\\nfeed\\x1b' ('xxx")) << text;
  EXPECT_EQ(count_of(text, "\n"), 0u);
  EXPECT_LT(text.size(), 600u);

  auto const nowhere = files::path(::testing::TempDir()) / "plait_no_configuration";
  try {
    plait::check_config(nowhere, fixture_model());
    ADD_FAILURE() << "no error";
  } catch (plait::input_error const& problem) {
    EXPECT_EQ(std::string(problem.what()), "configuration '" + (nowhere / "config.json").string() +
                                               "' cannot be read: No such file or directory");
  }
}

TEST(CheckConfig, RefusesAModelThatIsNotDescribed) {
  auto const config = fixture_json();
  auto const with = [&](auto change_model) {
    auto model = fixture_model();
    change_model(model);
    return refusal(config, model);
  };
  EXPECT_EQ(with([](auto& m) { m.vocab_size = 0; }),
            "check_config: model_config::vocab_size is 0; give the size that the program's model "
            "has");
  EXPECT_EQ(
      with([](auto& m) { m.sequence = 0; }),
      "check_config: model_config::sequence is 0; give the size that the program's model has");
  EXPECT_TRUE(
      says(with([](auto& m) { m.model_type.clear(); }), "model_config::model_type is empty"));
  EXPECT_EQ(with([](auto& m) { m.hidden_size = 66; }),
            "check_config: model_config has a hidden_size of 66, which is not a multiple of its "
            "num_attention_heads 4; give head_dim, too");
  EXPECT_EQ(
      with([](auto& m) { m.layer_types = {"full_attention"}; }),
      "check_config: model_config has 1 layer_types for 2 layers; give one for each layer, or "
      "none");
  EXPECT_EQ(with([](auto& m) { m.rms_norm_eps = 0; }),
            "check_config: model_config::rms_norm_eps is 0.0; it must be greater than 0");
  EXPECT_EQ(with([](auto& m) { m.rope_theta = -1; }),
            "check_config: model_config::rope_theta is -1.0; it must be greater than 0");
  EXPECT_EQ(with([](auto& m) { m.others = {{"vocab_size", "1"}}; }),
            "check_config: model_config::others has 'vocab_size', which check_config compares with "
            "the other members; leave it out");
  EXPECT_EQ(with([](auto& m) { m.others = {{"logit_scale", "a half"}}; }),
            "check_config: model_config::others has 'a half' for 'logit_scale'; write a value as "
            "JSON, such as 0.5 or \"text\"");
  // A model with another head, which the program copies.
  EXPECT_EQ(with([](auto& m) { m.tie_word_embeddings = {}; }), "no error");
}

}  // namespace
