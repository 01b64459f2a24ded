// SPDX-License-Identifier: Apache-2.0
// Tensors and texts made from the bytes: what can be written is read back the same.
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "plait/io/safetensors.hpp"

namespace {

struct content {
  std::vector<plait::safetensors_entry> entries;
  std::map<std::string, std::string> metadata;
};

content content_from(std::span<std::uint8_t const>& bytes) {
  content out;
  auto const tensors = fuzzing::take(bytes, 1) % 6, texts = fuzzing::take(bytes, 1) % 4;
  for (std::uint64_t i = 0; i < texts; ++i) {
    auto name = fuzzing::take_line(bytes);
    out.metadata[std::move(name)] = fuzzing::take_line(bytes);
  }
  for (std::uint64_t i = 0; i < tensors; ++i) {
    plait::safetensors_entry entry;
    auto const kind = fuzzing::take(bytes, 1);
    entry.type = kind % 16 == 0  ? plait::stored_type::i64
                 : kind % 8 == 2 ? plait::stored_type::bf16
                 : kind % 2 == 0 ? plait::stored_type::f32
                                 : plait::stored_type::f64;
    // Small sizes, or any at all.
    for (std::uint64_t axis = 0; axis < kind / 16 % 4; ++axis)
      entry.shape.push_back(kind >= 250 ? fuzzing::take(bytes, 8) : fuzzing::take(bytes, 1) % 9);
    entry.name = fuzzing::take_line(bytes);
    out.entries.push_back(std::move(entry));
  }
  return out;
}

template <class T>
std::vector<T> values_of(plait::safetensors_entry const& entry) {
  std::vector<T> out(entry.elements());
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] =
        static_cast<T>(static_cast<double>(i + 1) / static_cast<double>(entry.name.size() + 3));
  return out;
}

template <class T>
void expect_values(plait::safetensors_reader const& reader, plait::safetensors_entry const& entry) {
  using read_as = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::vector<read_as> read(entry.elements());
  reader.read(entry.name, std::span(read));
  auto const values = values_of<T>(entry);
  std::vector<read_as> const written(values.begin(), values.end());
  fuzzing::expect(read == written, "other values are read than were written");
}

bool write(std::filesystem::path const& path, content const& what) {
  return fuzzing::accepts([&] {
    plait::safetensors_writer writer(path, what.entries, what.metadata);
    for (auto const& entry : what.entries)
      if (entry.elements() > 1'000'000) return;  // can be written, not here
    for (auto const& entry : what.entries) {
      if (entry.type == plait::stored_type::f32)
        writer.write(entry.name, std::span<float const>(values_of<float>(entry)));
      else if (entry.type == plait::stored_type::bf16)
        writer.write(entry.name,
                     std::span<plait::bfloat16 const>(values_of<plait::bfloat16>(entry)));
      else writer.write(entry.name, std::span<double const>(values_of<double>(entry)));
    }
    writer.commit();
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::span<std::uint8_t const> bytes(data, size);
  auto const what = content_from(bytes);
  auto const path = fuzzing::scratch() / "written";
  std::filesystem::remove(path);
  bool const written = write(path, what) && std::filesystem::exists(path);
  if (written) {
    plait::safetensors_reader const reader(path);
    fuzzing::expect(reader.metadata() == what.metadata, "other texts are read than were written");
    fuzzing::expect(reader.names().size() == what.entries.size(), "a tensor is missing");
    for (auto const& entry : what.entries) {
      auto const& info = reader.info(entry.name);
      fuzzing::expect(info.type == entry.type && info.shape == entry.shape, "another tensor");
      if (entry.type == plait::stored_type::f32) expect_values<float>(reader, entry);
      else if (entry.type == plait::stored_type::bf16)
        expect_values<plait::bfloat16>(reader, entry);
      else expect_values<double>(reader, entry);
    }
  }
  std::filesystem::directory_iterator const files(fuzzing::scratch());
  fuzzing::expect(std::distance(begin(files), end(files)) == (written ? 1 : 0),
                  "a file is left beside the one that was written");
  return 0;
}
