// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::planning {

/// The colours of a drawing, named after their use. Each is an index into the table of colours of a
/// theme.
enum class colour : int {
  none,
  ground,
  panel,
  box,
  line,
  ink,
  muted,
  forward,
  forward_fill,
  backward,
  backward_fill,
  recompute,
  recompute_fill,
  part0,
  part1,
  part2,
  part3,
  part4,
  part5
};

/// Returns the colour in SVG's notation, for example "#1f2430".
[[nodiscard]] constexpr std::string_view text_of(colour which, bool dark) {
  constexpr std::array<std::string_view, 19> light{
      "none",    "#ffffff", "#f5f6f8", "#ffffff", "#c3c9d3", "#1c2230", "#555d6c",
      "#1a5a9e", "#e6f0fa", "#96450a", "#fcefe2", "#66379c", "#f0e8fa", "#4f83bd",
      "#6aa886", "#d9a24c", "#a887c9", "#c96f6f", "#8a94a3"};
  constexpr std::array<std::string_view, 19> night{
      "none",    "#12151a", "#1a1e25", "#22272f", "#434b58", "#e8ebf0", "#a6afbd",
      "#90c0f4", "#1a2b40", "#f2b47c", "#352819", "#c9aef2", "#2b2340", "#5f94d0",
      "#5f9e7c", "#c08a3a", "#9477b6", "#b96161", "#77818f"};
  return (dark ? night : light)[static_cast<std::size_t>(which)];
}

/// Determines which part of a text is at the x position of the text.
enum class anchor : int { begin, middle, end };

struct text_style {
  int size = 12;
  bool bold = false;
  colour ink = colour::ink;
  anchor at = anchor::begin;
  /// The greatest width in pixels; 0: no limit. If a text is longer, it is shortened, and its
  /// <title> element contains the whole text.
  int most = 0;
};

/// Returns the number of bytes of the UTF-8 character that begins at `at`; 0 if XML does not allow
/// the character.
[[nodiscard]] constexpr std::size_t character_bytes(std::string_view text, std::size_t at) {
  auto const byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  unsigned const first = byte(at);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  std::size_t const count = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  unsigned code = first & (0x7fu >> count);
  for (std::size_t i = 1; i < count; ++i) {
    if ((byte(at + i) & 0xc0u) != 0x80u) return 0;
    code = code << 6 | (byte(at + i) & 0x3fu);
  }
  constexpr std::array<unsigned, 5> least{0, 0, 0x80, 0x800, 0x10000};
  bool const is_one = code >= 0xa0 && code >= least[count] && code <= 0x10ffff &&
                      (code < 0xd800 || code > 0xdfff) && (code & 0xfffeu) != 0xfffeu;
  return is_one ? count : 0;
}

/// Returns text escaped for XML. A character that XML does not allow becomes U+FFFD.
[[nodiscard]] [[gnu::cold]] std::string xml_text(std::string_view text);

/// Returns the width of a character in Helvetica or Arial, in thousandths of the font size; a
/// character beyond ASCII is taken to be as wide as the font is high.
[[nodiscard]] constexpr int character_width(char first) {
  constexpr std::array<short, 95> widths{
      278,  278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
      556,  556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
      1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
      667,  778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
      333,  556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
      556,  556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584};
  return first >= ' ' && first <= '~' ? widths[static_cast<std::size_t>(first - ' ')] : 1000;
}

/// Returns the width of a text in pixels, increased by `slack` percent because the reader may have
/// a wider font.
[[nodiscard]] [[gnu::cold]] int text_width(std::string_view text, int size, bool bold = false,
                                           int slack = 12);

/// Returns the text if it fits into the width of `style`; else its longest beginning that fits,
/// with an ellipsis.
[[nodiscard]] [[gnu::cold]] std::string fitted(std::string const& text, text_style const& style);

/// A picture of boxes, lines and texts, in pixels from the upper left corner. It grows as parts are
/// added, and knows the positions of its texts and its own extent.
class drawing {
 public:
  struct placed_text {
    int x, y, width, height;
    std::string text;
    colour ink;
  };
  struct placed_box {
    int x, y, width, height;
    colour inside;
  };

  explicit drawing(std::string name, bool dark) : name_(std::move(name)), dark_(dark) {}

  [[nodiscard]] lean_vector<placed_text> const& texts() const { return texts_; }
  [[nodiscard]] lean_vector<placed_box> const& boxes() const { return boxes_; }
  [[nodiscard]] int width() const { return width_ + margin; }
  [[nodiscard]] int height() const { return height_ + margin; }
  static constexpr int margin = 24;

  /// Pixels between two lines of a text.
  static constexpr int line_height(int size) { return size * 3 / 2; }

  /// Adds a text. `x` is the position of its beginning, middle or end (see `anchor`), and `y` the
  /// position of its upper edge.
  [[gnu::cold]] void text(int x, int y, std::string const& whole, text_style const& style = {});

  /// Draws a rectangle with round corners; `dashes` as in stroke-dasharray, "" for a solid line.
  [[gnu::cold]] void box(int x, int y, int width, int height, colour inside,
                         colour edge = colour::line, char const* dashes = "", int round = 6);

  /// Draws a box that is filled with the pattern of number `part`, from 0 to 5.
  [[gnu::cold]] void patterned_box(int x, int y, int width, int height, int part);

  /// Fills rectangles, without an edge, with a colour in SVG's notation, such as "#08306b". All of
  /// them are one element, because a matrix has thousands; the colours of the boxes are not used.
  [[gnu::cold]] void tiles(lean_vector<placed_box> const& of, std::string_view fill);

  [[gnu::cold]] void line(int x, int y, int to_x, int to_y, colour ink = colour::line,
                          char const* dashes = "");

  /// Draws a vertical or horizontal line with an arrow head at its end.
  [[gnu::cold]] void arrow(int x, int y, int to_x, int to_y, colour ink, char const* dashes = "");

  /// Adds a sentence to the picture's description for screen readers.
  [[gnu::cold]] void say(std::string const& sentence) {
    words_ += (words_.empty() ? "" : " ") + sentence;
  }

  /// Returns the picture as an SVG document; `title` is its name for screen readers.
  [[nodiscard]] [[gnu::cold]] std::string svg(std::string const& title) const;

 private:
  [[nodiscard]] std::string name_of(colour which) const {
    return std::string(text_of(which, dark_));
  }
  /// Returns an id of an SVG element. Ids of different kinds of pictures differ, because a page may
  /// show several pictures.
  [[nodiscard]] std::string id(std::string const& what) const;
  static std::string dashes_text(char const* dashes);
  void reach(int x, int y);
  [[gnu::cold]] void rectangle(int x, int y, int width, int height, std::string const& fill,
                               colour edge, char const* dashes, int round);
  [[nodiscard]] [[gnu::cold]] std::string patterns() const;

  std::string name_, body_, words_;
  bool dark_, has_patterns_ = false;
  int width_ = 0, height_ = 0;
  lean_vector<placed_text> texts_;
  lean_vector<placed_box> boxes_;
};

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/draw/svg.ipp"
#endif
