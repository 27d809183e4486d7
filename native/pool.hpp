// The cells of a map, from sums and largest weights by key. Included like vec.hpp, once for each instruction set.

inline double sum_of(const float* x, Index count) {
  double parts[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  Index i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int j = 0; j < 8; ++j) parts[j] += static_cast<double>(x[i + j]);
  }
  double sum = ((parts[0] + parts[4]) + (parts[2] + parts[6])) + ((parts[1] + parts[5]) + (parts[3] + parts[7]));
  for (; i < count; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

inline float largest_of(const float* x, Index count) {
  float high = 0;
  Index i = 0;
  if (count >= V::width) {
    V::reg wide = V::set(0);
    for (; i + V::width <= count; i += V::width) wide = V::max(V::load(x + i), wide);
    high = V::largest(wide);
  }
  for (; i < count; ++i) high = x[i] > high ? x[i] : high;
  return high;
}

// Sums and largest weights of `count` cells of W keys each, side by side.
template <int W>
inline void pool_alike(const float* columns, const float* largest, Index count, double* cells, float* largest_cells) {
  for (Index i = 0; cells && i < count; ++i) {
    double sum = 0;
    for (int j = 0; j < W; ++j) sum += static_cast<double>(columns[i * W + j]);
    cells[i] += sum;
  }
  for (Index i = 0; largest_cells && i < count; ++i) {
    float high = largest_cells[i];
    for (int j = 0; j < W; ++j) high = largest[i * W + j] > high ? largest[i * W + j] : high;
    largest_cells[i] = high;
  }
}

inline void pool_cells(const float* columns, const float* largest, Index width, Index count, double* cells,
                       float* largest_cells) {
  switch (width) {
    case 1: return pool_alike<1>(columns, largest, count, cells, largest_cells);
    case 2: return pool_alike<2>(columns, largest, count, cells, largest_cells);
    case 3: return pool_alike<3>(columns, largest, count, cells, largest_cells);
    case 4: return pool_alike<4>(columns, largest, count, cells, largest_cells);
    case 5: return pool_alike<5>(columns, largest, count, cells, largest_cells);
    case 6: return pool_alike<6>(columns, largest, count, cells, largest_cells);
    case 7: return pool_alike<7>(columns, largest, count, cells, largest_cells);
  }
  for (Index i = 0; i < count; ++i) {
    if (cells) cells[i] += sum_of(columns + i * width, width);
    if (!largest_cells) continue;
    const float high = largest_of(largest + i * width, width);
    if (high > largest_cells[i]) largest_cells[i] = high;
  }
}

// Sums and largest weights of one row cell, pooled by key cell into `cells` and `largest_cells`.
inline void pool(const Call& call, const Strip& strip, const float* columns, const float* largest, double* cells,
                 float* largest_cells) {
  const Cells& keys = call.key_cells;
  const Index end = strip.key_start + strip.keys;
  for (Index key = strip.key_start; key < end;) {
    const Index cell = keys.cell_of(key), width = keys.size + (cell < keys.larger ? 1 : 0);
    const Index alike = cell < keys.larger ? keys.larger : keys.count;  // cells up to here have this width
    const bool whole = keys.start_of(cell) == key && key + width <= end;
    const Index here = whole ? width : (keys.start_of(cell + 1) < end ? keys.start_of(cell + 1) : end) - key;
    const Index fit = (end - key) / width, count = !whole ? 1 : fit < alike - cell ? fit : alike - cell;
    pool_cells(columns + (key - strip.key_start), largest + (key - strip.key_start), here, count,
               cells ? cells + cell : nullptr, largest_cells ? largest_cells + cell : nullptr);
    key += here * count;
  }
}
