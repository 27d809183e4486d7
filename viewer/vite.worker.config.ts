import { defineConfig } from 'vite'

/** The worker, as one classic script that the viewer carries as text. */
export default defineConfig({
  build: {
    outDir: 'build',
    target: 'es2022',
    reportCompressedSize: false,
    lib: { entry: 'src/worker.ts', formats: ['iife'], name: 'worker', fileName: () => 'worker.js' },
  },
})
