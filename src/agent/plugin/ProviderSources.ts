/** Finds providers of plugins by the names used in settings. */
import * as Directory from "../../models/routing/ProviderDirectory.ts"
import type { ProviderSource } from "./Plugin.ts"

const listNames = ({ aliases = [], name }: ProviderSource<unknown>): ReadonlyArray<string> => [name, ...aliases]

const normalizeName = (name: string): string => name.trim().toLowerCase()

/** Finds the source with a name. */
export const findSource = (sources: ReadonlyArray<ProviderSource>, name: string): ProviderSource | undefined =>
  Directory.findNamed(sources, name)

/** Returns the name of a built-in provider that a source also uses, or `undefined` if there is no conflict. */
export const findTakenName = (source: ProviderSource<unknown>): string | undefined =>
  listNames(source).find((name) => Directory.findProvider(name) !== undefined || normalizeName(name) === "auto")
