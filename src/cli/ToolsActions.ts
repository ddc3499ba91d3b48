/**
 * Action of `hermes tools`.
 *
 * Source: `hermes-product.md` §1.6 and §2.2.
 */
import * as Effect from "effect/Effect"
import * as Config from "../config/Config.ts"
import { Settings, type Values } from "../config/Settings.ts"
import { ToolRegistry } from "../tool/ToolRegistry.ts"
import * as Toolsets from "../tool/Toolsets.ts"
import * as Flags from "./Flags.ts"
import { line } from "./ProgramOutput.ts"
import { Program } from "./Program.ts"
import * as ToolsetSelection from "./ToolsetSelection.ts"
import * as SafeText from "./render/SafeText.ts"

interface Listed {
  readonly toolset: string
  readonly tools: ReadonlyArray<{ readonly name: string; readonly description: string; readonly selected: boolean }>
}

/** The first sentence; what a list follows ends like one. */
export const summary = (description: string): string => {
  const flat = description.replaceAll(/\s+/g, " ").trim()
  return (/^.*?[.:](?= |$)/.exec(flat)?.[0] ?? flat).replace(/:$/, ".")
}

const listed = Effect.fnUntraced(function*(flags: Flags.Globals, settings: Values) {
  const registry = yield* ToolRegistry
  const selection = yield* ToolsetSelection.select(flags, settings)
  const { get } = yield* registry.snapshot(selection)
  const sets = yield* registry.list
  return sets.map(({ tools, toolset }): Listed => ({
    toolset,
    tools: tools.map(({ definition: { description, name } }) => ({ name, description, selected: get(name) !== undefined }))
  }))
})

/** Toolsets with tools of their own, none of which is here. */
const missing = (sets: ReadonlyArray<Listed>): ReadonlyArray<string> => {
  const tools = new Set(sets.flatMap(({ tools }) => tools.map(({ name }) => name)))
  const own = Object.entries(Toolsets.catalogue).flatMap(([name, { includes }]) => includes === undefined ? [name] : [])
  return Toolsets.withoutTools(own, tools)
}

const block = ({ tools, toolset }: Listed): string => {
  const width = Math.max(...tools.map(({ name }) => name.length))
  const rows = tools.map(({ description, name, selected }) =>
    `  ${selected ? "+" : "-"} ${name.padEnd(width)}  ${summary(description)}`)
  return [toolset, ...rows].join("\n")
}

const counted = ({ tools, toolset }: Listed): string => {
  const count = tools.filter(({ selected }) => selected).length
  return `${count === 0 ? "-" : "+"} ${toolset}: ${count} of ${tools.length} tools`
}

export const list = Effect.fn("hermes tools")(function*(flags: Flags.Globals, { json, summary: isSummary }: { readonly json: boolean; readonly summary: boolean }) {
  const program = yield* Program
  yield* Effect.gen(function*() {
    const settings = yield* Settings
    const sets = yield* listed(flags, settings).pipe(Effect.provide(program.layer(settings, { withoutModel: true })))
    if (json) return yield* line(SafeText.json(sets, 2))
    if (isSummary) return yield* line(sets.map(counted).join("\n"))
    const composed = Object.entries(Toolsets.catalogue).flatMap(([name, { includes }]) =>
      includes === undefined ? [] : [name])
    yield* line([
      ...sets.map(block),
      "+ selected, - not selected (change with --toolsets, toolsets and disabled_toolsets)",
      `Composite toolsets: ${composed.join(", ")}, all`,
      `Toolsets without tools in this version: ${missing(sets).join(", ")}`
    ].join("\n\n"))
  }).pipe(Effect.provide(Config.layerAll(Flags.configOptions(flags))))
})
