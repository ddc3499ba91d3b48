// The sources of the project as text: TypeScript 7 has no JavaScript API, so architecture tests scan specifiers.
import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("../..", import.meta.url))
export const src = join(root, "src")

export interface Source {
  /** Relative to `src`. */
  readonly path: string
  readonly text: string
  readonly lines: number
  readonly imports: ReadonlyArray<Import>
}

export interface Import {
  readonly specifier: string
  /** `import("…")` with a literal. */
  readonly dynamic: boolean
  /** `import type` or `export type`: nothing of it is there at run time. */
  readonly typeOnly: boolean
}

/** Comments out, strings kept: examples in doc comments import things too. */
export const withoutComments = (text: string): string =>
  text.replaceAll(
    /("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|\/\/[^\n]*|\/\*[\s\S]*?\*\//g,
    (_, string) => string ?? ""
  )

/** Code alone: no comments, no strings, and of templates what is computed in them. */
export const withoutTexts = (text: string): string =>
  withoutComments(text)
    .replaceAll(
      /`(?:[^`\\]|\\.)*`/g,
      (template) => `(${(template.match(/\$\{[^}]*\}/g) ?? []).map((part) => part.slice(2, -1)).join(", ")})`
    )
    .replaceAll(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g, '""')

/** What the text of a module or of its declarations imports. */
export const importsOf = (text: string): ReadonlyArray<Import> => {
  const code = withoutComments(text)
  const found: Array<Import> = []
  // Static imports stand outside of templates, which may hold programs of their own.
  const statements = code.replaceAll(/`(?:[^`\\]|\\.)*`/g, "``")
  for (const match of statements.matchAll(
    /(?:^|\n)\s*(import|export)\s+(type\s+)?(?:[^"'();]*?\sfrom\s+)?["']([^"']+)["']/g
  )) {
    found.push({ specifier: match[3] ?? "", dynamic: false, typeOnly: match[2] !== undefined })
  }
  for (const match of code.matchAll(/\bimport\(\s*["']([^"']+)["']\s*\)/g)) {
    const before = code.slice(Math.max(0, (match.index ?? 0) - 12), match.index)
    found.push({ specifier: match[1] ?? "", dynamic: true, typeOnly: /typeof\s*$|[:<|&]\s*$/.test(before) })
  }
  return found
}

/** Every TypeScript file below `src`. */
export const sources = (): ReadonlyArray<Source> =>
  readdirSync(src, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => {
      const text = readFileSync(join(src, path), "utf8")
      return { path, text, lines: text.split("\n").length - 1, imports: importsOf(text) }
    })

/** The file below `src` that a relative specifier means. */
export const target = (from: Source, specifier: string): string =>
  relative(src, resolve(dirname(join(src, from.path)), specifier))
