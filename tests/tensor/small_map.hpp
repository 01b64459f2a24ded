// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

// The members of Eigen::Map that plait::ext::as uses, for machines without Eigen.
namespace small {

template <class T, int Rows, int Columns, bool RowMajor = true>
struct matrix {
  using scalar = T;
  static constexpr int rows = Rows, columns = Columns;
  static constexpr bool row_major = RowMajor;
};

template <int Outer, int Inner>
struct stride {
  static constexpr int OuterStrideAtCompileTime = Outer, InnerStrideAtCompileTime = Inner;
};

template <class Plain, int Options = 0, class Stride = stride<0, 0>>
class Map {
 public:
  using Scalar = typename Plain::scalar;
  using PointerType = std::conditional_t<std::is_const_v<Plain>, Scalar const*, Scalar*>;
  using Index = std::ptrdiff_t;
  static constexpr int RowsAtCompileTime = Plain::rows, ColsAtCompileTime = Plain::columns;
  static constexpr int SizeAtCompileTime =
      RowsAtCompileTime < 0 || ColsAtCompileTime < 0 ? -1 : RowsAtCompileTime * ColsAtCompileTime;
  static constexpr bool IsRowMajor = Plain::row_major;

  Map(PointerType data, Index size)
      : Map(data, ColsAtCompileTime == 1 ? size : 1, ColsAtCompileTime == 1 ? 1 : size) {}
  Map(PointerType data, Index rows, Index columns, Stride = {})
      : data_(data), rows_(rows), columns_(columns) {}

  PointerType data() const { return data_; }
  Index rows() const { return rows_; }
  Index cols() const { return columns_; }
  Index size() const { return rows_ * columns_; }
  Index innerStride() const { return 1; }
  Index outerStride() const { return IsRowMajor ? columns_ : rows_; }

 private:
  PointerType data_;
  Index rows_, columns_;
};

}  // namespace small
