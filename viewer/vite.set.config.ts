import { mergeConfig } from 'vite'
import viewer from './vite.config'

/** The page of a set of texts, as one module beside the viewer. */
export default mergeConfig(viewer, {
  build: {
    emptyOutDir: false,
    rolldownOptions: { input: 'src/set.tsx', output: { entryFileNames: 'set.js' } },
  },
})
