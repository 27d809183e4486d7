/** The original text cut at its tokens, so that a page shows the text and not a row of labels. */
import type { Opened } from '../data/run'
import { oneLine, utf16Offsets, visible } from './format'

export interface Piece {
  token: number
  /** Text between the last token and this one. */
  before: string
  text: string
  label: string
  special: boolean
  /** A further part of the character before it. */
  partial?: boolean
}

/** How a label says which part of a character its token holds. */
const FRACTION = /[¼-¾⅐-⅞↉³²¹⁰-₉⁄\d/]+$/u

const cut = new WeakMap<Opened, Piece[]>()

export function piecesOf(opened: Opened): Piece[] {
  let pieces = cut.get(opened)
  if (!pieces) {
    pieces = make(opened)
    cut.set(opened, pieces)
  }
  return pieces
}

function make({ tokens, text, textPair }: Opened): Piece[] {
  const texts = [text, textPair ?? '']
  const offsets = texts.map(utf16Offsets)
  const reached = [0, 0]
  const pieces: Piece[] = []
  for (let i = 0; i < tokens.count; i++) {
    const which = textPair !== null && tokens.segment[i] === 1 ? 1 : 0
    const label = oneLine(tokens.label[i])
    const [start, end] = [tokens.start[i], tokens.end[i]].map((v) =>
      v < 0 ? -1 : offsets[which] ? (offsets[which]![v] ?? texts[which].length) : v,
    )
    const piece: Piece = { token: i, before: '', text: label, label, special: tokens.special[i] }
    const usable =
      !piece.special && tokens.sequence[i] === 'text' && start >= 0 && end > start && start >= reached[which]
    if (usable) {
      piece.before = visible(texts[which].slice(reached[which], start))
      piece.text = visible(texts[which].slice(start, end))
      reached[which] = end
    } else if (piece.special) piece.before = i ? ' ' : ''
    else if (start >= 0 && end > start && end <= reached[which]) {
      // a further part of a character that stands there already: only which part it is
      piece.text = FRACTION.exec(label)?.[0] ?? '·'
      piece.partial = true
    }
    if (i && pieces[i - 1].special && !piece.before && !piece.special) piece.before = ' '
    pieces.push(piece)
  }
  return pieces
}
