// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/operation/row.hpp"
#include "plait/operation/signature.hpp"

namespace plait::execution {

/// The shape of an operand, with the name of the operand in messages.
struct named_shape {
  char const* name;
  std::size_t rows;
  std::size_t columns;
};

/// The numbers of heads of an attention, and the number of ranks over which its queries are cut.
struct head_counts {
  std::size_t heads, key_value_heads, head_width;
  std::size_t ranks;
  bool shared;  ///< each rank has all heads of key and value
};

/// Checks the shapes of an operation's operands, before the operation reads or writes anything.
///
/// Cost:   a few comparisons of integers; a message is composed only for an error.
/// Errors: size_mismatch that names the operation, the layer and both shapes.
class shape_checks {
 public:
  /// Makes the checks for layer `leaf` of the plan. `body` is empty, or the name of the layer and
  /// of its body, for example "mlp.c_fc backward".
  shape_checks(int leaf, char const* body) : body_(body), leaf_(leaf) {}

  /// Checks that `of` has `rows` rows and `columns` columns, as required by the shape of `other`.
  void expect(char const* operation, named_shape of, std::size_t rows, std::size_t columns,
              named_shape other) const {
    if (of.rows != rows || of.columns != columns) unexpected(operation, of, rows, columns, other);
  }
  void equal(char const* operation, named_shape of, named_shape other) const {
    expect(operation, of, other.rows, other.columns, other);
  }
  /// Checks the shape of a view whose rows are read together with the rows of `first`.
  void row_by_row(char const* operation, named_shape of, named_shape first) const;

  /// Checks that each index of the signature `of` has the same length in all operands. `operands`
  /// are the shapes of the operands, in the order of the signature.
  void by_indices(char const* operation, operation::signature const& of,
                  named_shape* operands) const;
  /// Throws size_mismatch, because the shapes of the operands do not fit the indices of operation
  /// `row`. `lengths`: the numbers of rows and columns of each operand, one after the other.
  [[noreturn]] [[gnu::cold]] void refuse(operation::row const& row,
                                         std::size_t const* lengths) const;
  /// Checks the shapes of out = a b. `a_transposed`, `b_transposed`: true if the transpose is read.
  void product(char const* operation, bool a_transposed, named_shape a, bool b_transposed,
               named_shape b, named_shape out) const;

  void attention(char const* operation, named_shape qkv, named_shape out, named_shape log_sum,
                 std::size_t rows, std::size_t head_width) const;
  /// Checks the shapes of an attention whose query, key and value are three operands.
  void groups(char const* operation, named_shape query, named_shape key, named_shape value,
              named_shape out, named_shape log_sum, std::size_t rows, head_counts const& of) const;

  /// Checks a table of positions. It must have a row for each position of x, from position `first`
  /// on; x has `batch` rows for each position.
  void table(char const* operation, named_shape table, std::size_t first, named_shape x,
             std::size_t positions, std::size_t batch) const;
  void whole_positions(char const* operation, named_shape x, std::size_t positions,
                       std::size_t batch) const;

  // Checks for images.

  /// Checks that a view, which has `count` elements in any number of rows, has at least `needed`
  /// elements.
  void room(char const* operation, named_shape of, std::size_t count, std::size_t needed) const;
  /// Checks that each pooling window contains an element of the image and not only padding. A
  /// window has the shape `rows` x `columns`.
  void pooled(char const* operation, named_shape x, std::size_t rows, std::size_t columns,
              bool have_elements) const;
  [[noreturn]] void one_of_a_set(char const* operation, named_shape of, std::size_t together,
                                 std::size_t present) const;
  /// Checks that images consist of whole normalization sets. Each set has `samples` samples and
  /// `channels` channels, and one mean and one variance.
  void whole_sets(char const* operation, named_shape x, std::size_t samples, named_shape row,
                  std::size_t channels) const;

  // Checks for ops.map_at.

  /// Returns the number of rows of a view for each position: `samples`, or 1 if the view has one
  /// row for each position.
  [[nodiscard]] std::size_t rows_of_position(char const* operation, named_shape of,
                                             std::size_t positions, std::size_t samples) const;
  void more_rows(char const* operation, named_shape of, named_shape y) const {
    fail(operation, of, y, "y has one row for each position, but a view has more");
  }
  void whole_blocks(char const* operation, named_shape y, std::size_t block) const;
  void not_itself(char const* operation, named_shape of, void const* x, void const* y) const;

  [[noreturn]] [[gnu::cold]] void fail_not_begun() const;
  /// Returns the name of the layer for a message.
  [[nodiscard]] [[gnu::cold]] std::string layer_text() const;

 private:
  [[noreturn]] [[gnu::cold]] void fail(char const* operation, named_shape a, named_shape b,
                                       std::string const& rule) const;
  [[noreturn]] [[gnu::cold]] void unexpected(char const* operation, named_shape of,
                                             std::size_t rows, std::size_t columns,
                                             named_shape other) const;
  static std::string text(named_shape of);
  /// The length of an index, and the number of an operand that has this length.
  struct known_length {
    int operand;
    std::size_t length;
  };
  static known_length length_of(operation::signature const& of, char index,
                                std::size_t const* lengths);

  char const* body_;
  int leaf_;
};

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/run/shapes.ipp"
#endif
