// The way back for Python: shapes and types are checked here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "back.hpp"

using namespace nanobind::literals;

namespace heedmap {
namespace {

using Packed = Array<const float, 4>;

// The keys and values of one batch item, and the sums of what flows back to them.
class Backward {
 public:
  Backward(Index query_heads, Packed packed_keys, Packed packed_values, Array<const float, 3> key_rows, Table of_key,
           Table of_value, float softcap, std::optional<std::string> instruction_set, std::uintptr_t openmp_parallel)
      : level_(level_named(instruction_set)), team_(openmp_parallel), query_heads_(query_heads) {
    const Index panel = level_.panel, key_heads = static_cast<Index>(packed_keys.shape(0));
    check(panel > 0, "expected an instruction set with products");
    check(key_heads > 0 && query_heads % key_heads == 0, "expected query heads in groups of key heads");
    back_.group = query_heads / key_heads;
    back_.panels = static_cast<Index>(packed_keys.shape(1));
    back_.head_dim = static_cast<Index>(packed_keys.shape(2));
    back_.value_dim = static_cast<Index>(packed_values.shape(2));
    back_.key_width = (back_.head_dim + panel - 1) / panel * panel;
    back_.value_width = (back_.value_dim + panel - 1) / panel * panel;
    check(static_cast<Index>(packed_keys.shape(3)) == panel && dense(packed_keys),
          "expected contiguous packed keys [key_heads, panels, head_dim, panel]");
    check(packed_values.shape(0) == packed_keys.shape(0) && packed_values.shape(1) == packed_keys.shape(1) &&
              static_cast<Index>(packed_values.shape(3)) == panel && dense(packed_values),
          "expected contiguous packed values [key_heads, panels, value_dim, panel]");
    const auto check_sums = [&](const auto& table, Index width) {
      check_table(table, key_heads, back_.panels * panel, width);
      check(dense(table), "expected contiguous tables of keys");
    };
    check_sums(key_rows, back_.key_width);
    check_sums(of_key, back_.key_width);
    check_sums(of_value, back_.value_width);
    check(softcap >= 0, "expected a softcap of 0 or more");
    back_.softcap = softcap;
    back_.packed_keys = packed_keys.data();
    back_.packed_values = packed_values.data();
    back_.key_rows = key_rows.data();
    back_.of_key = of_key.data();
    back_.of_value = of_value.data();
    kept_ = {nb::cast(packed_keys), nb::cast(packed_values), nb::cast(key_rows), nb::cast(of_key), nb::cast(of_value)};
  }

  void strip(Index head_start, std::tuple<Index, Index> keys, Array<const float, 3> query, Array<const float, 3> flowing,
             Array<const float, 2> top_score, Array<const float, 2> scale, Array<const float, 2> spread,
             std::vector<Allowed> allowed, Table of_query, int threads) {
    Back back = back_;
    back.head_start = head_start;
    back.heads = static_cast<Index>(query.shape(0));
    back.rows = static_cast<Index>(query.shape(1));
    back.key_start = std::get<0>(keys);
    back.keys = std::get<1>(keys) - back.key_start;
    check(head_start >= 0 && head_start + back.heads <= query_heads_ && back.key_start >= 0 && back.keys >= 0 &&
              std::get<1>(keys) <= back.panels * level_.panel,
          "expected a strip within the call");
    const auto check_rows = [&](const auto& table, Index width) {
      check_table(table, back.heads, back.rows, width);
      check(dense(table), "expected contiguous rows of queries");
    };
    check_rows(query, back.key_width);
    check_rows(flowing, back.value_width);
    check_rows(of_query, back.key_width);
    for (const auto* terms : {&top_score, &scale, &spread}) {
      check(static_cast<Index>(terms->shape(0)) == back.heads && static_cast<Index>(terms->shape(1)) == back.rows &&
                dense(*terms),
            "expected contiguous row terms [heads, rows]");
    }
    back.query = query.data();
    back.flowing = flowing.data();
    back.top_score = top_score.data();
    back.scale = scale.data();
    back.spread = spread.data();
    back.of_query = of_query.data();
    std::vector<Segment> segments;
    for (const Allowed& part : allowed) segments.push_back(segment(back.heads, back.rows, back.keys, part));
    back.segments = segments.data();
    back.segment_count = static_cast<int>(segments.size());
    nb::gil_scoped_release released;
    flow_back(level_, back, team_, threads, room_);
  }

 private:
  const Level& level_;
  Team team_;
  Index query_heads_;
  Back back_;
  Workspace room_;
  std::vector<nb::object> kept_;
};

}  // namespace

void bind_back(nb::module_& module) {
  nb::class_<Backward>(module, "Backward", "Keys and values of one batch item, and what flows back to them.")
      .def(nb::init<Index, Packed, Packed, Array<const float, 3>, Table, Table, float, std::optional<std::string>,
                    std::uintptr_t>(),
           nb::kw_only(), "query_heads"_a, "packed_keys"_a.noconvert(), "packed_values"_a.noconvert(),
           "key_rows"_a.noconvert(), "of_key"_a.noconvert(), "of_value"_a.noconvert(), "softcap"_a,
           "instruction_set"_a.none() = nb::none(), "openmp_parallel"_a = 0)
      .def("strip", &Backward::strip, nb::kw_only(), "head_start"_a, "keys"_a, "query"_a.noconvert(),
           "flowing"_a.noconvert(), "top_score"_a.noconvert(), "scale"_a.noconvert(), "spread"_a.noconvert(), "allowed"_a,
           "of_query"_a.noconvert(), "threads"_a,
           "Write what flows back to the queries of a strip, before their scale, and add what flows to keys and values.");
}

}  // namespace heedmap
