/** Any panel as a picture, as it stands on the screen: text stays text, colours stay colours. */
import { redraws } from './renderer'

export interface Table {
  columns: string[]
  rows: (string | number)[][]
}

export function csvOf({ columns, rows }: Table): Blob {
  const cell = (value: string | number) => {
    if (typeof value === 'number') return Number.isNaN(value) ? '' : String(value)
    // a spreadsheet must not take a token for a formula
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text
  }
  const lines = [columns, ...rows].map((row) => row.map(cell).join(','))
  return new Blob([`\ufeff${lines.join('\r\n')}\r\n`], { type: 'text/csv' })
}

export function download(blob: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}

const NAMESPACE = 'http://www.w3.org/2000/svg'
const PAINT = [
  'fill',
  'stroke',
  'stroke-width',
  'stroke-dasharray',
  'stroke-opacity',
  'fill-opacity',
  'opacity',
  'stroke-linecap',
  'stroke-linejoin',
  'font-family',
  'font-size',
  'font-weight',
  'text-anchor',
  'dominant-baseline',
  'visibility',
  'display',
]

/** A panel's document as SVG: boxes as rectangles, lines of text as text, canvases as images. */
export function svgText(element: HTMLElement): { text: string; width: number; height: number } {
  const frame = element.getBoundingClientRect()
  const margin = 16
  const svg = document.createElementNS(NAMESPACE, 'svg')
  const width = Math.ceil(frame.width + 2 * margin)
  const height = Math.ceil(frame.height + 2 * margin)
  set(svg, { xmlns: NAMESPACE, width, height, viewBox: `0 0 ${width} ${height}` })
  const paper = getComputedStyle(element).getPropertyValue('--paper').trim() || '#ffffff'
  svg.append(made('rect', { width, height, fill: paper }))
  const group = made('g', { transform: `translate(${margin - frame.left} ${margin - frame.top})` })
  svg.append(group)
  draw(element, group, frame)
  return { text: new XMLSerializer().serializeToString(svg), width, height }
}

export function svgOf(element: HTMLElement): Blob {
  return new Blob([svgText(element).text], { type: 'image/svg+xml' })
}

export async function pngOf(element: HTMLElement, scale = 2): Promise<Blob> {
  const { text, width, height } = svgText(element)
  const url = URL.createObjectURL(new Blob([text], { type: 'image/svg+xml' }))
  try {
    const image = new Image()
    await new Promise((resolve, reject) => {
      image.onload = resolve
      image.onerror = () => reject(new Error('the browser could not draw the picture'))
      image.src = url
    })
    const canvas = document.createElement('canvas')
    canvas.width = width * scale
    canvas.height = height * scale
    canvas.getContext('2d')!.drawImage(image, 0, 0, canvas.width, canvas.height)
    const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, 'image/png'))
    if (!blob) throw new Error('the picture is too large for this browser')
    return blob
  } finally {
    URL.revokeObjectURL(url)
  }
}

function made(name: string, attributes: Record<string, string | number>): SVGElement {
  const element = document.createElementNS(NAMESPACE, name)
  set(element, attributes)
  return element
}

function set(element: Element, attributes: Record<string, string | number>): void {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value))
}

function clear(colour: string): boolean {
  return colour === 'transparent' || /,\s*0\)$|\/\s*0\)$/.test(colour)
}

function draw(element: Element, into: SVGElement, frame: DOMRect): void {
  const style = getComputedStyle(element)
  if (style.display === 'none' || style.visibility === 'hidden') return
  if (element.matches('.menu, .tools, [data-unsaved]')) return
  const box = element.getBoundingClientRect()
  if (box.right < frame.left || box.left > frame.right || box.bottom < frame.top || box.top > frame.bottom) return
  if (element instanceof SVGSVGElement) {
    into.append(copied(element, box))
    return
  }
  const line = parseFloat(style.borderTopWidth)
  if (!clear(style.backgroundColor) || (line > 0 && !clear(style.borderTopColor))) {
    for (const { left, top, width, height } of element.getClientRects()) {
      const rectangle = made('rect', { x: left, y: top, width, height, rx: parseFloat(style.borderTopLeftRadius) || 0 })
      set(rectangle, { fill: clear(style.backgroundColor) ? 'none' : style.backgroundColor })
      if (line > 0) set(rectangle, { stroke: style.borderTopColor, 'stroke-width': line })
      into.append(rectangle)
    }
  }
  if (element instanceof HTMLCanvasElement) {
    redraws.get(element)?.()
    const { left: x, top: y, width, height } = box
    const image = made('image', {
      x,
      y,
      width,
      height,
      preserveAspectRatio: 'none',
      href: element.toDataURL('image/png'),
    })
    image.setAttribute('image-rendering', 'pixelated')
    into.append(image)
    return
  }
  for (const child of element.childNodes) {
    if (child instanceof Element) draw(child, into, frame)
    else if (child instanceof Text && child.data.trim()) lines(child, style, into, frame)
  }
}

/** One `<text>` for each line that a text node takes. */
function lines(node: Text, style: CSSStyleDeclaration, into: SVGElement, frame: DOMRect): void {
  const range = document.createRange()
  let start = 0
  let last: DOMRect | null = null
  const flush = (end: number) => {
    const text = node.data.slice(start, end).replace(/\s+/g, ' ')
    if (!last || !text.trim()) return
    range.setStart(node, start)
    range.setEnd(node, end)
    const box = range.getBoundingClientRect()
    if (box.bottom < frame.top || box.top > frame.bottom) return
    const label = made('text', {
      x: box.left,
      y: box.top + box.height / 2,
      'dominant-baseline': 'central',
      fill: style.color,
      'font-family': style.fontFamily,
      'font-size': style.fontSize,
      'font-weight': style.fontWeight,
    })
    if (style.fontStyle !== 'normal') label.setAttribute('font-style', style.fontStyle)
    label.setAttribute('xml:space', 'preserve')
    label.textContent = style.textTransform === 'uppercase' ? text.toUpperCase() : text
    into.append(label)
  }
  const whole = document.createRange()
  whole.selectNodeContents(node)
  if (whole.getClientRects().length === 1) {
    last = whole.getClientRects()[0]
    flush(node.data.length)
    return
  }
  for (let i = 0; i < node.data.length; i++) {
    range.setStart(node, i)
    range.setEnd(node, i + 1)
    const box = range.getClientRects()[0]
    if (!box || (last && box.top > last.top + last.height / 2)) {
      flush(i)
      start = i
    }
    if (box) last = box
  }
  flush(node.data.length)
}

/** An inline SVG with the styles that the page gives it written out. */
function copied(source: SVGSVGElement, box: DOMRect): SVGElement {
  const copy = source.cloneNode(true) as SVGSVGElement
  const from = [source, ...source.querySelectorAll('*')]
  const to = [copy, ...copy.querySelectorAll('*')]
  from.forEach((element, i) => {
    const style = getComputedStyle(element)
    for (const name of PAINT) {
      const value = style.getPropertyValue(name)
      if (value) to[i].setAttribute(name, value)
    }
    to[i].removeAttribute('class')
    to[i].removeAttribute('style')
  })
  set(copy, { x: box.left, y: box.top, width: box.width, height: box.height, overflow: 'visible' })
  return copy
}
