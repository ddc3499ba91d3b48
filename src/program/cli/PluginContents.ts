/**
 * The hooks and middleware that an enabled plugin registers, for `hermes plugins info`. The plugin is loaded alone, as
 * the next session would load it.
 */
import * as Effect from "effect/Effect"
import type { Candidate } from "../../agent/plugin/Candidate.ts"
import { Plugins } from "../../agent/plugin/Plugins.ts"
import type { Values } from "../../base/config/Settings.ts"
import { Hooks } from "../../hooks/Hooks.ts"
import * as StackOutline from "../../middleware/StackOutline.ts"
import { Program } from "./Program.ts"

/** A registered hook or middleware. */
interface ContentRow {
  readonly name: string
  readonly on_failure: "open" | "closed"
}

/** Hooks and middleware of a plugin, in the order of their registration. */
export interface PluginContents {
  readonly hooks: ReadonlyArray<ContentRow & { readonly events: ReadonlyArray<string>; readonly mode: string }>
  readonly middleware: ReadonlyArray<ContentRow & { readonly kinds: ReadonlyArray<string> }>
  /** Reason why the plugin is not loaded. */
  readonly error: string | null
}

/** Loads a plugin and lists its hooks and middleware. */
export const collectContents = Effect.fnUntraced(function* (settings: Values, { key }: Candidate) {
  const program = yield* Program
  const alone: Values = { ...settings, plugins: { ...settings.plugins, enabled: [key] } }
  const isOwn = (name: string): boolean => name === key || name.startsWith(`${key}:`)
  return yield* Effect.provide(
    Effect.gen(function* () {
      const { middleware, plugins } = yield* Effect.flatMap(Plugins, ({ loaded }) => loaded)
      const { list } = yield* Hooks
      const { stack } = StackOutline.make(middleware.map((entry) => ({ middleware: entry, source: key })))
      const contents: PluginContents = {
        hooks: list()
          .filter(({ label }) => isOwn(label))
          .map(({ events, label, mode, onFailure }) => ({
            name: label,
            events,
            mode,
            on_failure: onFailure ?? "open"
          })),
        middleware: stack
          .filter(({ name }) => isOwn(name))
          .map(({ name, onFailure, phases }) => ({ name, kinds: phases, on_failure: onFailure })),
        error: plugins.find((plugin) => plugin.key === key)?.error ?? null
      }
      return contents
    }),
    program.layer(alone, { withoutModel: true })
  )
})

const describeRow = ({ name, on_failure }: ContentRow, details: ReadonlyArray<string>): string =>
  `${name} (${[...details, on_failure].join(", ")})`

/** Describes the hooks and middleware in words, each as one text. */
export const describeContents = ({ error, hooks, middleware }: PluginContents) => ({
  hooks: hooks.map((hook) => describeRow(hook, [...hook.events, hook.mode])),
  middleware: middleware.map((entry) => describeRow(entry, entry.kinds)),
  error: error ?? ""
})
