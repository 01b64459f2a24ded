// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "plait/testing/report.hpp"

/// Some failure contains `text`.
inline void expect_reported(plait::testing::check_report const& report, std::string const& text) {
  for (auto const& failure : report.failures)
    if (failure.find(text) != std::string::npos) return;
  ADD_FAILURE() << "not reported: " << text << "\nreported:\n" << report.text();
}

/// There are failures, and each contains one of `texts`.
inline void expect_only(plait::testing::check_report const& report,
                        std::initializer_list<std::string> texts) {
  EXPECT_FALSE(report.passed());
  for (auto const& failure : report.failures) {
    bool expected = false;
    for (auto const& text : texts) expected = expected || failure.find(text) != std::string::npos;
    EXPECT_TRUE(expected) << failure;
  }
}
