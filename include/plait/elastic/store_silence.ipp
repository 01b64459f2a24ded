// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/elastic/store_silence.hpp"

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL void store_silence::failed(time began, time now, std::string words, bool answers) {
  if (!is_away()) last_ = began;
  lasts_ += std::clamp(now - last_, time{1}, longest_gap);
  last_ = std::max(last_, now);
  answers_ = answers;
  words_ = std::move(words);
}

PLAIT_DECL void store_silence::answered(bool all) {
  if (!is_away() || (answers_ && !all)) return;
  if (next_ > said_after)
    back_ = concat({"plait: elastic: ", store_, (answers_ ? " can be used" : " answers"),
                    " again, after ", seconds(lasts_)});
  past_ += lasts_;
  lasts_ = time{0};
  next_ = said_after;
}

PLAIT_DECL std::string store_silence::says(std::string_view then) {
  if (!back_.empty()) return std::exchange(back_, "");
  if (lasts_ < next_) return "";
  next_ = lasts_ + said_every;
  return concat({"plait: elastic: ", text(), ": no member can join or leave; ", then});
}

PLAIT_DECL std::string store_silence::text() const {
  return store_ + (answers_ || !words_.empty() ? " cannot be used for " : " does not answer for ") +
         seconds(lasts_) + (words_.empty() ? "" : concat({", ", in_quotes(words_)}));
}

PLAIT_DECL std::string store_silence::seconds(time of) {
  return concat({(of.count() + 500) / 1'000, " s"});
}

}  // namespace plait::detail
