// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace train_gpt {

/// A value that transformers writes in config.json and that must agree with a model. Weights of the
/// same shapes but another value belong to another model.
struct config_line {
  std::string name;
  /// The values as JSON: the model's own first, then others with the same meaning.
  std::vector<std::string> values;
  /// The default of transformers if the file does not give the value, as JSON; empty: any value
  /// agrees.
  std::string if_not_given{};
  /// Numbers that are at least this one agree, too; 0: no further number agrees.
  std::size_t or_at_least = 0;
};

}  // namespace train_gpt
