/** Which head to open while nothing is known of a run but its head table. */
import type { HeadId, Opened } from '../data/run'

/**
 * The head that looks most sharply and neither at neighbours nor as far as it can, where sinks lie:
 *
 *     max_weight · (1 − |2 · ln d / ln n − 1|)     d its mean distance, n the number of keys
 *
 * null where the table says too little.
 */
export function sharpest({ headTable, heads, meta }: Opened): HeadId | null {
  const { max_weight: sharp, mean_distance: distance } = headTable
  if (!sharp || !distance) return null
  let best: HeadId | null = null
  let most = 0
  heads.forEach((id, i) => {
    const layer = meta.layers.find((one) => one.part === id.part && one.layer === id.layer)
    if (!layer || layer.cross || layer.key_len < 2) return
    const far = Math.log(Math.max(1, Math.abs(distance[i]))) / Math.log(layer.key_len)
    const score = sharp[i] * (1 - Math.abs(2 * far - 1))
    if (score > most) [best, most] = [id, score]
  })
  return best
}
