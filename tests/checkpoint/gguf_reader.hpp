// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint/llama_weights.hpp"

// A reader of GGUF files for tests, written after the format's specification and without plait.
namespace gguf_test {

/// Returns the number that these bits are in half precision.
inline float from_f16(std::uint16_t bits) {
  int const exponent = bits >> 10 & 31, fraction = bits & 1023;
  double const size = exponent == 0    ? std::ldexp(fraction, -24)
                      : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                       : std::ldexp(1024 + fraction, exponent - 25);
  return static_cast<float>(bits >> 15 != 0 ? -size : size);
}

struct tensor {
  std::vector<std::uint64_t> lengths;  ///< fastest first
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
  std::vector<float> values;

  friend bool operator==(tensor const& a, tensor const& b) {
    return a.lengths == b.lengths && a.type == b.type && a.values == b.values;
  }
};

struct file {
  std::uint32_t version = 0;
  std::map<std::string, std::string> texts;
  std::map<std::string, double> numbers;
  std::map<std::string, std::vector<std::string>> text_lists;
  std::map<std::string, std::vector<std::int32_t>> number_lists;
  std::map<std::string, tensor> tensors;
};

class bytes_reader {
 public:
  explicit bytes_reader(std::string text) : text_(std::move(text)) {}
  template <class T>
  T number() {
    T out;
    std::memcpy(&out, need(sizeof(T)), sizeof(T));
    return out;
  }
  std::string text() {
    auto const size = number<std::uint64_t>();
    return {need(size), size};
  }
  char const* need(std::size_t count) {
    if (count > text_.size() - at_) throw std::runtime_error("the file ends too early");
    at_ += count;
    return text_.data() + at_ - count;
  }
  void align() { at_ = (at_ + 31) / 32 * 32; }
  [[nodiscard]] std::size_t at() const { return at_; }
  void go(std::size_t at) { at_ = at; }
  [[nodiscard]] std::size_t size() const { return text_.size(); }

 private:
  std::string text_;
  std::size_t at_ = 0;
};

inline double number_of(bytes_reader& from, std::uint32_t type) {
  switch (type) {
    case 4: return from.number<std::uint32_t>();
    case 5: return from.number<std::int32_t>();
    case 6: return double(from.number<float>());
    case 7: return from.number<std::uint8_t>();
    default: throw std::runtime_error("an unexpected type of value");
  }
}

inline std::vector<float> values_of(bytes_reader& from, std::uint32_t type, std::size_t count) {
  std::vector<float> out;
  while (out.size() < count) {
    if (type == 0) out.push_back(from.number<float>());
    if (type == 1) out.push_back(from_f16(from.number<std::uint16_t>()));
    if (type == 30) {
      auto const word = std::uint32_t{from.number<std::uint16_t>()} << 16;
      float value = 0;
      std::memcpy(&value, &word, 4);
      out.push_back(value);
    }
    if (type == 8) {
      float const scale = from_f16(from.number<std::uint16_t>());
      for (int i = 0; i < 32; ++i) out.push_back(scale * float(from.number<std::int8_t>()));
    }
  }
  return out;
}

inline file read(std::filesystem::path const& path) {
  bytes_reader from(llama_weights::text_of(path));
  file out;
  if (std::string(from.need(4), 4) != "GGUF") throw std::runtime_error("no GGUF file");
  out.version = from.number<std::uint32_t>();
  auto const tensors = from.number<std::uint64_t>(), pairs = from.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < pairs; ++i) {
    auto const key = from.text();
    auto const type = from.number<std::uint32_t>();
    if (type == 8) {
      out.texts[key] = from.text();
    } else if (type == 9) {
      auto const of = from.number<std::uint32_t>();
      auto const count = from.number<std::uint64_t>();
      for (std::uint64_t at = 0; at < count; ++at)
        if (of == 8) out.text_lists[key].push_back(from.text());
        else out.number_lists[key].push_back(static_cast<std::int32_t>(number_of(from, of)));
    } else {
      out.numbers[key] = number_of(from, type);
    }
  }
  std::vector<std::string> order;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    auto const name = from.text();
    auto& one = out.tensors[name];
    one.lengths.resize(from.number<std::uint32_t>());
    for (auto& length : one.lengths) length = from.number<std::uint64_t>();
    one.type = from.number<std::uint32_t>();
    one.offset = from.number<std::uint64_t>();
    order.push_back(name);
  }
  from.align();
  std::size_t const data = from.at();
  for (auto const& name : order) {
    auto& one = out.tensors[name];
    if (one.offset % 32 != 0) throw std::runtime_error("data that is not aligned");
    if (data + one.offset != from.at()) throw std::runtime_error("a gap in the data");
    std::size_t count = 1;
    for (auto const length : one.lengths) count *= length;
    one.values = values_of(from, one.type, count);
    from.align();
  }
  if (from.at() != from.size()) throw std::runtime_error("bytes after the last tensor");
  return out;
}

}  // namespace gguf_test
