// SPDX-License-Identifier: Apache-2.0
// first: plait::ext::name: the text has more than 32 characters; shorten it
#include "plait/core/name.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::ext::name label("a_parameter_whose_name_tells_a_whole_story");
#else
constexpr plait::ext::name label("a_parameter");
#endif

int main() { return label.empty(); }
