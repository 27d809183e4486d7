/** The whole page. */
import { useEffect, useState } from 'preact/hooks'
import { Compare } from './compare'
import { Choice, Note } from './controls'
import { grouped, plural } from './format'
import { Later } from './growing'
import { Heads } from './heads'
import { Inspector } from './inspector'
import { MapPanel } from './map'
import { opening, useCurrent, useShared, useState_ } from './model'
import { Profiles } from './profiles'
import { TextPanel } from './text'
import { useStore } from './store'
import { START } from './state'

export function App() {
  const { runs } = useShared()
  const known = useStore(runs, (value) => value)
  const { failures } = known
  const current = useCurrent()
  return (
    <div class="page" aria-busy={opening(known)}>
      <Header />
      {failures.map((failure) => (
        <Note key={failure} alert>
          {failure}
        </Note>
      ))}
      {current ? <Body /> : opening(known) && <p class="quiet loading">Reading the run…</p>}
    </div>
  )
}

function Body() {
  const { state } = useShared()
  const { run } = useCurrent()!
  const centre = useState_((s) => s.centre)
  return (
    <>
      <Warnings />
      {run.note && <Note>{run.note}</Note>}
      <main class={`panels showing-${centre}`}>
        <Later turn={1} until={<div class="heads" />}>
          <Heads />
        </Later>
        <div class="centre">
          <Choice
            label="Show"
            value={centre}
            options={[
              ['map', 'Map'],
              ['profiles', 'Profiles'],
              ['compare', 'Compare'],
            ]}
            onChange={(next) => state.set({ centre: next })}
          />
          {centre === 'map' ? <MapPanel /> : centre === 'profiles' ? <Profiles /> : <Compare />}
        </div>
        <div class="reading">
          <Later turn={2}>
            <TextPanel />
          </Later>
          <Later turn={3}>
            <Inspector />
          </Later>
        </div>
      </main>
    </>
  )
}

function Header() {
  const { state, runs, link } = useShared()
  const list = useStore(runs, (value) => value.list)
  const current = useCurrent()
  const theme = useState_((s) => s.theme)
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), 1600)
    return () => clearTimeout(timer)
  }, [copied])
  const meta = current?.run.opened.meta
  const copy = async () => {
    const address = link!()
    try {
      await navigator.clipboard.writeText(address)
    } catch {
      const field = document.createElement('textarea')
      field.value = address
      document.body.append(field)
      field.select()
      document.execCommand('copy')
      field.remove()
    }
    setCopied(true)
  }
  return (
    <header class="top">
      <h1>heedmap</h1>
      {current && meta && (
        <p class="run-facts">
          {list.length > 1 ? (
            <select
              aria-label="Run"
              value={String(current.index)}
              onChange={(event) =>
                state.set({ run: Number(event.currentTarget.value), head: null, view: null, query: null, key: null })
              }
            >
              {list.map((run) => (
                <option key={run.order} value={String(run.order)}>
                  {run.name}
                </option>
              ))}
            </select>
          ) : (
            <b>{current.run.name}</b>
          )}
          <span>{meta.model.name ?? 'model'}</span>
          <span>
            {plural(current.run.opened.tokens.count, 'token')}
            {meta.text.truncated_from ? ` of ${grouped(meta.text.truncated_from)}` : ''}
          </span>
          <span>{plural(current.run.opened.heads.length, 'head')}</span>
          {meta.self_check && (
            <span title={`largest error ${meta.self_check.max_abs_error}`}>
              {meta.self_check.passed ? 'checked against the model' : 'self-check failed'}
            </span>
          )}
        </p>
      )}
      <div class="top-tools">
        {link && (
          <button type="button" class="quiet-button" onClick={copy}>
            {copied ? 'Copied' : 'Copy link'}
          </button>
        )}
        <button
          type="button"
          class="quiet-button"
          onClick={() => state.set({ ...START, theme, run: state.get().run, head: state.get().head })}
        >
          Reset
        </button>
        <Choice
          label="Theme"
          value={theme}
          options={[
            ['auto', 'Auto'],
            ['light', 'Light'],
            ['dark', 'Dark'],
          ]}
          onChange={(next) => state.set({ theme: next })}
        />
      </div>
      <span class="unseen" role="status">
        {copied ? 'Link copied' : ''}
      </span>
    </header>
  )
}

function Warnings() {
  const { run } = useCurrent()!
  const { meta } = run.opened
  const found: string[] = []
  if (meta.model.initialised)
    found.push(
      `${plural(meta.model.initialised, 'tensor')} of the model were newly initialised: what its heads do here means nothing.`,
    )
  if (meta.self_check && meta.self_check.passed === false)
    found.push(`The self-check failed: the weights differ from the model’s own by ${meta.self_check.max_abs_error}.`)
  return (
    <>
      {found.map((text) => (
        <Note key={text} alert>
          {text}
        </Note>
      ))}
    </>
  )
}
