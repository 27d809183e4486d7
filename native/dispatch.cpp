// Which of the compiled instruction sets this processor can run.
#include "strip_pass.hpp"

#if defined(_MSC_VER) && defined(HEEDMAP_X86)
#include <immintrin.h>
#include <intrin.h>
#endif

namespace heedmap {

#if defined(HEEDMAP_X86)
namespace avx512 {
extern const Level level;
}
namespace avx2 {
extern const Level level;
}
#endif
#if defined(HEEDMAP_ARM)
namespace neon {
extern const Level level;
}
#endif
namespace scalar {
extern const Level level;
}

namespace {

#if defined(HEEDMAP_X86) && defined(_MSC_VER)
struct Has {
  bool avx2 = false, avx512 = false;
  Has() {
    int leaf[4];
    __cpuid(leaf, 0);
    if (leaf[0] < 7) return;
    __cpuid(leaf, 1);
    const bool fma = (leaf[2] >> 12 & 1) && (leaf[2] >> 27 & 1);  // and the system keeps the wide registers
    if (!fma) return;
    const unsigned long long kept = _xgetbv(0);
    __cpuidex(leaf, 7, 0);
    avx2 = (kept & 0x6) == 0x6 && (leaf[1] >> 5 & 1);
    avx512 = avx2 && (kept & 0xe6) == 0xe6 && (leaf[1] >> 16 & 1) && (leaf[1] >> 17 & 1);
  }
};
#elif defined(HEEDMAP_X86)
struct Has {
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
};
#endif

std::vector<const Level*> found() {
  std::vector<const Level*> levels;
#if defined(HEEDMAP_X86)
  const Has has;
  if (has.avx512) levels.push_back(&avx512::level);
  if (has.avx2) levels.push_back(&avx2::level);
#endif
#if defined(HEEDMAP_ARM)
  levels.push_back(&neon::level);
#endif
  levels.push_back(&scalar::level);
  return levels;
}

}  // namespace

const std::vector<const Level*>& levels() {
  static const std::vector<const Level*> all = found();
  return all;
}

}  // namespace heedmap
