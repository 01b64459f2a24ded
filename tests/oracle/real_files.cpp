// SPDX-License-Identifier: Apache-2.0
// Reads one file for real_files.py, which compiles this and compares:
//   real_files table|classes FILE OUT [OPTION=VALUE...]   OPTION: a member of table_options; mean=1
//   real_files picture FILE OUT
//   real_files folder FOLDER OUT
// Prints a line with what was read, or "refused: " and the sentence, and writes the numbers to OUT.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/data/dataset.hpp"
#include "plait/data/images/image_folder.hpp"
#include "plait/data/images/picture.hpp"
#include "plait/data/normalize.hpp"
#include "plait/data/split_data.hpp"
#include "plait/data/table.hpp"

namespace {

template <class Number>
void write(std::ofstream& out, std::vector<Number> const& numbers) {
  out.write(reinterpret_cast<char const*>(numbers.data()),
            static_cast<std::streamsize>(numbers.size() * sizeof(Number)));
}

void print(std::vector<std::string> const& words) {
  for (auto const& word : words) std::printf("%zu:%s", word.size(), word.c_str());
  std::printf("\n");
}

// Features of samples, one after another.
template <class Data>
void write_features(std::ofstream& out, Data const& data) {
  std::vector<double> features(data.width());
  for (std::size_t i = 0; i < data.size(); ++i) {
    plait::ext::write_inputs(data, i, plait::ext::no_epoch, std::span(features), {});
    write(out, features);
  }
}

template <class Table>
void read_table(char const* path, std::ofstream& out, plait::table_options const& options,
                bool has_means) {
  Table const data(path, options);
  std::printf("read %zu %zu %zu\n", data.size(), data.width(), data.classes().size());
  print(data.feature_names());
  print(data.classes());
  write_features(out, data);
  for (std::size_t i = 0; i < data.size(); ++i) {
    std::vector<typename Table::target> target(1);
    data.targets(i, target);
    write(out, target);
  }
  if (!has_means) return;
  auto const [train, held_out] =
      plait::split_data(data, 0.8, {.how = plait::sample_order::sequential});
  auto const scale = plait::normalize::from(train);
  std::printf("means of %zu\n", train.size());
  write(out, scale.mean());
  write(out, scale.deviation());
  write_features(out, held_out | scale);
}

void read_picture(char const* path, std::ofstream& out) {
  std::ifstream file(path, std::ios::binary);
  std::string const bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::uint8_t> rgb;
  auto const size =
      plait::detail::decode_picture(std::as_bytes(std::span(bytes)), std::nullopt, &rgb);
  std::printf("read %zu %zu\n", size.width, size.height);
  write(out, rgb);
}

}  // namespace

int main(int count, char** words) try {
  if (count < 4) return 2;
  std::string_view const kind = words[1];
  std::ofstream out(words[3], std::ios::binary);
  plait::table_options options;
  bool has_means = false;
  for (int i = 4; i < count; ++i) {
    std::string_view const word = words[i], name = word.substr(0, word.find('='));
    std::string const value(word.substr(name.size() + 1));
    if (name == "targets") options.targets.push_back(value);
    else if (name == "ignored") options.ignored.push_back(value);
    else if (name == "one_hot") options.one_hot.push_back(value);
    else if (name == "numbered") options.numbered.push_back(value);
    else if (name == "missing_words") options.missing_words.push_back(value);
    else if (name == "separator") options.separator = value[0];
    else if (name == "header") options.header = value == "1";
    else if (name == "keep_missing") options.keep_missing = value == "1";
    else if (name == "mean") has_means = value == "1";
    else return 2;
  }
  if (kind == "table") read_table<plait::table<double, double>>(words[2], out, options, has_means);
  else if (kind == "classes") read_table<plait::table<double>>(words[2], out, options, has_means);
  else if (kind == "picture") read_picture(words[2], out);
  else if (kind == "folder") {
    plait::image_folder<3, 16, 16> const data(
        words[2], {.fit = plait::image_fit::resize_and_crop, .skip_bad = true});
    std::printf("read %zu %zu %zu\n", data.size(), data.classes().size(), data.skipped().size());
    for (std::size_t i = 0; i < data.size(); ++i) std::printf("%s\n", data.path(i).c_str());
  }
  return 0;
} catch (plait::input_error const& problem) {
  std::printf("refused: %s\n", problem.what());
  return 0;
}
