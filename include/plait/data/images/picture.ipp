// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/file_kind.hpp"
#include "plait/data/images/picture.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL std::string text_of(picture_size size) {
  return concat({size.width, " x ", size.height});
}

PLAIT_DECL jpeg_decoder::jpeg_decoder(std::span<std::byte const> file) : file_(file) {
  state_.err = ::jpeg_std_error(&report_.manager);
  report_.manager.error_exit = fail;
  report_.manager.emit_message = warn;
  report_.manager.output_message = [](::j_common_ptr) {};
  progress_.progress_monitor = watch;
}

PLAIT_DECL bool jpeg_decoder::begin() noexcept {
  if (setjmp(report_.back) != 0) return false;
  ::jpeg_create_decompress(&state_);
  state_.mem->max_memory_to_use = most_bytes;
  state_.progress = &progress_;
  ::jpeg_mem_src(&state_, reinterpret_cast<unsigned char const*>(file_.data()), file_.size());
  ::jpeg_read_header(&state_, TRUE);
  return true;
}

PLAIT_DECL bool jpeg_decoder::decode(std::uint8_t* rgb) noexcept {
  if (setjmp(report_.back) != 0) return false;
  bool const is_cmyk = state_.num_components == 4;
  state_.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
  ::jpeg_start_decompress(&state_);
  ::JSAMPROW inks = nullptr;  // (width, 4); owned by the library
  if (is_cmyk) {
    auto* const common = reinterpret_cast<::j_common_ptr>(&state_);
    inks = *state_.mem->alloc_sarray(common, JPOOL_IMAGE, 4 * state_.output_width, 1);
  }
  while (state_.output_scanline < state_.output_height) {
    ::JSAMPROW row = rgb + std::size_t{3} * state_.output_scanline * state_.output_width;
    ::jpeg_read_scanlines(&state_, is_cmyk ? &inks : &row, 1);
    if (is_cmyk) write_rgb_of_cmyk(inks, row);
  }
  return true;
}

PLAIT_DECL void jpeg_decoder::write_rgb_of_cmyk(std::uint8_t const* inks,
                                                std::uint8_t* rgb) const noexcept {
  for (std::size_t pixel = 0; pixel < state_.output_width; ++pixel, inks += 4, rgb += 3)
    for (std::size_t c = 0; c < 3; ++c) {
      unsigned const light = inks[3], taken = (255u - inks[c]) * light + 128;
      // Writes light - taken / 255, where the quotient is rounded.
      rgb[c] = static_cast<std::uint8_t>(light - ((taken + (taken >> 8)) >> 8));
    }
}

PLAIT_DECL void jpeg_decoder::fail(::j_common_ptr state) {
  // The cast is valid, because the error manager is the first member of `report`.
  auto* const to = reinterpret_cast<report*>(state->err);
  to->manager.format_message(state, to->text);
  std::longjmp(to->back, 1);
}

PLAIT_DECL void jpeg_decoder::warn(::j_common_ptr state, int level) {
  if (level >= 0) return;
  switch (state->err->msg_code) {
    case JWRN_ARITH_BAD_CODE:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
    case JWRN_NOT_SEQUENTIAL: fail(state);
    default: return;
  }
}

PLAIT_DECL void jpeg_decoder::watch(::j_common_ptr state) {
  auto* const decoder = reinterpret_cast<::j_decompress_ptr>(state);
  if (decoder->input_scan_number <= most_scans) return;
  auto* const to = reinterpret_cast<report*>(state->err);
  std::snprintf(to->text, sizeof to->text, "it has more than %d scans", most_scans);
  std::longjmp(to->back, 1);
}

PLAIT_DECL bool png_decoder::begin() noexcept {
  png_ = ::png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, [](auto, auto) {});
  if (png_ != nullptr) info_ = ::png_create_info_struct(png_);
  if (info_ == nullptr) return false;
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  ::png_set_user_limits(png_, most_pixels, most_pixels);
  ::png_set_chunk_malloc_max(png_, 1 << 20);  // the limit for texts and colour profiles in the file
  ::png_set_read_fn(png_, this, read);
  ::png_read_info(png_, info_);
  return true;
}

PLAIT_DECL bool png_decoder::decode(std::uint8_t* rgb) noexcept {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  ::png_set_expand(png_);
  ::png_set_strip_16(png_);
  ::png_set_strip_alpha(png_);
  ::png_set_gray_to_rgb(png_);
  int const passes = ::png_set_interlace_handling(png_);
  ::png_read_update_info(png_, info_);
  std::size_t const row_bytes = 3 * size().width;
  if (::png_get_rowbytes(png_, info_) != row_bytes) ::png_error(png_, "it has other rows");
  for (int pass = 0; pass < passes; ++pass)
    for (std::size_t row = 0; row < size().height; ++row)
      ::png_read_row(png_, rgb + row * row_bytes, nullptr);
  ::png_read_end(png_, nullptr);
  return true;
}

PLAIT_DECL void png_decoder::fail(::png_structp png, ::png_const_charp text) {
  auto* const to = static_cast<png_decoder*>(::png_get_error_ptr(png));
  std::snprintf(to->text_, sizeof to->text_, "%s", text);
  ::png_longjmp(png, 1);
}

PLAIT_DECL void png_decoder::read(::png_structp png, ::png_bytep out, std::size_t bytes) {
  auto& left = static_cast<png_decoder*>(::png_get_io_ptr(png))->left_;
  if (bytes > left.size()) ::png_error(png, "it ends too early");
  std::memcpy(out, left.data(), bytes);
  left = left.subspan(bytes);
}

PLAIT_DECL picture_size decode_picture(std::span<std::byte const> file,
                                       std::optional<picture_size> needed,
                                       std::vector<std::uint8_t>* rgb) {
  auto const begins_with = [&](auto const& bytes) {
    return file.size() >= bytes.size() && std::memcmp(file.data(), bytes.data(), bytes.size()) == 0;
  };
  constexpr std::array<std::uint8_t, 3> jpeg{0xff, 0xd8, 0xff};
  constexpr std::array<std::uint8_t, 8> png{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  if (begins_with(jpeg)) return decode_by<jpeg_decoder>(file, needed, rgb);
  if (begins_with(png)) return decode_by<png_decoder>(file, needed, rgb);
  if (file.empty()) throw input_error("is empty");
  std::string_view const begin(reinterpret_cast<char const*>(file.data()), file.size());
  if (auto const text = other_kind_text(begin, "FILE", file_use::picture); !text.empty())
    throw input_error(text);
  throw input_error("is neither a JPEG nor a PNG, according to its first bytes");
}

}  // namespace plait::detail
