// Packing for Python: shapes and types are checked here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "arrays.hpp"
#include "panels.hpp"

using namespace nanobind::literals;

namespace heedmap {
namespace {

void pack(Array<const float, 3> rows, Array<float, 4> packed, int threads, std::uintptr_t openmp_parallel) {
  Panels panels;
  panels.heads = static_cast<Index>(rows.shape(0));
  panels.rows = static_cast<Index>(rows.shape(1));
  panels.dim = static_cast<Index>(rows.shape(2));
  panels.panel = static_cast<Index>(packed.shape(3));
  check(panels.panel > 0, "expected panels of one row or more");
  check(static_cast<Index>(packed.shape(0)) == panels.heads && static_cast<Index>(packed.shape(1)) == panels.count() &&
            static_cast<Index>(packed.shape(2)) == panels.dim && dense(packed),
        "expected contiguous packed rows [heads, panels, dim, panel]");
  check(panels.dim <= 1 || rows.stride(2) == 1, "expected rows with numbers side by side");
  panels.from = rows.data();
  panels.head_stride = static_cast<std::ptrdiff_t>(rows.stride(0));
  panels.row_stride = static_cast<std::ptrdiff_t>(rows.stride(1));
  panels.to = packed.data();
  const nb::gil_scoped_release released;
  pack_rows(panels, Team(openmp_parallel), threads);
}

}  // namespace

void bind_panels(nb::module_& module) {
  module.def("pack_rows", &pack, nb::kw_only(), "rows"_a.noconvert(), "packed"_a.noconvert(), "threads"_a,
             "openmp_parallel"_a = 0, "Write [heads, rows, dim] as [heads, panels, dim, panel], zeros after the last row.");
}

}  // namespace heedmap
