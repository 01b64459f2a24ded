// SPDX-License-Identifier: Apache-2.0
// expect: what the author meant
int main() {
#ifdef PLAIT_EXPECT_FAIL
  static_assert(false, "what the compiler says");
#endif
}
