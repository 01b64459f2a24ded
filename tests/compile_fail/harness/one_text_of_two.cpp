// SPDX-License-Identifier: Apache-2.0
// expect: the first text
// expect: another text
int main() {
#ifdef PLAIT_EXPECT_FAIL
  static_assert(false, "the first text");
#endif
}
