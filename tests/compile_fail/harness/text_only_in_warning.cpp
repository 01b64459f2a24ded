// SPDX-License-Identifier: Apache-2.0
// expect: the text of a mere warning
#ifdef PLAIT_EXPECT_FAIL
#warning "the text of a mere warning"
#endif
int main() {}
