/**
 * Providers that plugins bring, as settings name them.
 *
 * @since 0.1.0
 */
import type { Values } from "../config/Settings.ts"
import type { Route } from "../domain/Route.ts"
import * as Directory from "../routing/ProviderDirectory.ts"
import type { ProviderSource } from "./Plugin.ts"

const namesOf = ({ aliases = [], name }: ProviderSource<unknown>): ReadonlyArray<string> => [name, ...aliases]

const tidy = (name: string): string => name.trim().toLowerCase()

/** The source that a name means. */
export const find = (sources: ReadonlyArray<ProviderSource>, name: string): ProviderSource | undefined =>
  sources.find((source) => namesOf(source).some((other) => tidy(other) === tidy(name)))

/** The name of a provider of the program's own that a source would take, if it would. */
export const taken = (source: ProviderSource<unknown>): string | undefined =>
  namesOf(source).find((name) => Directory.find(name) !== undefined || tidy(name) === "auto")

/** What the settings ask of a source: everything but the name of the model may be absent. */
export const routeTo = ({ name }: ProviderSource, { apiKey, apiMode, baseUrl, default: model }: Values["model"]): Route => ({
  provider: name,
  model: model ?? name,
  apiMode: apiMode ?? "chat_completions",
  baseUrl,
  apiKey
})
