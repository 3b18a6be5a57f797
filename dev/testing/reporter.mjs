/** node:test wants a reporter as a default export, which our TypeScript does without. */
export { report as default } from './report.ts'
