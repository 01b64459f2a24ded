// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <jpeglib.h>
// jerror.h needs types of the header above.
#include <jerror.h>
#include <png.h>

#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

struct picture_size {
  std::size_t width = 0, height = 0;
  friend bool operator==(picture_size const&, picture_size const&) = default;
};

std::string text_of(picture_size size);

/// The largest number of pixels of a picture that is decoded. This number limits the memory for one
/// picture.
inline constexpr std::size_t most_pixels = 100'000'000;

// The libraries libjpeg and libpng report a problem by calling a function that must not return.
// This function leaves by longjmp to the member function that has called the library. The jump
// skips only C frames: neither the member function nor the reporting function has an object with a
// destructor.

/// Decodes a JPEG in memory.
class jpeg_decoder {
 public:
  explicit jpeg_decoder(std::span<std::byte const> file);
  ~jpeg_decoder() { ::jpeg_destroy_decompress(&state_); }  // does nothing if begin() failed
  jpeg_decoder(jpeg_decoder const&) = delete;
  jpeg_decoder& operator=(jpeg_decoder const&) = delete;

  /// Reads the header; returns false if it fails, and problem() then says why.
  bool begin() noexcept;
  [[nodiscard]] picture_size size() const { return {state_.image_width, state_.image_height}; }

  /// Decodes the picture and writes its rows to `rgb`, from the top, with 3 bytes for each pixel.
  bool decode(std::uint8_t* rgb) noexcept;
  [[nodiscard]] char const* problem() const { return report_.text; }

 private:
  // The largest number of bytes that libjpeg may allocate. It is enough for the coefficients of a
  // progressive picture of most_pixels.
  static constexpr long most_bytes = 1L << 30;
  // The largest number of scans of a progressive picture. It limits the time: each scan covers the
  // whole picture, and encoders write about ten scans.
  static constexpr int most_scans = 100;

  struct report {
    ::jpeg_error_mgr manager{};
    std::jmp_buf back{};
    char text[JMSG_LENGTH_MAX]{};
  };

  /// Converts CMYK in the same way as Pillow: each colour is the product of the light that its ink
  /// leaves and the light that the black ink leaves. The values are inverted (255 means no ink),
  /// because Adobe's programs, and others after them, write CMYK so.
  void write_rgb_of_cmyk(std::uint8_t const* inks, std::uint8_t* rgb) const noexcept;

  [[noreturn]] static void fail(::j_common_ptr state);
  // Treats warnings as errors, because after a warning the decoded picture would be wrong.
  static void warn(::j_common_ptr state, int level);
  static void watch(::j_common_ptr state);

  std::span<std::byte const> file_;
  ::jpeg_decompress_struct state_{};
  ::jpeg_progress_mgr progress_{};
  report report_;
};

/// Decodes a PNG in memory. An alpha channel is dropped; of values with 16 bits, the upper 8 are
/// used.
class png_decoder {
 public:
  explicit png_decoder(std::span<std::byte const> file) : left_(file) {}
  ~png_decoder() { ::png_destroy_read_struct(&png_, &info_, nullptr); }
  png_decoder(png_decoder const&) = delete;
  png_decoder& operator=(png_decoder const&) = delete;

  bool begin() noexcept;
  [[nodiscard]] picture_size size() const {
    return {::png_get_image_width(png_, info_), ::png_get_image_height(png_, info_)};
  }

  bool decode(std::uint8_t* rgb) noexcept;
  [[nodiscard]] char const* problem() const { return text_; }

 private:
  [[noreturn]] static void fail(::png_structp png, ::png_const_charp text);
  static void read(::png_structp png, ::png_bytep out, std::size_t bytes);

  std::span<std::byte const> left_;
  ::png_structp png_ = nullptr;
  ::png_infop info_ = nullptr;
  char text_[200] = "libpng has no memory for it";
};

template <class Decoder>
picture_size decode_by(std::span<std::byte const> file, std::optional<picture_size> needed,
                       std::vector<std::uint8_t>* rgb) {
  Decoder decoder(file);
  if (!decoder.begin())
    throw input_error(std::string("cannot be decoded: ") + escaped(decoder.problem()));
  auto const size = decoder.size();
  if (needed && size != *needed)
    throw input_error({"has ", text_of(size), " pixels, not ", text_of(*needed),
                       " (width x height); for pictures of any size set .fit = "
                       "plait::image_fit::resize_and_crop"});
  if (size.width > most_pixels / size.height)
    throw input_error(
        {"has ", text_of(size), " pixels according to its header, more than ", most_pixels});
  if (rgb == nullptr) return size;
  std::size_t const bytes = 3 * size.width * size.height;
  if (rgb->size() < bytes) rgb->resize(bytes);
  if (!decoder.decode(rgb->data()))
    throw input_error(std::string("cannot be decoded: ") + escaped(decoder.problem()));
  return size;
}

/// Decodes a JPEG or a PNG, which are recognised by their first bytes, to rows of 3 bytes for each
/// pixel. If `rgb` is null, only the header is read. Colours are the values in the file: no
/// profile, gamma or orientation is applied.
///
/// Cost:   `rgb` only grows; the libraries allocate memory, for a progressive JPEG several times
///         the size of the picture.
/// Errors: input_error for any other file, and for a picture whose size differs from `needed` or
///         that has more than most_pixels; the size is checked before memory is allocated for the
///         picture. The error's text continues a sentence that begins with the file's name.
picture_size decode_picture(std::span<std::byte const> file, std::optional<picture_size> needed,
                            std::vector<std::uint8_t>* rgb);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/data/images/picture.ipp"
#endif
