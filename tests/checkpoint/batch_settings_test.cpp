// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint
#include "plait/checkpoint/batch_settings.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "plait/checkpoint/checkpoint_options.hpp"
#include "plait/checkpoint/manifest.hpp"
#include "plait/tensor/batch.hpp"

namespace {

using plait::detail::checkpoint_settings;

checkpoint_settings settings_of(std::string const& text, std::uint64_t content = 7) {
  checkpoint_settings out;
  plait::detail::add_settings_of_batches(
      out, {.samples = 8, .data_set = 100, .content = content, .text = text});
  return out;
}
/// Returns the difference if a run with `now` continues from a checkpoint with `saved`.
std::string difference(checkpoint_settings const& saved, checkpoint_settings const& now) {
  std::string out;
  for (auto const& one :
       plait::ext::differences(saved, plait::detail::settings_to_compare(now, saved), {}))
    out += one;
  return out;
}

TEST(BatchSettings, KeepWhatTheDataSetSaysThatItIs) {
  EXPECT_EQ(settings_of("table('a.csv') | normalize(0.5, 2)")[1].second,
            "100 samples, fingerprint 0000000000000007: table('a.csv') | normalize(0.5, 2)");
  EXPECT_EQ(settings_of("")[1].second, "100 samples, fingerprint 0000000000000007");
  EXPECT_EQ(difference(settings_of("a | crop<2, 2>"), settings_of("a | crop<2, 2>")), "");
  EXPECT_EQ(difference(settings_of("a | take(3)"), settings_of("a | take(4)")),
            "data_set is 100 samples, fingerprint 0000000000000007: a | take(3) in the checkpoint "
            "and 100 samples, fingerprint 0000000000000007: a | take(4) now");
  EXPECT_NE(difference(settings_of("a | take(3)"), settings_of("")), "");
}

TEST(BatchSettings, OfACheckpointWithoutATextAreComparedWithAdaptorsAlone) {
  EXPECT_EQ(difference(settings_of(""), settings_of("table('a.csv')")), "");
  EXPECT_EQ(difference(settings_of(""), settings_of("split_data(table('a.csv'), samples 0 to 9)")),
            "");
  EXPECT_NE(difference(settings_of("", 8), settings_of("table('a.csv')")), "");
  EXPECT_NE(difference(settings_of(""), settings_of("data | random_flip(0.5, seed 0)")), "");
  EXPECT_EQ(difference({}, {}), "");
}

TEST(BatchSettings, OfALongTextKeepItsBeginningAndAFingerprint) {
  std::string const long_text(100'000, 'x');
  auto const saved = settings_of(long_text + " | take(1)");
  EXPECT_LT(saved[1].second.size(), 2200u);
  EXPECT_EQ(difference(saved, settings_of(long_text + " | take(1)")), "");
  EXPECT_NE(difference(saved, settings_of(long_text + " | take(2)")), "");
  // A difference after 200 bytes must be visible.
  std::string const middle(300, 'x');
  EXPECT_EQ(difference(settings_of(middle + " | take(1)"), settings_of(middle + " | take(2)")),
            "data_set is ..." + std::string(42, 'x') + " | take(1) in the checkpoint and ..." +
                std::string(42, 'x') + " | take(2) now");
}

TEST(BatchSettings, AreUtf8) {
  EXPECT_EQ(settings_of("file \xff\n")[1].second,
            "100 samples, fingerprint 0000000000000007: file \\xff\\n");
}

}  // namespace
