// What tensors of Python must be before the pass looks at them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "strip_pass.hpp"

namespace heedmap {

namespace nb = nanobind;

template <typename T, int Dimensions>
using Array = nb::ndarray<T, nb::ndim<Dimensions>, nb::device::cpu>;
using Table = Array<float, 3>;
using Allowed = std::tuple<Index, Array<const bool, 3>>;

[[noreturn]] inline void refuse(const std::string& message) { throw std::invalid_argument("[strip pass] " + message); }

inline void check(bool fits, const char* message) {
  if (!fits) refuse(message);
}

inline const Level& level_named(const std::optional<std::string>& name) {
  if (!name) return *levels().front();
  for (const Level* level : levels()) {
    if (*name == level->name) return *level;
  }
  refuse("no instruction set " + *name + " on this machine");
}

template <typename A>
bool dense(const A& array) {
  if (array.size() == 0) return true;
  std::int64_t expected = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) > 1 && array.stride(i) != expected) return false;
    expected *= static_cast<std::int64_t>(array.shape(i));
  }
  return true;
}

template <typename T>
void check_table(const Array<T, 3>& table, Index heads, Index rows, Index keys) {
  check(static_cast<Index>(table.shape(0)) == heads && static_cast<Index>(table.shape(1)) == rows &&
            static_cast<Index>(table.shape(2)) == keys,
        "expected tables [heads, rows, keys] of the strip's sizes");
}

inline void take_strides(const Table& table, std::ptrdiff_t& head, std::ptrdiff_t& row) {
  check(table.shape(2) <= 1 || table.stride(2) == 1, "expected a table with keys side by side");
  head = static_cast<std::ptrdiff_t>(table.stride(0));
  row = static_cast<std::ptrdiff_t>(table.stride(1));
  const auto keys = static_cast<std::ptrdiff_t>(table.shape(2)), rows = static_cast<std::ptrdiff_t>(table.shape(1));
  check(rows <= 1 || row >= keys, "expected rows that do not overlap");
  check(table.shape(0) <= 1 || head >= (rows - 1) * row + keys, "expected heads that do not overlap");
}

inline Segment segment(Index heads, Index rows, Index keys, const Allowed& allowed) {
  const auto& [start, table] = allowed;
  Segment segment;
  segment.start = start;
  segment.stop = start + static_cast<Index>(table.shape(2));
  check(start >= 0 && segment.stop <= keys, "expected a segment within the strip");
  check(table.shape(0) == 1 || static_cast<Index>(table.shape(0)) == heads, "expected a segment for the heads");
  check(static_cast<Index>(table.shape(1)) == rows, "expected a segment for the rows");
  check(table.shape(2) <= 1 || table.stride(2) == 1, "expected a segment with keys side by side");
  segment.allowed = reinterpret_cast<const std::uint8_t*>(table.data());
  segment.head_stride = table.shape(0) == 1 ? 0 : static_cast<std::ptrdiff_t>(table.stride(0));
  segment.row_stride = static_cast<std::ptrdiff_t>(table.stride(1));
  return segment;
}

}  // namespace heedmap
