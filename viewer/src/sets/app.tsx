import { useEffect, useState } from 'preact/hooks'
import type { Theme } from '../ui/colour'
import { number, plural, visible } from '../ui/format'
import { Bars, distanceBars, Grid, headName, MeanMap, Scatter } from './charts'
import { Types } from './types'
import { fromHash, read, toHash, type Chosen, type Example, type HeadPage, type Overview } from './documents'

/** A set of texts: all heads, and one head's page. */
export function SetApp(props: { theme: Theme }) {
  const [overview, setOverview] = useState<Overview | null>(null)
  const [failure, setFailure] = useState<string | null>(null)
  useEffect(() => {
    read<Overview>('set/overview.json').then(setOverview, (error) => setFailure(String(error.message)))
  }, [])
  if (failure) return <p class="set-failure">{failure}</p>
  if (!overview) return <p class="set-failure">reading the set …</p>
  return <Whole overview={overview} theme={props.theme} />
}

function Whole({ overview, theme }: { overview: Overview; theme: Theme }) {
  const [chosen, setChosen] = useState<Chosen>(() => fromHash(location.hash, overview))
  const [shown, setShown] = useState<string | null>(null)
  useEffect(() => {
    const follow = () => setChosen(fromHash(location.hash, overview))
    addEventListener('popstate', follow)
    return () => removeEventListener('popstate', follow)
  }, [overview])
  const choose = (change: Partial<Chosen>) => {
    const next = { ...chosen, ...change }
    setChosen(next)
    const address = `#${toHash(next, overview.heads)}`
    if (next.head === chosen.head) history.replaceState(null, '', address)
    else history.pushState(null, '', address)
  }
  const names = Object.keys(overview.units)
  const picker = (name: 'statistic' | 'x' | 'y', label: string) => (
    <label>
      {label}{' '}
      <select value={chosen[name]} onChange={(event) => choose({ [name]: event.currentTarget.value })}>
        {names.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </label>
  )
  return (
    <div class="set">
      <header>
        <h1>{overview.name}</h1>
        <p class="soft">
          {overview.model} · {plural(overview.texts, 'text')} · {plural(overview.tokens, 'token')}
          {overview.refused > 0 && ` · ${plural(overview.refused, 'text')} left out`}
        </p>
      </header>
      <main>
        <section aria-label="all heads">
          <h2>All heads</h2>
          {picker('statistic', 'mean of')}
          <Grid
            overview={overview}
            statistic={chosen.statistic}
            head={chosen.head}
            shown={shown}
            theme={theme}
            onOpen={(head) => choose({ head })}
          />
          <Types overview={overview} shown={shown} onShow={setShown} />
          <div class="set-pickers">
            {picker('y', 'up')} {picker('x', 'across')}
          </div>
          <Scatter
            overview={overview}
            x={chosen.x}
            y={chosen.y}
            head={chosen.head}
            onOpen={(head) => choose({ head })}
          />
        </section>
        <Head key={chosen.head} overview={overview} chosen={chosen} theme={theme} />
      </main>
    </div>
  )
}

function Head({ overview, chosen, theme }: { overview: Overview; chosen: Chosen; theme: Theme }) {
  const [page, setPage] = useState<HeadPage | null>(null)
  const [failure, setFailure] = useState<string | null>(null)
  useEffect(() => {
    let gone = false
    read<HeadPage>(`set/heads/${chosen.head}.json`).then(
      (found) => !gone && setPage(found),
      (error) => !gone && setFailure(String(error.message)),
    )
    return () => {
      gone = true
    }
  }, [chosen.head])
  const parts = new Set(overview.heads.map((head) => head[0])).size
  const head = overview.heads[chosen.head]
  const name = headName(head, parts)
  if (failure) return <p class="set-failure">{failure}</p>
  if (!page) return <section aria-busy="true" aria-label={`head ${name}`} />
  const { statistic } = chosen
  const deciles = page.deciles.filter((row) => row.statistic === statistic)
  const mean = page.means.find((row) => row.statistic === statistic)
  const held = page.types.filter((row) => row.holds)
  const steps = deciles.map((row) => ({
    from: row.decile - 0.5,
    to: row.decile + 0.5,
    value: row.value,
    says: `decile ${row.decile}: ${number(row.value)}`,
  }))
  const entropies = page.entropies.map((row) => ({
    from: row.entropy_from,
    to: row.entropy_to,
    value: row.rows,
    says: `${row.entropy_from} to ${row.entropy_to} nats: ${plural(row.rows, 'row')}`,
  }))
  const ends = (rows: { from: number; to: number }[]): [number, number] => [rows[0]?.from ?? 0, rows.at(-1)?.to ?? 1]
  const far = page.profiles
  return (
    <section aria-label={`head ${name}`}>
      <h2>Head {name}</h2>
      <p>
        {held.length === 0 && 'of no type: no average over the texts reaches a type’s bar'}
        {held.map((row) => (
          <span class="set-type" key={row.type} title={`mean ${number(row.mean)}, bar ${row.bar}`}>
            {row.type} in {Math.round((100 * row.texts_of_type) / row.texts)} % of texts
          </span>
        ))}
      </p>
      <div class="set-charts">
        <figure>
          <figcaption>
            {statistic} by decile of texts
            {mean && ` · mean ${number(mean.mean)}`}
            {mean?.low != null && mean.high != null && ` (${number(mean.low)} to ${number(mean.high)})`}
          </figcaption>
          {steps.length > 0 && <Bars bars={steps} label="decile" name={`${statistic} by decile`} ends={[0, 10]} />}
        </figure>
        <figure>
          <figcaption>entropy of rows</figcaption>
          {entropies.length > 0 && <Bars bars={entropies} label="nats" name="rows by entropy" ends={ends(entropies)} />}
        </figure>
        <figure>
          <figcaption>mean weight by distance (root scale)</figcaption>
          {far.length > 0 && (
            <Bars
              bars={distanceBars(far)}
              label="query − key, tokens"
              name="mean weight by distance"
              ends={[far[0].distance_from, far.at(-1)!.distance_to]}
            />
          )}
        </figure>
        <figure>
          <figcaption>share of attention by kind of token</figcaption>
          <Shares rows={page.kinds} />
        </figure>
        <figure>
          <figcaption>mean map: down from, across to, relative positions (root scale)</figcaption>
          <MeanMap map={page.map} theme={theme} />
        </figure>
      </div>
      <h3>Texts by decile of {statistic}</h3>
      <Examples rows={deciles.map((row) => ({ ...row, label: `${row.decile * 10} %` }))} page={page} head={head} />
      {(['highest', 'lowest'] as const).map((side) => (
        <details key={side}>
          <summary>
            the {side} {statistic}
          </summary>
          <Examples
            rows={page.tops
              .filter((row) => row.statistic === statistic && row.side === side)
              .map((row) => ({ ...row, label: `${row.rank}` }))}
            page={page}
            head={head}
          />
        </details>
      ))}
    </section>
  )
}

/** What share of the attention each kind of token has, as bars with their names. */
function Shares(props: { rows: HeadPage['kinds'] }) {
  const most = Math.max(...props.rows.map((row) => row.share ?? 0), Number.MIN_VALUE)
  return (
    <table class="set-shares" aria-label="attention by kind of token">
      <tbody>
        {props.rows.map((row) => (
          <tr key={row.kind} title={plural(row.tokens, 'token')}>
            <th scope="row">{row.kind}</th>
            <td>
              <div style={{ width: `${(100 * (row.share ?? 0)) / most}%` }} />
            </td>
            <td>{number(100 * (row.share ?? 0))} %</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Examples(props: {
  rows: { label: string; value: number; text: number }[]
  page: HeadPage
  head: Overview['heads'][number]
}) {
  if (props.rows.length === 0) return <p class="soft">no text has a value</p>
  return (
    <ol class="set-examples">
      {props.rows.map((row) => (
        <li key={row.label}>
          <span class="soft">{row.label}</span>
          <b>{number(row.value)}</b>
          <Text example={props.page.examples[row.text]} text={row.text} head={props.head} />
        </li>
      ))}
    </ol>
  )
}

/** How a text begins; a click opens its run, or shows the command that makes one. */
function Text({ example, text, head }: { example: Example; text: number; head: Overview['heads'][number] }) {
  const [asked, setAsked] = useState(false)
  const words = (
    <span class="set-excerpt" dir="auto">
      {visible(example.excerpt)}
      {example.cut && ' …'}
    </span>
  )
  const where = `text ${text}, ${example.source} ${example.place}, ${plural(example.tokens, 'token')}`
  if (example.run)
    return (
      <a href={`${example.run}#head=${head.join('.')}`} title={`${where}: open its run`}>
        {words}
      </a>
    )
  return (
    <>
      <button class="set-text" title={where} aria-expanded={asked} onClick={() => setAsked(!asked)}>
        {words}
      </button>
      {asked && (
        <p class="soft">
          {where} is not stored. This command looks at it; then open this page again: <code>{example.command}</code>
        </p>
      )}
    </>
  )
}
