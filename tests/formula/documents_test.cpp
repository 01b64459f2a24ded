// SPDX-License-Identifier: Apache-2.0
// test: seconds=30
// Attention of several documents in one sample equals attention of each document alone.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "formula/layers.hpp"
#include "nn/same_outcome.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;
using formula_testing::document_attention;

constexpr std::size_t tokens = 6, width = 12, heads = 6, classes = 6, length = 4;

template <std::size_t Sequence, bool HasDocuments>
using model =
    objective<sequential<document_attention<tokens, width, heads, Sequence, HasDocuments>,
                         nn::linear<width, classes, nn::linear_options{.weight = normal(0.5)}>>,
              nn::cross_entropy<classes>>;
struct alone : parallel<model<length, false>, serial, double> {};
template <class Policy, bool HasDocuments = true>
struct packed : parallel<model<2 * length, HasDocuments>, Policy, double> {};

/// Returns a batch of documents of four tokens, of which the last is 0; `documents` of them are one
/// sample.
nn_testing::token_batch batch_of(std::size_t documents) {
  constexpr std::size_t samples = 8;
  nn_testing::token_batch out{samples / documents, length * documents, {}, {}};
  for (std::size_t i = 0; i < samples * length; ++i) {
    bool const is_end = i % length == length - 1;
    out.tokens.push_back(is_end ? 0 : std::int32_t(1 + (i * i + 3 * i) % (tokens - 1)));
    out.labels.push_back(std::int32_t((i * 5 + 1) % classes));
  }
  return out;
}

TEST(Documents, SeeNothingOfEachOther) {
  auto const each = nn_testing::train_once<alone>(batch_of(1), 1);
  auto const batch = batch_of(2);
  expect_same(each, nn_testing::train_once<packed<serial>>(batch, 2), "serial");
  expect_same(each, nn_testing::train_once<packed<data_parallel<2>>>(batch, 1), "dp2");
  expect_same(each, nn_testing::train_once<packed<tensor_parallel<2>>>(batch, 2), "tp2");
  EXPECT_NE((nn_testing::train_once<packed<serial, false>>(batch, 1).loss), each.loss);
}

}  // namespace
