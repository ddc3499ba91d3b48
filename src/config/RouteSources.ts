/**
 * Where the parts of the configured routes come from: the source of each setting, and the settings that a stronger source's route
 * leaves unused. Names of sources only, never their values.
 *
 * **Details**
 *
 * A key of the environment may follow an address elsewhere only when the same source names that address; routing asks
 * {@link levelOf} for it. `hermes doctor` and `-v` show {@link labelOf} and `unused`.
 *
 * Source: `ARCHITECTURE.md` §7 ("a key and its address").
 */
import * as Origin from "./internal/Origin.ts"
import type { Dropped } from "./internal/RouteLayers.ts"
import type { Path } from "./internal/Tree.ts"

/** A source of settings, weakest first. */
export type Level = Origin.Level

/** See the module. */
export interface RouteSources {
  readonly origins: Origin.Origins
  /** Settings that are not used, a line each. */
  readonly unused: ReadonlyArray<string>
}

const place = (origin: Origin.Origin, path: Path): string => Origin.label(Origin.collect([{ path: path.map(String), value: undefined, origin }]), path)

const unusedLine = ({ by, origin, path }: Dropped): string =>
  `${place(origin, path)} is not used: it is for another route than ${by._tag === "File" ? "config.yaml" : place(by, by.path)} names`

/** The sources of loaded settings. */
export const make = (origins: Origin.Origins, dropped: ReadonlyArray<Dropped>): RouteSources => ({
  origins,
  unused: dropped.map(unusedLine)
})

const none: Origin.Origins = new Map()

/** The source that sets a place. */
export const levelOf = (sources: RouteSources | undefined, path: Path): Level => {
  const origin = Origin.at(sources?.origins ?? none, path)
  return origin._tag === "File" ? "file" : origin.level
}

/** The source that sets a place, in words: `config.yaml: model.base_url`, `OPENAI_BASE_URL`, `--base-url`. */
export const labelOf = (sources: RouteSources | undefined, path: Path): string => Origin.label(sources?.origins ?? none, path)
