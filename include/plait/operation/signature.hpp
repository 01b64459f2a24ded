// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>

#include "plait/placement/placement.hpp"

/// The notation for operations: the indices of an operation's operands. The placements that the
/// operands may have follow from the indices.
///
/// An operation on matrices is written as the indices of its operands, as in einsum: "m k, k n -> m
/// n" is the matrix product. An index that all operands have is mapped over: the operation does the
/// same for each of its values. An index that no result has is summed over. So ranks may divide the
/// operation as follows: one index is cut in every operand that has it, and each rank has the whole
/// of every operand that lacks it. A product that is cut along k leaves a summand of the result on
/// each rank, because k is summed over. A product that is cut along n needs the whole first operand
/// on each rank. docs/design/operation.md explains the notation and the derivation.
namespace plait::operation {

/// The operands in which an operation is linear. These operands may be partial: if the operation is
/// applied to the summand that a rank has, it returns a summand of the result.
enum class linearity : int {
  none,
  in_first,  ///< linear in the first operand, for each value of the others
  in_last,   ///< linear in the last operand, for each value of the others
  in_each,   ///< linear in each operand, for each value of the others: a product
  in_all,    ///< linear in all operands together: a sum
};

/// One of the two dimensions of an operand. `index` is the index that runs along it, or '1' if it
/// has a single element. `parts` is the number of equal pieces of the dimension, side by side; the
/// index runs over each piece.
struct dimension {
  char index = '1';
  int parts = 1;
};

/// An operand: a matrix that the operation reads or writes.
struct operand {
  dimension rows, columns;
  bool is_written = false;
  bool is_added_to = false;  ///< the result is added to the previous values
  bool is_constant = false;  ///< has no gradient, for example labels or saved statistics
};

/// The indices of an operation's operands.
///
/// Example (tests/operation/signature_test.cpp norm):
///     constexpr plait::operation::signature norm{"r c, 1 c -> r c; whole c"};
///     static_assert(norm.count == 3);
///
/// The text lists the operands that are read, "->", and the operands that are written. Each operand
/// has an index for its rows and an index for its columns: a letter, or 1 for a single row or
/// column; "3f" means three parts side by side. The indices may be in parentheses after a name:
/// "gamma(1 c)". A '+' in front of an operand says that the result is added to it, a '#' that it
/// has no gradient. After a semicolon follow: the indices that each rank needs whole ("whole c") or
/// over which the largest value is taken ("max c"); the operands in which the operation is linear
/// ("linear all" together, "linear each", "linear first" or "linear last"); "in place" if a result
/// may share the memory of an operand with the same indices; and "part" if ops checks requirements
/// that the indices do not express. The index "21" is a pair: two values that are parts of one
/// element.
///
/// Errors: a text in another notation is not a constant expression and does not compile.
struct signature {
  static constexpr int most_operands = 10;

  operand operands[most_operands] = {};
  int count = 0;
  std::uint32_t whole = 0;    ///< a bit for each index that must not be cut
  std::uint32_t maximum = 0;  ///< a bit for each index over which the result is a maximum
  linearity linear = linearity::none;
  bool in_place = false;  ///< a result may use the memory of an operand that has the same indices
  bool is_part = false;   ///< ops checks requirements that the indices do not express

  consteval signature(char const* text) {
    read(text);
    if (count == 0 || operands[0].is_written || !operands[count - 1].is_written)
      throw "at least one operand must come before '->', and at least one after it";
  }

  /// Reads the text of an operation. Unlike the constructor, it accepts a text that is not a
  /// constant, and a text without operands on one side of "->".
  /// Errors: throws a string that says what is wrong.
  static constexpr signature of(char const* text) {
    signature out;
    out.read(text);
    return out;
  }

  /// Returns the signature of an element-wise function with `reads` operands and one result, which
  /// all have the same indices.
  static constexpr signature element_wise(int reads, linearity how) {
    signature out;
    out.count = reads + 1;
    out.linear = how;
    for (int i = 0; i <= reads; ++i) out.operands[i] = {{'r'}, {'c'}, i == reads};
    return out;
  }

  /// Returns the rows of operand `number` if `which` is 0, and its columns if `which` is 1.
  [[nodiscard]] constexpr dimension const& dimension_of(int number, int which) const {
    return which == 0 ? operands[number].rows : operands[number].columns;
  }

  /// Returns the bit that stands for the index `letter` in a bit mask of indices.
  static constexpr std::uint32_t bit(char letter) { return std::uint32_t{1} << (letter - 'a'); }
  /// Returns true if the index of a dimension is in `letters`, a bit mask of indices.
  static constexpr bool holds(std::uint32_t letters, dimension const& of) {
    return of.index != '1' && (letters & bit(of.index)) != 0;
  }

 private:
  constexpr signature() = default;

  constexpr void read(char const* text) {
    read_operands(text, false);
    if (text[0] != '-' || text[1] != '>')
      throw "'->' must follow the operands that are read; ',' must separate operands";
    read_operands(text += 2, true);
    while (*text == ';') read_kind(++text);
    if (*text != 0)
      throw "only ';' may follow the operands that are written, or a property such as 'whole c'";
  }
  /// Reads a list of operands, separated by commas, and moves `text` to its end. `written`: the
  /// operands are results.
  constexpr void read_operands(char const*& text, bool written) {
    skip_spaces(text);
    bool const has_any = *text != 0 && *text != '-' && *text != ';';
    for (bool more = has_any; more; text += more ? 1 : 0) {
      if (count == most_operands) throw "there are more operands than most_operands";
      auto& next = operands[count++];
      next = read_operand(text, written);
      if (next.rows.index != '1' && next.rows.index == next.columns.index)
        throw "the rows and the columns of an operand must have different indices";
      skip_spaces(text);
      more = *text == ',';
    }
  }
  static constexpr void skip_spaces(char const*& text) {
    while (*text == ' ') ++text;
  }
  static constexpr operand read_operand(char const*& text, bool written) {
    skip_spaces(text);
    operand out;
    out.is_written = written;
    out.is_added_to = *text == '+';
    out.is_constant = *text == '#';
    if (out.is_added_to && !written)
      throw "'+' may precede only an operand that is written, which comes after '->'";
    if (out.is_added_to || out.is_constant) ++text;
    char const* after = text;
    while ((*after >= 'a' && *after <= 'z') || *after == '_') ++after;
    bool const is_named = *after == '(' && after != text;
    if (is_named) text = after + 1;
    out.rows = read_dimension(text);
    out.columns = read_dimension(text);
    skip_spaces(text);
    if (is_named && *text++ != ')') throw "')' is missing after the two indices of an operand";
    return out;
  }
  static constexpr dimension read_dimension(char const*& text) {
    skip_spaces(text);
    dimension out;
    if (*text >= '2' && *text <= '9') out.parts = *text++ - '0';
    if (*text != '1' && (*text < 'a' || *text > 'z'))
      throw "an operand must have two indices, for its rows and its columns: small letters, or 1";
    out.index = *text++;
    if (*text != ' ' && *text != ',' && *text != '-' && *text != ';' && *text != ')' && *text != 0)
      throw "a space must separate two indices";
    return out;
  }
  [[nodiscard]] constexpr bool has(char letter) const {
    for (int i = 0; i < count; ++i)
      if (operands[i].rows.index == letter || operands[i].columns.index == letter) return true;
    return false;
  }
  static constexpr bool ends_word(char next) { return next == ' ' || next == ';' || next == 0; }
  /// Returns true if the text continues with `word`, and then moves `text` past the word.
  static constexpr bool takes(char const*& text, char const* word) {
    char const* after = text;
    for (; *word != 0; ++word, ++after)
      if (*after != *word) return false;
    if (!ends_word(*after)) return false;
    text = after;
    skip_spaces(text);
    return true;
  }
  constexpr void read_kind(char const*& text) {
    skip_spaces(text);
    if (takes(text, "linear")) {
      if (linear != linearity::none) throw "'linear' may appear only once";
      if (takes(text, "all")) linear = linearity::in_all;
      else if (takes(text, "each")) linear = linearity::in_each;
      else if (takes(text, "first")) linear = linearity::in_first;
      else if (takes(text, "last")) linear = linearity::in_last;
      else throw "'all', 'each', 'first' or 'last' must follow 'linear'";
      return;
    }
    if (takes(text, "in")) {
      if (!takes(text, "place")) throw "'place' must follow 'in'";
      in_place = true;
      return;
    }
    if (takes(text, "part")) {
      is_part = true;
      return;
    }
    bool const is_whole = takes(text, "whole");
    if (!is_whole && !takes(text, "max"))
      throw "a property after ';' must be 'whole', 'max', 'linear', 'in place' or 'part'";
    if (*text == 0 || *text == ';') throw "indices must follow 'whole' or 'max'";
    for (; *text != 0 && *text != ';'; skip_spaces(text)) {
      if (!has(*text)) throw "an index after 'whole' or 'max' is not an index of any operand";
      if (!ends_word(text[1])) throw "a space must separate two indices";
      (is_whole ? whole : maximum) |= bit(*text++);
    }
  }
};

/// Returns the placement that an operand has if the operation is cut along `index`: a shard, or
/// `replicate` if the operand does not have the index. `parts`: the number of pieces, side by side,
/// of which the index itself consists; each piece is cut.
constexpr placement placement_in_cut(operand const& of, char index, int parts) {
  if (of.rows.index == index) return {ext::placement_kind::shard, 0, of.rows.parts * parts};
  if (of.columns.index == index) return {ext::placement_kind::shard, 1, of.columns.parts * parts};
  return replicate;
}

/// The reasons why an operation cannot run on operands with the given placements.
enum class misplacement : int {
  none,
  cut_of_whole,  ///< an index is cut although the operation needs it whole on each rank
  /// An operand is cut along a dimension of length 1, or into a number of parts that does not fit
  /// the parts of the dimension.
  cut_otherwise,
  unlike_cut,  ///< the placement of an operand does not fit the index along which another
               ///< operand is cut
  unreduced,   ///< a result lacks the cut index, but is not declared partial or partial_max
  mixed,       ///< no operand is cut, but some are invariant and others replicate
  /// An operand is partial, but the operation is not linear in it, or another operand has a
  /// placement that does not fit.
  of_summands,
  not_summed  ///< the operation is linear in a partial operand, but a result is not partial
};

/// The placement of an argument that has none, such as labels. It differs from all placements of
/// operands.
inline constexpr placement unplaced{ext::placement_kind::only, -1};

/// The result of judge(): the reason why the placements are wrong, and the index of the first
/// operand with a wrong placement.
struct judgment {
  misplacement what = misplacement::none;
  int operand = 0;
};

/// Checks if the operation may run on each rank's local parts. `at`: the placements of the operands
/// and results, in the order of the signature. Returns misplacement::none if the placements are
/// sound: the local results of all ranks then form results with these placements, and the local
/// gradients form gradients with the dual placements.
///
/// There are three sound cases. All operands are whole, and all ranks do the same work. Or the
/// operands in which the operation is linear are partial. Or one index is cut.
constexpr judgment judge(signature const& of, placement const* at) {
  using enum misplacement;
  int first_cut = -1, first_sum = -1, reads = 0, sums = 0, first = -1, last = 0;
  for (int i = 0; i < of.count; ++i) {
    if (at[i] == unplaced) continue;
    if (of.operands[i].is_constant && ext::is_partial(at[i])) return {of_summands, i};
    if (!of.operands[i].is_written && !of.operands[i].is_constant) {
      ++reads, sums += at[i] == partial ? 1 : 0, last = i;
      if (first < 0) first = i;
    }
    if (first_cut < 0 && ext::is_shard(at[i])) first_cut = i;
    if (first_sum < 0 && ext::is_partial(at[i])) first_sum = i;
  }
  if (first_cut >= 0) {
    operand const& by = of.operands[first_cut];
    dimension const along = at[first_cut].index == 0 ? by.rows : by.columns;
    if (along.index == '1' || at[first_cut].parts % along.parts != 0)
      return {cut_otherwise, first_cut};
    if ((of.whole & signature::bit(along.index)) != 0) return {cut_of_whole, first_cut};
    bool const is_maximum = (of.maximum & signature::bit(along.index)) != 0;
    for (int i = 0; i < of.count; ++i) {
      if (at[i] == unplaced) continue;
      placement const cut =
          placement_in_cut(of.operands[i], along.index, at[first_cut].parts / along.parts);
      // Each rank computes a summand (or a maximum) of a result that lacks the cut index.
      bool const reduces = cut == replicate && of.operands[i].is_written;
      if (reduces && at[i] != (is_maximum ? partial_max : partial)) return {unreduced, i};
      bool const is_shared = of.operands[i].is_constant && cut == replicate && ext::is_whole(at[i]);
      if (!reduces && at[i] != cut && !is_shared) return {unlike_cut, i};
    }
    return {};
  }
  if (first_sum < 0) {
    for (int i = 0; i < of.count; ++i) {
      bool const is_free = of.operands[i].is_constant || first < 0 || at[i] == at[first];
      if (at[i] != unplaced && (!ext::is_whole(at[i]) || !is_free)) return {mixed, i};
    }
    return {};
  }
  for (int i = 0; i < of.count; ++i)
    if (of.operands[i].is_written && !of.operands[i].is_constant && at[i] != partial &&
        at[i] != unplaced)
      return {sums == 0 ? of_summands : not_summed, sums == 0 ? first_sum : i};
  if (of.linear == linearity::in_all)
    return sums == reads ? judgment{} : judgment{of_summands, first_sum};
  if (of.linear == linearity::none || sums != 1) return {of_summands, first_sum};
  if (of.linear == linearity::in_first && at[first] != partial) return {of_summands, first_sum};
  if (of.linear == linearity::in_last && at[last] != partial) return {of_summands, first_sum};
  for (int i = 0; i < of.count; ++i)
    if (!of.operands[i].is_constant && at[i] != partial && at[i] != replicate && at[i] != unplaced)
      return {of_summands, i};
  return {};
}

/// Returns true if the operands and results may have the placements `places`, in this order.
constexpr bool allows(signature const& of, std::initializer_list<placement> places) {
  return judge(of, places.begin()).what == misplacement::none;
}

}  // namespace plait::operation
