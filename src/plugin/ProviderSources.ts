/**
 * Providers that plugins bring, as settings name them.
 */
import * as Directory from "../routing/ProviderDirectory.ts"
import type { ProviderSource } from "./Plugin.ts"

const namesOf = ({ aliases = [], name }: ProviderSource<unknown>): ReadonlyArray<string> => [name, ...aliases]

const tidy = (name: string): string => name.trim().toLowerCase()

/** The source that a name means. */
export const find = (sources: ReadonlyArray<ProviderSource>, name: string): ProviderSource | undefined => Directory.named(sources, name)

/** The name of a provider of the program's own that a source would take, if it would. */
export const taken = (source: ProviderSource<unknown>): string | undefined =>
  namesOf(source).find((name) => Directory.find(name) !== undefined || tidy(name) === "auto")
