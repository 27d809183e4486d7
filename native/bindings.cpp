// The strip pass for Python: shapes and types are checked here, and only here.
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
#include "strip_pass.hpp"

using namespace nanobind::literals;

namespace heedmap {

void bind_back(nb::module_& module);  // in bind_back.cpp
void bind_panels(nb::module_& module);

namespace {

using CellSizes = std::tuple<Index, Index, Index>;

void check_cells(const Cells& cells, Index length, const char* message) {
  check(cells.count > 0 && cells.size > 0 && cells.larger >= 0 && cells.larger < cells.count, message);
  check(cells.start_of(cells.count) == length, message);
}

// One sweep: its sizes, its formula and the arrays that its results go to.
class Sweep {
 public:
  Sweep(Index batch, Index heads, Index query_len, Index key_len, Index query_offset, Index key_offset, float softcap,
        std::optional<Array<const float, 1>> sinks, CellSizes row_cells, CellSizes key_cells, nb::dict results,
        std::optional<std::string> instruction_set, std::uintptr_t openmp_parallel)
      : batch_(batch), level_(level_named(instruction_set)), team_(openmp_parallel) {
    check(batch > 0 && heads > 0 && query_len > 0 && key_len > 0, "expected positive sizes");
    call_.heads = heads;
    call_.query_len = query_len;
    call_.key_len = key_len;
    call_.query_offset = query_offset;
    call_.key_offset = key_offset;
    check(softcap >= 0, "expected a softcap of 0 or more");
    call_.softcap = softcap;
    if (sinks) {
      check(static_cast<Index>(sinks->shape(0)) == heads && dense(*sinks), "expected contiguous sinks [heads]");
      call_.sinks = sinks->data();
      kept_.push_back(nb::cast(*sinks));
    }
    call_.row_cells = {std::get<0>(row_cells), std::get<1>(row_cells), std::get<2>(row_cells)};
    call_.key_cells = {std::get<0>(key_cells), std::get<1>(key_cells), std::get<2>(key_cells)};
    check_cells(call_.row_cells, query_len, "expected row cells that cover the queries");
    check_cells(call_.key_cells, key_len, "expected key cells that cover the keys");
    for (auto item : results) keep_result(nb::cast<std::string>(item.first), item.second);
  }

  const char* instruction_set() const { return level_.name; }
  Index panel() const { return level_.panel; }

  // One strip: scores in a table, or query and packed keys (and values) where the instruction set has a `panel`.
  // Returns (head, row) of a row that counts but has no finite sum, or None.
  std::optional<std::tuple<Index, Index>> strip(Index batch, std::tuple<Index, Index> heads, std::tuple<Index, Index> rows,
                                                std::tuple<Index, Index> keys, Index cell_rows,
                                                std::optional<Table> scores, std::optional<Table> weights,
                                                std::optional<Array<const float, 3>> query,
                                                std::optional<Array<const float, 4>> packed_keys,
                                                std::optional<Array<const float, 4>> packed_values,
                                                std::optional<Array<const float, 4>> packed_shared, Index shared_dim,
                                                std::optional<Table> output, std::vector<Allowed> allowed,
                                                std::optional<Array<const bool, 2>> valid, Table row_terms,
                                                Array<std::int64_t, 2> top, int threads) {
    Strip strip;
    strip.batch = batch;
    std::tie(strip.head_start, strip.heads) = span(heads, call_.heads);
    std::tie(strip.row_start, strip.rows) = span(rows, call_.query_len);
    std::tie(strip.key_start, strip.keys) = span(keys, call_.key_len);
    strip.cell_rows = cell_rows;
    check(batch >= 0 && batch < batch_, "expected a strip within the call");
    check(cell_rows > 0 && (strip.rows <= cell_rows || strip.rows % cell_rows == 0), "expected whole row cells");
    check_row_cells(strip);
    check(scores || (query && !weights), "expected scores, or query and keys");
    if (scores) {
      check_table(*scores, strip.heads, strip.rows, strip.keys);
      strip.scores = scores->data();
      take_strides(*scores, strip.head_stride, strip.row_stride);
    }
    if (weights) {
      check_table(*weights, strip.heads, strip.rows, strip.keys);
      strip.weights = weights->data();
      take_strides(*weights, strip.weights_head_stride, strip.weights_row_stride);
    }
    if (query) {
      check(level_.panel > 0 && packed_keys, "expected keys for the query, and an instruction set with products");
      take_query(strip, *query, *packed_keys);
      if (output) {
        take_output(strip, packed_values, packed_shared, shared_dim, *output);
      }
    }
    std::vector<Segment> segments;
    for (const Allowed& part : allowed) segments.push_back(segment(strip.heads, strip.rows, strip.keys, part));
    strip.segments = segments.data();
    strip.segment_count = static_cast<int>(segments.size());
    if (valid) {
      const auto of = static_cast<Index>(valid->shape(0));
      check((of == 1 || of == strip.heads) && static_cast<Index>(valid->shape(1)) == strip.rows && dense(*valid),
            "expected contiguous valid [heads or 1, rows]");
      strip.valid = reinterpret_cast<const std::uint8_t*>(valid->data());
      strip.valid_head_stride = of == 1 ? 0 : strip.rows;
    }
    check(static_cast<Index>(row_terms.shape(0)) == 4 && static_cast<Index>(row_terms.shape(1)) == strip.heads &&
              static_cast<Index>(row_terms.shape(2)) == strip.rows && dense(row_terms),
          "expected contiguous row terms [4, heads, rows]");
    check(static_cast<Index>(top.shape(0)) == strip.heads && static_cast<Index>(top.shape(1)) == strip.rows && dense(top),
          "expected contiguous top [heads, rows]");
    const Index lines = strip.heads * strip.rows;
    strip.top_score = row_terms.data();
    strip.row_max = row_terms.data() + lines;
    strip.row_sum = row_terms.data() + 2 * lines;
    strip.scale = row_terms.data() + 3 * lines;
    strip.top = top.data();
    Spoiled spoiled;
    {
      nb::gil_scoped_release released;
      spoiled = pass(level_, call_, strip, team_, threads, room_);
    }
    if (!spoiled.found) return std::nullopt;
    return std::make_tuple(spoiled.head, spoiled.row);
  }

 private:
  static std::tuple<Index, Index> span(std::tuple<Index, Index> asked, Index length) {
    const auto [start, stop] = asked;
    check(0 <= start && start <= stop && stop <= length, "expected a strip within the call");
    return {start, stop - start};
  }

  void take_query(Strip& strip, const Array<const float, 3>& query, const Array<const float, 4>& keys) const {
    check(static_cast<Index>(query.shape(0)) == strip.heads && static_cast<Index>(query.shape(1)) == strip.rows &&
              (query.shape(2) <= 1 || query.stride(2) == 1),
          "expected query [heads, rows, head_dim] with numbers side by side");
    strip.query = query.data();
    strip.query_head_stride = static_cast<std::ptrdiff_t>(query.stride(0));
    strip.query_row_stride = static_cast<std::ptrdiff_t>(query.stride(1));
    strip.head_dim = static_cast<Index>(query.shape(2));
    strip.key_len = call_.key_len;
    strip.panels = (call_.key_len + level_.panel - 1) / level_.panel;
    const auto key_heads = static_cast<Index>(keys.shape(0));
    check(key_heads > 0 && call_.heads % key_heads == 0 && static_cast<Index>(keys.shape(1)) == strip.panels &&
              keys.shape(2) == query.shape(2) && static_cast<Index>(keys.shape(3)) == level_.panel && dense(keys),
          "expected contiguous packed keys [key_heads, panels, head_dim, panel]");
    strip.group = call_.heads / key_heads;
    strip.packed_keys = keys.data();
  }

  void take_output(Strip& strip, const std::optional<Array<const float, 4>>& values,
                   const std::optional<Array<const float, 4>>& shared, Index shared_dim, const Table& output) const {
    const auto blocks = [this](Index columns) { return (columns + level_.panel - 1) / level_.panel; };
    check(static_cast<Index>(output.shape(0)) == strip.heads && static_cast<Index>(output.shape(1)) == strip.rows &&
              shared_dim >= 0 && static_cast<Index>(output.shape(2)) >= shared_dim,
          "expected output [heads, rows, value_dim + shared_dim]");
    take_strides(output, strip.output_head_stride, strip.output_row_stride);
    strip.shared_dim = shared_dim;
    strip.value_dim = static_cast<Index>(output.shape(2)) - shared_dim;
    check(strip.value_dim == 0 ||
              (values && static_cast<Index>(values->shape(0)) * strip.group == call_.heads &&
               static_cast<Index>(values->shape(1)) == blocks(strip.value_dim) &&
               static_cast<Index>(values->shape(2)) == call_.key_len &&
               static_cast<Index>(values->shape(3)) == level_.panel && dense(*values)),
          "expected contiguous packed values [key_heads, blocks, key_len, panel]");
    check(shared_dim == 0 ||
              (shared && shared->shape(0) > 0 && call_.heads % static_cast<Index>(shared->shape(0)) == 0 &&
               static_cast<Index>(shared->shape(1)) == blocks(shared_dim) &&
               static_cast<Index>(shared->shape(2)) == call_.key_len &&
               static_cast<Index>(shared->shape(3)) == level_.panel && dense(*shared)),
          "expected contiguous packed columns [shares, blocks, key_len, panel]");
    strip.shared_group = shared_dim ? call_.heads / static_cast<Index>(shared->shape(0)) : call_.heads;
    strip.packed_values = strip.value_dim ? values->data() : nullptr;
    strip.packed_shared = shared_dim ? shared->data() : nullptr;
    strip.output = output.data();
  }

  void check_row_cells(const Strip& strip) const {
    if (strip.rows == 0) return;
    const Cells& cells = call_.row_cells;
    const Index first = cells.cell_of(strip.row_start), last = cells.cell_of(strip.row_start + strip.rows - 1);
    const auto height = [&](Index cell) { return cells.start_of(cell + 1) - cells.start_of(cell); };
    check(height(first) == strip.cell_rows && height(last) == strip.cell_rows, "expected row cells of one height");
    check(first == last || (cells.start_of(first) == strip.row_start &&
                            cells.start_of(last + 1) == strip.row_start + strip.rows),
          "expected whole row cells, or a part of one");
  }

  template <typename T>
  void keep(T*& place, nb::handle tensor, std::vector<Index> shape) {
    auto array = nb::cast<nb::ndarray<T, nb::device::cpu>>(tensor, false);  // a copy would take the results
    bool fits = array.ndim() == shape.size() && dense(array);
    for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = static_cast<Index>(array.shape(i)) == shape[i];
    check(fits, "expected contiguous results of the call's sizes");
    place = array.data();
    kept_.push_back(nb::borrow(tensor));
  }

  void keep_result(const std::string& name, nb::handle tensor) {
    const std::vector<Index> rows = {batch_, call_.heads, call_.query_len};
    const std::vector<Index> cells = {batch_, call_.heads, call_.row_cells.count, call_.key_cells.count};
    if (name == "row_max") return keep(call_.row_max, tensor, rows);
    if (name == "row_sum") return keep(call_.row_sum, tensor, rows);
    if (name == "entropy") return keep(call_.entropy, tensor, rows);
    if (name == "max_weight") return keep(call_.max_weight, tensor, rows);
    if (name == "logsumexp") return keep(call_.logsumexp, tensor, rows);
    if (name == "row_mass") return keep(call_.row_mass, tensor, rows);
    if (name == "concentration") return keep(call_.concentration, tensor, rows);
    if (name == "saturation") return keep(call_.saturation, tensor, rows);
    if (name == "mean_distance") return keep(call_.mean_distance, tensor, rows);
    if (name == "argmax") return keep(call_.argmax, tensor, rows);
    if (name == "received") return keep(call_.received, tensor, {batch_, call_.heads, call_.key_len});
    if (name == "distance_profile") {
      return keep(call_.distance_profile, tensor, {batch_, call_.heads, call_.query_len + call_.key_len - 1});
    }
    if (name == "map_sum") return keep(call_.map_sum, tensor, cells);
    if (name == "map_max") return keep(call_.map_max, tensor, cells);
    refuse("no result " + name);
  }

  Index batch_;
  const Level& level_;
  Team team_;
  Call call_;
  Workspace room_;
  std::vector<nb::object> kept_;
};

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const Level* level : levels()) names.emplace_back(level->name);
  return names;
}

Index panel(std::optional<std::string> instruction_set) { return level_named(instruction_set).panel; }

void exponential(Array<const float, 1> x, Array<float, 1> out, std::optional<std::string> instruction_set) {
  check(x.shape(0) == out.shape(0) && (x.shape(0) <= 1 || (x.stride(0) == 1 && out.stride(0) == 1)), "expected equal rows");
  level_named(instruction_set).exponential(x.data(), out.data(), static_cast<Index>(x.shape(0)));
}

void soften(Array<float, 1> x, float cap, std::optional<std::string> instruction_set) {
  check(x.shape(0) <= 1 || x.stride(0) == 1, "expected a contiguous row");
  level_named(instruction_set).soften(x.data(), static_cast<Index>(x.shape(0)), cap);
}

}  // namespace

NB_MODULE(_native, module) {
  module.doc() = "The fused strip pass of heedmap.kernels.native.";
  module.def("instruction_sets", &instruction_sets, "Instruction sets this processor can run, best first.");
  module.def("panel", &panel, "instruction_set"_a.none() = nb::none(),
             "Keys, or columns of values, that its own products take packed side by side; 0 where it has none.");
  module.def("exponential", &exponential, "x"_a, "out"_a.noconvert(), "instruction_set"_a.none() = nb::none(),
             "out = exp(x) for x <= 0, as the pass computes it.");
  module.def("soften", &soften, "x"_a.noconvert(), "cap"_a, "instruction_set"_a.none() = nb::none(),
             "x = cap * tanh(x / cap), in place.");
  nb::class_<Sweep>(module, "Sweep", "Sizes, formula and results of one sweep.")
      .def(nb::init<Index, Index, Index, Index, Index, Index, float, std::optional<Array<const float, 1>>, CellSizes,
                    CellSizes, nb::dict, std::optional<std::string>, std::uintptr_t>(),
           nb::kw_only(), "batch"_a, "heads"_a, "query_len"_a, "key_len"_a, "query_offset"_a, "key_offset"_a, "softcap"_a,
           "sinks"_a.none(), "row_cells"_a, "key_cells"_a, "results"_a, "instruction_set"_a.none() = nb::none(),
           "openmp_parallel"_a = 0)
      .def_prop_ro("instruction_set", &Sweep::instruction_set)
      .def_prop_ro("panel", &Sweep::panel, "Of keys and values packed side by side; 0: a strip must come as scores.")
      .def("strip", &Sweep::strip, nb::kw_only(), "batch"_a, "heads"_a, "rows"_a, "keys"_a, "cell_rows"_a,
           "scores"_a.none().noconvert(), "weights"_a.none().noconvert() = nb::none(),
           "query"_a.none().noconvert() = nb::none(), "packed_keys"_a.none().noconvert() = nb::none(),
           "packed_values"_a.none().noconvert() = nb::none(), "packed_shared"_a.none().noconvert() = nb::none(),
           "shared_dim"_a = 0, "output"_a.none().noconvert() = nb::none(), "allowed"_a,
           "valid"_a.none().noconvert(), "row_terms"_a.noconvert(), "top"_a.noconvert(), "threads"_a,
           "Take one strip, scores [heads, rows, keys] in place, and add what it holds to the results.");
  bind_back(module);
  bind_panels(module);
}

}  // namespace heedmap
