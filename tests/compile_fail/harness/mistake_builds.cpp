// SPDX-License-Identifier: Apache-2.0
// expect: this text is never printed
int main() {}
