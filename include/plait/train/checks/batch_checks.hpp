// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/layer/value.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/placement/batch_slicing.hpp"
#include "plait/plan/model/outline.hpp"
#include "plait/tensor/batch.hpp"

namespace plait::execution {

/// Checks that the shape of a batch is the shape that the model takes: the length of sequences, the
/// width of inputs and targets, and the type of features. `sequence`: the model's sequence length;
/// 0: any length. If samples have several documents, also checks that layers keep them apart.
/// Messages begin with `trainer`.
///
/// Errors: size_mismatch; input_error for documents.
template <class Memory>
[[gnu::cold]] void check_shape(device_batch<Memory> const& batch, std::size_t sequence,
                               value_info const& input, value_info const& targets,
                               std::size_t element_bytes, bool keeps_documents_apart,
                               std::string const& trainer) {
  auto const say = [&](std::string const& what, std::size_t expected, std::size_t given) {
    if (expected != given)
      throw size_mismatch(
          {trainer, " got a batch of ", what, " ", given, ", the model takes ", expected});
  };
  if (sequence > 1) say("sequences of length", sequence, batch.sequence);
  say("inputs of width", input.width, batch.input.width);
  if (batch.host_targets != nullptr) say("targets of width", targets.width, batch.target.width);
  if (input.kind == value_kind::features && batch.element_bytes != element_bytes)
    throw size_mismatch({trainer, " got a batch of features of ", batch.element_bytes,
                         " bytes, but the job computes with features of ", element_bytes,
                         " bytes; write plait::batches<typename job::element>(data, ...)"});
  if (batch.document_positions != nullptr && !keeps_documents_apart)
    throw input_error({trainer,
                       " got samples of several documents (.pack), but a layer of the model mixes "
                       "the positions of all documents; write nn::document_attention instead of "
                       "nn::attention, set .documents of scored_attention or qk_norm_attention, "
                       "declare takes_documents in a layer of yours that keeps documents apart, or "
                       "leave .pack out"});
}

/// Checks that the memory of a batch has not been overwritten by a later batch. Batches of one
/// source share memory, so a batch is valid until the source makes the next batch. Messages begin
/// with trainer().
///
/// Errors: error.
template <class Memory, class Trainer>
void require_in_place(device_batch<Memory> const& batch, Trainer trainer) {
  if (batch.description == nullptr || batch.description->step == batch.step) return;
  throw error({trainer(), ": the batch of step ", batch.step, " is used after the batch of step ",
               batch.description->step,
               " has replaced it; use each batch before the next batch is made, or make the batch "
               "again with batches.at(",
               batch.step, ")"});
}

/// Checks that a batch is used for its purpose: a step must not train on a batch for evaluation,
/// and an evaluation must not use a batch with random samples, such as augmented images. Messages
/// begin with trainer().
///
/// Errors: input_error.
template <class Memory, class Trainer>
void require_purpose(device_batch<Memory> const& batch, bool trains, Trainer trainer) {
  if (batch.description == nullptr) return;
  auto const& of = *batch.description;
  if (trains && of.for_evaluation)
    throw input_error(
        {trainer(),
         ": step got a batch for evaluation (batch_options::for_evaluation is true), whose samples "
         "have no random changes; leave .for_evaluation out for batches to train on"});
  if (!trains && of.is_random)
    throw input_error({trainer(),
                       ": evaluate got a batch with random samples, as the data set declares",
                       (of.text.empty() ? "" : concat({" (", of.text, ")"})),
                       "; set batch_options::for_evaluation = true, or call trainer.evaluate(data, "
                       "size, measures...)"});
}

/// Checks, for a plan that cuts global batches into slices, that the microbatches of a batch are
/// the slices of the global batch that this rank has to compute. `place`: the block of samples that
/// this rank has.
///
/// Errors: size_mismatch.
template <class Memory>
[[gnu::cold]] void require_slices(device_batch<Memory> const& batch, batch_slicing const& how,
                                  block_place place, std::string const& trainer) {
  // A batch with another number of microbatches than the shares allow is compared with the next
  // lower number that they allow.
  int const asked =
      how.has_shares() ? std::max(1, batch.microbatches / how.shares[place.number]) : 1;
  auto const mine = how.of_rank(place.number, place.blocks, asked);
  if (batch.slices == how.count(place.blocks, asked) && batch.first_slice == mine.first &&
      batch.microbatches == mine.count)
    return;
  throw size_mismatch(
      {trainer, " got a batch of ", batch.microbatches, " microbatches, beginning with slice ",
       batch.first_slice, " of ", batch.slices, "; the job ",
       (how.has_shares() ? concat({"has ", text_of_shares(how.shares)})
                         : concat({"is reproducible<", how.slices, ">"})),
       ", and this rank must compute ", mine.count, " slices, beginning with slice ", mine.first,
       "; write plait::batches(data, size, rank) with the rank that the launch passes to the "
       "program"});
}

/// Returns the smallest vocabulary of all layers that take tokens; 0 if no layer has a vocabulary.
/// The smallest one is the limit, because each of these layers gets the tokens of the batch.
template <class Tree>
constexpr std::size_t least_vocabulary(Tree const& tree) {
  std::size_t least = 0;
  for (auto const& leaf : tree.leaves) {
    auto const& input = leaf.input();
    if (leaf.is_loss || input.kind != value_kind::tokens || input.vocabulary == 0) continue;
    if (least == 0 || input.vocabulary < least) least = input.vocabulary;
  }
  return least;
}

/// Throws input_error for the bad token at `index`, with the token, its sample and its position.
template <class Memory>
[[noreturn]] [[gnu::cold]] void refuse_token(device_batch<Memory> const& batch, std::size_t index,
                                             std::size_t vocabulary, std::string const& trainer) {
  std::size_t const row = index % batch.rows();
  std::size_t const place = index / batch.rows() * batch.samples + row % batch.samples;
  throw input_error({trainer, " got token ", batch.tokens()[index], " at position ",
                     row / batch.samples, " of sample ",
                     batch.sample_numbers != nullptr ? batch.sample_numbers[place] : place,
                     (batch.sample_numbers != nullptr ? " of the data set" : " of the batch"),
                     "; the model takes tokens from 0 to ", vocabulary - 1});
}

/// Returns the index of the first token of a batch that is not in [0, vocabulary), or -1.
///
/// Cost: reads the tokens once, on the host.
template <class Memory>
std::ptrdiff_t find_bad_token(device_batch<Memory> const& batch, std::size_t vocabulary) {
  auto const* const tokens = batch.tokens();
  if (tokens == nullptr) return -1;
  std::size_t const count = batch.rows() * static_cast<std::size_t>(batch.microbatches);
  std::uint32_t largest = 0;  // a negative token becomes a large number
  for (std::size_t i = 0; i < count; ++i) {
    auto const token = static_cast<std::uint32_t>(tokens[i]);
    largest = token > largest ? token : largest;
  }
  if (largest < vocabulary) return -1;
  std::size_t at = 0;
  while (static_cast<std::uint32_t>(tokens[at]) < vocabulary) ++at;
  return static_cast<std::ptrdiff_t>(at);
}

/// Checks that the tokens of a batch are in [0, Vocabulary).
///
/// Errors: input_error for a token outside [0, Vocabulary), with a message that begins with
///         trainer(). If Vocabulary is 0, nothing is checked.
template <std::size_t Vocabulary, class Memory, class Trainer>
void check_tokens(device_batch<Memory> const& batch, Trainer trainer) {
  if constexpr (Vocabulary > 0)
    if (auto const at = find_bad_token(batch, Vocabulary); at >= 0)
      refuse_token(batch, static_cast<std::size_t>(at), Vocabulary, trainer());
}

}  // namespace plait::execution
