// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/draw/svg.hpp"

#include <algorithm>

#include "plait/core/concat.hpp"

namespace plait::planning {

PLAIT_DECL std::string xml_text(std::string_view text) {
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

PLAIT_DECL int text_width(std::string_view text, int size, bool bold, int slack) {
  long sum = 0;
  for (std::size_t i = 0; i < text.size();) {
    auto const count = character_bytes(text, i);
    sum += character_width(text[i]);
    i += std::max<std::size_t>(count, 1);
  }
  return static_cast<int>((sum * size * (100 + slack) * (bold ? 108 : 100) + 9'999'999) /
                          10'000'000);
}

PLAIT_DECL std::string fitted(std::string const& text, text_style const& style) {
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

PLAIT_DECL void drawing::text(int x, int y, std::string const& whole, text_style const& style) {
  if (whole.empty()) return;
  auto const shown = fitted(whole, style);
  int const wide = text_width(shown, style.size, style.bold);
  int const left = x - (style.at == anchor::end ? wide : style.at == anchor::middle ? wide / 2 : 0);
  texts_.push_back({left, y, wide, style.size * 5 / 4, shown, style.ink});
  reach(left + wide, y + style.size * 5 / 4);
  body_ += concat({"<text x=\"", x, "\" y=\"", y + style.size, "\" font-size=\"", style.size,
                   "\" fill=\"", name_of(style.ink), "\""});
  if (style.bold) body_ += " font-weight=\"bold\"";
  if (style.at != anchor::begin)
    body_ += style.at == anchor::end ? " text-anchor=\"end\"" : " text-anchor=\"middle\"";
  // A wider font would make the text leave its box, so the width of the text is fixed in the SVG.
  if (style.most > 0 && wide * 10 > style.most * 9)
    body_ += concat({" textLength=\"", text_width(shown, style.size, style.bold, 0),
                     "\" lengthAdjust=\"spacingAndGlyphs\""});
  body_ += ">";
  if (shown != whole) body_ += concat({"<title>", xml_text(whole), "</title>"});
  body_ += concat({xml_text(shown), "</text>\n"});
}

PLAIT_DECL void drawing::box(int x, int y, int width, int height, colour inside, colour edge,
                             char const* dashes, int round) {
  if (inside != colour::none) boxes_.push_back({x, y, width, height, inside});
  rectangle(x, y, width, height, name_of(inside), edge, dashes, round);
}

PLAIT_DECL void drawing::patterned_box(int x, int y, int width, int height, int part) {
  rectangle(x, y, width, height, concat({"url(#", id(concat({"part", part})), ")"}), colour::muted,
            "", 0);
  has_patterns_ = true;
}

PLAIT_DECL void drawing::tiles(lean_vector<placed_box> const& of, std::string_view fill) {
  if (of.empty()) return;
  body_ += concat({"<path fill=\"", fill, "\" d=\""});
  for (auto const& [x, y, width, height, inside] : of) {
    body_ += concat({"M", x, " ", y, "h", width, "v", height, "h", -width, "z"});
    reach(x + width, y + height);
  }
  body_ += "\"/>\n";
}

PLAIT_DECL void drawing::line(int x, int y, int to_x, int to_y, colour ink, char const* dashes) {
  body_ += concat({"<path d=\"M", x, " ", y, "L", to_x, " ", to_y, "\" stroke=\"", name_of(ink),
                   "\"", dashes_text(dashes), "/>\n"});
  reach(std::max(x, to_x), std::max(y, to_y));
}

PLAIT_DECL void drawing::arrow(int x, int y, int to_x, int to_y, colour ink, char const* dashes) {
  line(x, y, to_x, to_y, ink, dashes);
  auto const point = [](int at_x, int at_y) { return concat({at_x, " ", at_y}); };
  int const along_x = to_x > x ? 1 : to_x < x ? -1 : 0, along_y = to_y > y ? 1 : to_y < y ? -1 : 0;
  auto const end = [&](int side) {
    return point(to_x - 6 * along_x + 4 * side * along_y, to_y - 6 * along_y + 4 * side * along_x);
  };
  body_ += concat({"<path d=\"M", point(to_x, to_y), "L", end(1), "L", end(-1), "Z\" fill=\"",
                   name_of(ink), "\"/>\n"});
}

PLAIT_DECL std::string drawing::svg(std::string const& title) const {
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
  return concat({out, "<rect width=\"", size(width()), "\" height=\"", size(height()), "\" fill=\"",
                 name_of(colour::ground), "\"/>\n", body_, "</svg>\n"});
}

PLAIT_DECL std::string drawing::id(std::string const& what) const {
  return concat({"plait-", name_, (dark_ ? "-dark-" : "-light-"), what});
}

PLAIT_DECL std::string drawing::dashes_text(char const* dashes) {
  return *dashes == '\0' ? "" : concat({" stroke-dasharray=\"", dashes, "\""});
}

PLAIT_DECL void drawing::reach(int x, int y) {
  width_ = std::max(width_, x);
  height_ = std::max(height_, y);
}

PLAIT_DECL void drawing::rectangle(int x, int y, int width, int height, std::string const& fill,
                                   colour edge, char const* dashes, int round) {
  body_ += concat({"<rect x=\"", x, "\" y=\"", y, "\" width=\"", width, "\" height=\"", height,
                   "\" rx=\"", round, "\" fill=\"", fill, "\" stroke=\"", name_of(edge), "\"",
                   dashes_text(dashes), "/>\n"});
  reach(x + width, y + height);
}

PLAIT_DECL std::string drawing::patterns() const {
  constexpr std::array<char const*, 6> strokes{"",
                                               "M0 8L8 0M-2 2L2 -2M6 10L10 6",
                                               "M0 0L8 8M-2 6L2 10M6 -2L10 2",
                                               "M0 4L8 4",
                                               "M4 0L4 8",
                                               "M3 4L5 4M4 3L4 5"};
  std::string out = "<defs>\n";
  for (std::size_t i = 0; i < strokes.size(); ++i) {
    auto const part = static_cast<colour>(static_cast<int>(colour::part0) + static_cast<int>(i));
    out += concat({"<pattern id=\"", id(concat({"part", i})),
                   "\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><rect width=\"8\" "
                   "height=\"8\" fill=\"",
                   name_of(part), "\"/>"});
    if (*strokes[i] != '\0')
      out += concat({"<path d=\"", strokes[i], "\" stroke=\"", name_of(colour::ground), "\"/>"});
    out += "</pattern>\n";
  }
  return concat({out, "</defs>\n"});
}

}  // namespace plait::planning
