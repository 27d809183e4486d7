/** Makes runs with heedmap itself, and with them the numbers that Python computes, before the tests read them. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  interface ProvidedContext {
    runs: string
  }
}

export default function setup(project: TestProject): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'heedmap-'))
  execFileSync(join(__dirname, '../../.venv/bin/python'), [join(__dirname, 'make_runs.py'), folder], {
    stdio: 'inherit',
  })
  project.provide('runs', folder)
  return () => rmSync(folder, { recursive: true })
}
