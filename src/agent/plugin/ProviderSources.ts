/**
 * Providers that plugins bring, as settings name them.
 */
import * as Directory from "../../models/routing/ProviderDirectory.ts"
import type { ProviderSource } from "./Plugin.ts"

const listNames = ({ aliases = [], name }: ProviderSource<unknown>): ReadonlyArray<string> => [name, ...aliases]

const normalizeName = (name: string): string => name.trim().toLowerCase()

/** Finds the source with a name. */
export const findSource = (sources: ReadonlyArray<ProviderSource>, name: string): ProviderSource | undefined =>
  Directory.findNamed(sources, name)

/** The name of a provider of the program's own that a source would take, if it would. */
export const findTakenName = (source: ProviderSource<unknown>): string | undefined =>
  listNames(source).find((name) => Directory.findProvider(name) !== undefined || normalizeName(name) === "auto")
