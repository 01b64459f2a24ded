// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"
#include "plait/core/file_kind.hpp"
#include "plait/core/number_range.hpp"
#include "plait/core/quote.hpp"
#include "plait/data/dataset.hpp"
#include "plait/io/safetensors.hpp"
#include "plait/io/safetensors_header.hpp"

namespace plait {

/// Two tensors of a safetensors file, `x` and `y`, as a data set: row i of `x` has the features of
/// sample i, and row i of `y` has its targets. Targets are classes (I64, I32 or U8) or, with
/// `tensor_table<float, float>`, real numbers. Features and real targets may be F64, F32, F16,
/// BF16, I64, I32 or U8; they are converted to T and Target without scaling, so bytes become
/// numbers from 0 to 255.
///
/// Shapes: x (samples, ...), where row i has the features of sample i in order; y (samples), or
///         (samples, ...).
/// Cost:   the file is mapped, not copied; only a y of classes in I64 is read when it is opened.
///         The file must not change while the object exists: if the file is cut off, reading the
///         missing part ends the program with the signal SIGBUS.
/// Errors: input_error with the file, the tensor and both values if the file is missing, not a
///         regular file or not a safetensors file; if it lacks a tensor, if a tensor has the wrong
///         type or no rows, if the numbers of rows differ, or if a class does not fit into 32 bits.
///         inputs and targets throw input_error if a number is too large for float.
/// Threads: all members are const and may run at the same time.
template <std::floating_point T = float, class Target = std::int32_t>
  requires std::same_as<Target, std::int32_t> || std::floating_point<Target>
class tensor_table {
 public:
  using concept_tag = dataset_tag;
  using element = T;
  using target = Target;

  tensor_table(std::filesystem::path const& path, std::string_view x, std::string_view y)
      : tensor_table(safetensors_reader(path), path, x, y) {}

  [[nodiscard]] std::size_t size() const { return x_.rows(); }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return x_.width; }
  [[nodiscard]] std::size_t target_width() const { return y_.width; }

  /// Returns a text with the file, its tensors and their shapes, by which ranks and checkpoints
  /// compare data sets.
  [[nodiscard]] std::string description() const {
    return ext::concat(
        {"tensor_table(", detail::path_in_quotes(file_), ", ", x_.text(), ", ", y_.text(), ")"});
  }

  void inputs(std::size_t sample, std::span<T> out) const { read(x_, sample, out); }
  void targets(std::size_t sample, std::span<Target> out) const { read(y_, sample, out); }

 private:
  struct tensor {
    safetensors_entry entry;
    std::byte const* data = nullptr;
    std::size_t width = 1;

    [[nodiscard]] std::size_t rows() const { return entry.shape[0]; }
    [[nodiscard]] std::string text() const {
      return ext::concat({detail::in_quotes(entry.name), " ", entry.type_name(), " ",
                          detail::shape_text(entry.shape)});
    }
  };

  tensor_table(safetensors_reader const& reader, std::filesystem::path const& path,
               std::string_view x, std::string_view y)
      : name_("safetensors file", path),
        file_(path.filename().string()),
        mapped_(reader.map()),
        x_(find(reader, x)),
        y_(find(reader, y)) {
    if (x_.rows() != y_.rows())
      refuse(x_, ext::concat({"has the shape ", detail::shape_text(x_.entry.shape), ", but ",
                              detail::in_quotes(y), " has ", detail::shape_text(y_.entry.shape),
                              "; both must have the same number of rows"}));
    if constexpr (std::same_as<Target, std::int32_t>) {
      auto const type = y_.entry.type;
      if (type != stored_type::i64 && type != stored_type::i32 && type != stored_type::u8)
        refuse(y_,
               ext::concat({"holds ", y_.entry.type_name(),
                            ", but classes are integers; for targets that are real numbers write "
                            "plait::tensor_table<float, float>"}));
      if (type == stored_type::i64) check_classes();
    }
  }

  [[noreturn]] void refuse(tensor const& of, std::string const& what) const {
    name_.refuse_part(ext::concat({"tensor ", detail::in_quotes(of.entry.name)}), what);
  }

  [[nodiscard]] tensor find(safetensors_reader const& reader, std::string_view name) const {
    tensor out{reader.info(name)};
    auto const& shape = out.entry.shape;
    if (shape.empty() || out.entry.elements() == 0)
      refuse(out,
             ext::concat(
                 {"has the shape ", detail::shape_text(shape),
                  "; it must have one row for each sample, and at least one number in each row"}));
    out.width = out.entry.elements() / shape[0];
    out.data = mapped_.bytes().data() + reader.position(name);
    switch (out.entry.type) {
      case stored_type::f64:
      case stored_type::f32:
      case stored_type::f16:
      case stored_type::bf16:
      case stored_type::i64:
      case stored_type::i32:
      case stored_type::u8: return out;
      default:
        refuse(out,
               ext::concat({"holds ", detail::escaped(out.entry.type_name()),
                            "; only F64, F32, F16, BF16, I64, I32 and U8 can be read as samples"}));
    }
  }

  void check_classes() const {
    using limits = std::numeric_limits<std::int32_t>;
    for (std::size_t i = 0; i < y_.entry.elements(); ++i) {
      auto const value = load<std::int64_t>(y_.data, i);
      if (value < limits::min() || value > limits::max())
        refuse(y_, ext::concat({"has the class ", value, " in row ", i / y_.width,
                                "; classes are from ", limits::min(), " to ", limits::max()}));
    }
  }

  // Reads a value by memcpy, because the data in the file may be unaligned.
  template <class Stored>
  static Stored load(std::byte const* from, std::size_t index) {
    Stored out;  // NOLINT: set by memcpy
    std::memcpy(&out, from + index * sizeof out, sizeof out);
    return out;
  }

  template <class To>
  void read(tensor const& from, std::size_t sample, std::span<To> out) const {
    detail::check_sample("tensor_table", sample, size(), out.size(), from.width);
    auto const* const row = from.data + sample * from.width * ext::element_bytes(from.entry.type);
    auto const same = [](auto x) { return x; };
    switch (from.entry.type) {
      case stored_type::i64: return convert<std::int64_t>(row, out, same);
      case stored_type::i32: return convert<std::int32_t>(row, out, same);
      case stored_type::u8: return convert<std::uint8_t>(row, out, same);
      default: break;
    }
    if constexpr (std::floating_point<To>) {
      switch (from.entry.type) {
        case stored_type::f64: {
          convert<double>(row, out, same);
          return check_range(from, sample, row, out);
        }
        case stored_type::f32: return convert<float>(row, out, same);
        case stored_type::f16: return convert<std::uint16_t>(row, out, detail::float_from_f16);
        default: return convert<std::uint16_t>(row, out, detail::float_from_bf16);
      }
    }
  }

  template <class Stored, class To, class Convert>
  static void convert(std::byte const* row, std::span<To> out, Convert value_of) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<To>(value_of(load<Stored>(row, i)));
  }

  template <class To>
  void check_range(tensor const& from, std::size_t sample, std::byte const* row,
                   std::span<To> out) const {
    if constexpr (!std::is_same_v<To, double>)
      for (std::size_t i = 0; i < out.size(); ++i)
        if (std::isinf(out[i]) && std::isfinite(load<double>(row, i)))
          refuse(from, ext::concat({"has the number ", detail::number_text(load<double>(row, i)),
                                    " in row ", sample, ", which is too large for float"}));
  }

  detail::file_name name_;
  std::string file_;
  detail::mapped_file mapped_;
  tensor x_, y_;
};

static_assert(ext::feature_dataset<tensor_table<float>> &&
              ext::feature_dataset<tensor_table<double, float>>);

}  // namespace plait
