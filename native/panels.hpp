// Keys, or values of the way back, as the products take them: rows of a panel side by side.
#pragma once

#include "strip_pass.hpp"

namespace heedmap {

struct Panels {
  Index heads = 0;
  Index rows = 0;
  Index dim = 0;
  Index panel = 0;
  const float* from = nullptr;  // [heads, rows, dim]
  std::ptrdiff_t head_stride = 0;
  std::ptrdiff_t row_stride = 0;
  float* to = nullptr;  // [heads, count(), dim, panel]

  Index count() const { return (rows + panel - 1) / panel; }
};

// Every row of `from` as a column of its panel, zeros after the last row.
void pack_rows(const Panels& panels, const Team& team, int threads);

}  // namespace heedmap
