// SPDX-License-Identifier: Apache-2.0
// test: seconds=15
//
// Pictures of plans agree with `explain` and the list of transfers, and are legible: no text
// overlaps another, all texts have enough contrast with their background, and the document is
// well-formed.
#include "plait/draw/draw.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/bfloat16.hpp"
#include "plait/core/precision.hpp"
#include "plait/draw/layer_list.hpp"
#include "plait/draw/mesh_picture.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/policy/policies.hpp"
#include "plait/policy/recompute.hpp"
#include "plan/models.hpp"
#include "plan/xml_fault.hpp"
#include "schedule/halves_of_two_chunks.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using words = std::vector<std::string>;
using xml_reader::fault_of;

// Plans.

using small_gpt = models::gpt_with_loss<4, 32, 4, 16, 64>;
using mixed = hybrid<pipeline<2>, data_parallel<2>, tensor_parallel<2>>;
constexpr workload small_load{.rows = 64, .microbatches = 4, .gradient_norm = true};

template <class Numbers>
struct deep;
template <std::size_t... I>
struct deep<std::index_sequence<I...>> {
  using type = sequential<std::conditional_t<I % 2 == 0, nn::linear<16, 16>, nn::relu<16>>...>;
};
using deep_net = deep<std::make_index_sequence<161>>::type;

// Statistics of all samples: sums in the forward, and in the backward if the input has a gradient.
using maps = nn::image<8, 6, 6>;
using normed = sequential<nn::batch_norm<maps>, named<"conv", nn::conv2d<maps, 8, {.padding = 1}>>,
                          named<"bn", nn::batch_norm<maps>>, nn::flatten<maps>>;

using gpt3 = models::gpt_with_loss<96, 12288, 96, 2048, 50304>;
using big = hybrid<pipeline<16>, data_parallel<1024>, tensor_parallel<8, sequence::sharded>>;

// Names of 32 bytes: characters with a meaning in XML, characters of two and three bytes, and
// invalid bytes.
using odd_names = sequential<
    named<"<a href=\"x\">&amp;'</a> ]]> <!--", nn::linear<16, 16>>,
    named<"\xc3\xa4\xc3\xb6\xc3\xbc \xe5\xb1\xa4\xe5\xb1\xa4\xe5\xb1\xa4 \xe2\x82\xac 0123456789",
          nn::linear<16, 16>>,
    named<"\x01\x1b\x7f\xc3 \xff\xed\xa0\x80 WWWWWWWWWWWWWWWWWWWWWW", nn::linear<16, 16>>,
    named<"WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW", nn::relu<16>>>;

// Custom layers, planned as in examples/custom_layer.cpp.
template <std::size_t In, std::size_t Out>
struct dense {
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<In, Out>, normal(0.1)>;
  using parameters = parameter_list<weight>;
  using input = features<In>;
  using output = features<Out>;
  using forms = plait::forms<whole, column<split<weight, 1>>, row_split<split<weight, 0>>>;
  using saved = plait::saved<input_slot>;
  static void forward(auto& ops, auto l) { ops.matmul(l.x, l.p[weight{}], l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.matmul(l.dy, transposed(l.p[weight{}]), l.dx);
  }
  static void backward_parameters(auto& ops, auto l) {
    ops.accumulate_matmul(transposed(l.saved[input_slot{}]), l.dy, l.dp[weight{}]);
  }
};
template <std::size_t Width>
struct softsign {
  using concept_tag = layer_tag;
  using input = features<Width>;
  using output = features<Width>;
  using forms = plait::forms<whole, by_features, by_sequence<>>;
  using saved = plait::saved<input_slot>;
  static void forward(auto& ops, auto l) { ops.copy(l.x, l.y); }
  static void backward_input(auto& ops, auto l) { ops.copy(l.dy, l.dx); }
};
using own_net = objective<sequential<dense<32, 64>, softsign<64>, dense<64, 10>>,  //
                          nn::cross_entropy<10>>;

struct pictured {
  std::string name;
  drawn_plan plan;
  std::string explained;
  bool is_folded = false;
};

template <class Model, class Policy, class Element = float>
pictured make(std::string name, workload const& load = small_load, bool is_folded = false) {
  using of = planning::plan<Model, Policy, Element>;
  return {std::move(name), drawn_plan_of(of{}, load), explain(of{}, load), is_folded};
}

std::vector<pictured> const& all_plans() {
  static std::vector<pictured> const all{
      make<small_gpt, serial>("serial"),
      make<small_gpt, data_parallel<2>>("dp2"),
      make<small_gpt, tensor_parallel<2>>("tp2"),
      make<small_gpt, pipeline<2>>("pp2"),
      make<small_gpt, mixed>("dp2.tp2.pp2"),
      make<small_gpt, tensor_parallel<2, sequence::sharded>>("tp2 sharded"),
      make<small_gpt, data_parallel<4, zero<1>>, plait::precision<plait::bfloat16, float>>(
          "zero<1>"),
      make<small_gpt, data_parallel<4, within<2>, zero<3>, buckets<1024>>>("zero<3>"),
      make<small_gpt, hybrid<pipeline<2>, tensor_parallel<2>, recompute<granularity::all>>>(
          "recompute"),
      make<small_gpt, pipeline<2, plait_test::halves_of_two_chunks>>("chunks"),
      make<normed, hybrid<data_parallel<2>, tensor_parallel<2>>>("sums over samples",
                                                                 {.rows = 8, .microbatches = 2}),
      make<own_net, data_parallel<2>>("own layers dp2", {.rows = 16, .microbatches = 2}),
      make<own_net, tensor_parallel<2>>("own layers tp2", {.rows = 16, .microbatches = 2}),
      make<own_net, mixed>("own layers dp2.tp2.pp2", {.rows = 16, .microbatches = 2}),
      make<deep_net, mixed>("161 layers", {.rows = 16, .microbatches = 8}),
      make<small_gpt, hybrid<data_parallel<at_launch>, reproducible<12>>>(
          "elastic", {.rows = 64, .microbatches = 4, .data_ranks = 3}),
      make<odd_names, tensor_parallel<2>>("odd names", {.rows = 16}),
      make<gpt3, big>("gpt3", {.rows = 2048, .microbatches = 32, .gradient_norm = true}, true)};
  return all;
}

constexpr picture all_pictures[]{picture::mesh, picture::plan, picture::memory, picture::timetable};

/// Calls of(plan, options) for each plan and picture in both themes.
template <class Check>
void for_all(Check check) {
  for (auto const& plan : all_plans())
    for (auto const what : all_pictures)
      for (bool const dark : {false, true}) {
        SCOPED_TRACE(plan.name + ", picture " + std::to_string(int(what)) + (dark ? ", dark" : ""));
        check(plan, draw_options{what, dark});
      }
}

TEST(Draw, DocumentsAreWellFormedAndHaveNothingFromOutside) {
  EXPECT_EQ(fault_of("<a b=\"c\">d<e/></a>\n"), "");
  for (auto const* text :
       {"<a>", "<a></b>", "<a b=c></a>", "<a>&x;</a>", "<a/><b/>", "<a b=\"<\"/>"})
    EXPECT_NE(fault_of(text), "") << text;
  for_all([](pictured const& of, draw_options const& how) {
    auto const svg = draw(of.plan, how);
    EXPECT_EQ(fault_of(svg), "");
    EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    for (auto const* word : {"<script", " href=\"", "<image", "@", "<style", "<foreignObject"})
      EXPECT_EQ(svg.find(word), svg.npos) << word;
    EXPECT_EQ(svg.find("http", svg.find("http") + 1), svg.npos);
    std::size_t references = 0, own = 0;
    for (auto at = svg.find("url("); at != svg.npos; at = svg.find("url(", at + 1))
      ++references, own += svg.substr(at, 11) == "url(#plait-";
    EXPECT_EQ(references, own);
    EXPECT_NE(svg.find("<title id="), svg.npos);
    EXPECT_NE(svg.find("<desc id="), svg.npos);
  });
}

TEST(Draw, SameBytesEachTime) {
  for_all([](pictured const& of, draw_options const& how) {
    EXPECT_EQ(draw(of.plan, how), draw(of.plan, how));
  });
  // example-begin draw
  using job = plait::parallel<small_gpt, plait::data_parallel<2>>;
  std::string const svg = plait::ext::draw(job::plan(), {.rows = 64, .microbatches = 2},
                                           {.what = plait::ext::picture::memory});
  // example-end
  EXPECT_EQ(svg, draw(drawn_plan_of(job::plan(), {.rows = 64, .microbatches = 2}),
                      {.what = picture::memory}));
}

// Tests of the places of texts.

TEST(Draw, NoTextCoversAnotherOrLeavesThePicture) {
  for_all([](pictured const& of, draw_options const& how) {
    auto const picture = drawing_of(of.plan, how);
    auto texts = picture.texts();
    ASSERT_FALSE(texts.empty());
    for (auto const& text : texts) {
      EXPECT_GE(text.x, 0) << text.text;
      EXPECT_GE(text.y, 0) << text.text;
      EXPECT_LE(text.x + text.width, picture.width()) << text.text;
      EXPECT_LE(text.y + text.height, picture.height()) << text.text;
    }
    std::sort(texts.begin(), texts.end(), [](auto const& a, auto const& b) { return a.y < b.y; });
    for (std::size_t i = 0; i < texts.size(); ++i)
      for (std::size_t k = i + 1; k < texts.size() && texts[k].y < texts[i].y + texts[i].height;
           ++k)
        EXPECT_TRUE(texts[i].x + texts[i].width <= texts[k].x ||
                    texts[k].x + texts[k].width <= texts[i].x)
            << "'" << texts[i].text << "' and '" << texts[k].text << "'";
  });
}

TEST(Draw, TextsStayInTheirBoxes) {
  for_all([](pictured const& of, draw_options const& how) {
    auto const picture = drawing_of(of.plan, how);
    for (auto const& text : picture.texts())
      for (auto const& box : picture.boxes()) {
        bool const touches = text.x < box.x + box.width && box.x < text.x + text.width &&
                             text.y < box.y + box.height && box.y < text.y + text.height;
        bool const is_inside = text.x >= box.x && text.x + text.width <= box.x + box.width &&
                               text.y >= box.y && text.y + text.height <= box.y + box.height;
        EXPECT_TRUE(!touches || is_inside) << text.text;
      }
  });
}

double luminance(std::string_view hex) {
  auto const part = [&](std::size_t at) {
    double const value = std::stoi(std::string(hex.substr(at, 2)), nullptr, 16) / 255.0;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
}
/// Returns the contrast as defined by WCAG, 1 to 21.
double contrast(colour one, colour other, bool dark) {
  double const a = luminance(text_of(one, dark)), b = luminance(text_of(other, dark));
  return (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05);
}

TEST(Draw, TextsContrastWithTheirBackground) {
  EXPECT_NEAR(contrast(colour::ground, colour::ground, false), 1, 1e-9);
  for_all([](pictured const& of, draw_options const& how) {
    auto const picture = drawing_of(of.plan, how);
    for (auto const& text : picture.texts()) {
      auto behind = colour::ground;
      for (auto const& box : picture.boxes())
        if (text.x >= box.x && text.x + text.width <= box.x + box.width && text.y >= box.y &&
            text.y + text.height <= box.y + box.height)
          behind = box.inside;
      EXPECT_GE(contrast(text.ink, behind, how.dark), 4.5) << text.text;
    }
  });
}

// Tests of the contents of texts.

std::string group_text(drawn_plan const& of, transfer const& made) {
  return to_string(of.numbers.grid.of_several_ranks(made.row().over));
}
/// Returns all messages of a training step, each as the rank that sends it lists it.
std::multiset<std::string> sent_rows(drawn_plan const& of) {
  std::multiset<std::string> out;
  for (std::size_t stage = 0; stage < of.transfers.size(); ++stage)
    for (auto const& made : of.transfers[stage]) {
      if (group_text(of, made).empty() || !made.is_sent_by(int(stage))) continue;
      bool const is_plain =
          made.place == transfer_place::forward || made.place == transfer_place::backward;
      out.insert((is_plain ? std::string() : std::string(to_string(made.place)) + ": ") +
                 to_string(made.row().moves) + " over " + group_text(of, made) + ", " +
                 std::to_string(made.times) + " x " +
                 with_unit(made.count * of.sizes.of(made.element)));
    }
  return out;
}
/// Returns all messages of a training step, as the texts of a picture show them.
std::multiset<std::string> drawn_rows(drawing const& picture) {
  std::multiset<std::string> out;
  std::string before;
  for (auto const& text : picture.texts()) {
    auto line = text.text;
    if (auto const times = line.find("\xc3\x97"); times != line.npos) {
      line.replace(times, 2, "x");
      line = line.substr(0, line.find(" of "));
      out.insert(line.find(" over ") == line.npos ? before + ", " + line : line);
    }
    before = text.text;
  }
  return out;
}

TEST(Draw, ThePlanHasEachRowOfTheListOnce) {
  for (auto const& of : all_plans()) {
    SCOPED_TRACE(of.name);
    auto const rows = sent_rows(of.plan);
    auto const drawn = drawn_rows(drawing_of(of.plan, {}));
    if (of.is_folded) {
      // Only one of equal stages is drawn.
      EXPECT_EQ(std::set<std::string>(drawn.begin(), drawn.end()),
                std::set<std::string>(rows.begin(), rows.end()));
      EXPECT_LT(drawn.size(), rows.size());
    } else {
      EXPECT_EQ(drawn, rows);
    }
  }
}

/// Returns "64 KiB", "33 %" and other numbers of a text. Letters before and after a number belong
/// to it, as in "c_fc2".
std::set<std::string> numbers_of_text(std::string const& text) {
  std::set<std::string> out;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) != 0 ||
                                 (end > i && text[end] == '.' && end + 1 < text.size() &&
                                  std::isdigit(static_cast<unsigned char>(text[end + 1])) != 0)))
      ++end;
    if (end == i) {
      ++i;
      continue;
    }
    std::size_t unit = end;
    for (auto const* word : {" B", " KiB", " MiB", " GiB", " TiB", " %"})
      if (text.compare(end, std::string_view(word).size(), word) == 0)
        unit = end + std::string_view(word).size();
    out.insert(text.substr(i, unit - i));
    i = unit;
  }
  return out;
}

TEST(Draw, EachNumberIsOneOfExplainOrOfTheList) {
  for (auto const& of : all_plans())
    for (auto const what : {picture::mesh, picture::plan, picture::memory}) {
      SCOPED_TRACE(of.name + ", picture " + std::to_string(int(what)));
      auto known = numbers_of_text(of.explained);
      for (auto const& row : sent_rows(of.plan)) known.merge(numbers_of_text(row));
      int const world = of.plan.numbers.grid.world_size();
      std::size_t bytes = 0;
      auto const picture = drawing_of(of.plan, {what});
      for (auto const& text : picture.texts())
        for (auto const& number : numbers_of_text(text.text)) {
          bool const has_unit = number.find(' ') != number.npos;
          bytes += has_unit;
          if (what == picture::mesh && !has_unit) {
            EXPECT_LE(std::stoi(number), world) << text.text;  // the numbers of ranks and groups
          } else {
            bool const counts_copies = text.text.find(" cop") != std::string::npos ||
                                       text.text.find("alike") != std::string::npos;
            EXPECT_TRUE(counts_copies || known.contains(number)) << text.text << ": " << number;
          }
        }
      // Checks that there are numbers to compare.
      EXPECT_EQ(bytes > 0, what == picture::memory || !sent_rows(of.plan).empty());
    }
}

std::string all_text(pictured const& of, picture what) {
  std::string out;
  auto const picture = drawing_of(of.plan, {what});
  for (auto const& text : picture.texts()) out += text.text + "\n";
  return out;
}
pictured const& plan_called(std::string_view name) {
  return *std::find_if(all_plans().begin(), all_plans().end(),
                       [&](auto const& of) { return of.name == name; });
}

TEST(Draw, DelayedReductionsAreNotOfTheStep) {
  auto const late = make<own_net, data_parallel<2, delayed<1>>>("delayed", {.rows = 16});
  auto const text = all_text(late, picture::plan);
  EXPECT_NE(text.find("gradients, during the next step: all_reduce over data"), std::string::npos)
      << text;
}

TEST(Draw, MemoryHasAColumnForEachPart) {
  for (auto const& of : all_plans()) {
    SCOPED_TRACE(of.name);
    auto const picture = drawing_of(of.plan, {picture::memory});
    words cells;
    for (auto const& text : picture.texts()) cells.push_back(text.text);
    auto const column = [&](std::string const& title, auto part) {
      words wanted{title};
      for (auto const& need : of.plan.memory) wanted.push_back(with_unit(part(need)));
      EXPECT_NE(std::search(cells.begin(), cells.end(), wanted.begin(), wanted.end()), cells.end())
          << title;
    };
    column("parameters", [](auto const& need) { return need.parameters; });
    column("gradients", [](auto const& need) { return need.gradients; });
    column("optimizer", [](auto const& need) { return need.optimizer; });
    column("activations", [](auto const& need) { return need.activations; });
    column("batches", [](auto const& need) { return need.batches; });
    column("numbers", [](auto const& need) { return need.numbers; });
    column("bytes per rank", [](auto const& need) { return need.total(); });
  }
}

TEST(Draw, MeshHasEachRankOnceOrAGroupOfEachKind) {
  auto const text = "\n" + all_text(plan_called("dp2.tp2.pp2"), picture::mesh);
  for (int rank = 0; rank < 8; ++rank)
    EXPECT_NE(text.find("\n" + std::to_string(rank) + "\n"), text.npos) << rank;
  EXPECT_EQ(text.find("\n8\n"), text.npos);
  EXPECT_NE(text.find("tensor: 4 groups of 2 ranks\n"), text.npos);
  EXPECT_NE(text.find("stage 1\n"), text.npos);
  auto const large = all_text(plan_called("gpt3"), picture::mesh);
  EXPECT_NE(large.find("tensor: 16384 groups of 8 ranks\n"), large.npos);
  EXPECT_NE(large.find("stage: 8192 groups of 16 ranks\n"), large.npos);
  EXPECT_LT(std::count(large.begin(), large.end(), '\n'), 100);
  auto const& grid = plan_called("gpt3").plan.numbers.grid;
  for (auto const over :
       {axis_set(axis::stage), axis_set(axis::data), axis::tensor | axis::stage}) {
    auto const members = grid.group_of(0, over);
    for (int place = 0; place < grid.size(over); ++place)
      EXPECT_EQ(member_of_first_group(grid, over, place), members[std::size_t(place)]);
  }
}

TEST(Draw, TimetablesHaveEachComputationOnce) {
  for (auto const& of : all_plans()) {
    SCOPED_TRACE(of.name);
    std::multiset<std::string> wanted, drawn;
    for (auto const& stage : of.plan.table.stages)
      for (auto const& op : stage.operations) {
        if (!computes(op.kind)) continue;
        auto const kind = op.kind == work::forward               ? "F"
                          : op.kind == work::backward            ? "B"
                          : op.kind == work::backward_input      ? "I"
                          : op.kind == work::backward_parameters ? "P"
                                                                 : "?";
        wanted.insert(kind + std::to_string(op.microbatch) +
                      (of.plan.table.chunks > 1 ? "." + std::to_string(op.chunk) : ""));
      }
    auto const picture = drawing_of(of.plan, {picture::timetable});
    for (auto const& text : picture.texts())
      if (text.text.size() > 1 && std::isdigit(static_cast<unsigned char>(text.text[1])) != 0)
        drawn.insert(text.text);
    EXPECT_EQ(drawn, wanted);
  }
  auto const idle = all_text(plan_called("pp2"), picture::timetable);
  auto const& explained = plan_called("pp2").explained;
  auto const at = explained.find("idle ");
  ASSERT_NE(at, explained.npos);
  EXPECT_NE(idle.find(explained.substr(at, explained.find('\n', at) - at)), idle.npos);
}

// A stage runs one computation after the other, and none before its inputs are there.
TEST(Draw, TimesOfChunksKeepTheirDependences) {
  auto const& table = plan_called("chunks").plan.table;
  auto const order = times_of(table);
  std::map<std::string, std::int64_t> ends;
  std::size_t computations = 0;
  for (std::size_t s = 0; s < order.stages.size(); ++s) {
    std::int64_t free = 0;
    for (auto const& now : order.stages[s]) {
      EXPECT_GE(now.begin, free);
      free = now.end;
      int const number = now.op.chunk * int(order.stages.size()) + int(s);
      ends[std::string(to_string(now.op.kind)) + std::to_string(number) + " " +
           std::to_string(now.op.microbatch)] = now.end;
      ++computations;
    }
  }
  EXPECT_EQ(computations, 4u * 4u * 3u);
  for (int m = 0; m < table.microbatches; ++m) {
    auto const end = [&](char const* kind, int number) {
      return ends.at(kind + std::to_string(number) + " " + std::to_string(m));
    };
    for (int number = 0; number < 3; ++number) {
      EXPECT_LT(end("forward", number), end("forward", number + 1));
      EXPECT_LT(end("backward_input", number + 1), end("backward_input", number));
    }
    EXPECT_LT(end("forward", 3), end("backward_input", 3));
  }
}

TEST(Draw, NamesAreEscapedAndInvalidBytesAreReplaced) {
  EXPECT_EQ(xml_text("<&>\"'"), "&lt;&amp;&gt;&quot;&#39;");
  EXPECT_EQ(xml_text("\xc3\xa4\xe5\xb1\xa4\xf0\x9f\x98\x80"),
            "\xc3\xa4\xe5\xb1\xa4\xf0\x9f\x98\x80");
  std::string const replaced = "\xef\xbf\xbd";
  EXPECT_EQ(xml_text("\x01"), replaced);
  EXPECT_EQ(xml_text("\xc3"), replaced);
  EXPECT_EQ(xml_text("\xc0\x80"), replaced + replaced);
  // One half of a surrogate pair.
  EXPECT_EQ(xml_text("\xed\xa0\x80"), replaced + replaced + replaced);
  EXPECT_EQ(xml_text("\xef\xbf\xbf"), replaced + replaced + replaced);
  auto const svg = draw(plan_called("odd names").plan);
  EXPECT_NE(svg.find("&lt;a href=&quot;x&quot;&gt;&amp;amp;&#39;&lt;/a&gt; ]]&gt; &lt;!--"),
            svg.npos);
  EXPECT_NE(
      svg.find("\xc3\xa4\xc3\xb6\xc3\xbc \xe5\xb1\xa4\xe5\xb1\xa4\xe5\xb1\xa4 \xe2\x82\xac 01"),
      svg.npos);
}

TEST(Draw, TextsThatDoNotFitAreCutAfterACharacter) {
  EXPECT_EQ(text_width("iiii", 1000, false, 0), 888);
  EXPECT_EQ(text_width("WW", 1000, false, 0), 1888);
  EXPECT_GT(text_width("WW", 100), text_width("WW", 100, false, 0));
  text_style const style{.size = 10, .most = 40};
  EXPECT_EQ(fitted("short", style), "short");
  EXPECT_EQ(fitted("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", style),
            "\xc3\xa4\xc3\xa4\xe2\x80\xa6");
  drawing cut("x", false);
  cut.text(0, 0, "much too long for it", style);
  EXPECT_NE(cut.svg("x").find("<title>much too long for it</title>"), std::string::npos);
}

// When more than ten of 161 layers are folded, each stage shows its first and last layer and the
// four that repeat, and the odd layer at the end. The bytes are unchanged.
TEST(Draw, EqualNeighboursOfDeepModelsAreDrawnOnce) {
  auto const& of = plan_called("161 layers").plan;
  auto const whole = layer_lister(of).chunks();
  auto const folded = layer_lister(of, 10).chunks();
  ASSERT_EQ(whole.size(), 2u);
  ASSERT_EQ(folded.size(), 2u);
  EXPECT_EQ(whole[0].pieces.size() + whole[1].pieces.size(), 161u);
  EXPECT_EQ(folded[0].pieces.size() + folded[1].pieces.size(), 13u);
  auto const lines = [](plait::ext::lean_vector<drawn_chunk> const& chunks) {
    std::set<std::string> out;
    for (auto const& chunk : chunks)
      for (auto const& piece : chunk.pieces)
        for (auto const& layer : piece.layers)
          for (auto const* moves : {&layer.left, &layer.right})
            for (auto const& made : *moves) out.insert(made.what + made.bytes);
    return out;
  };
  EXPECT_EQ(lines(folded), lines(whole));
}

// Writes the pictures that tests/structure/check_in_browser.py shows in a browser.
TEST(Draw, PicturesAreWrittenForWhoAsks) {
  char const* const folder = std::getenv("PLAIT_PICTURES");
  if (folder == nullptr) GTEST_SKIP() << "PLAIT_PICTURES names no folder";
  constexpr char const* kinds[]{"mesh", "plan", "memory", "timetable"};
  for (auto const& of : all_plans())
    for (auto const what : all_pictures) {
      std::ofstream file(std::filesystem::path(folder) /
                         (of.name + " " + kinds[std::size_t(what)] + ".svg"));
      file << drawing_of(of.plan, {what}).svg("x");
      ASSERT_TRUE(file.good()) << of.name;
    }
}

TEST(Draw, SizesAreWrittenAsPrintfWritesThem) {
  for (std::uint64_t bytes = 1; bytes < std::uint64_t{1} << 50; bytes += bytes / 7 + 1) {
    auto value = static_cast<double>(bytes);
    char const* const units[]{"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (value >= 10240 && unit < 4) value /= 1024, ++unit;
    char text[40];
    std::snprintf(text, sizeof text, std::floor(value) == value ? "%.0f %s" : "%.1f %s", value,
                  units[unit]);
    EXPECT_EQ(with_unit(bytes), text);
  }
}

}  // namespace
