// SPDX-License-Identifier: Apache-2.0
// A function of a loss that no loss can call: the sentence comes before the compiler's own words.
// first: elementwise_loss<Width, Function>: Function has no static value(x, target)
// first: elementwise_loss<Width, Function>: Function has no static slope(x, target)
#include "plait/nn/elementwise_loss.hpp"

struct right {
  template <class T>
  static T value(T x, T target) {
    return x - target;
  }
  template <class T>
  static T slope(T, T) {
    return 1;
  }
};

#ifdef PLAIT_EXPECT_FAIL
struct value_of_an_object : right {
  template <class T>
  T value(T x, T target) const {
    return x - target;
  }
};
struct without_slope {
  static float value(float x, float target) { return x - target; }
};
#else
struct value_of_an_object : right {};
struct without_slope {
  static float value(float x, float target) { return x - target; }
  static float slope(float, float) { return 1; }
};
#endif

static_assert(plait::layer<plait::nn::elementwise_loss<4, value_of_an_object>>);
static_assert(plait::layer<plait::nn::elementwise_loss<4, without_slope>>);

int main() {}
