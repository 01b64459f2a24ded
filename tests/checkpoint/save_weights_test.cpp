// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint
#include "plait/checkpoint/save_weights.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/llama_weights.hpp"
#include "plait/checkpoint/checkpoints.hpp"
#include "plait/checkpoint/load_weights.hpp"
#include "plait/checkpoint/weights_folder.hpp"
#include "plait/nn/conv2d.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;
using llama_weights::names_in;
using llama_weights::refusal;
namespace files = std::filesystem;
using words = std::vector<std::string>;

files::path scratch(std::string const& name) {
  return llama_weights::scratch("save_" + name, ::testing::TempDir());
}

std::vector<safetensors_entry> const four{{"a.weight", stored_type::f32, {2, 3}},
                                          {"a.lora_A", stored_type::f32, {5}},
                                          {"b.weight", stored_type::f32, {4}},
                                          {"b.lora_A", stored_type::f32, {1}}};

/// Writes all tensors; each element is the number of its tensor.
void write_all(ext::weights_writer& to) {
  for (std::size_t i = 0; i < four.size(); ++i) {
    std::vector<float> const values(four[i].elements(), static_cast<float>(i));
    to.write(four[i].name, std::span(values));
  }
}
void save(files::path const& path, plait::ext::save_weights_options const& options,
          detail::disk& on = detail::the_disk()) {
  ext::weights_writer to(path, four, options, ext::weights_writer::form::by_name, on);
  write_all(to);
  to.commit();
}

TEST(SaveWeights, AFileHasAtMostSoManyBytes) {
  auto const above = scratch("sizes");
  // The tensors have 24, 20, 16 and 4 bytes.
  auto const saved_as = [&](std::size_t most) {
    auto const to = above / std::to_string(most);
    save(to, {.most_bytes = most});
    words out;
    for (auto const& name : names_in(to)) {
      if (!name.ends_with(".safetensors")) continue;
      std::string tensors;
      safetensors_reader const file(to / name);
      for (auto const& tensor : file.names()) tensors += tensor + " ";
      out.push_back(tensors);
    }
    weights_folder from(to);
    std::vector<float> b(4);
    from.read("b.weight", std::span(b));
    EXPECT_EQ(b, std::vector<float>(4, 2.0f));
    EXPECT_EQ(from.names().size(), 4u);
    EXPECT_EQ(files::exists(to / "model.safetensors.index.json"), out.size() > 1);
    return out;
  };
  EXPECT_EQ(saved_as(64), (words{"a.weight a.lora_A b.weight b.lora_A "}));
  EXPECT_EQ(saved_as(63), (words{"a.weight a.lora_A b.weight ", "b.lora_A "}));
  EXPECT_EQ(saved_as(43), (words{"a.weight ", "a.lora_A b.weight b.lora_A "}));
  // The first tensor alone exceeds the limit.
  EXPECT_EQ(saved_as(20), (words{"a.weight ", "a.lora_A ", "b.weight b.lora_A "}));
  EXPECT_EQ(saved_as(0), (words{"a.weight ", "a.lora_A ", "b.weight ", "b.lora_A "}));
  EXPECT_EQ(names_in(above / "20"),
            (words{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                   "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
  EXPECT_EQ(llama_weights::text_of(above / "43" / "model.safetensors.index.json"),
            "{\n  \"metadata\": {\n    \"total_size\": 64\n  },\n  \"weight_map\": {\n"
            "    \"a.lora_A\": \"model-00002-of-00002.safetensors\",\n"
            "    \"a.weight\": \"model-00001-of-00002.safetensors\",\n"
            "    \"b.lora_A\": \"model-00002-of-00002.safetensors\",\n"
            "    \"b.weight\": \"model-00002-of-00002.safetensors\"\n  }\n}\n");
  files::remove_all(above);
}

TEST(SaveWeights, OnlyWhatIsAskedForUnderOtherNames) {
  auto const above = scratch("only");
  auto const file = above / "adapter_model.safetensors";
  save(file, {.most_bytes = 1,
              .names = {{"*.lora_A", "base_model.*.lora_A.weight"}},
              .only = {"*.lora_*"},
              .type = stored_type::bf16});
  EXPECT_EQ(names_in(above), (words{"adapter_model.safetensors"}));
  safetensors_reader const from(file);
  EXPECT_EQ(from.names(), (words{"base_model.a.lora_A.weight", "base_model.b.lora_A.weight"}));
  EXPECT_EQ(from.info("base_model.b.lora_A.weight").type, stored_type::bf16);
  std::vector<float> values(5);
  from.read("base_model.a.lora_A.weight", std::span(values));
  EXPECT_EQ(values, std::vector<float>(5, 1.0f));
  EXPECT_EQ(from.metadata().at("format"), "pt");
  save(file, {});  // replaces the file
  EXPECT_EQ(safetensors_reader(file).names().size(), 4u);

  EXPECT_EQ(refusal([&] { save(file, {.only = {"lora"}}); }),
            "save_weights: no parameter is selected; save_weights_options::only begins with "
            "'lora', and the model's first parameter is 'a.weight'");
  EXPECT_EQ(refusal([&] { save(file, {.names = {{"*.weight", "w*"}, {"*.lora_A", "w*"}}}); }),
            "save_weights: 'a.weight' and 'a.lora_A' would both have the name 'wa' in the file; "
            "change the "
            "pairs in save_weights_options::names");
  EXPECT_NE(refusal([&] { save(file, {.names = {{"*", "w"}}}); }).find("save_weights: '*' has 1 "),
            std::string::npos);
  EXPECT_NE(refusal([&] { save(file, {.type = stored_type::i8}); }).find("not F64, F32 or BF16"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              ext::weights_writer to(file, four, {.type = stored_type::bf16});
              std::vector<float> const large(6, 3.4e38f);
              to.write("a.weight", std::span(large));
            }).find("tensor 'a.weight' holds a number that is too large for BF16"),
            std::string::npos);
  EXPECT_EQ(safetensors_reader(file).names().size(), 4u);
  EXPECT_EQ(names_in(above), (words{"adapter_model.safetensors"}));
  files::remove_all(above);
}

TEST(SaveWeights, AFolderIsThereWholeOrNotAtAll) {
  auto const above = scratch("whole");
  plait::ext::save_weights_options const several{.most_bytes = 20};
  {  // for example after an exception
    ext::weights_writer to(above / "to", four, several);
    write_all(to);
    EXPECT_EQ(names_in(above).size(), 1u);
    EXPECT_TRUE(names_in(above)[0].starts_with("to.partial-")) << names_in(above)[0];
  }
  EXPECT_EQ(names_in(above), words{});
  EXPECT_NE(refusal([&] {
              ext::weights_writer to(above / "to", four, several);
              to.commit();
            }).find("tensor 'a.weight' was not written"),
            std::string::npos);
  EXPECT_EQ(names_in(above), words{});

  // A disk on which one operation fails; each operation fails in turn.
  struct failing_disk final : plait::detail::system_disk {
    int left = 0;
    int make_folder(path const& folder) override {
      return left-- == 0 ? ENOSPC : system_disk::make_folder(folder);
    }
    int write_file(path const& name, std::span<std::byte const> in) override {
      return left-- == 0 ? ENOSPC : system_disk::write_file(name, in);
    }
    int sync_folder(path const& folder) override {
      return left-- == 0 ? ENOSPC : system_disk::sync_folder(folder);
    }
    int rename(path const& from, path const& to) override {
      return left-- == 0 ? ENOSPC : system_disk::rename(from, to);
    }
  };
  int failures = 0;
  for (;; ++failures) {
    failing_disk disk;
    disk.left = failures;
    auto const text = refusal([&] { save(above / "to", several, disk); });
    if (disk.left >= 0) break;
    bool const has_name = text.find("is written, but its name cannot be synchronised") != text.npos;
    EXPECT_EQ(text, "folder of weights '" + (above / "to").string() + "' " +
                        (has_name ? "is written, but its name cannot be synchronised to the disk"
                                  : "cannot be written") +
                        ": No space left on device");
    EXPECT_EQ(names_in(above), has_name ? words{"to"} : words{});
    files::remove_all(above / "to");
  }
  // The folder, the index, the names in the folder, its name, the names above.
  EXPECT_EQ(failures, 5);
  EXPECT_EQ(names_in(above), words{"to"});

  auto const refused = [&](files::path const& path, std::string const& says) {
    auto const before = names_in(above);
    EXPECT_EQ(refusal([&] { save(path, several); }), says);
    EXPECT_EQ(names_in(above), before);
  };
  auto const of = [&](char const* name) {
    return "folder of weights '" + (above / name).string() + "' cannot be written: ";
  };
  refused(above / "to", of("to") + "it exists and is not empty; use another folder");
  refused(above / "to/", of("to") + "it exists and is not empty; use another folder");
  refused("", "folder of weights '' cannot be written: its name is empty or contains a null byte");
  refused(above / "none/to", of("none/to") + "folder '" + (above / "none").string() +
                                 "' does not exist; make it first");
  llama_weights::write(above / "file", "");
  refused(above / "file",
          of("file") +
              "it is a file; use the name of another folder, or of a file that ends "
              "in .safetensors");
  {  // a folder of one file, which can be asked for as a file
    ext::weights_writer to(above / "file", four, several, ext::weights_writer::form::one_file);
    write_all(to);
    to.commit();
    EXPECT_EQ(safetensors_reader(above / "file").names().size(), 4u);
  }
  files::create_directory(above / "empty");
  save(above / "empty/", several);
  EXPECT_EQ(names_in(above / "empty").size(), 4u);
  files::remove_all(above);
}

struct job : parallel<objective<nn::linear<3, 2>, nn::cross_entropy<2>>, data_parallel<2>> {};

TEST(SaveWeights, OfATrainerAndOfItsAverages) {
  auto const above = scratch("trainer");
  auto const data = in_memory<float>::random_classes(16, 3, 2);
  std::vector<float> weight, average;
  launch<job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, sgd{.learning_rate = 0.5}, {.average = 0.5});
    for (auto const& batch : batches(data, global_batch<8>{}, rank, {.epochs = 1}))
      trainer.step(batch);
    save_weights(trainer, above / "now.safetensors");
    auto const keep = [&](std::vector<float>& to) {
      trainer.export_parameters(
          [&](std::string const& name, auto const&, std::span<float const> values) {
            if (name == "weight") to.assign(values.begin(), values.end());
          });
    };
    keep(weight);
    trainer.with_ema([&] {
      save_weights(trainer, above / "average.safetensors");
      keep(average);
    });
  });
  EXPECT_NE(weight, average);
  for (auto const& [name, expected] : {std::pair("now", weight), std::pair("average", average)}) {
    std::vector<float> found(6);
    safetensors_reader(above / (name + std::string(".safetensors")))
        .read("weight", std::span(found));
    EXPECT_EQ(found, expected);
  }
  auto const nothing = refusal([&] {
    launch<job>(threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<job>(rank, sgd{});
      save_weights(trainer, above / "none", {.only = {"w"}});
    });
  });
  EXPECT_NE(nothing.find("save_weights: no parameter is selected"), std::string::npos);
  auto const nowhere = refusal([&] {
    launch<job>(threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<job>(rank, sgd{});
      save_weights(trainer, above / "gone/w.safetensors");
    });
  });
  EXPECT_EQ(nowhere, "rank 0: safetensors file '" + (above / "gone/w.safetensors").string() +
                         "' cannot be written: folder '" + (above / "gone").string() +
                         "' does not exist; make it first");
  files::remove_all(above);
}

template <class Policy>
struct image_job : parallel<objective<sequential<named<"conv", nn::conv2d<nn::image<2, 5, 5>, 4>>,
                                                 named<"fc", nn::linear<4 * 3 * 3, 3>>>,
                                      nn::cross_entropy<3>>,
                            Policy> {};

/// Returns the values of conv.weight after a trainer of this job has loaded from `source`.
template <class Policy>
std::vector<float> loaded_from(auto const& open) {
  std::vector<float> out;
  launch<image_job<Policy>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<image_job<Policy>>(rank, sgd{}, {.seed = 5});
    load_weights(trainer, open());
    trainer.export_parameters([&](std::string const& name, auto const&, std::span<float const> of) {
      if (name == "conv.weight") out.assign(of.begin(), of.end());
    });
  });
  return out;
}

TEST(SaveWeights, AMatrixMayHaveFourLengthsInFiles) {
  auto const above = scratch("images");
  auto const file = above / "weights.safetensors", folder = above / "folder";
  launch<image_job<tensor_parallel<2>>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<image_job<tensor_parallel<2>>>(rank, sgd{}, {.seed = 7});
    save_weights(trainer, file);
    save_weights(trainer, folder, {.most_bytes = 100});
    auto const data = in_memory<float>::random_classes(8, 50, 3);
    auto batches = plait::batches(data, global_batch<8>{}, rank, {.epochs = 1});
    checkpoints saves(trainer, batches, {.folder = above / "run"});
    saves.resume();
    saves.save();
    saves.finish();
  });
  safetensors_reader const reader(file);
  EXPECT_EQ(reader.info("conv.weight").shape, (std::vector<std::size_t>{4, 2, 3, 3}));
  std::vector<float> expected(72);
  reader.read("conv.weight", std::span(expected));
  std::vector<float> from_folder(72);
  weights_folder(folder).read("conv.weight", std::span(from_folder));
  EXPECT_EQ(from_folder, expected);
  // Loads the tensor whole and cut by outputs, from one file, from several, and from a checkpoint,
  // which stores matrices.
  EXPECT_EQ(loaded_from<serial>([&] { return safetensors_reader(file); }), expected);
  EXPECT_EQ(loaded_from<tensor_parallel<2>>([&] { return safetensors_reader(file); }), expected);
  EXPECT_EQ(loaded_from<tensor_parallel<2>>([&] { return weights_folder(folder); }), expected);
  auto const step = *files::directory_iterator(above / "run");
  EXPECT_EQ(loaded_from<serial>([&] { return weights_folder(step.path()); }), expected);
  // A tensor with the lengths in another order is refused.
  {
    std::vector<float> const values(72);
    std::vector<safetensors_entry> const entries{{"conv.weight", stored_type::f32, {4, 3, 3, 2}},
                                                 {"conv.bias", stored_type::f32, {4}},
                                                 {"fc.weight", stored_type::f32, {36, 3}},
                                                 {"fc.bias", stored_type::f32, {3}}};
    ext::weights_writer to(above / "turned.safetensors", entries, {});
    to.write("conv.weight", std::span(values));
    to.write("conv.bias", std::span(values).first(4));
    to.write("fc.weight", std::span<float const>(std::vector<float>(108)));
    to.write("fc.bias", std::span(values).first(3));
    to.commit();
  }
  auto const turned = refusal([&] {
    loaded_from<serial>([&] { return safetensors_reader(above / "turned.safetensors"); });
  });
  EXPECT_NE(turned.find("(4, 3, 3, 2), but (4, 2, 3, 3) is needed"), std::string::npos) << turned;
  files::remove_all(above);
}

}  // namespace
