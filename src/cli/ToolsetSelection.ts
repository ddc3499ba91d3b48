/**
 * The tools of a run: what the flag, the platform's list or the general list of toolsets chooses from those that there are.
 *
 * Source: `hermes-product.md` §1.4 and §2.2.
 */
import * as Effect from "effect/Effect"
import type { Values } from "../config/Settings.ts"
import { type Selection, ToolRegistry } from "../tool/ToolRegistry.ts"
import * as Toolsets from "../tool/Toolsets.ts"
import { type Failure, usage } from "./Failure.ts"
import type * as Flags from "./Flags.ts"
import { note, type Output } from "./ProgramOutput.ts"

/** Toolsets that a run selects. */
export const asked = (flags: Pick<Flags.Globals, "toolsets">, settings: Values): ReadonlyArray<string> =>
  flags.toolsets === undefined ? settings.platformToolsets["cli"] ?? settings.toolsets : settings.toolsets

/** Says what of the choice means nothing. */
export const select = Effect.fnUntraced(function*(
  flags: Pick<Flags.Globals, "toolsets">,
  settings: Values
): Effect.fn.Return<Selection, Failure, Output | ToolRegistry> {
  const registry = yield* ToolRegistry
  const sets = yield* registry.list
  const toolsets = asked(flags, settings)
  const foreign = sets.map(({ toolset }) => toolset).filter((name) => !Object.hasOwn(Toolsets.catalogue, name))
  const { names, selection, unknown } = Toolsets.resolve({ toolsets, disabled: settings.disabledToolsets, foreign })
  for (const { name, nearest } of unknown) {
    yield* note(
      `Warning: unknown toolset "${name}" is ignored: ${
        nearest === undefined ? "`hermes tools` lists the toolsets" : `did you mean "${nearest}"?`
      }`
    )
  }
  if (names.length === 0) {
    return yield* usage("no known toolset selected: `hermes tools` lists the toolsets")
  }
  if (flags.toolsets !== undefined) {
    const tools = new Set(sets.flatMap(({ tools }) => tools.map(({ tool }) => tool.name)))
    const registered = new Set(sets.map(({ toolset }) => toolset))
    for (const name of Toolsets.withoutTools(names, tools)) {
      if (registered.has(name)) continue
      yield* note(`Note: toolset "${name}" has no tools in this version`)
    }
  }
  return selection
})
