// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace train_gpt {

/// A value that a config.json of transformers must have for its weights to be a model's, where the
/// shapes of the weights do not say it.
struct config_line {
  std::string name;
  /// As JSON: the model's own first, then others that mean the same.
  std::vector<std::string> values;
  /// What is meant where it is not given, as JSON; empty: anything.
  std::string if_not_given{};
  /// Numbers from here on mean the same, too; 0: none.
  std::size_t or_at_least = 0;
};

}  // namespace train_gpt
