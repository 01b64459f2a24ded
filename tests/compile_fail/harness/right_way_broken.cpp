// SPDX-License-Identifier: Apache-2.0
// expect: a text that is printed
int main() { static_assert(false, "a text that is printed"); }
