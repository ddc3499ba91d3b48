/**
 * Where a value of the settings comes from, so that an error names what the user wrote.
 *
 * @since 0.1.0
 */
import { inFile, type Path, show } from "./Tree.ts"

/** A source of settings, weakest first. */
export type Level = "file" | "env-file" | "environment" | "flags"

/** The file, or what a variable or flag is called, after where it stands (`.env: `). */
export type Origin =
  | { readonly _tag: "File" }
  | { readonly _tag: "Named"; readonly level: Exclude<Level, "file">; readonly name: string; readonly path: Path }

/** A value and where it goes. */
export interface Assignment {
  readonly path: ReadonlyArray<string>
  readonly value: unknown
  readonly origin: Origin
}

/** The file. */
export const file: Origin = { _tag: "File" }

/** A variable or flag that sets the value at a path. */
export const named = (name: string, path: Path, level: Exclude<Level, "file">): Origin => ({ _tag: "Named", level, name, path })

/** Origins by place; the nearest one above a place holds for it. */
export type Origins = ReadonlyMap<string, Origin>

const key = (path: Path): string => path.join("\0")

/** The map of the assignments, of which the later ones win. */
export const collect = (assignments: ReadonlyArray<Assignment>): Origins =>
  new Map(assignments.map(({ origin, path }) => [key(path), origin]))

/** Who set the value at a place. */
export const at = (origins: Origins, path: Path): Origin => {
  for (let length = path.length; length > 0; length--) {
    const origin = origins.get(key(path.slice(0, length)))
    if (origin !== undefined) return origin
  }
  return file
}

/** How a line about a place begins: `config.yaml: agent.max_turns`, `HERMES_AGENT__MAX_TURNS`, `--max-turns`. */
export const label = (origins: Origins, path: Path): string => {
  const place = inFile(path)
  const origin = at(origins, place)
  if (origin._tag === "File") return place.length === 0 ? "config.yaml" : `config.yaml: ${show(place)}`
  const inside = place.slice(origin.path.length)
  return `${origin.level === "env-file" ? ".env: " : ""}${origin.name}${inside.length === 0 ? "" : `: ${show(inside)}`}`
}
