// SPDX-License-Identifier: Apache-2.0
// first: another text
// expect: a text
int main() {
#ifdef PLAIT_EXPECT_FAIL
  static_assert(false, "a text");
  static_assert(false, "another text");
#endif
}
