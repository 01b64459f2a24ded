// SPDX-License-Identifier: Apache-2.0
// first: a text
// first: another text
// first: a text
int main() {
#ifdef PLAIT_EXPECT_FAIL
  static_assert(false, "a text");
  static_assert(false, "another text");
#endif
}
