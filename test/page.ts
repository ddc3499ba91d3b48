// `npm run build:page`: bundles the modules of the page of a run, with its style, into the one module that `TraceView` embeds.
// A test calls `pageScript` and fails when the committed module differs.
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { rolldown } from "rolldown"
import { root } from "./support/sources.ts"

/** The generated module. */
export const path = join(root, "src/observability/trace/PageScript.ts")

const folder = join(root, "src/observability/trace/page")

const header = `/**
 * Script and style of the page. Generated from \`page/Page.ts\` and \`page/page.css\` by \`npm run build:page\`: change those.
 */
`

/** Writes a text as a template literal, line by line as it is. */
const literal = (text: string): string => `\`${text.replace(/[\\`]|\$\{/gu, (found) => `\\${found}`)}\``

/** Returns the text of the generated module. */
export const pageScript = async (): Promise<string> => {
  const bundle = await rolldown({
    input: join(folder, "Page.ts"),
    cwd: root,
    platform: "browser",
    tsconfig: false,
    experimental: { attachDebugInfo: "none" }
  })
  try {
    const { output: [chunk, ...others] } = await bundle.generate({ format: "iife", strict: true, comments: false })
    if (others.length > 0 || chunk.imports.length > 0) throw new Error("the page has to be one script without imports")
    const style = readFileSync(join(folder, "page.css"), "utf8")
    return `${header}export const script = ${literal(`\n${chunk.code.trim()}\n`)}\n\nexport const style = ${literal(`\n${style}`)}\n`
  } finally {
    await bundle.close()
  }
}

if (process.argv[1] === import.meta.filename) writeFileSync(path, await pageScript())
