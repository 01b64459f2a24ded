// SPDX-License-Identifier: Apache-2.0
// A sentence after a name of 2,200 letters.
// first: the sentence that nobody reaches

template <class T, int Size>
struct check {
#ifdef PLAIT_EXPECT_FAIL
  static_assert(Size == 0, "the sentence that nobody reaches");
#endif
};
template <class A, class B>
struct two {};
struct a_name_of_forty_letters_so_that_few_do_it {};
using four = two<two<a_name_of_forty_letters_so_that_few_do_it, int>,
                 two<a_name_of_forty_letters_so_that_few_do_it, int>>;
using sixteen = two<two<four, four>, two<four, four>>;
using sixty_four = two<two<sixteen, sixteen>, two<sixteen, sixteen>>;

inline check<sixty_four, 1> checked;
