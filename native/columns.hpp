// Sums over the rows of a unit: by key, by distance, by cell. Included like vec.hpp, once for each instruction set.

// Rows `w + g·stride`, g < G, times `by[g]`: added to `columns`, their largest to `largest`, and by diagonal to
// `distances`, where key k of row g goes to place k - g.
template <int G, bool DISTANCES>
inline void add_rows(const float* w, std::ptrdiff_t stride, const float* by, Index keys, float* columns, float* largest,
                     float* distances) {
  V::reg scale[G];
  for (int g = 0; g < G; ++g) scale[g] = V::set(by[g]);
  Index k = 0;
  for (; k + V::width + G - 1 <= keys; k += V::width) {
    V::reg sum = V::load(columns + k), high = V::load(largest + k);
    V::reg diagonal = DISTANCES ? V::load(distances + k) : V::set(0);
    for (int g = 0; g < G; ++g) {
      const V::reg weight = V::mul(V::load(w + g * stride + k), scale[g]);
      sum = V::add(sum, weight);
      high = V::max(weight, high);
      if constexpr (DISTANCES) diagonal = V::fma(V::load(w + g * stride + k + g), scale[g], diagonal);
    }
    V::store(columns + k, sum);
    V::store(largest + k, high);
    if constexpr (DISTANCES) V::store(distances + k, diagonal);
  }
  for (; k < keys; k += V::width) {
    const Index n = keys - k < V::width ? keys - k : V::width;
    V::reg sum = V::load(columns + k, n, 0), high = V::load(largest + k, n, 0);
    V::reg diagonal = DISTANCES ? V::load(distances + k, n, 0) : V::set(0);
    for (int g = 0; g < G; ++g) {
      const V::reg weight = V::mul(V::load(w + g * stride + k, n, 0), scale[g]);
      sum = V::add(sum, weight);
      high = V::max(weight, high);
      if constexpr (DISTANCES) {
        const Index left = keys - k - g < V::width ? keys - k - g : V::width;
        if (left > 0) diagonal = V::fma(V::load(w + g * stride + k + g, left, 0), scale[g], diagonal);
      }
    }
    V::store(columns + k, n, sum);
    V::store(largest + k, n, high);
    if constexpr (DISTANCES) V::store(distances + k, n, diagonal);
  }
  if constexpr (DISTANCES) {  // places before 0: the first keys of the later rows
    for (int g = 1; g < G; ++g) {
      for (Index j = 0; j < g && j < keys; ++j) distances[j - g] += w[g * stride + j] * by[g];
    }
  }
}

template <bool DISTANCES>
inline void add_some_rows(const float* w, std::ptrdiff_t stride, const float* by, Index rows, Index keys, float* columns,
                          float* largest, float* distances) {
  Index r = 0;
  auto each = [&](auto group) {
    constexpr int G = decltype(group)::rows;
    for (; r + G <= rows; r += G) {
      add_rows<G, DISTANCES>(w + r * stride, stride, by + r, keys, columns, largest, distances - r);
    }
  };
  each(Group<8>{});
  each(Group<4>{});
  each(Group<1>{});
}

inline double sum_of(const float* x, Index count) {
  double parts[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  Index i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int j = 0; j < 8; ++j) parts[j] += static_cast<double>(x[i + j]);
  }
  for (int j = 0; i < count; ++i, ++j) parts[j] += static_cast<double>(x[i]);
  return ((parts[0] + parts[4]) + (parts[2] + parts[6])) + ((parts[1] + parts[5]) + (parts[3] + parts[7]));
}

inline float largest_of(const float* x, Index count) {
  V::reg high = V::set(0);
  Index i = 0;
  for (; i + V::width <= count; i += V::width) high = V::max(V::load(x + i), high);
  if (i < count) high = V::max(V::load(x + i, count - i, 0), high);
  return V::largest(high);
}

// Sums and largest weights of one row cell, pooled by key cell into `cells` and `largest_cells`.
inline void pool(const Call& call, const Strip& strip, const float* columns, const float* largest, double* cells,
                 float* largest_cells) {
  const Index stop = strip.key_start + strip.keys;
  for (Index k = strip.key_start, cell = call.key_cells.cell_of(k); k < stop; ++cell) {
    const Index end = call.key_cells.start_of(cell + 1) < stop ? call.key_cells.start_of(cell + 1) : stop;
    if (cells) cells[cell] += sum_of(columns + (k - strip.key_start), end - k);
    if (largest_cells) {
      const float high = largest_of(largest + (k - strip.key_start), end - k);
      if (high > largest_cells[cell]) largest_cells[cell] = high;
    }
    k = end;
  }
}

inline void clear(float* x, Index count) { memset(x, 0, static_cast<std::size_t>(count) * sizeof(float)); }

inline bool unit(const Call& call, const Strip& strip, const Unit& unit, const Partial& partial, const Scratch& scratch) {
  bool spoiled = false;
  const bool columns_wanted = call.columns();
  const Index rows = unit.row_stop - unit.row_start, keys = strip.keys;
  const Index height = strip.cell_rows < rows ? strip.cell_rows : rows;
  const bool one_cell = height == rows;
  if (columns_wanted) {
    clear(partial.columns, keys);
    if (partial.distances) clear(partial.distances, keys + rows - 1);
  }
  const float* table = strip.weights ? strip.weights : strip.scores;
  const std::ptrdiff_t head_stride = strip.weights ? strip.weights_head_stride : strip.head_stride;
  const std::ptrdiff_t stride = strip.weights ? strip.weights_row_stride : strip.row_stride;
  table += unit.head * head_stride;

  for (Index first = unit.row_start; first < unit.row_stop; first += height) {
    float* columns = one_cell ? partial.columns : scratch.columns;
    if (columns_wanted) {
      if (!one_cell) clear(columns, keys);
      clear(scratch.largest, keys);
    }
    for (Index start = first; start < first + height; start += 8) {
      const Index stop = start + 8 < first + height ? start + 8 : first + height;
      float by[8];
      bool counts[8];
      for (Index row = start; row < stop; ++row) {
        counts[row - start] = !strip.valid || strip.valid[row];
        by[row - start] = finish_row(call, strip, unit.head, row, counts[row - start], spoiled);
      }
      for (Index row = start; columns_wanted && row < stop;) {
        if (!counts[row - start]) {
          ++row;
          continue;
        }
        Index end = row + 1;
        while (end < stop && counts[end - start]) ++end;
        const float* w = table + row * stride;
        if (partial.distances) {
          float* places = partial.distances + (unit.row_stop - 1 - row);
          add_some_rows<true>(w, stride, by + (row - start), end - row, keys, columns, scratch.largest, places);
        } else {
          add_some_rows<false>(w, stride, by + (row - start), end - row, keys, columns, scratch.largest, nullptr);
        }
        row = end;
      }
      if (!strip.weights) continue;
      float* weights = strip.weights + unit.head * strip.weights_head_stride;
      for (Index row = start; row < stop; ++row) multiply(weights + row * stride, keys, by[row - start]);
    }
    if (!columns_wanted) continue;
    if (call.map_sum || call.map_max) {
      double* cells = partial.cells;
      float* largest_cells = partial.largest;
      if (unit.owns_cells) {
        const Index row_cell = call.row_cells.cell_of(strip.row_start + first);
        const Index line = ((strip.batch * call.heads + strip.head_start + unit.head) * call.row_cells.count + row_cell);
        cells = call.map_sum ? call.map_sum + line * call.key_cells.count : nullptr;
        largest_cells = call.map_max ? call.map_max + line * call.key_cells.count : nullptr;
      }
      pool(call, strip, columns, scratch.largest, cells, largest_cells);
    }
    if (!one_cell) {
      for (Index k = 0; k < keys; ++k) partial.columns[k] += columns[k];
    }
  }
  return spoiled;
}

inline void add_columns(double* received, const float* columns, Index start, Index stop) {
  for (Index k = start; k < stop; ++k) received[k] += static_cast<double>(columns[k]);
}

inline void add_distances(double* profile, const float* distances, Index last, Index start, Index stop) {
  for (Index i = start; i < stop; ++i) profile[last - i] += static_cast<double>(distances[i]);
}
