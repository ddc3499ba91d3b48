// `npm run build:page`: bundles the page of a run and the studio, script and style each, into the modules of
// `dist/pages`, which sources import as `#pages/trace` and `#pages/studio`. Tests and checks build them when they
// begin.
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { rolldown } from "rolldown"
import { root } from "./support/sources.ts"

const observability = join(root, "src/observe")

/** A generated module: its name, and what it is made of. */
interface Bundle {
  readonly name: string
  readonly entry: string
  readonly styles: ReadonlyArray<string>
  /** Notices of the libraries in it, which their licences want kept. */
  readonly notices: ReadonlyArray<string>
}

export const bundles: ReadonlyArray<Bundle> = [
  {
    name: "trace",
    entry: join(observability, "trace/page/Page.ts"),
    styles: [join(observability, "trace/page/page.css")],
    notices: []
  },
  {
    name: "studio",
    entry: join(observability, "studio/page/Studio.ts"),
    styles: [
      join(observability, "trace/page/page.css"),
      join(root, "node_modules/uplot/dist/uPlot.min.css"),
      join(observability, "studio/page/studio.css")
    ],
    notices: ["uplot/LICENSE", "marked/LICENSE"].map((path) => join(root, "node_modules", path))
  }
]

/** Writes a text as a template literal, line by line as it is. */
const toLiteral = (text: string): string => `\`${text.replace(/[\\`]|\$\{/gu, (found) => `\\${found}`)}\``

const formatNotice = (path: string): string => {
  const name = path.split("/").at(-2) ?? ""
  return `/*! ${name}\n${readFileSync(path, "utf8").trim().replaceAll("*/", "* /")}\n*/\n`
}

/** Returns the text of a generated module. */
export const generatePage = async ({ entry, notices, styles }: Bundle): Promise<string> => {
  const bundle = await rolldown({
    input: entry,
    cwd: root,
    platform: "browser",
    tsconfig: false,
    experimental: { attachDebugInfo: "none" }
  })
  try {
    const {
      output: [chunk, ...others]
    } = await bundle.generate({ format: "iife", strict: true, comments: false })
    if (others.length > 0 || chunk.imports.length > 0) throw new Error("the page has to be one script without imports")
    const style = styles.map((path) => readFileSync(path, "utf8")).join("\n")
    const script = `\n${notices.map(formatNotice).join("")}${chunk.code.trim()}\n`
    return `export const script = ${toLiteral(script)}\n\nexport const style = ${toLiteral(`\n${style}`)}\n`
  } finally {
    await bundle.close()
  }
}

const directory = join(root, "dist/pages")
const declarations = "export declare const script: string\nexport declare const style: string\n"

/** Writes a file whole, and only where it differs: another process may be reading it. */
const writeWhole = (path: string, text: string): void => {
  if (existsSync(path) && readFileSync(path, "utf8") === text) return
  writeFileSync(`${path}.${process.pid}`, text)
  renameSync(`${path}.${process.pid}`, path)
}

/** Builds the modules of both pages. */
export const buildPages = async (): Promise<void> => {
  mkdirSync(directory, { recursive: true })
  for (const bundle of bundles) {
    writeWhole(join(directory, `${bundle.name}.js`), await generatePage(bundle))
    writeWhole(join(directory, `${bundle.name}.d.ts`), declarations)
  }
}

if (process.argv[1] === import.meta.filename) await buildPages()
