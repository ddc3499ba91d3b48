// The entries of the package, as `exports` of package.json names them.
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "./sources.ts"

/** An entry of the package. */
export interface Entry {
  /** The specifier of an import: `hermes-effect`, `hermes-effect/testing`. */
  readonly specifier: string
  /** The path of its module below `src` and below `dist`, without an ending. */
  readonly name: string
  /** The file of its source. */
  readonly source: string
}

interface Target {
  readonly types: string
  readonly default: string
}

/** Every entry with code, the root first. */
export const entries = (): ReadonlyArray<Entry> => {
  const {
    exports,
    name: packageName
  }: { readonly name: string; readonly exports: Readonly<Record<string, Target | string>> } = JSON.parse(
    readFileSync(join(root, "package.json"), "utf8")
  )
  return Object.entries(exports).flatMap(([key, target]) => {
    if (typeof target === "string") return []
    const name = target.default.slice("./dist/".length, -".js".length)
    return [{ specifier: `${packageName}${key.slice(1)}`, name, source: join(root, "src", `${name}.ts`) }]
  })
}
