// The strip pass for one instruction set; compiled once for each, with HEEDMAP_LEVEL naming it and flags to match.
#include "back.hpp"
#include "strip_pass.hpp"

#include <math.h>
#include <string.h>

#if defined(HEEDMAP_AVX512) || defined(HEEDMAP_AVX2)
#define HEEDMAP_PRODUCTS
#include <immintrin.h>
#elif defined(HEEDMAP_NEON)
#include <arm_neon.h>
#endif

namespace heedmap::HEEDMAP_LEVEL {

template <int G>
struct Group {
  static constexpr int rows = G;
};

#include "vec.hpp"
#include "exp.hpp"
#include "rows.hpp"
#if defined(HEEDMAP_PRODUCTS)
#include "products.hpp"
#include "back_unit.hpp"
#else
constexpr Index PANEL = 0;
#endif
#include "pool.hpp"
#include "columns.hpp"

namespace {

// Numbers too small to be normal are taken as 0 while a unit runs: they weigh nothing and cost a hundred cycles each.
class WithoutDenormals {
#if defined(HEEDMAP_AVX512) || defined(HEEDMAP_AVX2)
 public:
  WithoutDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040u); }
  ~WithoutDenormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#endif
};

bool run_unit(const Call& call, const Strip& strip, const Unit& rows, const Partial& partial, const Scratch& scratch) {
  [[maybe_unused]] const WithoutDenormals guard;
  return unit(call, strip, rows, partial, scratch);
}

void run_back([[maybe_unused]] const Back& back, [[maybe_unused]] const BackUnit& unit, [[maybe_unused]] float* tables) {
#if defined(HEEDMAP_PRODUCTS)
  const WithoutDenormals guard;
  back_unit(back, unit, tables);
#endif
}

void run_exponential(const float* x, float* y, Index count) {
  Index i = 0;
  for (; i + V::width <= count; i += V::width) V::store(y + i, exponential_of(V::load(x + i)));
  if (i < count) V::store(y + i, count - i, exponential_of(V::load(x + i, count - i, 0)));
}

}  // namespace

#define HEEDMAP_TEXT(x) #x
#define HEEDMAP_NAME(x) HEEDMAP_TEXT(x)

extern const Level level;
const Level level{HEEDMAP_NAME(HEEDMAP_LEVEL), PANEL,    run_unit,        add_columns,
                  add_distances,               run_back, run_exponential, soften_row};

}  // namespace heedmap::HEEDMAP_LEVEL
