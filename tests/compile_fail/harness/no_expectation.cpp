// SPDX-License-Identifier: Apache-2.0
int main() {
#ifdef PLAIT_EXPECT_FAIL
  static_assert(false, "nobody expects this");
#endif
}
