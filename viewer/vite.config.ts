import { defineConfig } from 'vite'

/** The whole viewer as one module: the page's script, the exported file's, and the notebook widget's. */
export default defineConfig({
  build: {
    outDir: '../src/heedmap/view/static',
    emptyOutDir: true,
    target: 'es2022',
    reportCompressedSize: false,
    lib: { entry: 'src/main.tsx', formats: ['es'], fileName: () => 'viewer.js' },
  },
})
