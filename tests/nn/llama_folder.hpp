// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "../../examples/train_llama/model.hpp"
#include "plait/checkpoint/load_weights.hpp"
#include "plait/checkpoint/save_weights.hpp"
#include "plait/checkpoint/weights_folder.hpp"
#include "plait/io/safetensors.hpp"
#include "plait/plait.hpp"

/// Loads and saves folders of weights that transformers has written, with models of train_llama
/// whose head is the table.
namespace llama_oracle {

inline std::filesystem::path fixture(std::string const& name) {
  char const* const tests = std::getenv("PLAIT_TESTS");
  auto const here = tests != nullptr ? std::filesystem::path(tests)
                                     : std::filesystem::path(__FILE__).parent_path() / "..";
  return here / "checkpoint" / "fixtures" / name;
}

template <train_llama::shape S>
struct one_sample {
  using concept_tag = plait::dataset_tag;
  using element = std::int32_t;
  [[nodiscard]] std::size_t size() const { return 1; }
  [[nodiscard]] std::size_t sequence_length() const { return S.sequence; }
  void inputs(std::size_t, std::span<std::int32_t> out) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::int32_t>((5 * i + i * i / 3) % S.vocabulary);
  }
  void targets(std::size_t, std::span<std::int32_t> out) const { std::ranges::fill(out, 0); }
};

/// The bytes of each tensor of a folder.
using tensors = std::map<std::string, std::vector<std::byte>>;

inline tensors bytes_in(std::filesystem::path const& folder) {
  tensors out;
  for (auto const& one : std::filesystem::directory_iterator(folder)) {
    if (one.path().extension() != ".safetensors") continue;
    plait::safetensors_reader const file(one.path());
    for (auto const& name : file.names()) {
      out[name].resize(file.info(name).bytes());
      file.read_bytes(name, 0, out[name]);
    }
  }
  return out;
}

/// The result of loading a folder under a plan.
struct weights {
  std::vector<double> logits;  ///< every fifth
  tensors saved;               ///< tensors of the folder to which the weights were saved again
};

template <train_llama::shape S, class Policy>
weights loaded_and_saved(std::string const& name, std::string const& plan) {
  struct job
      : plait::parallel<
            plait::objective<train_llama::tied_llama<S>, plait::nn::cross_entropy<S.vocabulary>>,
            Policy, double> {};
  auto const saved = std::filesystem::path(::testing::TempDir()) / ("plait_" + name + "_" + plan);
  std::filesystem::remove_all(saved);
  one_sample<S> const data;
  weights out;
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::sgd{});
    plait::load_weights(trainer, plait::weights_folder(fixture(name)));
    auto all = plait::batches(data, plait::global_batch<1>{}, rank);
    auto const made = trainer.predict(all.at(0));
    if (rank.is_root())
      for (std::size_t i = 0; i < made.size(); i += 5) out.logits.push_back(made[i]);
    plait::save_weights(trainer, saved, {.type = plait::stored_type::bf16});
  });
  out.saved = bytes_in(saved);
  return out;
}

}  // namespace llama_oracle
