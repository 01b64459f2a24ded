// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/file.hpp"
#include "plait/io/json.hpp"
#include "plait/io/model_config.hpp"

// The functions of check_config that take a parsed config.json. Only .ipp files include this
// header, as they do io/json.hpp; check_config.ipp defines the functions.
namespace plait::ext {
struct config_report;
}
namespace plait::detail {

/// The model that a config.json is compared with: the words that errors use for it.
struct compared_model {
  char const* name = "the program";
  char const* problem = "does not fit the program's model";
  char const* if_different =
      "correct the program's model and its model_config, or read other weights";
  char const* if_unknown_one =
      "if the program's model heeds it, write the value into model_config::others";
  char const* if_unknown_more =
      "if the program's model heeds them, write the value into model_config::others";
};

/// Compares a config.json with a model, and returns the report of check_config. `found` is an
/// object.
///
/// Errors: input_error, one sentence, as check_config.
[[nodiscard]] ext::config_report compare_config(json_value const& found, file_name const& file,
                                                model_config const& of,
                                                compared_model const& words);

/// Returns the window of a model's attention in transformers; JSON's null if it has none. A Llama
/// has none even if its config.json has a sliding_window, and only Qwen2 and Qwen3 read
/// use_sliding_window: a model type reads the fields for which it has a default. `defaults`: the
/// defaults of the model type; null if plait does not know the type, which then reads both fields.
[[nodiscard]] json_value window_in(json_value const& found, json_value const* defaults);

}  // namespace plait::detail
