/** The page of a set of texts. */
import { render } from 'preact'
import { SetApp } from './sets/app'
import setStyle from './sets/set.css?inline'
import base from './ui/styles/base.css?inline'
import charts from './ui/styles/charts.css?inline'

const root = document.getElementById('heedmap')
if (root) {
  for (const text of [base, charts, setStyle]) {
    const sheet = new CSSStyleSheet()
    sheet.replaceSync(text)
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet]
  }
  root.classList.add('heedmap')
  const dark = matchMedia('(prefers-color-scheme: dark)')
  const draw = () => {
    const theme = dark.matches ? 'dark' : 'light'
    root.dataset.theme = theme
    render(<SetApp theme={theme} />, root)
  }
  dark.addEventListener('change', draw)
  draw()
}
