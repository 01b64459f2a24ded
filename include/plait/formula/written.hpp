// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "plait/core/name.hpp"
#include "plait/core/type_list.hpp"
#include "plait/core/type_name.hpp"
#include "plait/formula/graph.hpp"
#include "plait/formula/terms.hpp"
#include "plait/layer/parameter.hpp"
#include "plait/operation/row.hpp"
#include "plait/operation/rows.hpp"
#include "plait/tensor/functions.hpp"

/// Writes the terms of a formula as they appear in the source code of the program, for error
/// messages.
namespace plait::formula {

/// A text that is made in a constant expression. Characters beyond its capacity are dropped.
template <int Capacity>
class made_text {
 public:
  constexpr made_text() = default;
  constexpr made_text(char const* text) {  // NOLINT: implicit, so that "tanh" is a word
    add(text);
  }

  constexpr void add(char one) {
    if (size_ < Capacity) at_[size_++] = one;
  }
  constexpr void add(char const* text) {
    for (; *text != 0; ++text) add(*text);
  }
  template <int Size>
  constexpr void add(made_text<Size> const& text) {
    for (std::size_t i = 0; i < text.size(); ++i) add(text[i]);
  }
  constexpr void add(long long number) {
    if (number < 0) add('-');
    unsigned long long rest = number < 0 ? 0 - static_cast<unsigned long long>(number)
                                         : static_cast<unsigned long long>(number);
    char digits[20]{};
    int count = 0;
    do digits[count++] = char('0' + rest % 10);
    while ((rest /= 10) > 0);
    while (count > 0) add(digits[--count]);
  }
  constexpr void add(int number) { add(static_cast<long long>(number)); }

  [[nodiscard]] constexpr std::size_t size() const { return std::size_t(size_); }
  [[nodiscard]] constexpr char operator[](std::size_t i) const { return at_[i]; }
  [[nodiscard]] constexpr made_text part(std::size_t begin, std::size_t end) const {
    made_text out;
    for (; begin < end; ++begin) out.add(at_[begin]);
    return out;
  }
  [[nodiscard]] constexpr bool is(char const* text) const {
    for (int i = 0; i < size_; ++i, ++text)
      if (*text != at_[i]) return false;
    return *text == 0;
  }

 private:
  char at_[Capacity]{};
  int size_ = 0;
};

// ---- Terms as they are written ------------------------------------------------------------------

/// Returns the name of a function that the program defines: the name of the function's type, or "f"
/// for a lambda.
template <class Function>
constexpr made_text<48> name_of_function() {
  made_text<48> out;
  for (char const each : plait::detail::plain_name(plait::detail::type_text<Function>()))
    out.add(each);
  return out.size() == 0 ? made_text<48>("f") : out;
}

/// The name of an operation or function in formulas; empty for a function that the program defines.
template <class Function>
inline constexpr char const* word_of = "";
template <>
inline constexpr char const* word_of<arithmetic::add> = "+";
template <>
inline constexpr char const* word_of<arithmetic::subtract> = "-";
template <>
inline constexpr char const* word_of<arithmetic::negate> = "-";
template <>
inline constexpr char const* word_of<arithmetic::multiply> = "*";
template <>
inline constexpr char const* word_of<arithmetic::divide> = "/";
template <>
inline constexpr char const* word_of<arithmetic::to_number> = "number_of";
template <>
inline constexpr char const* word_of<arithmetic::square> = "square";
template <>
inline constexpr char const* word_of<arithmetic::exponential> = "exp";
template <>
inline constexpr char const* word_of<arithmetic::logarithm> = "log";
template <>
inline constexpr char const* word_of<arithmetic::square_root> = "sqrt";
template <>
inline constexpr char const* word_of<arithmetic::inverse_root> = "rsqrt";
template <>
inline constexpr char const* word_of<functions::relu> = "relu";
template <>
inline constexpr char const* word_of<functions::gelu_tanh> = "gelu";
template <>
inline constexpr char const* word_of<functions::silu> = "silu";
template <>
inline constexpr char const* word_of<functions::sigmoid> = "sigmoid";
template <>
inline constexpr char const* word_of<functions::tanh> = "tanh";
template <class Function>
inline constexpr char const* word_of<op::map<Function>> = word_of<Function>;
template <bool IsTransposed>
inline constexpr char const* word_of<op::matmul<IsTransposed>> = "matmul";
template <bool IsMean>
inline constexpr char const* word_of<op::reduce<IsMean>> = IsMean ? "mean" : "sum";
template <>
inline constexpr char const* word_of<op::side_by_side> = "side_by_side";
template <>
inline constexpr char const* word_of<op::concat> = "concat";
template <bool IsCausal>
inline constexpr char const* word_of<op::softmax<IsCausal>> =
    IsCausal ? "causal_softmax" : "softmax";
template <std::size_t Heads, std::size_t KeyValueHeads, ext::attention_options Options>
inline constexpr char const* word_of<op::attention<Heads, KeyValueHeads, Options>> = "attention";
template <>
inline constexpr char const* word_of<op::scan> = "scan";
template <convolution_options Options>
inline constexpr char const* word_of<op::convolve<Options>> = "convolve";
template <class Row, pool_options Options>
inline constexpr char const* word_of<op::pool<Row, Options>> = Row::is.name;
template <>
inline constexpr char const* word_of<op::across> = "across";
template <>
inline constexpr char const* word_of<op::log_sum_exp> = "log_sum_exp";
template <>
inline constexpr char const* word_of<op::maximum> = "max";
template <>
inline constexpr char const* word_of<op::with_loss> = "with_loss";
template <>
inline constexpr char const* word_of<op::pick> = "pick";
template <long long Numerator, long long Denominator>
inline constexpr char const* word_of<op::dropout<Numerator, Denominator>> = "dropout";
template <>
inline constexpr char const* word_of<op::call<operation::gather_rows>> = "gather";
template <class Row, class... Numbers>
inline constexpr char const* word_of<op::call<Row, Numbers...>> = Row::is.name;

/// The parts of a term that are needed to write the term as it appears in the source code of the
/// program.
struct written_term {
  made_text<48> word;
  int operands[node::most_operands]{};  ///< the numbers of the terms that are the operands
  int count = 0;
  bool is_transposed = false;  ///< the second operand is written as transposed(...)
  bool is_infix = false;
  bool is_reversed = false;  ///< the program writes the operands in the reverse order of the
                             ///< operation's declaration
  int rank = 0;              ///< the number of dimensions of a parameter; 0 for other terms
  int lengths[2]{};          ///< the lengths of a parameter
  operation::row const* row = nullptr;  ///< the declaration of the operation, if it has one

  /// Returns the precedence of the operator of a term.
  [[nodiscard]] constexpr int strength() const {
    if (!is_infix) return 4;
    if (count == 1) return 3;
    return word[0] == '*' || word[0] == '/' ? 2 : 1;
  }
};

/// All terms of a formula as `written_term` objects.
template <class Terms, class List = typename Terms::list>
struct written_terms;
template <class Terms, class... Term>
struct written_terms<Terms, std::tuple<Term...>> {
 private:
  template <int Index>
  static constexpr written_term write(input_value<Index>) {
    written_term out{"x"};
    if (Terms::input_count > 1) out.word.add(Index);
    return out;
  }
  template <ext::name Label, class Extents, initializer Initial, std::size_t Padding, class InFiles>
  static constexpr written_term write(parameter<Label, Extents, Initial, Padding, InFiles>) {
    written_term out;
    for (std::size_t i = 0; i < Label.size(); ++i) out.word.add(Label[i]);
    out.rank = Extents::rank;
    for (int i = 0; i < Extents::rank; ++i) out.lengths[i] = int(Extents::lengths[std::size_t(i)]);
    return out;
  }
  template <long long Numerator, long long Denominator>
  static constexpr written_term write(number<Numerator, Denominator>) {
    written_term out;
    long long power = 1;
    int zeros = 0;
    while (power < Denominator) power *= 10, ++zeros;
    if (power != Denominator || zeros > 3) {
      out.word.add(Numerator);
      if (power == Denominator) out.word.add("e-"), out.word.add(zeros);
      else out.word.add("/"), out.word.add(Denominator);
      return out;
    }
    out.word.add(Numerator / Denominator);
    if (zeros > 0) out.word.add(".");
    for (long long rest = Numerator % Denominator; zeros > 0; --zeros, rest = rest * 10 % power)
      out.word.add(char('0' + rest * 10 / power));
    return out;
  }
  template <class Operand>
  static constexpr written_term write(term<op::map<arithmetic::identity>, Operand>) {
    return write(Operand{});
  }
  template <class Operation, class... Operands>
  static constexpr written_term write(term<Operation, Operands...>) {
    written_term out{word_of<Operation>};
    char const first = out.word[0];
    out.is_infix = first == '+' || first == '-' || first == '*' || first == '/';
    ((out.operands[out.count++] = place_of<Operands>()), ...);
    read(out, Operation{});
    return out;
  }
  template <class Operand>
  static constexpr int place_of() {
    return plait::detail::place_of_first({std::is_same_v<Operand, Term>...});
  }
  static constexpr void read(written_term&, auto) {}
  template <class Function>
  static constexpr void read(written_term& out, op::map<Function>) {
    if (out.word.size() == 0) out.word = name_of_function<Function>();
  }
  template <class Function>
  static constexpr void read(written_term& out, op::at<Function>) {
    out.word = "at(", out.word.add(name_of_function<Function>()), out.word.add(')');
  }
  static constexpr void read(written_term& out, op::matmul<true>) { out.is_transposed = true; }
  template <class Row, class... Numbers>
  static constexpr void read(written_term& out, op::call<Row, Numbers...>) {
    out.row = &Row::is;
    out.is_reversed = std::is_same_v<Row, operation::gather_rows>;
  }
  template <int Count>
  static constexpr void read(written_term& out, op::heads<Count>) {
    out.word = "heads<", out.word.add(Count), out.word.add('>');
  }
  template <int Number, int Count>
  static constexpr void read(written_term& out, op::part<Number, Count>) {
    out.word = "part<", out.word.add(Number), out.word.add(", ");
    out.word.add(Count), out.word.add('>');
  }
  template <contraction_letters Letters>
  static constexpr void read(written_term& out, op::contract<Letters>) {
    out.word = "einsum<";
    for (std::size_t i = 0; i < Letters.text.size(); ++i) out.word.add(Letters.text[i]);
    out.word.add('>');
  }
  template <std::size_t Channels, std::size_t Height, std::size_t Width>
  static constexpr void read(written_term& out, op::as_image<Channels, Height, Width>) {
    out.word = "as_image<", out.word.add(int(Channels)), out.word.add(", ");
    out.word.add(int(Height)), out.word.add(", "), out.word.add(int(Width)), out.word.add('>');
  }
  template <distribution From, int Number>
  static constexpr void read(written_term& out, op::draw<From, Number>) {
    out.word = From == distribution::uniform ? "uniform<" : "normal<";
    out.word.add(Number), out.word.add(">()");
  }
  template <int Steps>
  static constexpr void read(written_term& out, op::shift<Steps>) {
    out.word = "shift<", out.word.add(Steps), out.word.add('>');
  }

 public:
  static constexpr written_term at[]{write(Term{})...};
};

/// Writes terms of a formula as expressions of the source code. `Text`: a type with functions add()
/// for texts and numbers, such as made_text.
template <class Text>
class expression_writer {
 public:
  constexpr explicit expression_writer(written_term const* terms) : terms_(terms) {}

  /// Writes a term and `depth` levels of its operands.
  constexpr void expression(int number, int depth = 2) {
    written_term const& of = terms_[number];
    if (of.count > 0 && depth == 0) return out_.add("...");
    if (of.count == 2 && of.is_infix) {
      part(number, 0, depth);
      out_.add(' '), out_.add(of.word), out_.add(' ');
      return part(number, 1, depth);
    }
    out_.add(of.word);
    if (of.count == 0) return;
    if (of.is_infix) return part(number, 0, depth);
    out_.add('(');
    for (int k = 0; k < of.count; ++k) {
      if (k > 0) out_.add(", ");
      operand(of, of.is_reversed ? of.count - 1 - k : k, depth - 1);
    }
    out_.add(')');
  }
  /// Writes an operand of an operator, in parentheses if the operand's operator has a lower
  /// precedence.
  constexpr void part(int number, int k, int depth) {
    written_term const& of = terms_[number];
    int const inner = terms_[of.operands[k]].strength();
    bool const needs = depth > 1 && (inner < of.strength() || (k == 1 && inner == of.strength()));
    if (needs) out_.add('(');
    expression(of.operands[k], depth - 1);
    if (needs) out_.add(')');
  }
  constexpr void operand(written_term const& of, int k, int depth = 2) {
    bool const is_transposed = of.is_transposed && k == 1;
    if (is_transposed) out_.add("transposed(");
    expression(of.operands[k], depth);
    if (is_transposed) out_.add(')');
  }

 protected:
  written_term const* terms_;
  Text out_{};
};

}  // namespace plait::formula
