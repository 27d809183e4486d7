/** The text itself: every token tinted by what one query attends to, or by what it receives; or as two columns of lines. */
import { useEffect, useMemo, useRef } from 'preact/hooks'
import type { RowOf } from '../data/engine'
import type { Profile } from '../data/profile'
import { css, inkOn, palette, share, type Domain } from './colour'
import { Choice, Legend, Note, Panel } from './controls'
import { grouped, number, oneLine } from './format'
import { useGrowing } from './growing'
import { Lines, LONGEST_LINES } from './lines'
import { labelsOf, useAsync, useCurrent, useShared, useState_, useTheme } from './model'
import { usePins } from './pins'
import { isLog } from './state'
import { useStore } from './store'
import { piecesOf, type Piece } from './pieces'

/** Tokens on one page of a long text: few enough that a page is built and tinted between two frames. */
export const PAGE = 400
const TOKENS_AT_ONCE = 100

/** Korean puts spaces between its words, unlike other scripts whose lines may break anywhere. */
const HANGUL = /\p{Script=Hangul}/u

export function TextPanel() {
  const { state, hover } = useShared()
  const theme = useTheme()
  const { run, id, layer } = useCurrent()!
  const wanted = useState_((s) => s.textView)
  const { pinned, pin } = usePins()
  const hovered = useStore(hover, (h) => h.query)
  const short = layer.query_len <= LONGEST_LINES && layer.key_len <= LONGEST_LINES
  const view = wanted === 'lines' && !short ? 'attends' : wanted
  const query = view === 'attends' ? (hovered ?? pinned.query) : null
  const labels = labelsOf(run, layer)
  const head = [run.remote, id.part, id.layer, id.head] as const
  const row = useAsync<RowOf>(
    () => (view === 'attends' && query !== null ? run.remote.call('row', id, query) : null),
    [...head, view, query],
  )
  const keys = useAsync<Profile>(
    () => (view === 'receives' ? run.remote.call('profile', 'key', id) : null),
    [...head, view],
  )
  const received = keys.value?.pooled === 1 ? keys.value.columns : null
  const table = palette('sequential', theme)

  const values = useMemo(() => {
    const source = view === 'attends' ? row.value?.weights : (received?.received_mean as Float64Array | undefined)
    if (!source) return null
    const byToken = new Float64Array(run.opened.tokens.count).fill(NaN)
    labels.keyToken.forEach((token, i) => token >= 0 && (byToken[token] = source[i]))
    return byToken
  }, [row.value, keys.value, view, labels])
  const top = values ? values.reduce((a, b) => (b > a ? b : a), 0) : 0
  const colour = useState_((s) => s.colour)
  const log = isLog(colour, layer.key_len)
  const domain: Domain = { low: log ? top / 200 : 0, high: top, log }
  const error = row.error ?? keys.error
  const source = query !== null ? labels.query[query] : null

  return (
    <Panel
      name="Text"
      busy={row.loading || keys.loading}
      stale={row.loading || keys.loading}
      title="Text"
      class="text-panel"
      tools={
        <Choice
          label="Tint by"
          value={view}
          options={[
            ['attends', 'Attends to'],
            ['receives', 'Receives'],
            ...(short ? ([['lines', 'Lines']] as const) : []),
          ]}
          onChange={(textView) => state.set({ textView })}
        />
      }
      table={() => ({
        columns: ['position', 'token', view === 'receives' ? 'received_mean' : 'weight'],
        rows: run.opened.tokens.label.map((label, i) => [run.opened.tokens.position[i], label, values?.[i] ?? NaN]),
      })}
    >
      <p class="quiet line">
        {view === 'receives' ? (
          'Mean weight that each token receives from the rows that may see it.'
        ) : view === 'lines' ? (
          'Left the query, right the keys. Point at a token.'
        ) : source !== null ? (
          <>
            What{' '}
            <b>
              <bdi>{oneLine(source)}</bdi>
            </b>{' '}
            attends to{hovered === null && ' (pinned)'}.
          </>
        ) : (
          'Point at a token to see what it attends to; click pins it.'
        )}
      </p>
      {view === 'lines' ? (
        <Lines />
      ) : (
        <Tokens
          values={values}
          domain={domain}
          table={table}
          query={query === null ? -1 : labels.queryToken[query]}
          pinnedToken={pinned.query === null ? -1 : labels.queryToken[pinned.query]}
          queryToken={labels.queryToken}
          pin={pin}
        />
      )}
      {view !== 'lines' && values && (
        <Legend
          table={table}
          low={log ? `≤ ${number(domain.low)}` : '0'}
          high={number(top)}
          name={view === 'receives' ? 'mean weight' : 'weight'}
        />
      )}
      {error && <Note>{error}</Note>}
      {view === 'receives' && keys.value && keys.value.pooled > 1 && (
        <Note>
          To stay within its size, this file holds what the tokens receive only pooled: see the profiles of this head.
        </Note>
      )}
    </Panel>
  )
}

interface TokensProps {
  values: Float64Array | null
  domain: Domain
  table: Uint8Array
  query: number
  pinnedToken: number
  queryToken: Int32Array
  pin: (query: number | null, key: number | null) => void
}

function Tokens({ values, domain, table, query, pinnedToken, queryToken, pin }: TokensProps) {
  const { state, hover } = useShared()
  const { run } = useCurrent()!
  const pieces = useMemo(() => piecesOf(run.opened), [run.opened])
  const spaced = useMemo(() => HANGUL.test(run.opened.text), [run.opened])
  const rowOf = useMemo(() => {
    const rows = new Map<number, number>()
    queryToken.forEach((token, row) => rows.set(token, row))
    return rows
  }, [queryToken])
  const pages = Math.ceil(pieces.length / PAGE)
  const asked = useState_((s) => s.page)
  const pinnedAt =
    pinnedToken < 0
      ? 0
      : Math.max(
          0,
          pieces.findIndex((piece) => piece.token === pinnedToken),
        )
  const page = Math.min(pages - 1, Math.max(0, asked ?? Math.floor(pinnedAt / PAGE)))
  const turn = (to: number) => {
    state.set({ page: to })
    box.current!.scrollTop = 0
  }
  const box = useRef<HTMLDivElement>(null)
  const onPage = Math.min(PAGE, pieces.length - page * PAGE)
  const built = useGrowing(onPage, TOKENS_AT_ONCE, `${run.order} ${page}`)
  useEffect(() => {
    if (pinnedToken < 0 || built < onPage) return
    const frame = requestAnimationFrame(() => {
      const token = box.current?.querySelector<HTMLElement>('.token.own')
      if (token) box.current!.scrollTop = token.offsetTop - box.current!.offsetTop - box.current!.clientHeight / 3
    })
    return () => cancelAnimationFrame(frame)
  }, [pinnedToken, built === onPage])
  const rowAt = (event: Event) => {
    const token = (event.target as HTMLElement).closest<HTMLElement>('[data-token]')
    return token ? (rowOf.get(Number(token.dataset.token)) ?? null) : null
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    const now = hover.get().query
    if (step) {
      const next = Math.min(queryToken.length - 1, Math.max(0, (now ?? -1) + step))
      hover.set({ query: next, key: null })
    } else if ((event.key === 'Enter' || event.key === ' ') && now !== null) pin(now, null)
    else return
    event.preventDefault()
  }
  const shown = pieces.slice(page * PAGE, page * PAGE + built)
  return (
    <>
      {pages > 1 && (
        <div class="pages">
          <button type="button" disabled={page === 0} onClick={() => turn(page - 1)}>
            ← Earlier
          </button>
          <span>
            tokens {grouped(page * PAGE)}–{grouped(Math.min(pieces.length, (page + 1) * PAGE) - 1)} of{' '}
            {grouped(pieces.length)}
          </span>
          <button type="button" disabled={page === pages - 1} onClick={() => turn(page + 1)}>
            Later →
          </button>
        </div>
      )}
      <div
        class={spaced ? 'tokens spaced' : 'tokens'}
        ref={box}
        dir="auto"
        aria-busy={built < onPage}
        tabIndex={0}
        role="group"
        aria-label="The text. Left and right arrows move from token to token, Enter pins."
        onMouseOver={(event) => hover.set({ query: rowAt(event), key: null })}
        onMouseLeave={() => hover.set({ query: null, key: null })}
        onClick={(event) => {
          const row = rowAt(event)
          if (row === null) return
          pin(row, null)
          if (pages > 1) state.set({ page }) // the page that one reads stays open
        }}
        onKeyDown={onKeyDown}
      >
        {shown.map((piece) => (
          <Token
            key={piece.token}
            piece={piece}
            value={values ? values[piece.token] : NaN}
            domain={domain}
            table={table}
            own={piece.token === query || piece.token === pinnedToken}
          />
        ))}
      </div>
    </>
  )
}

function Token({
  piece,
  value,
  domain,
  table,
  own,
}: {
  piece: Piece
  value: number
  domain: Domain
  table: Uint8Array
  own: boolean
}) {
  const tint = value > 0 ? share(value, domain) : 0
  const tinted = tint > 0.004
  return (
    <>
      {codes(piece.before)}
      <span
        class={`token${piece.special ? ' special' : ''}${piece.partial ? ' partial' : ''}${own ? ' own' : ''}`}
        data-token={piece.token}
        title={Number.isNaN(value) ? undefined : `${piece.label}  ${number(value)}`}
        style={tinted ? { background: css(table, tint), color: inkOn(table, tint) } : undefined}
      >
        {codes(piece.text)}
      </span>
    </>
  )
}

/** The numbers that stand for invisible characters, kept in one piece beside letters that run from right to left. */
function codes(text: string) {
  if (!text.includes('‹')) return text
  return text.split(/(‹[0-9A-F]{4}›)/).map((part, i) => (i % 2 ? <bdi key={i}>{part}</bdi> : part))
}
