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

// Keys [first, last) of a strip that some row of a group may see; outside them all are hidden.
struct Seen {
  Index first;
  Index last;
};

inline Seen seen_by(const Strip& strip, Index head, Index row, Index rows) {
  Seen seen{0, strip.keys};
  for (int i = 0; i < strip.segment_count; ++i) {
    const Segment& part = strip.segments[i];
    const Index count = part.stop - part.start;
    const std::uint8_t* allowed = part.allowed + head * part.head_stride + row * part.row_stride;
    if (part.start == 0) {
      Index first = count;
      for (Index r = 0; r < rows; ++r) {
        Index k = 0;
        while (k < first && !allowed[r * part.row_stride + k]) ++k;
        first = k;
      }
      seen.first = first;
    }
    if (part.stop == strip.keys) {
      Index last = 0;
      for (Index r = 0; r < rows; ++r) {
        Index k = count;
        while (k > last && !allowed[r * part.row_stride + k - 1]) --k;
        last = k;
      }
      seen.last = part.start + last;
    }
  }
  if (seen.first >= seen.last) seen = {0, 0};
  return seen;
}

inline void fill(float* x, Index keys, Seen seen, float value) {
  for (Index k = 0; k < seen.first; ++k) x[k] = value;
  for (Index k = seen.last; k < keys; ++k) x[k] = value;
}

// What a strip's own tables hold where nothing was computed: hidden keys.
inline void fill_hidden(const Strip& strip, Index head, Index row, Seen seen) {
  float* scores = strip.scores + head * strip.head_stride + row * strip.row_stride;
  fill(scores, strip.keys, seen, strip.weights ? GONE : 0.0f);
  if (strip.weights) {
    fill(strip.weights + head * strip.weights_head_stride + row * strip.weights_row_stride, strip.keys, seen, 0.0f);
  }
}

// A group of rows of one row cell, from query and keys (or scores) to results.
inline void group_of_rows(const Call& call, const Strip& strip, const Unit& unit, const Partial& partial,
                          const Scratch& scratch, Index start, Index rows, float* columns, bool& spoiled) {
  const Seen seen = seen_by(strip, unit.head, start, rows);
  const Index keys = seen.last - seen.first;
  float* table = strip.scores ? strip.scores + unit.head * strip.head_stride + start * strip.row_stride + seen.first : nullptr;
  std::ptrdiff_t stride = strip.row_stride;
#if defined(HEEDMAP_AVX512)
  if (strip.query) {
    const Index first = strip.key_start + seen.first;
    stride = scratch.pitch;
    score_rows(strip, unit.head, start, rows, first, strip.key_start + seen.last, scratch.table, stride);
    table = scratch.table + first % PANEL;
  }
#endif
  const float* e = table;
  std::ptrdiff_t e_stride = stride;
  if (strip.weights) {
    e_stride = strip.weights_row_stride;
    e = strip.weights + unit.head * strip.weights_head_stride + start * e_stride + seen.first;
  }
  float by[GROUP_ROWS];
  bool counts[GROUP_ROWS];
  for (Index r = 0; r < rows; ++r) {
    counts[r] = !strip.valid || strip.valid[start + r];
    Row row{table + r * stride, const_cast<float*>(e) + r * e_stride, nullptr, seen.first, seen.last};
    if (strip.weights) row.shifted = strip.scores + unit.head * strip.head_stride + (start + r) * strip.row_stride + seen.first;
    by[r] = finish_row(call, strip, unit.head, start + r, row, counts[r], spoiled);
  }
  for (Index r = 0; columns && r < rows;) {
    if (!counts[r]) {
      ++r;
      continue;
    }
    Index end = r + 1;
    while (end < rows && counts[end]) ++end;
    float* largest = scratch.largest + seen.first;
    if (partial.distances) {
      float* places = partial.distances + (unit.row_stop - 1 - start - r) + seen.first;
      add_some_rows<true>(e + r * e_stride, e_stride, by + r, end - r, keys, columns + seen.first, largest, places);
    } else {
      add_some_rows<false>(e + r * e_stride, e_stride, by + r, end - r, keys, columns + seen.first, largest, nullptr);
    }
    r = end;
  }
#if defined(HEEDMAP_AVX512)
  if (strip.output) {
    const Index first = strip.key_start + seen.first;
    add_values(strip, unit.head, start, rows, first, keys, e, e_stride, by, scratch.sums);
  }
#endif
  for (Index r = 0; strip.scores && r < rows; ++r) {
    if (strip.weights) multiply(const_cast<float*>(e) + r * e_stride, keys, by[r]);
    fill_hidden(strip, unit.head, start + r, seen);
  }
}

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
  for (Index first = unit.row_start; first < unit.row_stop; first += height) {
    float* columns = columns_wanted ? one_cell ? partial.columns : scratch.columns : nullptr;
    if (columns_wanted) {
      if (!one_cell) clear(columns, keys);
      clear(scratch.largest, keys);
    }
    for (Index start = first; start < first + height; start += GROUP_ROWS) {
      const Index count = start + GROUP_ROWS < first + height ? GROUP_ROWS : first + height - start;
      group_of_rows(call, strip, unit, partial, scratch, start, count, columns, spoiled);
    }
    if (!columns_wanted) continue;
    if (call.map_sum || call.map_max) {
      double* cells = partial.cells;
      float* largest_cells = partial.largest;
      if (unit.owns_cells) {
        const Index row_cell = call.row_cells.cell_of(strip.row_start + first);
        const Index line = (strip.batch * call.heads + strip.head_start + unit.head) * call.row_cells.count + row_cell;
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
