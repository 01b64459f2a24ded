// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace train_gpt {

/// A value in the config.json of transformers that must agree with the model. Weights with the same
/// shapes and another value belong to another model.
struct config_line {
  std::string name;
  /// The accepted values as JSON: the model's value first, then others with the same meaning.
  std::vector<std::string> values;
  /// The default of transformers, as JSON, for a file without the value; empty: a file without it
  /// agrees.
  std::string if_not_given{};
  /// Numbers that are at least this large agree, too; 0: they must be equal.
  std::size_t or_at_least = 0;
};

}  // namespace train_gpt
