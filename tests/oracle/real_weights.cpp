// SPDX-License-Identifier: Apache-2.0
// Writes what plait reads in files that other programs have written. real_weights.py compiles it:
//   real_weights tensors PATH FOLDER      each tensor as doubles in a file of FOLDER, and a line
//   for each: its number,
//                                         "read" or the sentence that refuses it, its shape, its
//                                         name
//   real_weights copy PATH FILE           those that are read, written again by safetensors_writer
#include <plait/checkpoint/weights_folder.hpp>
#include <plait/io/safetensors.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace {

namespace files = std::filesystem;

struct tensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<double> values{};
  std::string problem{};
};

template <class Source>
std::vector<tensor> read(Source& from, std::vector<tensor> all) {
  for (auto& one : all) try {
      std::size_t elements = 1;
      for (auto const n : one.shape) elements *= n;
      one.values.resize(elements);
      from.read(one.name, std::span(one.values));
    } catch (plait::input_error const& problem) {
      one.problem = problem.what();
    }
  return all;
}

std::vector<tensor> read(files::path const& path) {
  std::vector<tensor> all;
  if (files::is_directory(path)) {
    plait::weights_folder from(path);
    for (auto const& one : from.tensors()) all.push_back({one.name, one.shape});
    return read(from, std::move(all));
  }
  plait::safetensors_reader const from(path);
  for (auto const& name : from.names()) all.push_back({name, from.info(name).shape});
  return read(from, std::move(all));
}

void write(files::path const& path, std::vector<tensor> const& all) {
  std::vector<plait::safetensors_entry> entries;
  for (auto const& one : all)
    if (one.problem.empty()) entries.push_back({one.name, plait::stored_type::f64, one.shape});
  plait::safetensors_writer file(path, entries);
  for (auto const& one : all)
    if (one.problem.empty()) file.write(one.name, std::span<double const>(one.values));
  file.commit();
}

}  // namespace

int main(int, char** words) try {
  std::string const what = words[1];
  auto const all = read(words[2]);
  if (what == "copy") return write(words[3], all), 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto const& one = all[i];
    std::printf("%zu\t%s\t", i, one.problem.empty() ? "read" : one.problem.c_str());
    for (auto const n : one.shape) std::printf("%zu ", n);
    std::printf("\t%s\n", one.name.c_str());
    std::ofstream(files::path(words[3]) / std::to_string(i), std::ios::binary)
        .write(reinterpret_cast<char const*>(one.values.data()),
               static_cast<std::streamsize>(one.values.size() * sizeof(double)));
  }
} catch (plait::input_error const& problem) {
  std::printf("%s\n", problem.what());
  return 2;
}
