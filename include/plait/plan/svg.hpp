// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::planning {

/// The colours of a drawing by what they mean; each is a number of the table of its theme.
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
  again,
  again_fill,
  part0,
  part1,
  part2,
  part3,
  part4,
  part5
};

/// The colour as SVG writes it, for example "#1f2430".
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

/// How texts stand at their place.
enum class anchor : int { begin, middle, end };

struct text_style {
  int size = 12;
  bool bold = false;
  colour ink = colour::ink;
  anchor at = anchor::begin;
  int most = 0;  ///< of pixels, if it is not 0; a longer text is cut, and whole in its <title>
};

/// Bytes of the character that begins at `at`; 0 if XML has none there.
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

/// The text between tags or quotes of XML; what is no character of XML becomes U+FFFD.
[[nodiscard]] [[gnu::cold]] inline std::string xml_text(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    auto const count = character_bytes(text, i);
    if (count == 0) out += "\xef\xbf\xbd";
    else if (text[i] == '&') out += "&amp;";
    else if (text[i] == '<') out += "&lt;";
    else if (text[i] == '>') out += "&gt;";
    else if (text[i] == '"') out += "&quot;";
    else if (text[i] == '\'') out += "&#39;";
    else out += text.substr(i, count);
    i += std::max<std::size_t>(count, 1);
  }
  return out;
}

/// Thousandths of the size of a font that a character of Helvetica or Arial is wide; one beyond
/// ASCII counts as a square.
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

/// Pixels that a text takes, but for `slack` percent more, for fonts that are wider.
[[nodiscard]] [[gnu::cold]] inline int text_width(std::string_view text, int size,
                                                  bool bold = false, int slack = 12) {
  long sum = 0;
  for (std::size_t i = 0; i < text.size();) {
    auto const count = character_bytes(text, i);
    sum += character_width(text[i]);
    i += std::max<std::size_t>(count, 1);
  }
  return static_cast<int>((sum * size * (100 + slack) * (bold ? 108 : 100) + 9'999'999) /
                          10'000'000);
}

/// The longest begin of a text that fits, with an ellipsis; all of it where that fits.
[[nodiscard]] [[gnu::cold]] inline std::string fitted(std::string const& text,
                                                      text_style const& style) {
  if (style.most == 0 || text_width(text, style.size, style.bold) <= style.most) return text;
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    auto const count = std::max<std::size_t>(character_bytes(text, i), 1);
    auto longer = out + text.substr(i, count);
    if (text_width(concat({longer, "\xe2\x80\xa6"}), style.size, style.bold) > style.most) break;
    out = longer;
    i += count;
  }
  return concat({out, "\xe2\x80\xa6"});
}

/// A picture of boxes, lines and texts, in pixels from the upper left corner, as it grows; it knows
/// where each text stands, and how far it reaches.
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

  /// Pixels from a line of a text to the next.
  static constexpr int line_height(int size) { return size * 3 / 2; }

  /// `x`: of its begin, middle or end; `y`: of its upper edge.
  [[gnu::cold]] void text(int x, int y, std::string const& whole, text_style const& style = {}) {
    if (whole.empty()) return;
    auto const shown = fitted(whole, style);
    int const wide = text_width(shown, style.size, style.bold);
    int const left = x - (style.at == anchor::end      ? wide
                          : style.at == anchor::middle ? wide / 2
                                                       : 0);
    texts_.push_back({left, y, wide, style.size * 5 / 4, shown, style.ink});
    reach(left + wide, y + style.size * 5 / 4);
    body_ += concat({"<text x=\"", x, "\" y=\"", y + style.size, "\" font-size=\"", style.size,
                     "\" fill=\"", name_of(style.ink), "\""});
    if (style.bold) body_ += " font-weight=\"bold\"";
    if (style.at != anchor::begin)
      body_ += style.at == anchor::end ? " text-anchor=\"end\"" : " text-anchor=\"middle\"";
    // A wider font would leave the box.
    if (style.most > 0 && wide * 10 > style.most * 9)
      body_ += concat({" textLength=\"", text_width(shown, style.size, style.bold, 0),
                       "\" lengthAdjust=\"spacingAndGlyphs\""});
    body_ += ">";
    if (shown != whole) body_ += concat({"<title>", xml_text(whole), "</title>"});
    body_ += concat({xml_text(shown), "</text>\n"});
  }

  /// A rectangle with round corners; `dashes` as in stroke-dasharray, "" for a whole line.
  [[gnu::cold]] void box(int x, int y, int width, int height, colour inside,
                         colour edge = colour::line, char const* dashes = "", int round = 6) {
    if (inside != colour::none) boxes_.push_back({x, y, width, height, inside});
    rectangle(x, y, width, height, name_of(inside), edge, dashes, round);
  }

  /// The same, filled with the pattern of a part, a number from 0 to 5.
  [[gnu::cold]] void patterned_box(int x, int y, int width, int height, int part) {
    rectangle(x, y, width, height, concat({"url(#", id(concat({"part", part})), ")"}),
              colour::muted, "", 0);
    has_patterns_ = true;
  }

  [[gnu::cold]] void line(int x, int y, int to_x, int to_y, colour ink = colour::line,
                          char const* dashes = "") {
    body_ += concat({"<path d=\"M", x, " ", y, "L", to_x, " ", to_y, "\" stroke=\"", name_of(ink),
                     "\"", dashes_text(dashes), "/>\n"});
    reach(std::max(x, to_x), std::max(y, to_y));
  }

  /// A line with a head at its end; it is upright or level.
  [[gnu::cold]] void arrow(int x, int y, int to_x, int to_y, colour ink, char const* dashes = "") {
    line(x, y, to_x, to_y, ink, dashes);
    auto const point = [](int at_x, int at_y) { return concat({at_x, " ", at_y}); };
    int const along_x = to_x > x   ? 1
                        : to_x < x ? -1
                                   : 0,
              along_y = to_y > y   ? 1
                        : to_y < y ? -1
                                   : 0;
    auto const end = [&](int side) {
      return point(to_x - 6 * along_x + 4 * side * along_y,
                   to_y - 6 * along_y + 4 * side * along_x);
    };
    body_ += concat({"<path d=\"M", point(to_x, to_y), "L", end(1), "L", end(-1), "Z\" fill=\"",
                     name_of(ink), "\"/>\n"});
  }

  /// Adds a sentence to what is said in words.
  [[gnu::cold]] void say(std::string const& sentence) {
    words_ += (words_.empty() ? "" : " ") + sentence;
  }

  /// The picture as a document; `title` is its name for those who do not see it.
  [[nodiscard]] [[gnu::cold]] std::string svg(std::string const& title) const {
    auto const size = [](int number) { return std::to_string(number); };
    std::string out = concat({"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"",
                              size(width()),
                              "\" height=\"",
                              size(height()),
                              "\" viewBox=\"0 0 ",
                              size(width()),
                              " ",
                              size(height()),
                              "\" role=\"img\" aria-labelledby=\"",
                              id("title"),
                              " ",
                              id("desc"),
                              "\" font-family=\"Helvetica, Arial, sans-serif\" fill=\"none\">\n"
                              "<title id=\"",
                              id("title"),
                              "\">",
                              xml_text(title),
                              "</title>\n<desc id=\"",
                              id("desc"),
                              "\">",
                              xml_text(words_),
                              "</desc>\n"});
    if (has_patterns_) out += patterns();
    return concat({out, "<rect width=\"", size(width()), "\" height=\"", size(height()),
                   "\" fill=\"", name_of(colour::ground), "\"/>\n", body_, "</svg>\n"});
  }

 private:
  [[nodiscard]] std::string name_of(colour which) const {
    return std::string(text_of(which, dark_));
  }
  /// Of its own for each kind of picture: a page may have several.
  [[nodiscard]] std::string id(std::string const& what) const {
    return concat({"plait-", name_, (dark_ ? "-dark-" : "-light-"), what});
  }
  static std::string dashes_text(char const* dashes) {
    return *dashes == '\0' ? "" : concat({" stroke-dasharray=\"", dashes, "\""});
  }
  void reach(int x, int y) {
    width_ = std::max(width_, x);
    height_ = std::max(height_, y);
  }
  [[gnu::cold]] void rectangle(int x, int y, int width, int height, std::string const& fill,
                               colour edge, char const* dashes, int round) {
    body_ += concat({"<rect x=\"", x, "\" y=\"", y, "\" width=\"", width, "\" height=\"", height,
                     "\" rx=\"", round, "\" fill=\"", fill, "\" stroke=\"", name_of(edge), "\"",
                     dashes_text(dashes), "/>\n"});
    reach(x + width, y + height);
  }
  [[nodiscard]] [[gnu::cold]] std::string patterns() const {
    constexpr std::array<char const*, 6> strokes{"",
                                                 "M0 8L8 0M-2 2L2 -2M6 10L10 6",
                                                 "M0 0L8 8M-2 6L2 10M6 -2L10 2",
                                                 "M0 4L8 4",
                                                 "M4 0L4 8",
                                                 "M3 4L5 4M4 3L4 5"};
    std::string out = "<defs>\n";
    for (std::size_t i = 0; i < strokes.size(); ++i) {
      auto const part = static_cast<colour>(static_cast<int>(colour::part0) + static_cast<int>(i));
      out +=
          concat({"<pattern id=\"", id(concat({"part", i})),
                  "\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><rect width=\"8\" "
                  "height=\"8\" fill=\"",
                  name_of(part), "\"/>"});
      if (*strokes[i] != '\0')
        out += concat({"<path d=\"", strokes[i], "\" stroke=\"", name_of(colour::ground), "\"/>"});
      out += "</pattern>\n";
    }
    return concat({out, "</defs>\n"});
  }

  std::string name_, body_, words_;
  bool dark_, has_patterns_ = false;
  int width_ = 0, height_ = 0;
  lean_vector<placed_text> texts_;
  lean_vector<placed_box> boxes_;
};

}  // namespace plait::planning
