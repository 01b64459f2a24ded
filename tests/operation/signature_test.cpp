// SPDX-License-Identifier: Apache-2.0
#include "plait/operation/signature.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "plait/operation/rows.hpp"

/// The placements that follow from the indices of an operation, against rules that were derived by
/// hand: all placements of all operands.
namespace {

using namespace plait;
using namespace plait::ext;
using enum operation::linearity;
using operation::signature;

constexpr std::array placements{replicate, invariant,   partial,     partial_max, shard<0>,
                                shard<1>,  shard<0, 3>, shard<1, 3>, shard<1, 2>};

bool is_rows(placement at) { return is_shard(at) && at.index == 0; }
bool is_columns(placement at) { return is_shard(at) && at.index == 1; }

template <std::size_t... I>
bool allows_all(signature const& of, std::vector<placement> const& at, std::index_sequence<I...>) {
  return allows(of, {at[I]...});
}
template <int Operands>
void expect(char const* name, signature const& of, auto const& rule) {
  ASSERT_EQ(of.count, Operands) << name;
  std::array<std::size_t, Operands> chosen{};
  int allowed = 0;
  for (bool more = true; more;) {
    std::vector<placement> at;
    std::string text = name;
    for (std::size_t const i : chosen) {
      at.push_back(placements[i]);
      text += " " + to_string(at.back());
    }
    bool const is_allowed = allows_all(of, at, std::make_index_sequence<Operands>{});
    allowed += is_allowed ? 1 : 0;
    EXPECT_EQ(is_allowed, rule(at)) << text;
    std::size_t i = 0;
    while (i < chosen.size() && ++chosen[i] == placements.size()) chosen[i++] = 0;
    more = i < chosen.size();
  }
  EXPECT_GT(allowed, 2) << name;
}

using places = std::vector<placement> const&;

bool sums_rows(placement matrix, placement sums) {
  return matrix != partial_max && sums == (is_rows(matrix) ? partial : matrix);
}
bool shares(placement matrix, placement shared) {
  return is_rows(matrix) ? shared == replicate : shared == matrix;
}

TEST(Signature, SumsAndRowsAreAllowedAsByHand) {
  expect<3>("add", operation::add::is,
            [](places at) { return at[0] == at[1] && at[0] == at[2] && at[0] != partial_max; });
  expect<2>("add_row", operation::add_row::is,
            [](places at) { return at[1] != partial_max && shares(at[1], at[0]); });
  expect<2>("accumulate_column_sums", operation::accumulate_column_sums::is,
            [](places at) { return sums_rows(at[0], at[1]); });
  expect<3>("accumulate_columns", operation::accumulate_columns::is, [](places at) {
    return at[0] == at[1] && !is_partial(at[0]) && sums_rows(at[0], at[2]);
  });
  expect<4>("rms_norm", operation::rms_norm::is, [](places at) {
    return at[0] == at[2] && at[0] == at[3] && (is_rows(at[0]) || is_whole(at[0])) &&
           shares(at[0], at[1]);
  });
}

// A constant is whole in any way, unless an index of its own is cut. It has no gradient.
TEST(Signature, ConstantsAreWholeInAnyWayOrFollowACut) {
  expect<5>("normalize_sets", operation::normalize_sets::is, [](places at) {
    return at[0] == at[4] && !is_partial(at[0]) && is_whole(at[1]) && shares(at[0], at[2]) &&
           at[2] == at[3];
  });
  expect<4>("rms_norm_backward_parameters", operation::rms_norm_backward_parameters::is,
            [](places at) {
              if (is_rows(at[0])) return at[1] == at[0] && at[2] == at[0] && at[3] == partial;
              if (at[0] == partial)
                return at[1] == replicate && is_whole(at[2]) && at[3] == partial;
              return at[0] != partial_max && at[1] == at[0] && is_whole(at[2]) && at[3] == at[0];
            });
}

TEST(Signature, FunctionsOfElementsAreAllowedAsByHand) {
  expect<2>("one", signature::element_wise(1, none),
            [](places at) { return at[0] == at[1] && !is_partial(at[0]); });
  expect<3>("two, not linear", signature::element_wise(2, none),
            [](places at) { return at[0] == at[1] && at[0] == at[2] && !is_partial(at[0]); });
  expect<3>("two, linear in the last", signature::element_wise(2, in_last), [](places at) {
    return at[2] == partial ? at[0] == replicate && at[1] == partial
                            : at[0] == at[1] && at[0] == at[2] && at[0] != partial_max;
  });
  expect<4>("three, linear", signature::element_wise(3, in_all), [](places at) {
    return at[0] == at[1] && at[0] == at[2] && at[0] == at[3] && at[0] != partial_max;
  });
}

// A lookup in maxima gives maxima, but sums of maxima are not sums of the whole: neither is
// allowed. The heads' parts are the parts of the result, or the result would have parts of heads.
TEST(Signature, LookupsHeadsAndConvolutionsAreAllowedAsByHand) {
  expect<3>("gather_rows", operation::gather_rows::is, [](places at) {
    if (is_rows(at[2])) return at[0] == at[2] && at[1] == replicate;
    if (at[1] == partial_max || !is_whole(at[0])) return false;
    return is_rows(at[1]) ? at[2] == partial : at[1] == at[2];
  });
  expect<3>("scatter_add_rows", operation::scatter_add_rows::is, [](places at) {
    if (is_rows(at[1])) return at[0] == at[1] && at[2] == partial;
    if (at[1] == partial_max || !is_whole(at[0])) return false;
    return is_rows(at[2]) ? at[1] == replicate : at[1] == at[2];
  });
  expect<3>("attention_side_by_side", operation::attention_side_by_side::is, [](places at) {
    if (is_whole(at[0])) return at[0] == at[1] && is_whole(at[2]);
    return at[0] == shard<1, 3> && at[1] == shard<1> && at[2] == shard<1>;
  });
  auto const product = [](placement a, placement b, placement out) {
    if (is_whole(a) && a == b) return out == a;
    if (is_rows(a) && b == replicate) return out == a;
    if (a == replicate && is_columns(b)) return out == b;
    if (is_columns(a) && is_rows(b) && a.parts == b.parts) return out == partial;
    return ((a == partial && b == replicate) || (a == replicate && b == partial)) && out == partial;
  };
  auto const transposed = [](placement at) {
    if (is_shard(at)) at.index = 1 - at.index;
    return at;
  };
  expect<3>("matmul", operation::matmul::is,
            [&](places at) { return product(at[0], at[1], at[2]); });
  expect<3>("convolve", operation::convolve::is,
            [&](places at) { return product(at[0], transposed(at[1]), at[2]); });
  expect<3>("convolve_backward_input", operation::convolve_backward_input::is,
            [&](places at) { return product(at[0], at[1], at[2]); });
  expect<3>("convolve_backward_weight", operation::convolve_backward_weight::is,
            [&](places at) { return product(transposed(at[0]), at[1], at[2]); });
}

TEST(Signature, AMaximumOfACutRowIsAPartialMaximum) {
  constexpr signature row_max{"r c -> r 1; max c"};
  EXPECT_TRUE(allows(row_max, {shard<1>, partial_max}));
  EXPECT_TRUE(allows(row_max, {shard<0>, shard<0>}));
  EXPECT_FALSE(allows(row_max, {shard<1>, partial}));
  EXPECT_FALSE(allows(row_max, {partial, partial}));
}

TEST(Signature, ARowMayBeOfEitherOfItsIndices) {
  constexpr placement shared[]{shard<0>, replicate, shard<0>}, cut[]{shard<0>, shard<0>, shard<0>};
  constexpr auto const& row = operation::add_positions::is;
  EXPECT_EQ(judge(row, shared).what, operation::misplacement::none);
  EXPECT_EQ(judge(row, cut).what, operation::misplacement::none);
  EXPECT_FALSE(allows(row, {shard<0>, shard<0>, shard<0>}));
  EXPECT_FALSE(allows(signature::of(row.others), {shard<0>, replicate, shard<0>}));
}

TEST(Signature, TheTextSaysTheIndices) {
  // example-begin norm
  constexpr plait::operation::signature norm{"r c, 1 c -> r c; whole c"};
  static_assert(norm.count == 3);
  // example-end
  static_assert(norm.operands[1].rows.index == '1' && norm.operands[1].columns.index == 'c');
  static_assert(norm.operands[2].is_written && !norm.operands[1].is_written);
  static_assert(norm.whole == signature::bit('c') && norm.maximum == 0);
  constexpr signature heads{"r 3h -> r h; whole r"};
  static_assert(heads.operands[0].columns.parts == 3 && heads.operands[1].columns.parts == 1);
  static_assert(operation::indices_of<operation::matmul>.linear == in_each && norm.linear == none);
  constexpr signature named{"#ids(r 1), dout(r c) -> +dtable(v c), #kept(r 21); linear first"};
  static_assert(named.operands[0].is_constant && !named.operands[1].is_constant);
  static_assert(named.operands[2].is_added_to && named.operands[2].is_written);
  static_assert(named.operands[3].is_constant && named.operands[3].is_written);
  static_assert(named.operands[3].columns.index == '1' && named.operands[3].columns.parts == 2);
  static_assert(named.operands[2].rows.index == 'v' && named.linear == in_first);
  auto const name_of = [](int number) {
    auto const [begin, size] = operation::gather_rows::is.name_of(number);
    return std::string(begin, std::size_t(size));
  };
  EXPECT_EQ(name_of(0), "ids");
  EXPECT_EQ(name_of(2), "out");
  constexpr signature both{"r c, r c -> r 1; max c; linear last"};
  static_assert(both.maximum == signature::bit('c') && both.linear == in_last);
}

TEST(Signature, ATextThatIsWrittenOtherwiseIsRefused) {
  for (char const* const text : {"m k, k n",
                                 "m k -> k -> n",
                                 "m k -> m",
                                 "M k -> k m",
                                 "m k, k n -> m n; linear each k",
                                 "r c, 1 c -> r c; linear all whole c",
                                 "r c, 1 c -> r c; whole c linear all",
                                 "r c -> r c; linearall",
                                 "r c -> r c; linear all; linear each",
                                 "r c -> r c; whole q",
                                 "r c -> r c; wholec",
                                 "r c -> r c; whole cr",
                                 "r c -> r c; least c",
                                 "r c -> r c; ",
                                 "r c -> r c; whole",
                                 "r c -> r c; max ",
                                 "rc -> rc",
                                 "r c, -> r c",
                                 "r c r c -> r c",
                                 "r r -> r r",
                                 "r c => r c",
                                 "r c -> r c,",
                                 "r c -> r c r 1",
                                 "",
                                 "+r c -> r c",
                                 "r c -> #+r c",
                                 "x(r c, r c -> r c",
                                 "x(r c) y -> r c",
                                 "x(r -> r c",
                                 "X(r c) -> r c",
                                 "a b, a b, a b, a b, a b, a b, a b, a b, a b, a b -> a b"})
    EXPECT_THROW((void)signature::of(text), char const*) << text;
  EXPECT_NO_THROW((void)signature::of(" r c,1 c->r 3c , r 1 ;whole c; max r c "));
  EXPECT_NO_THROW((void)signature::of("r c, 1 c -> r c; whole c; linear all"));
  EXPECT_NO_THROW((void)signature::of("#ids(r 1), dout(r c) -> +d_table(v c), #r 1; linear first"));
  for (char const* const text : {"->", "-> r c", "r c ->"})  // rows that memory or users fill in
    EXPECT_NO_THROW((void)signature::of(text)) << text;
}

}  // namespace
