// SPDX-License-Identifier: Apache-2.0
// expect: width 3 is odd; choose an even one
int main() {
#ifdef PLAIT_EXPECT_FAIL
  static_assert(false, "the text of proper.cpp is meant");
#endif
}
