/** Numbers and texts as they are shown. */

/** Three significant digits, never more width than it needs. */
export function number(value: number): string {
  if (Number.isNaN(value)) return '–'
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞'
  const size = Math.abs(value)
  let text: string
  if (size !== 0 && size < 0.001) text = value.toExponential(1).replace('e-', 'e−')
  else if (size >= 100) text = value.toFixed(Number.isInteger(value) ? 0 : 1)
  else if (Number.isInteger(value)) text = String(value)
  else text = value.toFixed(size >= 10 ? 2 : 3)
  return text.replace(/^-/, '−')
}

/** A number at a tick: as `number` writes it, without the zeros that only align columns. */
export function tickNumber(value: number): string {
  return number(value)
    .replace(/(\.\d*?)0+(?=e|$)/, '$1')
    .replace(/\.(?=e|$)/, '')
}

const CODES =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/** Nothing but printable ASCII and line ends, as most tokens are: nothing to look for. */
const PLAIN = /^[\n\x20-\x7e]*$/
const ONE_LINE = /^[\x20-\x7e]*$/

/**
 * Text with every invisible or direction-changing character made visible, so that no token can rearrange or hide
 * another. Joiners inside a word (ZWJ, ZWNJ) stay, since emoji and scripts need them.
 */
export function visible(text: string): string {
  if (PLAIN.test(text)) return text
  return text.replace(CODES, (character, at: number) => {
    const code = character.charCodeAt(0)
    if ((code === 0x200d || code === 0x200c) && at > 0 && at < text.length - 1) return character
    if (code < 0x20) return String.fromCharCode(0x2400 + code)
    if (code === 0x7f) return '␡'
    return `‹${code.toString(16).toUpperCase().padStart(4, '0')}›`
  })
}

/** A label as one line for an axis or a list. */
export function oneLine(text: string, longest = 24): string {
  if (text.length <= longest && ONE_LINE.test(text)) return text
  const line = visible(text.replace(/\r?\n/g, '⏎').replace(/\t/g, '⇥'))
  if (line.length <= longest) return line
  const letters = [...line]
  return letters.length > longest ? `${letters.slice(0, longest - 1).join('')}…` : line
}

/** Index in UTF-16 units of every character as Python counts them; null where the two counts agree. */
export function utf16Offsets(text: string): Uint32Array | null {
  if (!/[\ud800-\udfff]/.test(text)) return null
  const offsets: number[] = []
  for (let i = 0; i < text.length; i += text.codePointAt(i)! > 0xffff ? 2 : 1) offsets.push(i)
  offsets.push(text.length)
  return Uint32Array.from(offsets)
}

/** A whole number with commas; by hand, for a browser takes tens of milliseconds over the first number in a language. */
export function grouped(count: number): string {
  return String(count).replace(/^-?\d{4,}$/, (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ','))
}

export function plural(count: number, noun: string): string {
  return `${grouped(count)} ${noun}${count === 1 ? '' : 's'}`
}

export function words(name: string): string {
  return name.replace(/_/g, ' ')
}
