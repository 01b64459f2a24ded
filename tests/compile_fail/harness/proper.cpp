// SPDX-License-Identifier: Apache-2.0
// expect: width 3 is odd; choose an even one
template <int Width>
constexpr int half() {
  static_assert(Width % 2 == 0, "width 3 is odd; choose an even one");
  return Width / 2;
}

#ifdef PLAIT_EXPECT_FAIL
int main() { return half<3>() - 1; }
#else
int main() { return half<2>() - 1; }
#endif
