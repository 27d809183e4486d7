// Numbers side by side in panels, as the products of an instruction set take them.
#pragma once

#include <cstddef>
#include <vector>

#include "strip_pass.hpp"

namespace heedmap {

// [heads, along / panel rounded up, inner, panel] of what `at(head, along, inner)` gives, zeros where there is nothing.
template <typename At>
std::vector<float> pack(Index heads, Index along, Index inner, Index panel, At at) {
  const Index panels = (along + panel - 1) / panel;
  std::vector<float> packed(static_cast<std::size_t>(heads * panels * inner * panel));
  for (Index h = 0; h < heads; ++h) {
    for (Index a = 0; a < along; ++a) {
      for (Index i = 0; i < inner; ++i) {
        packed[static_cast<std::size_t>(((h * panels + a / panel) * inner + i) * panel + a % panel)] = at(h, a, i);
      }
    }
  }
  return packed;
}

}  // namespace heedmap
