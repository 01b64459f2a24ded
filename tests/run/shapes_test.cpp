// SPDX-License-Identifier: Apache-2.0
// Operands of a wrong shape end in an error text, before any data is read or written.
#include "plait/run/shapes.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "plait/plait.hpp"

namespace {

using plait::transposed;
using plait::view;

/// For net<...>: a linear layer whose backward_input forgets the transpose.
template <std::size_t In, std::size_t Out>
struct forgetful {
  using concept_tag = plait::layer_tag;
  using weight = plait::parameter<"weight", plait::extents<In, Out>, plait::normal(0.1)>;
  using parameters = plait::parameter_list<weight>;
  using input = plait::features<In>;
  using output = plait::features<Out>;
  using saved = plait::saved<plait::input_slot>;

  static void forward(auto& ops, auto l) { ops.matmul(l.x, l.p[weight{}], l.y); }
  static void backward_input(auto& ops, auto l) { ops.matmul(l.dy, l.p[weight{}], l.dx); }
  static void backward_parameters(auto& ops, auto l) {
    ops.accumulate_matmul(transposed(l.saved[plait::input_slot{}]), l.dy, l.dp[weight{}]);
  }
};

using model = plait::sequential<plait::nn::linear<6, 8>, plait::named<"head", forgetful<8, 4>>>;
struct job : plait::parallel<plait::objective<model, plait::nn::cross_entropy<4>>, plait::serial> {
};

template <class Work>
std::string message_of(Work work) {
  try {
    work();
  } catch (plait::size_mismatch const& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(Shapes, AForgottenTransposeNamesTheLayerAndBothShapes) {
  auto const data = plait::in_memory<float>::random_classes(16, 6, 4);
  std::string const message = message_of([&] {
    plait::launch<job>(plait::threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<job>(rank, plait::adamw{});
      for (auto const& batch : plait::batches(data, plait::global_batch<16>{}, rank))
        trainer.step(batch);
    });
  });
  EXPECT_NE(message.find("ops.matmul in layer head backward: a is 16 x 4, b is 8 x 4: the columns "
                         "of a and the rows of b must be equal; write plait::transposed(a) or "
                         "plait::transposed(b)"),
            std::string::npos)
      << message;
}

/// A rank to call operations on, with views that are exactly as long as they declare.
class WrongShape : public testing::Test {
 protected:
  static constexpr std::size_t sequence = 3, batch = 2, rows = sequence * batch;
  using operations = plait::ext::operations<plait::threads::rank_type>;

  /// Returns the error of an operation in a layer on one rank.
  template <class Work>
  std::string says(Work work) {
    return message_of([&] {
      plait::launch<job>(plait::threads{}, [&](auto& rank) {
        std::uint32_t const step = 0;
        double const scale = 1;
        plait::ext::layer_context context;
        context.step = &step;
        context.sequence = sequence;
        context.batch = batch;
        double sum = 0;
        context.loss = {&sum, &scale};
        operations ops(rank, context, 3);
        work(ops);
      });
    });
  }
  /// Checks that the operation accepts these operands.
  template <class Work>
  void fits(Work work) {
    EXPECT_EQ(says(work), "nothing was thrown");
  }
  /// Checks that the operation refuses them, in layer 3, with these words.
  template <class Work>
  void refuses(std::string const& words, Work work) {
    std::string const message = says(work);
    EXPECT_NE(message.find(words), std::string::npos) << message << "\nlacks: " << words;
    EXPECT_NE(message.find(" in layer 3: "), std::string::npos) << message;
  }

  view<float> matrix(std::size_t of_rows, std::size_t columns) {
    kept_.emplace_back(of_rows * columns, 1.0f);
    return {kept_.back().data(), of_rows, columns};
  }
  plait::token_view<> tokens(std::size_t count) {
    tokens_.emplace_back(count, 0);
    return {tokens_.back().data(), count};
  }

 private:
  std::vector<std::vector<float>> kept_;
  std::vector<std::vector<std::int32_t>> tokens_;
};

TEST_F(WrongShape, Products) {
  auto const a = matrix(6, 4), b = matrix(4, 5), c = matrix(6, 5);
  fits([&](auto& ops) { ops.matmul(a, b, c); });
  refuses("ops.matmul in layer 3: transposed(a) is 4 x 6, b is 4 x 5: the columns of a and",
          [&](auto& ops) { ops.matmul(transposed(a), b, c); });
  refuses("a is 6 x 4, transposed(b) is 5 x 4",
          [&](auto& ops) { ops.matmul(a, transposed(b), c); });
  refuses("out is 5 x 5, a is 6 x 4: out must be 6 x 5",
          [&](auto& ops) { ops.matmul(a, b, matrix(5, 5)); });
  refuses("out is 6 x 4, b is 4 x 5: out must be 6 x 5",
          [&](auto& ops) { ops.matmul(a, b, matrix(6, 4)); });
  fits([&](auto& ops) { ops.accumulate_matmul(transposed(a), c, b); });
  refuses("ops.accumulate_matmul in layer 3: a is 6 x 4, b is 6 x 5",
          [&](auto& ops) { ops.accumulate_matmul(a, c, b); });
  fits([&](auto& ops) { ops.matmul_add_row(a, b, matrix(1, 5), c); });
  refuses("ops.matmul_add_row in layer 3: row is 1 x 4, out is 6 x 5: row must be 1 x 5",
          [&](auto& ops) { ops.matmul_add_row(a, b, matrix(1, 4), c); });
  refuses("ops.matmul_add_row in layer 3: a is 6 x 5, b is 4 x 5",
          [&](auto& ops) { ops.matmul_add_row(c, b, matrix(1, 5), c); });
  auto const row = matrix(1, 5);
  fits([&](auto& ops) { ops.matmul_add_row_backward_parameters(a, c, b, row); });
  fits([&](auto& ops) {
    ops.matmul_add_row_backward_parameters(a, c, transposed(matrix(5, 4)), row);
  });
  refuses(
      "ops.matmul_add_row_backward_parameters in layer 3: drow is 1 x 4, dy is 6 x 5: drow must be "
      "1 x 5",
      [&](auto& ops) { ops.matmul_add_row_backward_parameters(a, c, b, matrix(1, 4)); });
  refuses("ops.matmul_add_row_backward_parameters in layer 3: out is 5 x 4",
          [&](auto& ops) { ops.matmul_add_row_backward_parameters(a, c, matrix(5, 4), row); });
}

TEST_F(WrongShape, Epilogues) {
  using plait::functions::relu;
  using plait::functions::relu_derivative;
  auto const a = matrix(6, 4), b = matrix(4, 5), row = matrix(1, 5);
  using matrix_type = view<float>;
  auto const mapped = [&](std::size_t columns) {
    return plait::ext::mapped_view<matrix_type, relu>{matrix(6, 5), matrix(6, columns)};
  };
  auto const derived = [&](std::size_t columns) {
    return plait::ext::mapped_view<matrix_type, relu_derivative, view<float const>>{
        matrix(6, 5), matrix(6, 5), {}, matrix(6, columns)};
  };
  fits([&](auto& ops) { ops.matmul(a, b, mapped(5)); });
  fits([&](auto& ops) { ops.matmul_add_row(a, b, row, mapped(5)); });
  fits([&](auto& ops) { ops.matmul(a, b, derived(5)); });
  refuses("ops.matmul in layer 3: out.mapped is 6 x 4, out is 6 x 5: out.mapped must be 6 x 5",
          [&](auto& ops) { ops.matmul(a, b, mapped(4)); });
  refuses("ops.matmul in layer 3: out.kept is 6 x 4, out is 6 x 5",
          [&](auto& ops) { ops.matmul(a, b, derived(4)); });
  refuses("ops.matmul_add_row in layer 3: out.mapped is 6 x 4",
          [&](auto& ops) { ops.matmul_add_row(a, b, row, mapped(4)); });
  refuses("row is 1 x 6, out is 6 x 5",
          [&](auto& ops) { ops.matmul_add_row(a, b, matrix(1, 6), mapped(5)); });
  refuses("a is 6 x 4, transposed(b) is 5 x 4",
          [&](auto& ops) { ops.matmul(a, transposed(b), mapped(5)); });
}

TEST_F(WrongShape, RowsAndTheirSums) {
  auto const x = matrix(6, 4), row = matrix(1, 4), other = matrix(1, 5), tall = matrix(2, 4);
  fits([&](auto& ops) { ops.add_row(row, x); });
  refuses("ops.add_row in layer 3: row is 1 x 5, y is 6 x 4: row must be 1 x 4",
          [&](auto& ops) { ops.add_row(other, x); });
  refuses("row is 2 x 4", [&](auto& ops) { ops.add_row(tall, x); });
  fits([&](auto& ops) { ops.accumulate_column_sums(x, row); });
  refuses("ops.accumulate_column_sums in layer 3: sums is 1 x 5, dy is 6 x 4: sums must be 1 x 4",
          [&](auto& ops) { ops.accumulate_column_sums(x, other); });
  plait::functions::multiply const product;
  fits([&](auto& ops) { ops.accumulate_columns(product, x, x, row); });
  refuses("ops.accumulate_columns in layer 3: b is 6 x 5, a is 6 x 4: b must be 6 x 4",
          [&](auto& ops) { ops.accumulate_columns(product, x, matrix(6, 5), row); });
  refuses("ops.accumulate_columns in layer 3: sums is 1 x 5, a is 6 x 4",
          [&](auto& ops) { ops.accumulate_columns(product, x, x, other); });
}

TEST_F(WrongShape, ElementByElement) {
  auto const x = matrix(6, 4), y = matrix(6, 4), turned = matrix(4, 6);
  plait::functions::relu const one;
  plait::functions::multiply const two;
  fits([&](auto& ops) { ops.copy(x, y); });
  refuses("ops.copy in layer 3: y is 4 x 6, x is 6 x 4: y must be 6 x 4",
          [&](auto& ops) { ops.copy(x, turned); });
  fits([&](auto& ops) { ops.add(x, y, y); });
  refuses("ops.add in layer 3: a is 4 x 6, b is 6 x 4: a must be 6 x 4",
          [&](auto& ops) { ops.add(turned, x, y); });
  refuses("ops.add in layer 3: b is 4 x 6", [&](auto& ops) { ops.add(x, turned, y); });
  fits([&](auto& ops) { ops.map(one, x, y); });
  refuses("ops.map in layer 3: x is 4 x 6, y is 6 x 4",
          [&](auto& ops) { ops.map(one, turned, y); });
  fits([&](auto& ops) { ops.map(two, x, x, y); });
  refuses("ops.map in layer 3: a is 4 x 6, y is 6 x 4",
          [&](auto& ops) { ops.map(two, turned, x, y); });
  refuses("ops.map in layer 3: b is 4 x 6", [&](auto& ops) { ops.map(two, x, turned, y); });
}

struct copy_row {
  template <class T, class U>
  void operator()(std::size_t columns, T* y, U const* x) const {
    for (std::size_t c = 0; c < columns; ++c) y[c] = x[c];
  }
};

TEST_F(WrongShape, RowByRow) {
  auto const y = matrix(6, 4);
  fits([&](auto& ops) { ops.rows(copy_row{}, y, matrix(6, 4)); });
  fits([&](auto& ops) { ops.rows(copy_row{}, y, matrix(1, 4)); });
  refuses("ops.rows in layer 3: a view is 5 x 4, the first view is 6 x 4: each view must have",
          [&](auto& ops) { ops.rows(copy_row{}, y, matrix(5, 4)); });
}

TEST_F(WrongShape, LayerNorm) {
  auto const x = matrix(6, 4), y = matrix(6, 4), row = matrix(1, 4), two = matrix(6, 2);
  auto const small = matrix(5, 4), short_row = matrix(1, 3), one = matrix(6, 1);
  fits([&](auto& ops) { ops.layer_norm(x, row, row, y, two, 1e-5); });
  refuses("ops.layer_norm in layer 3: gamma is 1 x 3, x is 6 x 4: gamma must be 1 x 4",
          [&](auto& ops) { ops.layer_norm(x, short_row, row, y, two, 1e-5); });
  refuses("beta is 1 x 3", [&](auto& ops) { ops.layer_norm(x, row, short_row, y, two, 1e-5); });
  refuses("y is 5 x 4", [&](auto& ops) { ops.layer_norm(x, row, row, small, two, 1e-5); });
  refuses("statistics is 6 x 1, x is 6 x 4: statistics must be 6 x 2",
          [&](auto& ops) { ops.layer_norm(x, row, row, y, one, 1e-5); });
  fits([&](auto& ops) { ops.layer_norm_backward_input(y, x, two, row, y); });
  refuses("ops.layer_norm_backward_input in layer 3: dy is 5 x 4",
          [&](auto& ops) { ops.layer_norm_backward_input(small, x, two, row, y); });
  refuses("statistics is 6 x 1",
          [&](auto& ops) { ops.layer_norm_backward_input(y, x, one, row, y); });
  refuses("gamma is 1 x 3",
          [&](auto& ops) { ops.layer_norm_backward_input(y, x, two, short_row, y); });
  refuses("dx is 5 x 4", [&](auto& ops) { ops.layer_norm_backward_input(y, x, two, row, small); });
  fits([&](auto& ops) { ops.layer_norm_backward_parameters(y, x, two, row, row); });
  refuses("ops.layer_norm_backward_parameters in layer 3: dy is 5 x 4",
          [&](auto& ops) { ops.layer_norm_backward_parameters(small, x, two, row, row); });
  refuses("statistics is 6 x 1",
          [&](auto& ops) { ops.layer_norm_backward_parameters(y, x, one, row, row); });
  refuses("dgamma is 1 x 3",
          [&](auto& ops) { ops.layer_norm_backward_parameters(y, x, two, short_row, row); });
  refuses("dbeta is 1 x 3",
          [&](auto& ops) { ops.layer_norm_backward_parameters(y, x, two, row, short_row); });
  auto const both = [&](auto... operands) {
    return [=](auto& ops) { ops.layer_norm_backward(operands...); };
  };
  fits(both(y, x, two, row, y, row, row));
  refuses("ops.layer_norm_backward in layer 3: dy is 5 x 4", both(small, x, two, row, y, row, row));
  refuses("statistics is 6 x 1", both(y, x, one, row, y, row, row));
  refuses("gamma is 1 x 3", both(y, x, two, short_row, y, row, row));
  refuses("dx is 5 x 4", both(y, x, two, row, small, row, row));
  refuses("dgamma is 1 x 3", both(y, x, two, row, y, short_row, row));
  refuses("dbeta is 1 x 3", both(y, x, two, row, y, row, short_row));
}

TEST_F(WrongShape, Attention) {
  constexpr std::size_t head = 2, width = 4, heads = width / head;
  auto const qkv = matrix(rows, 3 * width), out = matrix(rows, width), sums = matrix(rows, heads);
  fits([&](auto& ops) { ops.attention(qkv, out, sums, head); });
  refuses("ops.attention in layer 3: out is 6 x 4, a head is 6 x 3: out must have whole heads",
          [&](auto& ops) { ops.attention(qkv, out, sums, 3); });
  refuses("a head is 6 x 0", [&](auto& ops) { ops.attention(qkv, out, sums, 0); });
  refuses("qkv is 6 x 8, out is 6 x 4: qkv must be 6 x 12",
          [&](auto& ops) { ops.attention(matrix(rows, 8), out, sums, head); });
  refuses("out is 5 x 4, qkv is 6 x 12: out must be 6 x 4",
          [&](auto& ops) { ops.attention(qkv, matrix(5, width), sums, head); });
  refuses("log_sum is 6 x 1, out is 6 x 4: log_sum must be 6 x 2",
          [&](auto& ops) { ops.attention(qkv, out, matrix(rows, 1), head); });

  auto const dout = matrix(rows, width), dqkv = matrix(rows, 3 * width);
  fits([&](auto& ops) { ops.attention_backward(qkv, out, sums, dout, dqkv, head); });
  refuses("ops.attention_backward in layer 3: log_sum is 6 x 1",
          [&](auto& ops) { ops.attention_backward(qkv, out, matrix(rows, 1), dout, dqkv, head); });
  refuses("dout is 6 x 5, out is 6 x 4",
          [&](auto& ops) { ops.attention_backward(qkv, out, sums, matrix(rows, 5), dqkv, head); });
  refuses("dqkv is 6 x 4, qkv is 6 x 12",
          [&](auto& ops) { ops.attention_backward(qkv, out, sums, dout, dout, head); });
}

TEST_F(WrongShape, AttentionOfGroups) {
  using groups = plait::ext::head_groups<4, 2, 2>;
  constexpr std::size_t width = 8, key_width = 4;
  auto const q = matrix(rows, width), k = matrix(rows, key_width), v = k, out = matrix(rows, width);
  auto const sums = matrix(rows, 4);
  auto const forward = [&](auto const& a, auto const& b, auto const& c, auto const& y,
                           auto const& z) {
    return [=](auto& ops) { ops.attention(groups{}, std::tuple{a, b, c}, y, z); };
  };
  fits(forward(q, k, v, out, sums));
  refuses("ops.attention in layer 3: query is 6 x 4, out is 6 x 8: query must be 6 x 8",
          forward(k, k, v, out, sums));
  refuses("key is 6 x 8, query is 6 x 8: key must be 6 x 4", forward(q, q, v, out, sums));
  refuses("value is 6 x 8, key is 6 x 4", forward(q, k, q, out, sums));
  refuses("out is 6 x 4, query is 6 x 8", forward(q, k, v, v, sums));
  refuses("log_sum is 6 x 3, out is 6 x 8: log_sum must be 6 x 4",
          forward(q, k, v, out, matrix(rows, 3)));

  auto const backward = [&](auto const& dy, auto const& a, auto const& b, auto const& c) {
    return [=, x = std::tuple{q, k, v}](auto& ops) {
      ops.attention_backward(groups{}, x, out, sums, dy, std::tuple{a, b, c});
    };
  };
  fits(backward(out, q, k, v));
  refuses("ops.attention_backward in layer 3: dout is 6 x 4, out is 6 x 8", backward(k, q, k, v));
  refuses("dquery is 6 x 4, query is 6 x 8", backward(out, k, k, v));
  refuses("dkey is 6 x 8, key is 6 x 4", backward(out, q, q, v));
  refuses("dvalue is 6 x 8, value is 6 x 4", backward(out, q, k, q));
}

TEST_F(WrongShape, LookUps) {
  auto const table = matrix(7, 4), out = matrix(6, 4);
  auto const ids = tokens(6);
  fits([&](auto& ops) { ops.gather_rows(ids, table, out); });
  refuses("ops.gather_rows in layer 3: out is 6 x 4, ids is 5 x 1: out must be 5 x 4",
          [&](auto& ops) { ops.gather_rows(tokens(5), table, out); });
  refuses("out is 6 x 4, table is 7 x 5: out must be 6 x 5",
          [&](auto& ops) { ops.gather_rows(ids, matrix(7, 5), out); });
  fits([&](auto& ops) { ops.scatter_add_rows(ids, out, table); });
  refuses("ops.scatter_add_rows in layer 3: dout is 6 x 4, ids is 5 x 1: dout must be 5 x 4",
          [&](auto& ops) { ops.scatter_add_rows(tokens(5), out, table); });
  refuses("dtable is 7 x 5, dout is 6 x 4: dtable must be 7 x 4",
          [&](auto& ops) { ops.scatter_add_rows(ids, out, matrix(7, 5)); });
}

TEST_F(WrongShape, Positions) {
  auto const x = matrix(rows, 4), y = matrix(rows, 4), table = matrix(sequence, 4);
  fits([&](auto& ops) { ops.add_positions(x, table, y); });
  refuses("ops.add_positions in layer 3: y is 5 x 4, x is 6 x 4",
          [&](auto& ops) { ops.add_positions(x, table, matrix(5, 4)); });
  refuses("table is 3 x 5, x is 6 x 4: table must be 3 x 4",
          [&](auto& ops) { ops.add_positions(x, matrix(sequence, 5), y); });
  refuses("table is 2 x 4, x is 6 x 4: the table must have a row for each position",
          [&](auto& ops) { ops.add_positions(x, matrix(2, 4), y); });
  refuses(
      "x is 5 x 4, a position is 2 x 4: the number of rows must be a multiple of the rows of a "
      "position",
      [&](auto& ops) { ops.add_positions(matrix(5, 4), table, matrix(5, 4)); });
  fits([&](auto& ops) { ops.accumulate_positions(x, table); });
  refuses("ops.accumulate_positions in layer 3: dtable is 2 x 4, dy is 6 x 4",
          [&](auto& ops) { ops.accumulate_positions(x, matrix(2, 4)); });
  refuses("dtable is 3 x 5", [&](auto& ops) { ops.accumulate_positions(x, matrix(sequence, 5)); });
}

TEST_F(WrongShape, CrossEntropy) {
  auto const x = matrix(6, 4), max = matrix(6, 1), terms = matrix(6, 2), gradient = matrix(6, 4);
  auto const few = matrix(5, 1), few_terms = matrix(5, 2), more_terms = matrix(6, 3);
  plait::ext::smoothed_target const smoothed{};
  auto const labels = tokens(6), few_labels = tokens(5);
  double sum = 0;
  plait::loss_sum const loss{&sum, &sum};
  plait::loss_seed const seed{&sum};
  fits([&](auto& ops) { ops.row_max(x, max); });
  refuses("ops.row_max in layer 3: max is 5 x 1, x is 6 x 4: max must be 6 x 1",
          [&](auto& ops) { ops.row_max(x, few); });
  fits([&](auto& ops) { ops.cross_entropy_terms(x, labels, max, terms); });
  refuses("ops.cross_entropy_terms in layer 3: labels is 5 x 1, logits is 6 x 4",
          [&](auto& ops) { ops.cross_entropy_terms(x, few_labels, max, terms); });
  refuses("max is 5 x 1", [&](auto& ops) { ops.cross_entropy_terms(x, labels, few, terms); });
  refuses("terms is 6 x 1, logits is 6 x 4: terms must be 6 x 2",
          [&](auto& ops) { ops.cross_entropy_terms(x, labels, max, max); });
  refuses("terms is 6 x 2, logits is 6 x 4: terms must be 6 x 3",
          [&](auto& ops) { ops.cross_entropy_terms(x, labels, max, terms, 4, smoothed); });
  auto const statistics = [&](auto... operands) {
    return [=](auto& ops) { ops.cross_entropy_statistics(operands...); };
  };
  fits(statistics(x, labels, max, terms));
  refuses("ops.cross_entropy_statistics in layer 3: labels is 5 x 1, logits is 6 x 4",
          statistics(x, few_labels, max, terms));
  refuses("max is 5 x 1", statistics(x, labels, few, terms));
  refuses("terms is 6 x 2, logits is 6 x 4: terms must be 6 x 3",
          statistics(x, labels, max, terms, std::size_t{4}, smoothed));
  fits([&](auto& ops) { ops.cross_entropy(terms, labels, -100, loss); });
  fits([&](auto& ops) { ops.cross_entropy(more_terms, labels, -100, loss, smoothed); });
  refuses("terms is 6 x 2, labels is 6 x 1: terms must be 6 x 3",
          [&](auto& ops) { ops.cross_entropy(terms, labels, -100, loss, smoothed); });
  refuses("ops.cross_entropy in layer 3: terms is 5 x 2, labels is 6 x 1: terms must be 6 x 2",
          [&](auto& ops) { ops.cross_entropy(few_terms, labels, -100, loss); });
  auto const backward = [&](auto... operands) {
    return [=](auto& ops) { ops.cross_entropy_backward(operands...); };
  };
  fits(backward(x, labels, max, terms, -100, seed, gradient));
  refuses("ops.cross_entropy_backward in layer 3: labels is 5 x 1",
          backward(x, few_labels, max, terms, -100, seed, gradient));
  refuses("max is 5 x 1", backward(x, labels, few, terms, -100, seed, gradient));
  refuses("terms is 5 x 2", backward(x, labels, max, few_terms, -100, seed, gradient));
  refuses("terms is 6 x 3, logits is 6 x 4: terms must be 6 x 2",
          backward(x, labels, max, more_terms, -100, seed, gradient));
  refuses("dlogits is 6 x 2, logits is 6 x 4: dlogits must be 6 x 4",
          backward(x, labels, max, terms, -100, seed, terms));
}

TEST_F(WrongShape, Dropout) {
  auto const x = matrix(rows, 4), y = matrix(rows, 4);
  fits([&](auto& ops) { ops.dropout(x, y, 0.5, 4); });
  refuses("ops.dropout in layer 3: y is 6 x 5, x is 6 x 4: y must be 6 x 4",
          [&](auto& ops) { ops.dropout(x, matrix(rows, 5), 0.5, 4); });
  refuses("a row of `width` is 1 x 3, x is 6 x 4: a row of `width` must be 1 x 4",
          [&](auto& ops) { ops.dropout(x, y, 0.5, 3); });
  refuses(
      "x is 5 x 4, a position is 2 x 4: the number of rows must be a multiple of the rows of a "
      "position",
      [&](auto& ops) { ops.dropout(matrix(5, 4), matrix(5, 4), 0.5, 4); });
}

}  // namespace
