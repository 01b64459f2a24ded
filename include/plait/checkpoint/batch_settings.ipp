// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/batch_settings.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "plait/checkpoint/checkpoint_name.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/hash.hpp"
#include "plait/core/quote.hpp"
#include "plait/policy/recompute.hpp"

namespace plait::detail {

PLAIT_DECL void add_settings_of_batches(checkpoint_settings& to, batch_description const& of) {
  constexpr std::size_t most = 2000;
  auto text = escaped(of.text);
  if (text.size() > most)
    text = concat({escaped(of.text.substr(0, most)), "... ", hash().add(of.text).text()});
  to.emplace_back("global_batch", std::to_string(of.samples));
  to.emplace_back(data_set_setting,
                  concat({of.data_set, " samples, fingerprint ", digits_of(of.content),
                          (text.empty() ? "" : concat({": ", text}))}));
  to.emplace_back(
      "order", of.is_shuffled ? concat({"shuffled by seed ", of.seed}) : std::string("sequential"));
  to.emplace_back("last_batch", of.keeps_last ? "keep" : "drop");
}

PLAIT_DECL checkpoint_settings settings_to_compare(checkpoint_settings now,
                                                   checkpoint_settings const& saved) {
  constexpr std::string_view before_text = ": ", before_adaptor = " | ";
  auto const value_in = [](auto& settings) {
    return std::ranges::find(settings, std::string_view(data_set_setting),
                             [](auto const& setting) { return std::string_view(setting.first); });
  };
  auto const old = value_in(saved);
  auto const mine = value_in(now);
  if (old == saved.end() || mine == now.end() || old->second.find(before_text) != std::string::npos)
    return now;
  if (mine->second.find(before_adaptor) == std::string::npos)
    mine->second.resize(std::min(mine->second.find(before_text), mine->second.size()));
  return now;
}

}  // namespace plait::detail
