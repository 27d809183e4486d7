import { defineConfig } from 'vite'

/** The whole viewer as one module: the page's script, the exported file's, and the notebook widget's. */
export default defineConfig({
  publicDir: false,
  build: {
    outDir: '../src/heedmap/view/static',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: false,
    reportCompressedSize: false,
    rolldownOptions: {
      input: 'src/main.tsx',
      preserveEntrySignatures: 'strict',
      output: { format: 'es', entryFileNames: 'viewer.js', codeSplitting: false },
    },
  },
})
